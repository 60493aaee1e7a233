"""A matcher's answers as text: by column as one by one."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.rendering import matchers
from app.rendering.lists import end
from app.rendering.matchers import MatcherJson, results
from app.rendering.numbers import number_bytes, number_texts
from indexes.core.texts import Texts
from indexes.matchers.commands import AddSubscriptions
from indexes.matchers.config import MatcherConfig
from indexes.matchers.forms import Form, columns_of, form_of
from indexes.matchers.results import Matched, SubscriptionSet, SubscriptionView, Winners
from tests.oracles.service import covers, number
from tests.support.values import in_order

ids = st.text("abcXYZ019._:-", min_size=1, max_size=6)
scores = st.one_of(
    st.floats(-1e300, 1e300), st.integers(-(2**53), 2**53).map(float), st.sampled_from([-0.0, 0.1, 5e-324])
)
NAMES = ("age", "pay")
matched = st.dictionaries(st.sampled_from(NAMES), scores, max_size=2)
won = st.lists(st.tuples(ids, scores, matched), max_size=4)
events = st.lists(st.tuples(won, st.integers(0, 99)), min_size=1, max_size=6)


def columns(events: list, explain: bool, relaxed: bool) -> Winners:
    every = [one for won, _ in events for one in won]
    return Winners(
        np.array([len(won) for won, _ in events], np.int64),
        Texts.of([id for id, _, _ in every]),
        np.array([score for _, score, _ in every]),
        np.array([looked_at for _, looked_at in events], np.int64),
        Matched(
            NAMES,
            np.array([[name in one for name in NAMES] for _, _, one in every], np.bool_).reshape(-1, 2),
            np.array([[one.get(name, 7.0) for name in NAMES] for _, _, one in every]).reshape(-1, 2)
            if relaxed
            else None,
        )
        if explain
        else None,
    )


def shown(matched: dict[str, float], relaxed: bool) -> dict[str, float | None]:
    return {name: number(matched[name]) if relaxed else None for name in NAMES if name in matched}


@pytest.mark.parametrize("few", [0, 100])
@given(events=events, explain=st.booleans(), relaxed=st.booleans(), headed=st.booleans())
def test_results_are_what_the_columns_say(few: int, events: list, explain: bool, relaxed: bool, headed: bool) -> None:
    heads = [f'"index":{at},' for at in range(len(events))] if headed else []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matchers, "FEW", few)
        found = columns(events, explain, relaxed)
        text = bytes(results(found, heads)).decode()
    wanted = []
    for at, (won, looked_at) in enumerate(events):
        winners = [
            {"id": id, "score": number(score), **({"matched": shown(one, relaxed)} if explain else {})}
            for id, score, one in won
        ]
        result = {"winners": winners, **({"looked_at": looked_at} if explain else {})}
        wanted.append({"index": at, **result} if headed else result)
    assert covers(json.loads(f"[{text}]"), wanted)
    if explain and not headed:
        assert covers([result.fields(True) for result in found.results()], wanted)


@given(events=events, most=st.lists(st.integers(0, 5), min_size=6, max_size=6), seq=st.integers(1, 2**62))
def test_answers_to_single_events_are_those_of_the_usual_way(events: list, most: list[int], seq: int) -> None:
    found = columns(events, False, False)
    cut = [(won[:k], looked_at) for (won, looked_at), k in zip(events, most, strict=False)]
    for step in (0, 1):
        assert matchers.answers(found, None, seq, step) == matchers.answers(found, [5] * len(events), seq, step)
        written = matchers.answers(found, most[: len(events)], seq, step)
        assert written == [
            f'{{"seq":{seq + step * t},"results":['.encode() + bytes(results(columns([one], False, False))) + b"]}\n"
            for t, one in enumerate(cut)
        ]


@given(st.lists(scores | st.floats(1e-10, 1e-3) | st.floats(1e15, 1e17), max_size=20))
def test_numbers_are_written_together_as_one_by_one(values: list[float]) -> None:
    assert number_texts([*values, np.inf]) == [*map(end, values), "null"]
    kept = number_bytes(values).decode().split(",")[:-1]
    for text, value in zip(kept, values, strict=True):
        whole = abs(value) <= 2**53 and value == int(value)
        assert (str(int(float(text))) if whole else text) == end(value)


ends = st.none() | st.floats(-1e300, 1e300)
pairs = st.tuples(ends, ends).filter(in_order)
boxes = st.dictionaries(st.sampled_from(["age", "pay"]), st.tuples(pairs, st.floats(0, 1e300)))


@given(
    rows=st.lists(
        st.tuples(ids, boxes, st.none() | st.floats(1, 9)),
        min_size=1,
        max_size=5,
    ),
    relaxed=st.booleans(),
    headed=st.booleans(),
)
def test_subscriptions_by_column_are_as_one_by_one(rows: list, relaxed: bool, headed: bool) -> None:
    config = MatcherConfig(("age", "pay"), "relaxed" if relaxed else "exact")
    forms = []
    for _, given_, _ in rows:
        box = {
            name: (-np.inf if pair[0] is None else pair[0], np.inf if pair[1] is None else pair[1])
            for name, (pair, _) in given_.items()
        }
        weights = {name: weight for name, (_, weight) in given_.items()}
        forms.append(Form(box, weights) if relaxed else Form(box, None, sum(weights.values())))
    subscriptions, faults = columns_of(config, forms)
    assert not faults
    ttl = {i: seconds for i, (_, _, seconds) in enumerate(rows) if seconds is not None}
    command = AddSubscriptions(pa.array([id for id, _, _ in rows]), subscriptions, ttl)
    heads = [f'"index":{2 * i},' for i in range(len(rows))] if headed else []
    write = MatcherJson(config)
    text = write.subscriptions(command, range(len(rows)), heads)
    views = [
        SubscriptionView(id, form_of(config, row), ttl.get(i))
        for i, ((id, _, _), row) in enumerate(zip(rows, subscriptions.rows, strict=True))
    ]
    one_by_one = ",".join(write.subscription(view, heads[i] if headed else "") for i, view in enumerate(views))
    assert covers(json.loads(f"[{text}]"), json.loads(f"[{one_by_one}]"))
    changed = [
        SubscriptionSet(view.id, row, view.ttl, 7 * i, True)
        for i, (view, row) in enumerate(zip(views, subscriptions.rows, strict=True))
    ]
    assert write.changed(changed) == [write.subscription(view, f'"seq":{7 * i},') for i, view in enumerate(views)]
