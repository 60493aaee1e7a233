"""Live subscriptions of boards with zones at a gateway: their lists, and the messages that tiles make of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from app.gateway.lists import KeptList, Ranking, Tile
from app.rendering.lists import ListJson
from app.streaming.buffer import CHANGE, Channel, Entries, Form, Message, message
from app.streaming.conflation import ListResource, board_form
from app.streaming.protocols import LiveSubscription, Source, StreamHub
from indexes.boards.lists import ObjectView, net_entries


class LiveZoned(LiveSubscription):
    """One live subscription: its range, the list that tiles keep, and where it stands.

    The list is right at the seq `since`, and with all messages of its `zone` up to where that is. One that is `stale`
    takes no tiles: it waits for its list from the service.
    """

    __slots__ = (
        "changes",
        "credentials",
        "edited",
        "k",
        "kept",
        "l",
        "offset",
        "old",
        "r",
        "since",
        "stale",
        "tiles",
        "ttl",
        "zone",
    )
    forms = ("changes", "old", "tiles")

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.l = self.r = 0.0
        self.k = self.offset = 0
        self.ttl: float | None = None
        self.kept = KeptList(0)
        self.since = -1
        self.stale = True
        self.edited = -1
        """The seq at which it was changed, while the list of then is waited for."""
        self.zone: Any = None
        self.credentials: Any = None
        self.changes: Channel | None = None
        self.old: Channel | None = None
        self.tiles: Channel | None = None

    @property
    def position(self) -> int:
        """The seq at which its list is right."""
        zone = self.zone
        return self.since if self.stale or zone is None else max(self.since, zone.at)


class LiveZonedBoard(ListResource):
    """A board with live subscriptions. `engine` is the `GatewayBoard`."""

    __slots__ = ("_sent", "write")
    by_id: dict[str, LiveZoned]  # type: ignore[assignment]

    def __init__(self, resource: str, engine: Any, hub: StreamHub) -> None:
        super().__init__(resource, engine, hub)
        ranking: Ranking = engine.ranking
        self.write = ListJson(ranking.x, ranking.y)
        self._sent = 0

    def watch(self, id: str) -> LiveZoned:
        found: LiveZoned = self.engine.lives[id]
        return found

    def unwatch(self, live: LiveSubscription) -> None:
        """Nothing is kept for readers but the list."""

    def forget(self, live: LiveSubscription) -> None:
        self.engine.drop(live)

    def set_active(self, live: LiveSubscription, form: Form, on: bool) -> None:
        """All forms come from the same tiles."""

    def offset(self, live: LiveZoned) -> int:
        return live.offset

    def shown(self, live: LiveZoned) -> list[ObjectView]:
        return live.kept.items[live.offset :]

    def changes_json(self, entries: Entries, old: bool) -> str:
        return self.write.changes(entries, old)

    def delivered_seq(self, channel: Channel) -> int:
        live = self.by_id.get(channel.id) or self.engine.lives.get(channel.id)
        return self.seq if live is None else live.position

    def missed(self, live: LiveSubscription, form: Form, after: int) -> list[Message] | None:
        """What the zone says of a subscription that was followed elsewhere since a seq. A list of then is not known
        here: where it has changed, only tiles can tell.
        """
        assert isinstance(live, LiveZoned)
        if len(live.channels()) > 1:
            return None
        found: list[tuple[int, list[Tile]]] | None = self.engine.reached_since(live, after)
        if found is None or (found and form != "tiles"):
            return None
        return [self._tiles(seq, tiles, {}) for seq, tiles in found]

    def first_message(self, live: LiveSubscription, form: Form, fresh: bool) -> Message:
        """The list as it is now. Tiles keep it from the first rank on."""
        assert isinstance(live, LiveZoned)
        offset, seq = 0 if form == "tiles" else live.offset, live.position
        head = f'"seq":{seq},"offset":{offset}' if offset else f'"seq":{seq}'
        data = f'{{{head},"list":{self.write.list(live.kept.items[offset:], offset)}}}'
        return self.hub.message(seq, "snapshot" if fresh else "reset", data)

    def deliver(self, slice: Any) -> None:
        """Zones deliver one subscription at a time: see `take`."""

    def take(self, live: LiveZoned, seq: int, tiles: list[Tile], made: dict[Any, Any]) -> None:
        """Apply the tiles of one seq that reach a subscription, and queue what they change; `made` has what is written
        already of this message.
        """
        entries = live.kept.apply_all(tiles, live.offset)
        if live.tiles is not None:
            live.tiles.publish(self._tiles(seq, tiles, made))
            self.hub.count("tiles", len(live.tiles.readers))
        for channel in (live.changes, live.old):
            if channel is not None:
                self._publish(channel, seq, entries, made)

    def _publish(self, channel: Channel, seq: int, entries: Entries, made: dict[Any, Any]) -> None:
        """Queue a change, if it is one; `made` has what is written already of its message."""
        if not entries:
            return
        key = channel.form, entries
        item = made.get(key)
        if item is None:
            text = self.write.changes(entries, channel.form == "old")
            item = made[key] = message(self.hub.epoch, seq, CHANGE, f'{{"seq":{seq},"changes":{text}}}')
        channel.publish(item, entries)
        self._sent += len(channel.readers)

    def settle(self) -> None:
        """All messages of a zone have been taken: send what was held back."""
        self.hub.count(CHANGE, self._sent - self.hub.conflator.release(self))
        self._sent = 0

    def restart(self, live: LiveZoned, before: list[ObjectView] | None = None) -> None:
        """Queue the whole list for all readers of a subscription; for those of changes, who have the list `before` if
        it is given, what has changed in it.
        """
        offset = live.offset
        entries = () if before is None else net_entries(before[offset:], live.kept.items[offset:], offset, offset)
        for channel in live.channels():
            if before is not None and channel.form != "tiles":
                self._publish(channel, live.since, entries, {})
                continue
            channel.restart(self.first_message(live, channel.form, False))
            for reader in channel.readers:
                self.hub.conflator.caught_up(self, reader)
        self.settle()

    def _tiles(self, seq: int, tiles: Iterable[Tile], made: dict[Any, Any]) -> Message:
        texts = []
        for tile in tiles:
            text = made.get(tile.number)
            if text is None:
                text = made[tile.number] = self._tile(tile)
            texts.append(text)
        return message(self.hub.epoch, seq, "tiles", f'{{"seq":{seq},"tiles":[{",".join(texts)}]}}')

    def _tile(self, tile: Tile) -> str:
        return self.write.sides(tile.k, *tile[2:6]) + self.write.tile_object(tile.object, tile.gone)


class ZonedSource(Source):
    """Boards with zones."""

    prefix = "boards/"
    noun = "board"

    def has(self, engine: Any, id: str) -> bool:
        return id in engine.lives

    def form(self, form: str, old: bool, squash: float | None) -> Form:
        return board_form(form, old, squash)

    def live(self, resource: str, engine: Any, hub: StreamHub) -> LiveZonedBoard:
        return LiveZonedBoard(resource, engine, hub)
