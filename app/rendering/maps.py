"""A map's objects, answers and standing queries as JSON text, the same in responses and in streams.

The numbers of any number of answers are written in one go, column by column, and joined with what stands between them:
several times faster than field by field. As elsewhere the parts are JSON already: ids and names hold nothing that would
need escaping, payloads are compact JSON text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from pydantic_core import to_json

from app.rendering.boards import number, numbers
from indexes.maps.config import MapConfig, Point, Score, Top
from indexes.maps.results import Answer, CircleOf, ObjectView, QueryView, SkylineAnswer, TopAnswer
from indexes.maps.scoring import SHIFT

T = TypeVar("T")

OBJECT, NUMBER = 128, 20
"""About how many bytes an object has, and each of its values."""

_END = "\0"
"""What no text has in it, behind each object."""

_SHIFTED = ("weighted_product", "weighted_distance", "waspas")


class MapJson:
    """Writes for one map, whose attributes it knows by name.

    >>> from indexes.maps.attributes import Attribute
    >>> write = MapJson(MapConfig((Attribute("price"),), (0.0, 0.0, 9.0, 9.0)))
    >>> write.object(ObjectView("r1", (1.5, 2.0), [12.0], 3, None))
    '{"id":"r1","location":[1.5,2],"values":{"price":12},"created":3}'
    """

    def __init__(self, config: MapConfig) -> None:
        values = ",".join([f'"{name}":%s' for name in config.names])
        self._object = f'"id":"%s","location":[%s,%s],"values":{{{values}}},"created":%s'
        near = f'{self._object},"distance":%s'
        self._near, self._scored = f"{near}{_END}".split("%s"), f'{near},"score":%s{_END}'.split("%s")

    def object(self, item: ObjectView, head: str = "") -> str:
        """One object; `head` is what comes before its fields, such as `"seq":42,`."""
        texts = map(number, (*item.location, *item.values))
        return f"{{{head}{self._object % (item.id, *texts, item.created)}{_payload(item.payload)}}}"

    def result(self, answer: Answer) -> str:
        """The fields of an answer: `list`, `candidates` and `zone`, or `skyline` and `zone`."""
        return self.results([answer])[0]

    def results(self, answers: Sequence[Answer]) -> list[str]:
        """As `result` for each. O(objects)."""
        kinds = set(map(type, answers))
        if len(kinds) > 1:
            written = {
                kind: iter(self.results([answer for answer in answers if type(answer) is kind])) for kind in kinds
            }
            return [next(written[type(answer)]) for answer in answers]
        entries = self._entries(answers)
        found, end = [], 0
        for answer in answers:
            begin, end = end, end + len(answer.rows.ids)
            mine = entries[begin:end]
            if isinstance(answer, SkylineAnswer):
                found.append(f'"skyline":[{_braced(mine)}],"zone":{zone(answer.zone)}')
            else:
                ranked = [f'{{"rank":{rank},{entry}}}' for rank, entry in enumerate(mine[: answer.members], 1)]
                circle = _circle(answer.center, answer.radius)
                found.append(f'"list":[{",".join(ranked)}],"candidates":[{_braced(mine)}],"zone":{circle}')
        return found

    def _entries(self, answers: Sequence[Answer]) -> list[str]:
        """All objects of some answers, without braces."""
        rows = [answer.rows for answer in answers]
        count = sum([len(each.ids) for each in rows])
        if not count:
            return []
        columns: list[Sequence[Sequence[float | None]]] = [[each.x for each in rows], [each.y for each in rows]]
        columns += [[each.values[j] for each in rows] for j in range(len(rows[0].values))]
        columns.append([each.distance for each in rows])
        between = self._near
        if isinstance(answers[0], TopAnswer):
            columns.append([answer.score for answer in answers if isinstance(answer, TopAnswer)])
            between = self._scored
        texts = _texts(list(chain.from_iterable(chain.from_iterable(columns))))
        fields: list[Sequence[Any]] = [texts[at : at + count] for at in range(0, len(texts), count)]
        fields.insert(0, _joined(each.ids for each in rows))
        fields.insert(3 + len(rows[0].values), list(map(str, _joined(each.created for each in rows))))
        # Texts and fields in turn; the last text goes with the end of the object.
        width = 2 * len(fields) + 1
        pieces: list[str] = [""] * (width * count)
        for i, text in enumerate(between):
            pieces[2 * i :: width] = [text] * count
        for i, field in enumerate(fields):
            pieces[2 * i + 1 :: width] = field
        written = "".join(pieces).split(_END)[:-1]
        payloads = _joined(each.payload for each in rows)
        if any(payloads):
            written = [text + _payload(payload) for text, payload in zip(written, payloads, strict=True)]
        return written

    def query(self, view: QueryView, head: str = "") -> str:
        """A standing query, with its answer where it has one; `head` as in `object`."""
        question, ttl = view.question, "" if view.ttl is None else f',"ttl":{number(view.ttl)}'
        kind = "top" if isinstance(question, Top) else "skyline"
        text = f'{{{head}"id":"{view.id}","kind":"{kind}",{located(view.location)}'
        if isinstance(question, Top):
            ordered = "true" if question.ordered else "false"
            text = f'{text},"k":{question.k},"m":{question.m},"ordered":{ordered},"score":{_score(question.score)}'
        answer = "" if view.answer is None else f",{self.result(view.answer)}"
        return f"{text}{ttl}{answer}}}"


def answer_size(answer: Answer) -> int:
    """About how many bytes an answer has. The objects of a top-k are in its list and among its candidates."""
    rows = answer.rows
    each = OBJECT + NUMBER * len(rows.values)
    sizes = [each if payload is None else each + len(payload) for payload in rows.payload]
    return sum(sizes) + (sum(sizes[: answer.members]) if isinstance(answer, TopAnswer) else 0)


def located(place: Point) -> str:
    """The field of a location."""
    return f'"location":[{number(place[0])},{number(place[1])}]'


def zone(found: dict[str, Any] | CircleOf | None) -> str:
    """Where a skyline holds.

    >>> zone({"type": "Polygon", "coordinates": [[[0.0, 0.0], [1.5, 0.0], [0.0, 2.0], [0.0, 0.0]]]})
    '{"type":"Polygon","coordinates":[[[0,0],[1.5,0],[0,2],[0,0]]]}'
    >>> zone(CircleOf((1.0, 2.0), None)), zone(None)
    ('{"center":[1,2],"radius":null}', 'null')
    """
    if found is None:
        return "null"
    if isinstance(found, CircleOf):
        return _circle(*found)
    return f'{{"type":"{found["type"]}","coordinates":{_nested(found["coordinates"])}}}'


def _nested(coordinates: Any) -> str:
    """Coordinates nested to any depth."""
    if coordinates and isinstance(coordinates[0][0], float | int):
        texts = iter(numbers(np.array(coordinates, np.float64)))
        return f"[{','.join([f'[{x},{y}]' for x, y in zip(texts, texts, strict=True)])}]"
    return f"[{','.join(map(_nested, coordinates))}]"


def _circle(center: Point, radius: float | None) -> str:
    reach = "null" if radius is None else number(radius)
    return f'{{"center":[{number(center[0])},{number(center[1])}],"radius":{reach}}}'


def _score(score: Score) -> str:
    """A score in the JSON of requests."""
    text = f'{{"kind":"{score.kind}"'
    if score.kind == "expression":
        text = f'{text},"expression":{to_json(score.expression).decode()}'
    else:
        weights = ",".join([f'"{name}":{number(weight)}' for name, weight in score.weights])
        text = f'{text},"weights":{{{weights}}}'
    if score.scale != 1.0:
        text = f'{text},"scale":{number(score.scale)}'
    if score.kind in _SHIFTED and score.shift != SHIFT:
        text = f'{text},"shift":{number(score.shift)}'
    if score.kind == "waspas":
        text = f'{text},"lambda":{number(score.blend)}'
    return f"{text}}}"


def _joined(lists: Iterable[list[T]]) -> list[T]:
    return list(chain.from_iterable(lists))


def _texts(values: list[float | None]) -> list[str]:
    """As `encode.numbers`, with null for None too, and no point in whole numbers up to 10^16. Few steps in Python."""
    text = to_json(values, inf_nan_mode="null").decode()[1:-1] + ","
    return text.replace("-0.0,", "0,").replace(".0,", ",").split(",")[:-1]


def _braced(entries: list[str]) -> str:
    return "{" + "},{".join(entries) + "}" if entries else ""


def _payload(payload: bytes | None) -> str:
    return "" if payload is None else f',"payload":{payload.decode()}'


def plain(value: float) -> float:
    """A number as the writers above write it: whole ones as integers."""
    found: float = json.loads(number(value))
    return found


@lru_cache(maxsize=256)
def map_json(config: MapConfig) -> MapJson:
    """What writes for a map."""
    return MapJson(config)
