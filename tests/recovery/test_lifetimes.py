from collections.abc import Callable

from app.write_path.lifetimes import SPARE, Expiry


class World:
    """Subscriptions with a time to live on a clock of their own; those in `read` have an open stream."""

    def __init__(self) -> None:
        self.now = 0.0
        self.read: set[str] = set()
        self.expiry = Expiry(lambda _, key: key in self.read, self._never, clock=self._clock())

    def _clock(self) -> Callable[[], float]:
        return lambda: self.now

    async def _never(self, name: str, keys: list[str]) -> None:
        raise AssertionError("run() is not used here")

    def put(self, key: str, ttl: float | None) -> None:
        self.expiry.note_lifetimes("b", [(key, ttl)])

    def delete(self, key: str) -> None:
        self.expiry.note_lifetimes("b", [(key, None)])

    def due(self, now: float) -> list[str]:
        self.now = now
        return sorted(self.expiry.due().get("b", []))


def test_what_nobody_names_or_reads_is_due() -> None:
    world = World()
    for key in ("left", "named", "read", "longer", "shorter", "for ever", "deleted"):
        world.put(key, 10.0)
    world.read.add("read")
    assert world.due(5.0) == []
    world.expiry.touch("b", "named")
    world.put("longer", 20.0)
    world.put("shorter", 1.0)
    world.put("for ever", None)
    world.delete("deleted")
    for now, due in ((6.5, ["shorter"]), (12.0, ["left"]), (15.5, ["named"])):
        assert world.due(now) == due
        for key in due:
            world.delete(key)
    world.read.clear()
    assert world.due(26.0) == ["longer", "read"]


def test_a_deletion_that_failed_is_tried_again() -> None:
    world = World()
    world.put("a", 10.0)
    assert world.due(11.0) == ["a"]
    assert world.due(12.0) == []
    assert world.due(22.0) == ["a"]
    world.delete("a")
    assert world.due(40.0) == []


def test_changes_and_deletions_leave_nothing_behind() -> None:
    world = World()
    for second in range(5_000):
        world.now = float(second)
        world.put("mine", 60.0)
        world.put(f"short {second}", 1e9)
        world.delete(f"short {second}")
        assert world.due(world.now) == []
    assert len(world.expiry) == 1
    assert len(world.expiry._heap) <= 2 + SPARE + 1
    assert world.due(4_999 + 61) == ["mine"]
