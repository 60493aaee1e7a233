"""The plan that changes the configuration of a board."""

from __future__ import annotations

from indexes.boards.commands import Configure
from indexes.boards.config import BoardConfig
from indexes.boards.store import BoardStore
from indexes.core.plan import Plan


class ConfigurePlan(Plan[BoardStore]):
    """Another set of list lengths, another algorithm, epsilon or sketch. Nothing is logged where nothing changes."""

    def __init__(self, engine: BoardStore, command: Configure, config: BoardConfig) -> None:
        super().__init__(engine, command, int(config != engine.latest_config))
        self._config = config
        self._before = engine.latest_config
        # Another class moves all subscriptions to new arrays.
        self._work = 3e-8 * engine.subscription_count if config.ks != engine.latest_config.ks else 0.0
        self.done = self.count == 0
        engine.latest_config = config

    @property
    def work(self) -> float:
        return self._work

    def execute(self, budget: float) -> None:
        self.engine.painter.configure(self._config)

    def publish(self) -> None:
        self.engine.config = self._config
        self.engine.seq = self.last_seq
        self.done = True

    def cancel(self) -> None:
        self.engine.latest_config = self._before
        super().cancel()
