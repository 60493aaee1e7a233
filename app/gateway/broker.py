"""The gateway's connection to NATS: consumers of zones that go on where they were when it comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from app.errors import BrokerAway
from app.runtime import logs
from app.runtime.broker import STREAM, closed, connect

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.js import JetStreamContext

HISTORY = 20_000
"""Messages of all zones before the last one of a zone, among which those of the zone are read again at the start."""

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0

log = logs.get("gateway")


class Consumer:
    """One zone's messages, in order. `take` gets each; `begun` is called once all that were there have been taken."""

    def __init__(self, subject: str, take: Callable[[bytes, float], None], begun: Callable[[bool], None]) -> None:
        self.subject = subject
        self.take = take
        self.begun = begun
        self.at = 0
        """The number of the last message in the stream."""
        self.until: int | None = None
        """The message up to which it has not begun."""
        self.subscription: Any = None
        self.ended = False

    async def message(self, message: Any) -> None:
        """Take one message."""
        if self.ended:
            return
        about = message.metadata
        self.at = int(about.sequence.stream)
        try:
            self.take(message.data, about.timestamp.timestamp())
        except Exception:
            log.exception("a message of a zone failed", subject=self.subject)
        if self.until is not None and self.at >= self.until:
            self.until = None
            self.begun(True)


class Broker:
    """A connection to NATS that is made again when it is lost, with all consumers on it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._consumers: dict[Consumer, None] = {}
        self._client: Client | None = None
        self._lost = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._starts: set[asyncio.Task[None]] = set()
        self._notes: dict[str, Callable[[bytes], None]] = {}

    @property
    def connected(self) -> bool:
        """Whether NATS is there."""
        return self._client is not None

    def start(self) -> None:
        """Connect, and stay connected."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Give the connection up."""
        tasks = [*self._starts, *([] if self._task is None else [self._task])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def add(self, consumer: Consumer) -> None:
        """Begin to consume, now or when NATS is there."""
        self._consumers[consumer] = None
        if self._client is not None:
            self._begin(self._client, consumer)

    def remove(self, consumer: Consumer) -> None:
        """Stop to consume."""
        consumer.ended = True
        self._consumers.pop(consumer, None)
        subscription = consumer.subscription
        if subscription is not None:
            self._spawn(_unsubscribe(subscription))

    def renew(self, consumer: Consumer) -> None:
        """Consume once more from where it was: its messages do not come, although NATS is there."""
        subscription = consumer.subscription
        if self._client is None or subscription is None or consumer.ended:
            return
        consumer.subscription = None
        self._spawn(_unsubscribe(subscription))
        self._begin(self._client, consumer)

    def note(self, subject: str, take: Callable[[bytes], None]) -> None:
        """Take what is said on a subject while there is a connection."""
        if subject not in self._notes:
            self._notes[subject] = take
            if self._client is not None:
                self._spawn(self._listen(self._client, subject))

    async def _run(self) -> None:
        pause, said = FIRST_PAUSE, False
        while True:
            self._lost.clear()
            try:
                client = await connect(self._url, "rankcast gateway", self._lost.set)
            except BrokerAway as error:
                if not said:
                    log.warning("streams wait for NATS", why=str(error))
                said = True
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
                continue
            log.info("NATS connected")
            pause, said, self._client = FIRST_PAUSE, False, client
            try:
                for subject in self._notes:
                    self._spawn(self._listen(client, subject))
                for consumer in list(self._consumers):
                    self._begin(client, consumer)
                await self._lost.wait()
                log.warning("the connection to NATS was lost")
            finally:
                self._client = None
                await closed(client)

    def _begin(self, client: Client, consumer: Consumer) -> None:
        self._spawn(self._consume(client, consumer))

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._starts.add(task)
        task.add_done_callback(self._starts.discard)

    async def _listen(self, client: Client, subject: str) -> None:
        take = self._notes[subject]

        async def heard(message: Any) -> None:
            take(message.data)

        with suppress(Exception):
            await client.subscribe(subject, cb=heard)

    async def _consume(self, client: Client, consumer: Consumer) -> None:
        """Begin, or go on, to consume; tried again as long as the connection is there."""
        while client is self._client and not consumer.ended:
            try:
                await self._subscribe(client.jetstream(), consumer)
                return
            except Exception as error:
                log.info("a zone cannot be consumed yet", subject=consumer.subject, error=str(error))
                await asyncio.sleep(LONGEST_PAUSE / 4)

    async def _subscribe(self, js: JetStreamContext, consumer: Consumer) -> None:
        from nats.js.api import ConsumerConfig, DeliverPolicy
        from nats.js.errors import NotFoundError

        state = (await js.stream_info(STREAM)).state
        if consumer.at > state.last_seq:
            # It is another stream: what the zone has had already is passed over by its seq.
            consumer.at = 0
        config = ConsumerConfig(deliver_policy=DeliverPolicy.ALL)
        begun = consumer.at == 0
        if begun:
            try:
                last = await js.get_last_msg(STREAM, consumer.subject)
                assert last.seq is not None
                consumer.until = last.seq
                first = max(1, state.first_seq, last.seq - HISTORY)
                config = ConsumerConfig(deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=first)
            except NotFoundError:
                consumer.until = None
        else:
            first = max(consumer.at + 1, state.first_seq)
            config = ConsumerConfig(deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=first)
        subscription = await js.subscribe(
            consumer.subject, stream=STREAM, ordered_consumer=True, config=config, cb=consumer.message
        )
        consumer.subscription = subscription
        if consumer.ended:
            await _unsubscribe(subscription)
        elif begun and consumer.until is None:
            consumer.begun(False)


async def _unsubscribe(subscription: Any) -> None:
    with suppress(Exception):
        await subscription.unsubscribe()
