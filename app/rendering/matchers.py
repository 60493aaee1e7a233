"""A matcher's subscriptions, winners and wins as JSON text, the same in answers and in streams.

What there may be thousands of is written by column: one join of Arrow arrays makes all winners of an answer, and its
bytes are the answer's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from app.rendering.boards import end, ends_column, number
from app.rendering.numbers import number_bytes, number_texts
from app.rendering.texts import cut
from indexes.core.arrays import INF
from indexes.matchers.commands import AddSubscriptions
from indexes.matchers.config import MatcherConfig, Value
from indexes.matchers.kernels.winner_text import PIECES, WinnerTexts, most_bytes, write_answers
from indexes.matchers.results import SubscriptionSet, SubscriptionView, Win, Winners

FEW = 300
"""Winners up to which results are written one by one."""

_Texts: TypeAlias = pa.LargeStringArray


class MatcherJson:
    """Writes the subscriptions of one matcher, whose dimensions it knows by name.

    >>> from indexes.matchers.forms import Form
    >>> write = MatcherJson(MatcherConfig(("age",), "relaxed"))
    >>> write.subscription(SubscriptionView("a1", Form({"age": (20.0, np.inf)}, {"age": 0.5}), None))
    '{"id":"a1","intervals":{"age":[20,null]},"weights":{"age":0.5}}'
    """

    def __init__(self, config: MatcherConfig) -> None:
        self._config = config
        self._dimensions = [(2 * j, 2 * j + 1, f'"{name}":') for j, name in enumerate(config.dimensions)]

    def subscription(self, view: SubscriptionView, head: str = "") -> str:
        """One subscription; `head` is what comes before its fields, such as `"seq":42,`."""
        intervals, weights, score = view.form
        text = ",".join([f'"{name}":[{end(lo)},{end(hi)}]' for name, (lo, hi) in intervals.items()])
        text = f'{{{head}"id":"{view.id}","intervals":{{{text}}}'
        if weights is not None:
            named = ",".join([f'"{name}":{number(weight)}' for name, weight in weights.items()])
            text = f'{text},"weights":{{{named}}}'
        else:
            assert score is not None, "a subscription has weights or a score"
            text = f'{text},"score":{number(score)}'
        return f"{text}}}" if view.ttl is None else f'{text},"ttl":{number(view.ttl)}}}'

    def changed(self, outcomes: Sequence[SubscriptionSet]) -> list[str]:
        """The subscriptions that some changes have brought about, each with its seq, as `subscription` writes them."""
        texts = number_texts([value for outcome in outcomes for value in outcome.row])
        dimensions, relaxed, written, at = self._dimensions, self._config.relaxed, list[str](), 0
        scores = 2 * len(dimensions)
        for key, row, ttl, seq, _ in outcomes:
            if relaxed:
                held = [each for each in dimensions if row[each[0]] <= row[each[1]]]
                weights = ",".join([f"{name}{texts[at + scores + lo // 2]}" for lo, _, name in held])
                score = f'"weights":{{{weights}}}'
            else:
                held = [each for each in dimensions if row[each[0]] > -INF or row[each[1]] < INF]
                score = f'"score":{texts[at + scores]}'
            intervals = ",".join([f"{name}[{texts[at + lo]},{texts[at + hi]}]" for lo, hi, name in held])
            tail = "}" if ttl is None else f',"ttl":{number(ttl)}}}'
            written.append(f'{{"seq":{seq},"id":"{key}","intervals":{{{intervals}}},{score}{tail}')
            at += len(row)
        return written

    def subscriptions(self, command: AddSubscriptions, at: range, heads: Sequence[str] = ()) -> str:
        """New subscriptions, separated by commas, as `subscription` writes each; `heads` are given for all or none."""
        lo, hi, scores = command.subscriptions.take(slice(at.start, at.stop))
        names, relaxed = self._config.dimensions, self._config.relaxed
        held = [
            lo[:, j] <= hi[:, j] if relaxed else ~(np.isinf(lo[:, j]) & np.isinf(hi[:, j])) for j in range(len(names))
        ]
        parts: list[_Texts | str] = ["{"]
        if heads:
            parts.append(pa.array(heads, pa.large_string()))
        parts += ['"id":"', command.ids.slice(at.start, len(at)).cast(pa.large_string()), '","intervals":{']
        columns = [_joined(f'"{name}":[', _ends(lo[:, j]), ",", _ends(hi[:, j]), "]") for j, name in enumerate(names)]
        parts.append(_present(columns, held))
        if relaxed:
            columns = [_joined(f'"{name}":', _ends(scores[:, j])) for j, name in enumerate(names)]
            parts += ['},"weights":{', _present(columns, held), "}"]
        else:
            parts += ['},"score":', _ends(scores[:, 0])]
        if command.ttl:
            ttl = [f',"ttl":{number(command.ttl[i])}' if i in command.ttl else "" for i in at]
            parts.append(pa.array(ttl, pa.large_string()))
        texts: list[str] = _joined(*parts, "}").to_pylist()
        return ",".join(texts)

    def win(self, win: Win) -> str:
        """The data of a stream's message for an event that its subscription won."""
        values = ",".join([f'"{name}":{_value(value)}' for name, value in win.values.items()])
        payload = "null" if win.payload is None else win.payload.decode()
        return (
            f'{{"seq":{win.seq},"values":{{{values}}},"payload":{payload},"rank":{win.rank},'
            f'"score":{number(win.score)}}}'
        )


def results(found: Winners, heads: Sequence[str] = ()) -> memoryview:
    """The results of some events as JSON, separated by commas; `heads`, one for each, come before their fields.

    Many winners are elements of one join. What ends one result and begins the next stands before the first winner of
    the latter, so that the text lies whole in the bytes of the joined array.

    >>> from indexes.core.texts import Texts
    >>> names, scores = Texts.of(["a", "b", "c"]), np.array([3.0, 0.5, 1.0])
    >>> bytes(results(Winners(np.array([2, 0, 1]), names, scores, np.array([4, 0, 2]))))
    b'{"winners":[{"id":"a","score":3},{"id":"b","score":0.5}]},{"winners":[]},{"winners":[{"id":"c","score":1}]}'
    """
    openers = [f'{{{head}"winners":[' for head in heads] if heads else ['{"winners":['] * len(found.sizes)
    if found.matched is None:
        closers = ["]}"] * len(openers)
    else:
        closers = [f'],"looked_at":{n}}}' for n in found.looked_at.tolist()]
    if len(found.scores) <= FEW:
        return memoryview(",".join(_few(found, openers, closers)).encode())
    before, last = _between(found.sizes, openers, closers)
    parts: list[_Texts | str] = [before, found.ids, '","score":', _ends(found.scores)]
    if found.matched is not None:
        names, met, added = found.matched
        columns = [
            _joined(f'"{name}":', _ends(added[:, j]))
            if added is not None
            else pa.repeat(pa.scalar(f'"{name}":null', pa.large_string()), len(met))
            for j, name in enumerate(names)
        ]
        parts += [',"matched":{', _present(columns, list(met.T)), "}"]
    # The last element is what ends the last result.
    whole = _joined(*parts, "}")
    text = whole.buffers()[2]
    return memoryview(bytes(text) + last.encode()) if last else memoryview(text)


def _few(found: Winners, openers: list[str], closers: list[str]) -> Iterator[str]:
    """Each result on its own: where there are few, a join takes longer."""
    ids, scores = found.ids.to_pylist(), found.scores.tolist()
    matched = [""] * len(ids)
    if found.matched is not None:
        matched = [f',"matched":{_matched(one)}' for one in found.matched.by_winner()]
    start = 0
    for size, opener, closer in zip(found.sizes.tolist(), openers, closers, strict=True):
        won = [f'{{"id":"{ids[i]}","score":{number(scores[i])}{matched[i]}}}' for i in range(start, start + size)]
        start += size
        yield opener + ",".join(won) + closer


def answers(found: Winners, most: Sequence[int] | None, seq: int, step: int) -> list[bytes]:
    r"""The answer to a request about each event alone, with as many of its winners at most; None for all of them. The
    first one has this seq, and each following one `step` more.

    >>> from indexes.core.texts import Texts
    >>> names, scores = Texts.of(["a", "b", "c"]), np.array([3.0, 0.5, 1.0])
    >>> answers(Winners(np.array([2, 1]), names, scores, np.array([4, 2])), [1, 1], 7, 0)[0]
    b'{"seq":7,"results":[{"winners":[{"id":"a","score":3}]}]}\n'
    """
    numbers = np.frombuffer(number_bytes(found.scores.tolist()), np.uint8)
    shown = found.sizes if most is None else np.array(most, np.int64)
    texts = WinnerTexts(found.sizes, shown, *found.names, found.scores, numbers)
    out, ends = np.empty(most_bytes(texts), np.uint8), np.empty(len(shown), np.int64)
    write_answers(out, ends, PIECES, seq, step, texts)
    return cut(out, ends.tolist())


def _between(sizes: npt.NDArray[np.int64], openers: list[str], closers: list[str]) -> tuple[_Texts, str]:
    """The text before the id of each winner, and after the last winner."""
    texts, places, gathered = [',{"id":"'], np.zeros(int(sizes.sum()), np.int64), ""
    start = 0
    for t, size in enumerate(sizes.tolist()):
        gathered += openers[t]
        if size:
            places[start] = len(texts)
            texts.append(f'{gathered}{{"id":"')
            gathered, start = "", start + size
        gathered += closers[t] + ","
    return pa.array(texts, pa.large_string()).take(pa.array(places)), gathered[:-1]


def _matched(matched: dict[str, float | None]) -> str:
    return "{" + ",".join([f'"{name}":{end(added)}' for name, added in matched.items()]) + "}"


def _value(value: Value) -> str:
    return f"[{end(value[0])},{end(value[1])}]" if isinstance(value, tuple) else end(value)


def _ends(values: npt.NDArray[np.float64]) -> _Texts:
    texts: _Texts = ends_column(values).cast(pa.large_string())
    return texts


def _joined(*parts: _Texts | str) -> _Texts:
    texts = [pa.scalar(part, pa.large_string()) if isinstance(part, str) else part for part in parts]
    whole: _Texts = pc.binary_join_element_wise(*texts, pa.scalar("", pa.large_string()))
    return whole


def _present(columns: list[_Texts], held: list[npt.NDArray[np.bool_]]) -> _Texts:
    """Columns in one, separated by commas, without those that a row does not have."""
    there = [
        pc.if_else(mask, _joined(",", column), "") for column, mask in zip(columns, map(pa.array, held), strict=True)
    ]
    whole: _Texts = pc.utf8_slice_codeunits(_joined(*there), 1)
    return whole


@lru_cache(maxsize=256)
def matcher_json(config: MatcherConfig) -> MatcherJson:
    """What writes the subscriptions of a matcher."""
    return MatcherJson(config)
