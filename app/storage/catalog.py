"""The catalog of boards: which exist, which are about to, and where the seq of a deleted one went on."""

from __future__ import annotations

from typing import Protocol

from indexes.boards.board import Board
from indexes.boards.commands import BoardConfig, Command, Configure, Create, Drop, Fault, Refused
from indexes.boards.views import Slice


class Job(Protocol):
    """What the writer needs of an accepted command; `indexes.boards.plans.Plan` is one."""

    command: Command | Create | Drop
    count: int
    first_seq: int
    last_seq: int
    done: bool
    tile_count: int
    faults: list[Fault]
    positions: list[int] | None

    @property
    def work(self) -> float: ...
    def paint(self, budget: float) -> None: ...
    def settle(self) -> Slice | None: ...
    def cancel(self) -> None: ...


class Entry:
    """One board's place in the catalog. `board` is what reads see, `latest` what the next command will meet."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.board: Board | None = None
        self.latest: Board | None = None
        self.next_first_seq = 0


class Catalog:
    """All boards by name."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}

    def board(self, name: str) -> Board | None:
        """The board that reads see, or None."""
        entry = self.entries.get(name)
        return entry.board if entry is not None else None

    def restore(self, name: str, board: Board | None, next_first_seq: int) -> None:
        """Take up a board as it was, or (None) a name whose board is deleted and that would go on with this seq."""
        entry = self.entries[name] = Entry(name)
        entry.board = entry.latest = board
        entry.next_first_seq = next_first_seq

    def names(self) -> list[str]:
        """The names of the boards that reads see, in order."""
        return sorted(name for name, entry in self.entries.items() if entry.board is not None)

    def latest(self, name: str) -> Board:
        """The board that the next command will meet. Raises Refused (missing)."""
        entry = self.entries.get(name)
        if entry is None or entry.latest is None:
            raise Refused([Fault("board", f"there is no board {name!r}", "missing")])
        return entry.latest

    def put(self, name: str, config: BoardConfig) -> Job:
        """Accept the making of a board, or its change to this configuration where it exists.

        Raises Refused: it exists and differs in what cannot be changed, or a k in use would go.
        """
        entry = self.entries.setdefault(name, Entry(name))
        if entry.latest is None:
            return CreateJob(entry, config)
        now = entry.latest.latest_config
        fixed = ("range_attributes", "rank_attribute", "order", "index")
        differ = [field for field in fixed if getattr(now, field) != getattr(config, field)]
        if differ:
            names = {"rank_attribute": "rank.attribute", "order": "rank.order"}
            faults = [Fault(names.get(f, f), f"the board stands with {getattr(now, f)!r}", "different") for f in differ]
            raise Refused(faults)
        return entry.latest.prepare(Configure(config.ks, config.algorithm))

    def drop(self, name: str) -> Job:
        """Accept the deletion of a board. Raises Refused (missing)."""
        board = self.latest(name)
        return DropJob(self.entries[name], board)

    def replay(self, name: str, command: Command | Create | Drop) -> Job:
        """Accept a command from the log."""
        if isinstance(command, Create):
            return CreateJob(self.entries.setdefault(name, Entry(name)), command.config)
        if isinstance(command, Drop):
            return self.drop(name)
        return self.latest(name).prepare(command)


class _Instant:
    """A job without kernel work."""

    def __init__(self, command: Create | Drop, seq: int) -> None:
        self.command: Command | Create | Drop = command
        self.count = 1
        self.first_seq = self.last_seq = seq
        self.done = False
        self.tile_count = 0
        self.faults: list[Fault] = []
        self.positions: list[int] | None = None

    @property
    def work(self) -> float:
        return 0.0

    def paint(self, budget: float) -> None:
        pass


class Mark(_Instant):
    """A place between two commands: `lsn` is the row of the log before it. Nothing is logged for it."""

    def __init__(self) -> None:
        super().__init__(Drop(), 0)
        self.count = 0
        self.lsn = 0

    def settle(self) -> Slice | None:
        self.done = True
        return None

    def cancel(self) -> None:
        """Nothing has changed."""


class Note(Mark):
    """A row of the log that changes no resource, but something else that snapshots hold: `about` names it."""

    def __init__(self, about: str) -> None:
        super().__init__()
        self.about = about


class CreateJob(_Instant):
    """A board on its way into the catalog."""

    def __init__(self, entry: Entry, config: BoardConfig) -> None:
        super().__init__(Create(config), entry.next_first_seq)
        self._entry = entry
        self._board = Board(config, self.first_seq)
        entry.latest = self._board

    def settle(self) -> Slice | None:
        self._entry.board = self._board
        self.done = True
        return None

    def cancel(self) -> None:
        self._entry.latest = None


class DropJob(_Instant):
    """A board on its way out. Made again, it goes on with the next seq."""

    def __init__(self, entry: Entry, board: Board) -> None:
        super().__init__(Drop(), board.next_seq)
        self._entry = entry
        self._board = board
        self._first_before = entry.next_first_seq
        board.next_seq += 1
        entry.latest = None
        entry.next_first_seq = self.first_seq + 1

    def settle(self) -> Slice | None:
        self._entry.board = None
        self.done = True
        return None

    def cancel(self) -> None:
        self._entry.latest = self._board
        self._entry.next_first_seq = self._first_before
        self._board.next_seq = self.first_seq
