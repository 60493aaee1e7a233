import itertools

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from app.runtime.clock import JUMP, RATE, Clock

DAY = 86_400.0


class World:
    """A machine whose clock can be set."""

    def __init__(self) -> None:
        self.wall, self.passed = 1_000_000.0, 50.0
        self.clock = Clock(lambda: self.wall, lambda: self.passed)

    def wait(self, seconds: float) -> float:
        """The time after so many seconds, of which the service looks at its clock at the end only."""
        self.wall += seconds
        self.passed += seconds
        return self.clock.now()


def test_time_passes_as_on_the_system() -> None:
    world = World()
    assert [world.wait(10.0), world.wait(0.5), world.wait(DAY)] == [1_000_010.0, 1_000_010.5, 1_086_410.5]
    assert world.clock.ahead == 0


def test_a_machine_that_was_suspended_did_not_jump() -> None:
    """The clock that cannot be set counts that time as well."""
    world = World()
    with structlog.testing.capture_logs() as lines:
        assert world.wait(DAY) == world.wall
    assert not lines


def test_a_clock_that_jumps_ahead_and_back_leaves_no_trace() -> None:
    world = World()
    with structlog.testing.capture_logs() as lines:
        world.wall += DAY
        times = [world.wait(1.0) for _ in range(60)]
        world.wall -= DAY
        times += [world.wait(1.0) for _ in range(120)]
    assert [round(line["seconds"]) for line in lines] == [DAY, -DAY]
    assert max(later - earlier for earlier, later in itertools.pairwise(times)) <= 1 + RATE + 1e-6
    assert times[-1] == pytest.approx(world.wall), "the six seconds are made up for within the next sixty"


def test_a_clock_that_is_set_back_for_good_is_approached() -> None:
    world = World()
    world.wait(1.0)
    world.wall -= 3_600.0
    for _ in range(10 * 3_600 // 60 + 1):
        world.wait(60.0)
    assert world.clock.now() == pytest.approx(world.wall)


def test_time_goes_on_from_what_was_given_out_before_a_restart() -> None:
    world = World()
    world.clock.not_before(world.wall - 10)
    assert world.clock.now() == world.wall
    given_out = world.wall + DAY
    world.clock.not_before(given_out)
    assert given_out + 0.9 * 60 - 1e-6 <= world.wait(60.0) <= given_out + 60


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(-1e9, 1e9)), max_size=30))
def test_time_never_goes_back_and_runs_at_about_its_own_speed(steps: list[tuple[float, float]]) -> None:
    world = World()
    before = world.clock.now()
    for seconds, jump in steps:
        world.wall += jump
        now = world.wait(seconds)
        assert (1 - RATE) * seconds - 1e-3 <= now - before <= (1 + RATE) * seconds + 1e-3
        before = now


def test_small_corrections_are_not_logged() -> None:
    world = World()
    with structlog.testing.capture_logs() as lines:
        for _ in range(10):
            world.wall += JUMP / 2
            world.wait(60.0)
    assert not lines
