"""A map under load is killed at random moments.

What was answered is there exactly once, and afterwards every object, every standing query and its answer is what the
model says.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.oracles.map_service import MapModel
from tests.support.live import StartService
from tests.system.faults import done
from tests.system.http.talk import Talk
from tests.system.kill_maps import CONFIG, PATH, WRITERS, Mover, follow
from tests.system.killing import killed


@pytest.mark.timeout(900)
def test_killed_in_the_middle_of_writes(start_service: StartService) -> None:
    draw = Random(7)
    service, writes = killed(start_service, PATH, CONFIG, [Mover(number) for number in range(WRITERS)], draw)
    model = MapModel(CONFIG)
    queries: dict[str, Any] = {}
    for write in writes:
        follow(model, queries, write)
    talk = Talk(service.url)
    assert talk.good("GET", PATH)["seq"] == model.seq
    assert talk.pages(f"{PATH}/objects", 1000) == [model.objects[id].shown() for id in sorted(model.objects)]
    assert [one["id"] for one in talk.pages(f"{PATH}/queries", 1000)] == sorted(queries)
    for id in draw.sample(sorted(queries), min(8, len(queries))):
        shown, (x, y) = talk.good("GET", f"{PATH}/queries/{id}"), queries[id]["location"]
        assert shown["location"] == [x, y]
        if shown["kind"] == "skyline":
            # By the definition it is too much work for so many objects; the job below looks at all of them.
            continue
        model.judge(queries[id], shown, (x, y), draw, 1, held=True)
    assert done(talk, "verify", resources=["maps/food"])["differences"] == []
    talk.close()
