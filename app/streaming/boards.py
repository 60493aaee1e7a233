"""Live subscriptions of boards: streams that begin with a list and continue with its changes, or with tiles."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from operator import itemgetter
from typing import Any, Protocol

from app.rendering.boards import board_json
from app.streaming.buffer import CHANGE, Channel, Entries, Form, Message, Words, message
from app.streaming.bundles import publish_all
from app.streaming.conflation import ListResource, board_form
from app.streaming.lone_readers import LoneReaders
from app.streaming.protocols import LiveSubscription, Source, StreamHub
from indexes.boards.changed_lists import ChangedLists, parts_of
from indexes.boards.config import BoardConfig
from indexes.boards.results import ListChange, LiveTiles, ObjectView, Slice

Made = dict[int, Message]
"""Messages that are written, by the identity of their entries; those with old values by its negative."""


class StreamedBoard(Protocol):
    """What the hub needs of a board."""

    @property
    def config(self) -> BoardConfig: ...
    @property
    def seq(self) -> int: ...
    def watch(self, id: str) -> int: ...
    def unwatch(self, live: int) -> None: ...
    def list_of(self, live: int, offset: int = 0) -> list[ObjectView]: ...
    def offset_of(self, live: int) -> int: ...
    def want_tiles(self, live: int, on: bool) -> None: ...


class LiveList(LiveSubscription):
    """One live subscription: its slot on the board, and its channels."""

    __slots__ = ("changes", "old", "slot", "tiles")
    forms = ("changes", "old", "tiles")

    def __init__(self, id: str, slot: int) -> None:
        super().__init__(id)
        self.slot = slot
        self.changes: Channel | None = None
        self.old: Channel | None = None
        self.tiles: Channel | None = None


class LiveBoard(ListResource):
    """A board with live subscriptions."""

    __slots__ = ("_changes", "_lone_readers", "_n_olds", "_olds", "_sent", "board", "by_slot", "write")
    by_id: dict[str, LiveList]  # type: ignore[assignment]

    def __init__(self, resource: str, engine: StreamedBoard, hub: StreamHub) -> None:
        super().__init__(resource, engine, hub)
        self.board = engine
        self.by_slot: dict[int, LiveList] = {}
        self._changes: list[Channel | None] = []
        """By slot, the channel of changes."""
        self._lone_readers = LoneReaders(hub.pump)
        self._olds: list[Channel | None] = []
        """By slot, the channel of changes with old values; `_n_olds` are there."""
        self._n_olds = 0
        self.write = board_json(engine.config.range_attributes, engine.config.rank_attribute, engine.config.indexed)
        self._sent = 0

    def watch(self, id: str) -> LiveList:
        live = LiveList(id, self.board.watch(id))
        self.by_slot[live.slot] = live
        while len(self._changes) <= live.slot:
            self._changes.append(None)
            self._olds.append(None)
        return live

    def unwatch(self, live: LiveSubscription) -> None:
        assert isinstance(live, LiveList)
        self.board.unwatch(live.slot)

    def forget(self, live: LiveSubscription) -> None:
        assert isinstance(live, LiveList)
        del self.by_slot[live.slot]
        self._note(live.slot, None, None)

    def set_active(self, live: LiveSubscription, form: Form, on: bool) -> None:
        assert isinstance(live, LiveList)
        if form == "tiles":
            self.board.want_tiles(live.slot, on)
        else:
            self._note(live.slot, live.changes, live.old)

    def _note(self, slot: int, changes: Channel | None, old: Channel | None) -> None:
        """Note the channels of a live subscription by its slot."""
        if changes is not self._changes[slot]:
            self._changes[slot] = changes
            self._lone_readers.follow(slot, changes)
        self._n_olds += (old is not None) - (self._olds[slot] is not None)
        self._olds[slot] = old

    def first_message(self, live: LiveSubscription, form: Form, fresh: bool) -> Message:
        """The list as it is now. Tiles keep it from the first rank on."""
        assert isinstance(live, LiveList)
        offset = 0 if form == "tiles" else self.offset(live)
        head = f'"seq":{self.seq},"offset":{offset}' if offset else f'"seq":{self.seq}'
        data = f'{{{head},"list":{self.write.list(self.board.list_of(live.slot, offset), offset)}}}'
        return self.hub.message(self.seq, "snapshot" if fresh else "reset", data)

    def offset(self, live: LiveList) -> int:
        return self.board.offset_of(live.slot)

    def shown(self, live: LiveList) -> list[ObjectView]:
        return self.board.list_of(live.slot, self.offset(live))

    def changes_json(self, entries: Entries, old: bool) -> str:
        return self.write.changes(entries, old)

    def deliver(self, slice: Slice) -> None:
        """O(messages + readers), JSON once per distinct change."""
        if slice.tiles or slice.moved or slice.gone:
            self._deliver_all(slice)
        else:
            for part in parts_of(slice.changes):
                if isinstance(part, ChangedLists):
                    self._deliver_columns(part)
                else:
                    self._deliver_changes(part, {})
        self.seq = slice.last_seq
        self.hub.count(CHANGE, self._sent - self.hub.conflator.release(self))
        self._sent = 0

    def _deliver_columns(self, changes: ChangedLists) -> None:
        """As `_deliver_changes`, of changes by column."""
        if not self._n_olds:
            sent = self._lone_readers.deliver(changes, self.write, self.hub.epoch)
            if sent is not None:
                self._sent += sent
                return
        slots, seqs, forms = changes.slots(), changes.seqs(), 1
        channels = list(map(self._changes.__getitem__, slots))
        olds = list(map(self._olds.__getitem__, slots)) if self._n_olds else []
        blocks = next((channel.blocks for channel in chain(channels, olds) if channel is not None), False)
        words = Words.of(self.hub.epoch, CHANGE, blocks)
        texts = self.write.changed(changes, words) if any(channels) else [b""] * len(seqs)
        if any(olds):
            # Each change in both forms before the next change: the messages of a connection are in order of seq.
            forms, old_texts = 2, self.write.changed(changes, words, old=True)
            seqs = [seq for seq in seqs for _ in range(forms)]
            channels = list(chain.from_iterable(zip(channels, olds, strict=True)))
            texts = list(chain.from_iterable(zip(texts, old_texts, strict=True)))

        def entries_at(place: int) -> Entries:
            return changes[place // forms].entries

        self._sent += publish_all(channels, seqs, texts, blocks, entries_at)

    def _deliver_changes(self, changes: Iterable[ListChange], made: Made) -> None:
        """O(readers), JSON once per distinct change; `made` is what is written already."""
        by_slot, sent = self.by_slot, 0
        for seq, slot, entries in changes:
            live = by_slot.get(slot)
            if live is None or not entries:
                continue
            channel = live.changes
            if channel is not None:
                item = made.get(id(entries))
                if item is None or item.seq != seq:
                    item = made[id(entries)] = self._changed(seq, entries, False)
                channel.publish(item, entries)
                sent += len(channel.readers)
            channel = live.old
            if channel is not None:
                item = made.get(-id(entries))
                if item is None or item.seq != seq:
                    item = made[-id(entries)] = self._changed(seq, entries, True)
                channel.publish(item, entries)
                sent += len(channel.readers)
        self._sent += sent

    def _changed(self, seq: int, entries: Entries, old: bool) -> Message:
        return message(self.hub.epoch, seq, CHANGE, f'{{"seq":{seq},"changes":{self.write.changes(entries, old)}}}')

    def _deliver_all(self, slice: Slice) -> None:
        """A slice with more than changes, everything in order of seq."""
        made: Made = {}
        written: dict[int, str] = {}
        moved = {slot for _, slot in slice.moved}
        records: Iterable[ListChange | LiveTiles | tuple[int, int]] = chain(slice.changes, slice.tiles, slice.gone)
        for record in sorted(records, key=itemgetter(0)):
            if isinstance(record, ListChange):
                if record.live not in slice.shifted:
                    self._deliver_changes((record,), made)
            elif isinstance(record, LiveTiles):
                if record.live not in moved:
                    self._deliver_tiles(record, written)
            else:
                seq, slot = record
                live = self.by_slot.get(slot)
                if live is not None:
                    self.hub.end(self, live, seq)
        self.seq = slice.last_seq
        for slot in sorted(moved):
            live = self.by_slot.get(slot)
            for channel in () if live is None else live.channels():
                if channel.form == "tiles" or slot in slice.shifted:
                    assert live is not None
                    channel.restart(self.first_message(live, channel.form, False))
                    for reader in channel.readers:
                        self.hub.conflator.caught_up(self, reader)

    def _deliver_tiles(self, record: LiveTiles, written: dict[int, str]) -> None:
        live = self.by_slot.get(record.live)
        if live is None or live.tiles is None or not record.tiles:
            return
        texts = []
        for tile in record.tiles:
            text = written.get(id(tile))
            if text is None:
                text = written[id(tile)] = self.write.tile(tile)
            texts.append(text)
        data = f'{{"seq":{record.seq},"tiles":[{",".join(texts)}]}}'
        live.tiles.publish(message(self.hub.epoch, record.seq, "tiles", data))
        self.hub.count("tiles", len(live.tiles.readers))


class BoardSource(Source):
    """Boards."""

    prefix = "boards/"
    noun = "board"

    def form(self, form: str, old: bool, squash: float | None) -> Form:
        return board_form(form, old, squash)

    def live(self, resource: str, engine: Any, hub: StreamHub) -> LiveBoard:
        return LiveBoard(resource, engine, hub)
