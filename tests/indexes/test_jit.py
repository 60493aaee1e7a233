"""Which edits make compiled kernels stale."""

from __future__ import annotations

from pathlib import Path

import pytest

from indexes import jit

MODULES = (
    "indexes.ids",
    "indexes.boards.paint",
    "indexes.boards.space.paint",
    "indexes.relays.tree",
    "bench.boards.space",
)


@pytest.mark.parametrize(
    ("edited", "stale"),
    [
        ("indexes/ids.py", MODULES),
        ("indexes/spatial/heap.py", MODULES),
        ("indexes/boards/paint.py", ("indexes.boards.paint", "indexes.boards.space.paint", "bench.boards.space")),
        ("indexes/boards/space/paint.py", ("indexes.boards.paint", "indexes.boards.space.paint", "bench.boards.space")),
        ("indexes/relays/tree.py", ("indexes.relays.tree", "bench.boards.space")),
        ("bench/boards/space.py", ("bench.boards.space",)),
        ("app/main.py", ()),
    ],
)
def test_an_edit_makes_those_kernels_stale_that_may_call_it(
    edited: str, stale: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in {*(module.replace(".", "/") + ".py" for module in MODULES), edited}:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    monkeypatch.setattr(jit, "_SOURCES", tmp_path / "indexes")
    monkeypatch.setattr(jit, "_digest", jit._digest.__wrapped__)
    find = jit.cache_folder
    before = {module: find(module) for module in MODULES}
    assert before == {module: find(module) for module in MODULES}
    (tmp_path / edited).write_text("2")
    assert {module for module in MODULES if find(module) != before[module]} == set(stale)
