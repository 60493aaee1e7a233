"""What tests of groups share: writers of everything, and comparison of what nodes show."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tests.support.patience import PATIENCE, wait_until
from tests.system.faults import done
from tests.system.group import Group
from tests.system.http.talk import Talk
from tests.system.kill_mixed import CONFIGS, Mixed, state


@contextmanager
def writing(*urls: str, kind: type[Mixed] = Mixed) -> Iterator[list[Mixed]]:
    """Writers of all five resources at these URLs, in turn; they have ended, each answered, behind the block."""
    writers = [kind(number, root) for number, root in enumerate([*CONFIGS, *CONFIGS])]
    for i, writer in enumerate(writers):
        writer.url = urls[i % len(urls)]
        writer.go.set()
        writer.start()
    try:
        yield writers
    finally:
        for writer in writers:
            writer.done = True
        for writer in writers:
            writer.join(PATIENCE)
            assert not writer.is_alive() and writer.failure is None


def written(writers: list[Mixed]) -> int:
    return sum(write.answer is not None for writer in writers for write in writer.writes)


def wait_for_writes(writers: list[Mixed], more: int) -> None:
    """Wait until so many more are answered."""
    before = written(writers)

    def came() -> bool:
        assert not any(writer.failure for writer in writers)
        return written(writers) >= before + more

    wait_until(came, why=lambda: f"{written(writers) - before} of {more} writes were answered")


def make_all(url: str) -> None:
    talk = Talk(url)
    for root, config in CONFIGS.items():
        talk.good("PUT", root, config)


def show_the_same(group: Group, *nodes: int) -> dict[str, Any]:
    """Whether nodes show the same of everything, and every list and index there is what a scan says."""
    group.in_step(*nodes)
    found = [state(Talk(group.url(node))) for node in nodes]
    for other in found[1:]:
        for path in sorted(found[0].keys() | other.keys()):
            assert found[0].get(path) == other.get(path), path
    for node in nodes:
        assert done(Talk(group.url(node)), "verify")["difference_count"] == 0
    return found[0]


def start_alone(group: Group, node: int) -> None:
    """Start a replica whose leader is away, so that it is not ready."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.support.live.LiveService.wait_until_ready", lambda self, seconds=0.0: None)
        group.follow(node)
    wait_until(lambda: group.about(node).get("role") == "replica" and bool(group.about(node).get("node")))
    wait_until(lambda: httpx.get(f"{group.url(node)}/v1/boards").status_code == 200)


def leader_of(group: Group, *nodes: int) -> int:
    """Wait until one of these nodes leads, and return it."""
    found: list[int] = []

    def leads() -> bool:
        about = {node: group.about(node) for node in nodes}
        found[:] = [node for node in nodes if about[node].get("role") == "leader" and about[node].get("ready")]
        return len(found) == 1

    wait_until(leads, PATIENCE, 0.05, lambda: [(group.about(node), group.log(node)[-4000:]) for node in nodes])
    return found[0]
