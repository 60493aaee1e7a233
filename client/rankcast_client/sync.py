"""The blocking client: every name of `rankcast_client._sync`, which is generated from the asynchronous client.

Streams have the names of the asynchronous ones: `rankcast_client.sync.Watch` is what `Board.watch` returns.
"""

from rankcast_client._sync._base import Stream
from rankcast_client._sync.boards import Board, Watch
from rankcast_client._sync.client import Rankcast
from rankcast_client._sync.feeds import Feed, FeedWatch
from rankcast_client._sync.jobs import Jobs
from rankcast_client._sync.maps import Map, Results
from rankcast_client._sync.matchers import Matcher, Wins
from rankcast_client._sync.moving import Moving
from rankcast_client._sync.relays import Notifications, Relay
from rankcast_client._sync.webhooks import Webhooks

__all__ = [
    "Board",
    "Feed",
    "FeedWatch",
    "Jobs",
    "Map",
    "Matcher",
    "Moving",
    "Notifications",
    "Rankcast",
    "Relay",
    "Results",
    "Stream",
    "Watch",
    "Webhooks",
    "Wins",
]
