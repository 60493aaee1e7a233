"""The engine of a board: deterministic commands in, exact lists and tiles out.

    plan = board.prepare(command)       checked against the state that it will meet
    plan.execute(0.005)                 kernel work, in any one thread
    plan.publish()                      visible, at board.seq

`apply` does all of it at once; `indexes.core.plan` describes the life of a plan. The same commands in the same order
give the same state: no clock and no random source is read, save to cut work into slices.
"""

from __future__ import annotations

from dataclasses import replace

from indexes.boards.commands import AddSubscriptions, Command, Configure, DeleteSubscriptions, Events, SetSubscription
from indexes.boards.config import BoardConfig
from indexes.boards.costs import SubscriptionCost, cost_of
from indexes.boards.plans.batch import BatchPlan, SpaceBatchPlan
from indexes.boards.plans.configure import ConfigurePlan
from indexes.boards.plans.edits import AddPlan, DeletePlan, SetPlan
from indexes.boards.plans.events import EventsPlan
from indexes.boards.plans.explain import ExplainPlan, LineExplainPlan
from indexes.boards.plans.maintenance import CapturePlan, FoldPlan
from indexes.boards.results import Slice
from indexes.boards.space.explain import SpaceExplainPlan
from indexes.boards.store import BoardStore
from indexes.boards.subscription_index import SubscriptionIndex
from indexes.boards.zones import EVERYWHERE, Cut
from indexes.core.commands import Fault, Refused
from indexes.core.pending_subscriptions import Steps, run_steps
from indexes.core.plan import Plan, SamePlan, applied


class BoardEngine(BoardStore):
    """A board that takes commands. Its state and its reads are those of `BoardStore`."""

    def __init__(self, config: BoardConfig, first_seq: int = 0) -> None:
        if config.zones is not None and config.cut is None:
            config = replace(config, cut=Cut(first_seq + 1, first_seq, (EVERYWHERE,)))
        super().__init__(config, first_seq)
        self._owner = 0

    def prepare(self, command: Command, keep_tiles: int = 0) -> Plan[BoardStore]:
        """Check a command and reserve its seqs. A plan for events keeps the first `keep_tiles` of their tiles.

        Raises:
            Refused: it does not apply; nothing has changed.
        """
        if isinstance(command, Events) and not command.batch:
            accepted = self.catalogue.accept_known(self._owner + 1, command)
            if accepted is not None:
                self._owner += 1
                return EventsPlan(self, accepted, keep_tiles)
        return run_steps(self.prepare_steps(command, keep_tiles))

    def prepare_steps(self, command: Command, keep_tiles: int = 0) -> Steps[Plan[BoardStore]]:
        """As `prepare`, in pieces: yields None where other resources may go first, or a function to call in any thread.

        No other command of this board may be prepared in between.
        """
        self._owner += 1
        owner, ks = self._owner, self.latest_config.ks
        match command:
            case Events():
                accepted = yield from self.catalogue.accept(owner, command)
                if not command.batch:
                    return EventsPlan(self, accepted, keep_tiles)
                kind = BatchPlan if self.config.dimensions == 1 else SpaceBatchPlan
                return kind(self, accepted, keep_tiles)
            case AddSubscriptions():
                return AddPlan(self, (yield from self.subscribers.accept_many(owner, command, ks)))
            case SetSubscription():
                whole, before, after, reservation = self.subscribers.accept_set(owner, command, ks)
                if before == after:
                    return SamePlan(self, whole)
                return SetPlan(self, whole, after, reservation, made=before is None)
            case DeleteSubscriptions():
                found, reservation = yield from self.subscribers.accept_delete(owner, command)
                return DeletePlan(self, found, reservation)
            case Configure():
                return ConfigurePlan(self, command, self._configured(command))

    def _configured(self, command: Configure) -> BoardConfig:
        """The configuration after a command. Raises Refused: a list length in use would no longer be on offer."""
        config = self.latest_config
        if command.ks is not None:
            uses = self.subscribers.uses
            held = [k for k in config.ks if k not in command.ks and uses[k] > 0]
            if held:
                raise Refused([Fault("ks", f"k = {held[0]} is in use by {uses[held[0]]} subscriptions", "in_use")])
            config = replace(config, ks=tuple(sorted(command.ks)))
        if command.algorithm is not None:
            config = replace(config, algorithm=command.algorithm)
        if command.runs is not None:
            config = replace(config, runs=command.runs)
        if command.sketch is not None:
            config = replace(config, sketch=command.sketch or None)
        return self._with_zones(config, command)

    def _with_zones(self, config: BoardConfig, command: Configure) -> BoardConfig:
        """The configuration with the zones that a command asks for. Raises Refused: there are none to cut again."""
        wanted = config.zones if command.zones is None else command.zones or None
        if wanted is None and command.cut is not None:
            raise Refused([Fault("zones", "the board has no zones", "different")])
        if wanted is None:
            return replace(config, zones=None, cut=None)
        if command.cut is None and wanted == config.zones:
            return config
        # What a seq counts comes after all versions so far: each of them took a seq at least.
        version = self.next_seq + 1 if config.cut is None else config.cut.version + 1
        return replace(config, zones=wanted, cut=Cut(version, self.next_seq, command.cut or (EVERYWHERE,)))

    def apply(self, command: Command, keep_tiles: int = 0) -> tuple[Plan[BoardStore], list[Slice]]:
        """Prepare, execute and publish a command; returns its plan and the notifications of live subscriptions."""
        return applied(self.prepare(command, keep_tiles))

    def replay(self, command: Command) -> Plan[BoardStore]:
        """Apply a command from the log, without tiles and notifications."""
        plan = self.prepare(command)
        plan.silent = True
        return applied(plan)[0]

    def capture(self, journal: bool = False, indexes: bool = False) -> CapturePlan:
        """A plan that copies the state; see `indexes.core.maintenance`. It has to be made in the order of acceptance:
        after the plans of all commands that were accepted before it."""
        return CapturePlan(self, journal, indexes)

    def fold(self, fresh: SubscriptionIndex) -> FoldPlan:
        """A plan that brings a freshly packed index up to date with the changes since the capture."""
        return FoldPlan(self, fresh)

    def explain(
        self, command: Events, keep_tiles: int = 0, *, dense: bool | None = None, runs: int | None = None
    ) -> ExplainPlan:
        """A plan that computes what one event would do, in its turn, and does not do it. Keeps `keep_tiles` tiles.

        `dense` and `runs` are the way to paint, None for the board's own. With several range attributes or indexed
        fields there is one way only, and they are ignored.

        Raises:
            Refused: it would not apply.
        """
        accepted = self.catalogue.foresee(self._owner, command)
        if self.config.dimensions > 1:
            return SpaceExplainPlan(self, accepted, keep_tiles)
        return LineExplainPlan(self, accepted, keep_tiles, dense, runs)

    def explain_subscription(self, key: str) -> SubscriptionCost | None:
        """What the subscription of an id costs, or None. O(k log n)."""
        return cost_of(self, key)
