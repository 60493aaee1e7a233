"""A few seconds of every target, after all inputs that once failed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fuzz.fuzzing import fuzz
from tests.fuzz.targets import TARGETS

SECONDS = 4.0


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_falls(name: str, tmp_path: Path) -> None:
    # The same inputs each time, so that a change is to blame for what falls; `make fuzz` looks for more.
    seed = int(os.environ.get("FUZZ_SEED", "1"))
    target = TARGETS[name]()
    try:
        report = fuzz(target, SECONDS, seed, into=Path("build/fuzz"), patience=0)
    finally:
        target.close()
    assert not report.failures, f"FUZZ_SEED={seed}: {report}"
    assert report.parts, report
