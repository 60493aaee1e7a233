"""Whether pictures can be drawn here."""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest


def need_matplotlib() -> None:
    """Skip a test where matplotlib is not installed; the pipeline has it, so there that is a failure."""
    if find_spec("matplotlib") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("matplotlib is not installed")
        pytest.skip("matplotlib is not installed (the extra `plot`)")
