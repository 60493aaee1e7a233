"""The publisher: what is committed on boards with zones goes to NATS, off the write path, each message once.

A task sends the messages of all boards on one connection, a window of them unanswered at a time. When the connection
is lost, or the service has been away, NATS is asked for the last message of each zone: what it has is not sent again.
The log is what is recovered from: slices after the stored position are made again when it is replayed. Where it does
not reach back that far, or too much waits, the zones go on under a new version, whose readers begin with a list.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from app.errors import BrokerAway, LogUnavailable
from app.rendering.boards import board_json
from app.runtime import logs
from app.runtime.broker import MESSAGE_ID, STREAM, SUBJECTS, closed, connect, keys_subject
from app.runtime.metrics import Metrics
from app.settings import Settings
from app.storage.zones import ZonePosition, ZoneStore
from app.zones.chain import Chain, Message
from indexes.boards.engine import BoardEngine
from indexes.boards.results import Slice

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.js import JetStreamContext

PREFIX = "boards/"

WINDOW = 512
"""Messages that NATS has not answered yet, at most."""

ANSWER_SECONDS = 5.0
"""Seconds until a connection on which NATS does not answer is given up."""

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
"""Seconds between two attempts to reach NATS."""

TURN = 0.003
"""Seconds of making messages after which others get their turn."""

STORE_EVERY = 1.0
"""Seconds between two times that it is stored how far zones are published."""

SPARE = 4096
"""Bytes of a message besides its tiles."""

ASK_TOGETHER = 64
"""Zones that NATS is asked about at the same time."""

DUPLICATE_SECONDS = 120.0
"""How long NATS knows the ids of messages, at most."""

log = logs.get("zones")


class Publisher:
    """The zones of all boards, by the board's full name. Lives on the event loop; while the log is replayed, in that
    thread.

    `find` returns a board as reads see it, `cut_again` cuts the zones of a board as they are under a new version. One
    that does not lead, as at a replica, does nothing until it is started.
    """

    def __init__(
        self,
        epoch: str,
        store: ZoneStore,
        settings: Settings,
        metrics: Metrics,
        find: Callable[[str], BoardEngine | None],
        cut_again: Callable[[str], Awaitable[None]],
        leads: bool = True,
    ) -> None:
        self._epoch = epoch
        self._leads = leads
        self._store = store
        self._url = settings.nats
        self._seconds = settings.zone_seconds
        self._most = settings.zone_bytes
        self._find = find
        self._cut_again = cut_again
        self._chains: dict[str, Chain] = {}
        self._ending: list[tuple[str, Chain]] = []
        self._stored: dict[str, ZonePosition] = {}
        self._written: dict[str, tuple[int, int]] = {}
        self._forgotten: set[str] = set()
        self._unanswered: dict[int, tuple[Chain, Message, float]] = {}
        self._recutting: dict[str, asyncio.Task[None]] = {}
        self._keys: list[str] = []
        self._refused: str | None = None
        self._wake: asyncio.Event | None = None
        self._storing = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._sent = metrics.zone_messages
        metrics.gauge(
            "rankcast_zone_waiting_bytes",
            "Bytes that wait for NATS.",
            "board",
            lambda: {chain.name: float(chain.nbytes) for chain in self._chains.values()},
        )

    @property
    def enabled(self) -> bool:
        """Whether there is a NATS to publish on, and this is the service that does."""
        return self._url is not None and self._leads

    # --- life cycle -------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Take over what is stored, before the log is replayed. Raises `LogUnavailable`."""
        self._stored = {name: row for name, row in self._store.all().items() if row.history == self._epoch}

    def enter(self, epoch: str) -> None:
        """Go on in another history, before `load` and `start`, as when this service leads from now on."""
        self._epoch = epoch

    def start(self, names: Iterable[str]) -> None:
        """Begin to publish what these boards have, after the log was replayed."""
        self._leads = True
        there = set(names)
        for resource, chain in list(self._chains.items()):
            if chain.name not in there:
                self.dropped(resource, chain.position)
        for name in sorted(there):
            board = self._find(name)
            if board is None or board.config.cut is None:
                continue
            if not self.enabled:
                log.warning("a board has zones, and there is no NATS to publish them on", board=name)
            else:
                self._chain(PREFIX + name, board)
        if self.enabled:
            self._wake = asyncio.Event()
            self._tasks = [asyncio.create_task(self._run()), asyncio.create_task(self._store_often())]

    async def stop(self) -> None:
        """Publish nothing more; what is left is made again at the next start."""
        tasks = [*self._tasks, *self._recutting.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            await self.flush()
        except LogUnavailable as error:
            log.warning("how far zones are published is not stored", error=str(error))

    async def flush(self) -> None:
        """Store how far zones are published. Raises `LogUnavailable`."""
        async with self._storing:
            rows, written = [], {}
            for resource, chain in self._chains.items():
                position = self.position(resource)
                at = chain.taken_version, position
                if self._written.get(resource) != at and not chain.lost:
                    written[resource] = at
                    rows.append(ZonePosition(resource, self._epoch, chain.taken_version, position, dict(chain.taken)))
            gone, self._forgotten = self._forgotten, set()
            if rows or gone:
                try:
                    await asyncio.to_thread(self._store.store, rows, gone - set(self._chains))
                except BaseException:
                    self._forgotten |= gone
                    raise
                self._written |= written

    async def _store_often(self) -> None:
        while True:
            await asyncio.sleep(STORE_EVERY)
            try:
                await self.flush()
            except LogUnavailable as error:
                log.warning("how far zones are published is not stored yet", error=str(error))

    # --- what is committed ------------------------------------------------------------------------------------------

    def follows(self, resource: str, seq: int, last_seq: int) -> bool:
        """Whether the slices of a command, which takes the seqs after `seq` up to `last_seq`, are to be published."""
        if not self.enabled or not resource.startswith(PREFIX):
            return False
        board = self._find(resource.removeprefix(PREFIX))
        if board is None or board.config.cut is None:
            return False
        chain = self._chain(resource, board)
        return not chain.lost and last_seq > chain.position

    def deliver(self, resource: str, part: Any) -> None:
        """Keep what a slice changed, and publish it soon."""
        if not self.enabled or not resource.startswith(PREFIX):
            return
        assert isinstance(part, Slice)
        if not (part.painted or part.edits or part.recut):
            return
        board = self._find(resource.removeprefix(PREFIX))
        if board is None:
            return
        chain = self._chains.get(resource)
        if chain is None and board.config.cut is not None:
            chain = self._chains[resource] = self._begun(board, resource, part.last_seq)
        if chain is not None:
            chain.add(part, board.config.cut, self._most)
        self.wake()

    def dropped(self, resource: str, seq: int) -> None:
        """A board was deleted at a seq."""
        chain = self._chains.pop(resource, None)
        self._written.pop(resource, None)
        self._stored.pop(resource, None)
        if chain is not None:
            chain.end(seq)
            self._forgotten.add(resource)
            if chain.cut is not None:
                self._ending.append((resource, chain))
            self.wake()

    def rebuilt(self, resource: str) -> None:
        """A board has another engine, whose state may be an earlier one."""
        chain = self._chains.get(resource)
        if chain is not None:
            chain.lose()
            self.wake()

    def key_gone(self, key_id: str) -> None:
        """Tell gateways that a key was deleted, as far as they are there."""
        if self._wake is not None:
            self._keys.append(key_id)
            self.wake()

    def wake(self) -> None:
        """Let the task look for what is to be done."""
        if self._wake is not None:
            self._wake.set()

    def chain(self, resource: str) -> Chain | None:
        """The zones of a board as they are published; None where it has none, or there is no NATS."""
        chain, board = self._chains.get(resource), self._find(resource.removeprefix(PREFIX))
        if chain is None and self._wake is not None and board is not None and board.config.cut is not None:
            # Nothing of it was to be published so far.
            chain = self._chains[resource] = self._begun(board, resource, board.seq)
        return chain

    def position(self, resource: str) -> int:
        """The seq up to which NATS has everything of a board that has zones."""
        chain, board = self._chains[resource], self._find(resource.removeprefix(PREFIX))
        if chain.idle and board is not None:
            chain.position = max(chain.position, board.seq)
        return chain.position

    def _chain(self, resource: str, board: BoardEngine) -> Chain:
        """The chain of a board, which goes on where it was stored to be."""
        cut, stored = board.config.cut, self._stored.get(resource)
        assert cut is not None
        chain = self._chains.get(resource)
        # What the stored position has behind it was replayed without making it again.
        if chain is not None and (chain.cut == cut or not chain.empty):
            return chain
        if stored is None:
            chain = self._begun(board, resource, board.seq)
            chain.lost = board.seq > cut.seq
        else:
            taken = stored.last if stored.version == cut.version else None
            write = board_json(board.config.range_attributes, board.config.rank_attribute)
            chain = Chain(self._epoch, resource.removeprefix(PREFIX), cut, write, stored.seq, taken)
            chain.lost = stored.version < cut.version or stored.seq < board.seq
        self._chains[resource] = chain
        return chain

    def _begun(self, board: BoardEngine, resource: str, seq: int) -> Chain:
        cut = board.config.cut
        assert cut is not None
        write = board_json(board.config.range_attributes, board.config.rank_attribute)
        return Chain(self._epoch, resource.removeprefix(PREFIX), cut, write, min(seq, cut.seq))

    # --- NATS -------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        pause, said = FIRST_PAUSE, False
        while True:
            try:
                async with self._connected() as client:
                    log.info("NATS connected")
                    pause, said = FIRST_PAUSE, False
                    await self._publish(client)
            except BrokerAway as error:
                if not said:
                    log.warning("zones wait for NATS", why=str(error))
                said = True
            except Exception:
                log.exception("zones wait for NATS")
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Client]:
        """A connection, on which nothing was sent. Raises `BrokerAway`."""
        assert self._url is not None
        self._refused = None

        def lost() -> None:
            self._refused = self._refused or "the connection was lost"
            self.wake()

        client = await connect(self._url, "rankcast", lost)
        try:
            yield client
        finally:
            self._unanswered.clear()
            await closed(client)

    async def _publish(self, client: Client) -> None:
        """Send what there is until the connection is lost. Raises `BrokerAway`."""
        from nats.errors import Error

        assert self._wake is not None
        try:
            js = client.jetstream(timeout=ANSWER_SECONDS)
            await ensure_stream(js, self._seconds)
            inbox = client.new_inbox()
            await client.subscribe(f"{inbox}.*", cb=self._answered)
            for _, chain in self._all():
                chain.known = False
            largest = max(SPARE, client.max_payload - SPARE)
            number = 0
            while True:
                self._wake.clear()
                busy = False
                while self._keys:
                    await client.publish(keys_subject(self._epoch), self._keys.pop().encode())
                for resource, chain in self._all():
                    self._recut_lost(resource, chain)
                    if not chain.known:
                        chain.learn(await self._there(js, chain.subjects()))
                    chain.make(largest, time.perf_counter() + TURN)
                    while chain.ready and len(self._unanswered) < WINDOW:
                        message = chain.ready.popleft()
                        number += 1
                        self._unanswered[number] = chain, message, time.monotonic()
                        headers = {MESSAGE_ID: f"{message.subject}:{message.seq}"}
                        await client.publish(message.subject, message.payload, f"{inbox}.{number}", headers)
                        self._sent.labels(chain.name).inc()
                    busy = busy or chain.waiting or (not chain.known and not chain.lost)
                self._ending = [(name, chain) for name, chain in self._ending if not chain.idle]
                await self._pause(busy)
        except (Error, OSError, TimeoutError) as error:
            raise BrokerAway(str(error) or type(error).__name__) from error

    async def _pause(self, busy: bool) -> None:
        """Wait for something to do. Raises `BrokerAway` where the connection is of no more use."""
        assert self._wake is not None
        if busy:
            await asyncio.sleep(0)
        else:
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    await self._wake.wait()
            except TimeoutError:
                oldest = next(iter(self._unanswered.values()), None)
                if oldest is not None and time.monotonic() - oldest[2] > ANSWER_SECONDS:
                    raise BrokerAway("messages are not acknowledged") from None
        if self._refused is not None:
            raise BrokerAway(self._refused)

    async def _answered(self, answer: Any) -> None:
        """NATS has a message, or does not take it."""
        number = int(answer.subject.rpartition(".")[2])
        found = self._unanswered.pop(number, None)
        try:
            said = json.loads(answer.data)
        except ValueError:
            said = {"error": {"description": "JetStream does not answer"}}
        if "error" in said:
            self._refused = str(said["error"].get("description", "refused"))
        elif found is not None:
            chain, message, _ = found
            message.taken = True
            chain.settle()
        self.wake()

    def _all(self) -> list[tuple[str, Chain]]:
        return [*self._ending, *self._chains.items()]

    def _recut_lost(self, resource: str, chain: Chain) -> None:
        """Let a board whose messages are lost go on under a new version."""
        if not chain.lost or chain.ended or resource in self._recutting:
            return

        async def recut() -> None:
            try:
                log.warning("zones go on under a new version: too much waited for NATS", board=chain.name)
                await self._cut_again(resource)
            except Exception as error:
                log.warning("zones cannot be cut again yet", board=chain.name, error=str(error))
                await asyncio.sleep(LONGEST_PAUSE)
            finally:
                del self._recutting[resource]
                self.wake()

        self._recutting[resource] = asyncio.create_task(recut())

    async def _there(self, js: JetStreamContext, subjects: list[str]) -> dict[str, int]:
        """The last seq that NATS has of each subject."""
        found: dict[str, int] = {}
        for start in range(0, len(subjects), ASK_TOGETHER):
            some = subjects[start : start + ASK_TOGETHER]
            for subject, seq in zip(some, await asyncio.gather(*(last_seq(js, one) for one in some)), strict=True):
                if seq is not None:
                    found[subject] = seq
        return found


async def ensure_stream(js: JetStreamContext, seconds: float) -> None:
    """Make the stream of all zones, or let it keep messages for so long."""
    from nats.js.api import DiscardPolicy, StorageType, StreamConfig
    from nats.js.errors import BadRequestError, NotFoundError

    config = StreamConfig(
        name=STREAM,
        subjects=[SUBJECTS],
        max_age=seconds,
        duplicate_window=min(seconds, DUPLICATE_SECONDS),
        storage=StorageType.FILE,
        discard=DiscardPolicy.OLD,
        allow_direct=True,
    )
    try:
        present = (await js.stream_info(STREAM)).config
        if present.max_age == seconds and present.allow_direct:
            return
        await js.update_stream(config)
    except NotFoundError:
        try:
            await js.add_stream(config)
        except BadRequestError as error:
            raise BrokerAway(f"the stream {STREAM} cannot be made: {error.description}") from None


async def last_seq(js: JetStreamContext, subject: str) -> int | None:
    """The board's seq in the last message of a subject; None where there is none."""
    from nats.js.errors import NotFoundError

    try:
        message = await js.get_last_msg(STREAM, subject)
    except NotFoundError:
        return None
    return int(json.loads(message.data or b"{}")["seq"])
