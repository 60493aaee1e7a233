"""A matcher's part of a snapshot and its image, there and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from formats import matchers, parts
from formats.folder import Damaged, Folder
from indexes.matchers.commands import AddSubscriptions, DeleteSubscriptions
from indexes.matchers.config import MatcherConfig, Subscriptions
from indexes.matchers.engine import MatcherEngine
from indexes.matchers.packing import pack_indexes, unpack_indexes
from indexes.matchers.state import MatcherState, engine_of, indexes_of, state_of

CONFIGS = [
    MatcherConfig(("x",), "exact"),
    MatcherConfig(("x", "y"), "exact"),
    MatcherConfig(("x", "y"), "relaxed", "max"),
    MatcherConfig(("x", "y"), "relaxed", "sum", "ir"),
    MatcherConfig(("x", "y"), "exact", index="interval"),
    MatcherConfig(("x", "y"), "relaxed", "product", "segment"),
    MatcherConfig(("x", "y"), "exact", index="scored-r"),
]


def engine(config: MatcherConfig, n: int = 300) -> MatcherEngine:
    rng, d = np.random.default_rng(4), len(config.dimensions)
    lo = rng.random((n, d))
    lo[::5, 0] = -np.inf
    made = MatcherEngine(config, 3)
    keys = [f"s{i}" for i in rng.permutation(n)]
    some = Subscriptions(
        lo, np.where(np.isfinite(lo), lo, 0.5) + rng.random((n, d)) / 40, rng.random((n, config.scores))
    )
    made.apply(AddSubscriptions(pa.array(keys, pa.string()), some, {2: 5.0} if n else {}))
    made.apply(DeleteSubscriptions(keys[5::7]))
    return made


def state(made: MatcherEngine) -> MatcherState:
    plan = made.capture()
    plan.execute(1.0)
    plan.publish()
    assert plan.captured is not None
    return state_of(plan.captured)


def written(folder: Folder, one: MatcherState) -> dict[str, Any]:
    with folder.draft() as draft:
        about = matchers.write_state(draft, "ads", one)
        draft.publish({"about": about})
    told: dict[str, Any] = folder.manifest()["about"]
    return told


def same_answers(a: MatcherEngine, b: MatcherEngine) -> None:
    events = np.repeat(np.random.default_rng(1).random((25, len(a.config.dimensions))), 2, axis=1)
    assert [one.winners for one in a.match(events)] == [one.winners for one in b.match(events)]
    assert a.subscriptions(None, 10**6) == b.subscriptions(None, 10**6)


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_a_state_and_an_image_make_the_same_matcher(config: MatcherConfig, tmp_path: Path) -> None:
    made = engine(config)
    one = state(made)
    about = written(Folder.at(tmp_path / "a"), one)
    read = matchers.read_state(Folder.at(tmp_path / "a"), "ads", about)
    for mine, other in zip(one.subscriptions, read.subscriptions, strict=True):
        assert np.array_equal(mine.view(np.int64), other.view(np.int64))
    image = Folder.at(tmp_path / "image")
    parts.write_image(image, "matchers/ads", 5, pack_indexes(indexes_of(one)))
    packed = parts.read_image(image)
    assert packed is not None
    for indexes in (None, unpack_indexes(packed)):
        again = engine_of(read, indexes)
        again.check()
        assert (again.seq, again.ttl) == (made.seq, made.ttl)
        same_answers(made, again)
        plan, _ = again.apply(DeleteSubscriptions([f"s{i}" for i in range(40)]))
        assert plan.count > 20
        again.check()


def test_an_empty_matcher_comes_back(tmp_path: Path) -> None:
    one = state(engine(CONFIGS[1], 0))
    about = written(Folder.at(tmp_path / "a"), one)
    image = Folder.at(tmp_path / "image")
    parts.write_image(image, "matchers/ads", 5, pack_indexes(indexes_of(one)))
    packed = parts.read_image(image)
    assert packed is not None
    again = engine_of(matchers.read_state(Folder.at(tmp_path / "a"), "ads", about), unpack_indexes(packed))
    again.check()
    assert again.subscription_count == 0 and not again.match(np.zeros((1, 4)))[0].winners


def test_an_image_of_another_version_is_of_no_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = pack_indexes(indexes_of(state(engine(CONFIGS[0]))))
    with monkeypatch.context() as other:
        other.setattr(parts, "LAYOUT", "another")
        parts.write_image(Folder.at(tmp_path / "image"), "matchers/ads", 5, packed)
    assert parts.read_image(Folder.at(tmp_path / "image")) is None


@pytest.mark.parametrize("name", ["blocks.arrow", "sample.arrow"])
def test_a_damaged_image_is_told(name: str, tmp_path: Path) -> None:
    image = Folder.at(tmp_path / "image")
    parts.write_image(image, "matchers/ads", 5, pack_indexes(indexes_of(state(engine(CONFIGS[1])))))
    (tmp_path / "image" / name).write_bytes(b"ARROW1")
    with pytest.raises(Damaged, match=name):
        parts.read_image(image)


def test_a_snapshot_with_other_rows_is_damaged(tmp_path: Path) -> None:
    about = written(Folder.at(tmp_path / "a"), state(engine(CONFIGS[1])))
    with pytest.raises(Damaged, match="other rows"):
        matchers.read_state(Folder.at(tmp_path / "a"), "ads", {**about, "subscriptions": 4})
