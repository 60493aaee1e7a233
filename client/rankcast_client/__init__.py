"""The Python client of Rankcast: publish objects, register standing top-k questions, follow their lists.

async with AsyncRankcast("http://127.0.0.1:8000") as rankcast:
    delays = rankcast.board("delays")
    mine = await delays.register((500, 1000), k=5)
    async for change in (watch := delays.watch(mine.id)):
        print(change.seq, [entry.id for entry in watch.list])
"""

from rankcast_client.client import AsyncBoard, AsyncRankcast
from rankcast_client.errors import FieldError, ProblemError, RankcastError, Unreachable
from rankcast_client.jobs import AsyncJobs, Job, JobEngine, JobKind, Jobs, JobState
from rankcast_client.lists import TopKList, apply_changes, near
from rankcast_client.models import (
    UNSET,
    BoardInfo,
    Change,
    ChangedEntry,
    Entry,
    Event,
    Gone,
    Published,
    Registered,
    Reset,
    Sides,
    Snapshot,
    StreamEvent,
    Subscription,
    Tile,
    Tiles,
    Want,
    delete,
    update,
    upsert,
)
from rankcast_client.sync import Board, Rankcast
from rankcast_client.transport import Retry
from rankcast_client.watch import Watch

__all__ = [
    "UNSET",
    "AsyncBoard",
    "AsyncJobs",
    "AsyncRankcast",
    "Board",
    "BoardInfo",
    "Change",
    "ChangedEntry",
    "Entry",
    "Event",
    "FieldError",
    "Gone",
    "Job",
    "JobEngine",
    "JobKind",
    "JobState",
    "Jobs",
    "ProblemError",
    "Published",
    "Rankcast",
    "RankcastError",
    "Registered",
    "Reset",
    "Retry",
    "Sides",
    "Snapshot",
    "StreamEvent",
    "Subscription",
    "Tile",
    "Tiles",
    "TopKList",
    "Unreachable",
    "Want",
    "Watch",
    "apply_changes",
    "delete",
    "near",
    "update",
    "upsert",
]
