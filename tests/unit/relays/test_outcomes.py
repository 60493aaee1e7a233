"""Outcomes by column are those that the steps have one by one."""

from __future__ import annotations

import numpy as np
import pytest

from indexes.relays.config import RelayConfig
from indexes.relays.kernels.forward import SUBSCRIBE, UNSUBSCRIBE
from indexes.relays.kernels.points import as_points
from indexes.relays.outcomes import FEW, Outcomes
from indexes.relays.relay import Relay, Steps


@pytest.mark.parametrize("cut", [FEW, FEW + 1, 70])
def test_outcomes_do_not_depend_on_how_steps_are_cut(cut: int) -> None:
    rng = np.random.default_rng(7)
    lo = rng.random((400, 1))
    points = as_points(lo, lo + rng.random((400, 1)))
    there: list[str] = []
    op, keys = [], []
    for i in range(400):
        ends = bool(there) and rng.random() < 0.4
        op.append(UNSUBSCRIBE if ends else SUBSCRIBE)
        keys.append(there.pop(int(rng.integers(len(there)))) if ends else f"s{i}")
        if not ends:
            there.append(keys[-1])

    def outcomes(cut: int) -> Outcomes:
        relay, found = Relay(RelayConfig(("x",))), Outcomes()
        for at in range(0, 400, cut):
            ran = relay.run(Steps(np.array(op[at : at + cut], np.uint8), keys[at : at + cut], points[at : at + cut]))
            found.append(relay.answers(ran))
            relay.commit(ran)
        return found

    found, wanted = outcomes(cut), list(outcomes(1))
    assert len(found) == 400 and list(found) == wanted and found == wanted
    assert [found[i] for i in range(-400, 400)] == wanted * 2
    assert found[37:150] == wanted[37:150] and found[::-3] == wanted[::-3] and found[390:500] == wanted[390:]
    with pytest.raises(IndexError):
        _ = found[400]
