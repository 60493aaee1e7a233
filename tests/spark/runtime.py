"""Whether Spark can run here."""

from __future__ import annotations

import os

import pytest

from spark_jobs.common.java import NoJava, find


def need_java() -> None:
    """Skip the test where there is no Java; in CI that is a failure."""
    try:
        find()
    except NoJava as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(str(missing))
        pytest.skip(str(missing))
