"""A service is killed under writers of all kinds of resources, on both databases: nothing is lost or doubled."""

from __future__ import annotations

import os
import time
from random import Random

import pytest

from tests.support.live import StartService
from tests.system.kill_mixed import kill_mixed
from tests.system.postgres import own_postgres

KILLS = int(os.environ.get("RANKCAST_KILLS", "100"))
"""Kills of the soak, on each database."""


@pytest.mark.timeout(900)
def test_killed_under_writers_of_all_resources(start_service: StartService) -> None:
    assert kill_mixed(start_service, (), 3, Random(5)).kills == 3


@pytest.mark.soak
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_killed_a_hundred_times_under_writers_of_all_resources(start_service: StartService, database: str) -> None:
    seed = time.time_ns()
    print(f"seed {seed}")
    if database == "sqlite":
        found = kill_mixed(start_service, (), KILLS, Random(seed))
    else:
        with own_postgres() as server:
            found = kill_mixed(start_service, ("--database", server.new_database()), KILLS, Random(seed))
    print(f"{database}: {found.kills} kills, {found.answered} requests answered, {found.in_doubt} only after a kill")
    assert found.kills == KILLS and found.in_doubt
