"""Rows that are looked up by a kernel are those of the dict."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from indexes.compiled.text import EIGHT
from indexes.core import known_ids
from indexes.core.arrays import Bytes
from indexes.core.known_ids import LONGEST, KnownIds


class Noted(dict[str, int]):
    """A dict that notes what it is asked for."""

    def __init__(self, items: dict[str, int]) -> None:
        super().__init__(items)
        self._asked: list[str] = []

    def get(self, id: str, default: Any = None) -> Any:
        self._asked.append(id)
        return super().get(id, default)

    def taken(self) -> list[str]:
        """What it was asked for since the last time."""
        asked, self._asked = self._asked, []
        return asked


def _texts(ids: list[str]) -> Bytes:
    return np.frombuffer("".join(f"{id} " for id in [*ids, "a" * EIGHT]).encode(), np.uint8).copy()[: -EIGHT - 1]


def _some(draw: random.Random, among: dict[str, int]) -> list[str]:
    return draw.choices(list(among), k=draw.randrange(1, 40))


@pytest.mark.parametrize("seed", range(12))
def test_ids_are_found_as_by_the_dict(seed: int) -> None:
    draw = random.Random(seed)
    letters, longest = draw.choice(["ab", "a.b:c_d-0123456789"]), draw.choice([3, 9, 17, LONGEST, LONGEST + 3])
    known, among = KnownIds(), dict[str, int]()
    assert known.find(_texts(["a"]), ["a"], among) is None
    for step in range(150):
        for _ in range(draw.randrange(8)):
            id = "".join(draw.choices(letters, k=draw.randrange(1, longest + 1)))
            if id not in among:
                among[id] = step * 1_000 + len(among)
        if among and draw.random() < 0.2:
            # Another row for the same id: that of before is known.
            id = draw.choice(list(among))
            del among[id]
            known.forget()
            if draw.random() < 0.5:
                among[id] = step * 1_000 + 999
        if not among:
            assert known.find(_texts(["a"]), ["a"], among) is None
            continue
        ids = _some(draw, among)
        rows = known.find(_texts(ids), ids, among)
        assert rows is not None and rows.tolist() == [among[id] for id in ids]
        missing = [*ids, "z" * draw.randrange(1, 30), *ids]
        assert known.find(_texts(missing), missing, among) is None


def test_ids_that_are_known_are_not_asked_for_again() -> None:
    among = {f"o{i}": i for i in range(2_000)}
    ids, long = list(among), ["a" * LONGEST, "a" * (LONGEST + 1), "a" * 128]
    among |= {id: 5_000 + len(id) for id in long}
    known, noted = KnownIds(), Noted(among)
    for again in (False, True, False):
        rows = known.find(_texts(ids + long), ids + long, noted)
        assert rows is not None and rows.tolist() == [among[id] for id in ids + long]
        asked = noted.taken()
        if again:
            assert len(asked) < 20, "few slots are so crowded"
            assert long[0] not in asked and asked[-2:] == long[1:]
            known.forget()
        else:
            assert asked == ids + long


def test_generations_begin_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_ids, "WRAPPED", 3)
    known = KnownIds()
    for row in range(9):
        found = known.find(_texts(["a"]), ["a"], {"a": row})
        assert found is not None and found.tolist() == [row]
        known.forget()


def test_large_dicts_are_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_ids, "MOST", 1)
    assert KnownIds().find(_texts(["a"]), ["a"], {"a": 0, "b": 1}) is None
