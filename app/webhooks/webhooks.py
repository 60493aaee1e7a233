"""All webhooks of a service: which there are, their start after a crash, and how far they are, stored now and then.

The log is what they recover from. The outbox is written once a second and not with each command, so that it costs
writes next to nothing; what was made since is made again when the log is replayed (`Webhooks.follows`). Where the log
does not reach back that far, or a resource's answers cannot be made in between, a subscription goes on with `reset`.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from app.errors import FieldError as Field
from app.errors import Invalid, LogUnavailable, NotFound, NotReady, TooMany
from app.runtime import logs
from app.runtime.metrics import Metrics
from app.security.sealing import Seal
from app.settings import Settings
from app.storage.rows import StoredAnswer
from app.storage.webhooks import PositionRow, WebhookRow, WebhookStore
from app.streaming.buffer import Form
from app.streaming.hub import Hub
from app.webhooks.receivers import Outcome, Receivers
from app.webhooks.sender import Followed, Sender
from app.webhooks.signing import new_secret

STORE_EVERY = 1.0
"""Seconds between two times that it is stored how far webhooks are, while events are made or taken."""

STORE_SEQ_EVERY = 10
"""How many times as long it takes until only the seq of a resource is stored, of which no event was made."""

MOST_REQUESTS = 32
"""Requests to receivers that are under way at the same time."""

SEALED = "sealed:"

log = logs.get("webhooks")


class Webhooks:
    """The webhooks of a service, by name. Lives on the event loop; while the log is replayed, in that thread.

    `last_seq` gives the last seq of a resource, also of a deleted one.
    """

    def __init__(
        self,
        hub: Hub,
        store: WebhookStore,
        settings: Settings,
        metrics: Metrics,
        last_seq: Callable[[str], int],
    ) -> None:
        self.hub = hub
        self.receivers = Receivers(settings.webhook_networks)
        self.metrics = metrics
        self.requests = asyncio.Semaphore(MOST_REQUESTS)
        self.queue = settings.webhook_queue
        self.bytes = settings.webhook_bytes
        self.last_seq = last_seq
        self._store = store
        self._most = settings.max_webhooks
        self._seal = None if settings.seal_key is None else Seal(settings.seal_key.get_secret_value())
        self._senders: dict[str, Sender] = {}
        self._storing = asyncio.Lock()
        self._behind: dict[str, list[tuple[Sender, Followed]]] = {}
        self._replaying: set[str] = set()
        self._task: asyncio.Task[None] | None = None
        self._stopped = False
        metrics.gauge(
            "rankcast_webhook_waiting", "Events that wait for a webhook's receiver.", "webhook", self._waiting
        )
        for state, text in (("failing", "fails"), ("disabled", "is disabled")):
            values = partial(self._in_state, state)
            metrics.gauge(f"rankcast_webhook_{state}", f"Whether a webhook {text}.", "webhook", values)

    # --- life cycle -------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Take over what is stored, before the log is replayed. Raises `LogUnavailable`."""
        for row, positions in self._store.all():
            if self._seal is not None and not row.secret.startswith(SEALED):
                row = row._replace(secret=self._sealed(row.secret))
                self._store.put(row, (), ())
            sender = self._add(row)
            sender.load(positions, self._store.waiting(row.name), self.hub.epoch)
            if row.state != "disabled":
                behind = self._behind.setdefault(row.resource, [])
                behind += [(sender, one) for one in sender.followed.values() if sender.position_of(one) >= 0]

    def start(self) -> None:
        """Begin to deliver, after the log was replayed."""
        for resource in list(self._behind):
            self._continue(resource, None)
        for sender in self._senders.values():
            for reader in sender.followed.values():
                if reader.stage == "lost":
                    sender.changed(reader)
            sender.start()
        self._task = asyncio.create_task(self._store_often())

    async def stop(self) -> None:
        """Send nothing more. What is made from now on waits, and is stored by `close`."""
        self._stopped = True
        if self._task is not None:
            self._task.cancel()
        await asyncio.gather(*(sender.stop() for sender in self._senders.values()))

    async def close(self) -> None:
        """Store how far webhooks are, and follow nothing any more."""
        try:
            await self.flush()
        except LogUnavailable as error:
            log.warning("how far webhooks are is not stored", error=str(error))
        for sender in self._senders.values():
            self.hub.connections.remove(sender)

    async def flush(self) -> None:
        """Store how far webhooks are now. Raises `LogUnavailable`."""
        await self._flush(whole=True)

    async def _flush(self, whole: bool) -> None:
        if whole:
            for resource in {sender.row.resource for sender in self._senders.values()}:
                await self.hub.settle(resource)
        async with self._storing:
            found = [
                (sender, progress)
                for sender in self._senders.values()
                if (progress := sender.progress(whole)) is not None
            ]
            if not found:
                return
            try:
                await _whole(asyncio.to_thread(self._store.store, [progress for _, progress in found]))
            except asyncio.CancelledError:
                raise
            except Exception:
                for sender, progress in found:
                    sender.not_stored(progress)
                raise

    async def _store_often(self) -> None:
        turn = 0
        while True:
            await asyncio.sleep(STORE_EVERY)
            turn += 1
            try:
                await self._flush(whole=turn % STORE_SEQ_EVERY == 0)
            except LogUnavailable as error:
                log.warning("how far webhooks are is not stored yet", error=str(error))
            except Exception:
                log.exception("how far webhooks are is not stored yet")

    def _add(self, row: WebhookRow) -> Sender:
        sender = self._senders[row.name] = Sender(self, row, self._opened(row.secret))
        self.hub.connections.add(sender, counts=False)
        return sender

    def form(self, resource: str) -> Form:
        """What streams of a resource carry. Raises the problem 404 for an unknown type."""
        return self.hub.source(resource)[0].form("changes", False, None)

    # --- while the log is replayed ----------------------------------------------------------------------------------

    def follows(self, resource: str, seq: int, last_seq: int) -> bool:
        """Follow the subscriptions that have everything up to a seq before `last_seq`, which a command is to reach."""
        if resource in self._behind:
            self._continue(resource, last_seq, seq)
        return resource in self._replaying

    def deliver(self, resource: str, part: Any) -> None:
        """Queue what a slice of the log changed."""
        self.hub.deliver(resource, part)

    def dropped(self, resource: str, seq: int) -> None:
        """The streams of a deleted resource end."""
        self.hub.resource_gone(resource, seq)
        self._replaying.discard(resource)

    def _continue(self, resource: str, last_seq: int | None, seq: int | None = None) -> None:
        """Let those go on whose position comes before `last_seq`, or all, where the resource is not further."""
        left = []
        replays = last_seq is None or self.hub.source(resource)[0].replays
        for sender, reader in self._behind.pop(resource):
            position = sender.position_of(reader)
            if last_seq is not None and position >= last_seq:
                left.append((sender, reader))
            elif replays and (seq is None or seq <= position):
                at = position if seq is None else seq
                with suppress(NotFound, NotReady):
                    if self.hub.continue_stream(reader, resource, reader.id, self.form(resource), at):
                        reader.after = position
                        self._replaying.add(resource)
        if left:
            self._behind[resource] = left

    # --- changes ----------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Sender]:
        """All webhooks, in order of name."""
        return iter([self._senders[name] for name in sorted(self._senders)])

    def get(self, name: str) -> Sender | None:
        """A webhook by its name."""
        return self._senders.get(name)

    async def check(self, url: str, resource: str, ids: Sequence[str]) -> None:
        """Raise the problem 422 for a URL that is not allowed, an unknown resource, and ids that are not there."""
        errors = []
        fault = await self.receivers.fault(url)
        if fault is not None:
            errors.append(Field("url", fault))
        try:
            source, _ = self.hub.source(resource)
            missing = set(await self.hub.between(resource, lambda: self.hub.missing(resource, ids)))
            noun = source.subscription_noun
            errors += [Field(f"ids[{i}]", f"there is no {noun} {id!r}") for i, id in enumerate(ids) if id in missing]
        except NotFound as error:
            errors.append(Field("resource", error.detail))
        if errors:
            raise Invalid(*errors)

    def made(self, name: str, url: str, resource: str, batch: int) -> tuple[WebhookRow, str]:
        """A new webhook, and its secret. Raises `TooMany`."""
        if len(self._senders) >= self._most:
            raise TooMany(f"there are {self._most} webhooks, which is the limit")
        secret = new_secret()
        row = WebhookRow(name, secrets.token_hex(16), url, resource, batch, self._sealed(secret), time.time())
        return row._replace(history=self.hub.epoch), secret

    async def put(self, row: WebhookRow, ids: Sequence[str], answer: StoredAnswer | None = None) -> Sender:
        """Store and begin a new webhook, or change one to this URL, batch and ids. Raises `LogUnavailable`."""
        if self._stopped:
            raise NotReady("the service is ending")
        async with self._storing:
            known = self._senders.get(row.name)
            followed = {} if known is None else known.followed
            new = [PositionRow(row.name, id, "new", -1) for id in ids if id not in followed or followed[id].ended]
            left = [id for id in followed if id not in ids]
            current = row if known is None else known.row._replace(url=row.url, batch=row.batch)
            await _whole(asyncio.to_thread(self._store.put, current, new, left, answer))
            if known is not None:
                await known.change(row, ids)
                return known
            sender = self._add(row)
            for id in ids:
                sender.follow(id)
            sender.start()
            return sender

    async def delete(self, name: str, answer: StoredAnswer | None = None) -> None:
        """Forget a webhook with what waits for it. Raises `LogUnavailable`."""
        async with self._storing:
            await _whole(asyncio.to_thread(self._store.delete, name, answer))
            sender = self._senders.pop(name)
            self.hub.connections.remove(sender)
            await sender.stop()

    async def enable(self, name: str, answer: StoredAnswer | None = None) -> None:
        """Let a webhook start again. Raises `LogUnavailable`."""
        async with self._storing:
            sender = self._senders[name]
            await _whole(asyncio.to_thread(self._store.put, sender.enabled(), (), (), answer))
            sender.enable()

    async def test(self, name: str) -> Outcome:
        """Send a test. Raises `TooMany` while very many requests are under way."""
        if self.requests.locked():
            raise TooMany(f"{MOST_REQUESTS} requests to receivers are under way, which is the limit")
        return await self._senders[name].test()

    def _sealed(self, secret: str) -> str:
        return secret if self._seal is None else SEALED + self._seal.seal(secret)

    def _opened(self, secret: str) -> str | None:
        if not secret.startswith(SEALED):
            return secret
        return None if self._seal is None else self._seal.open(secret.removeprefix(SEALED))

    def _waiting(self) -> dict[str, float]:
        return {name: float(sender.waiting) for name, sender in self._senders.items()}

    def _in_state(self, state: str) -> dict[str, float]:
        return {name: float(sender.row.state == state) for name, sender in self._senders.items()}


async def _whole(work: Coroutine[Any, Any, None]) -> None:
    """Wait for work in a thread to its end, also where the caller is cancelled; what the work raises goes first."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise
