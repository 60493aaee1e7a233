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
from typing import Any, TypeVar, cast

import numpy as np
from pydantic_core import to_json

from app.rendering.boards import number, numbers
from app.rendering.numbers import number_texts
from indexes.maps.config import MapConfig, Point, Score, Top
from indexes.maps.results import Answer, CircleOf, ObjectView, QueryView, ShownObject, SkylineAnswer, TopAnswer
from indexes.maps.scoring import SHIFT

T = TypeVar("T")

OBJECT, NUMBER = 128, 20
"""About how many bytes an object has, and each of its values."""

_END = "\0"
"""What no text has in it, behind each object that is written."""

_BETWEEN = "},{"
"""What stands between two objects."""

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

    def object(self, item: ObjectView, head: str = "") -> str:
        """One object; `head` is what comes before its fields, such as `"seq":42,`."""
        texts = map(number, (*item.location, *item.values))
        return f"{{{head}{self._object % (item.id, *texts, item.created)}{_payload(item.payload)}}}"

    def put_objects(self, items: Sequence[ObjectView], first_seq: int) -> list[str]:
        """Objects that were put, each at its seq, and with a payload of null where it has none; all numbers are written
        together.

        >>> from indexes.maps.attributes import Attribute
        >>> write = MapJson(MapConfig((Attribute("price"),), (0.0, 0.0, 9.0, 9.0)))
        >>> write.put_objects([ObjectView("r1", (1.5, 2.0), [12.0], 3, None)], 7)
        ['{"seq":7,"id":"r1","location":[1.5,2],"values":{"price":12},"created":3,"payload":null}']
        """
        texts = number_texts([number for item in items for number in (*item.location, *item.values)])
        shown, width, found = self._object, len(texts) // max(1, len(items)), []
        for seq, item in enumerate(items, first_seq):
            at = (seq - first_seq) * width
            fields = shown % (item.id, *texts[at : at + width], item.created)
            found.append(f'{{"seq":{seq},{fields}{_payload(item.payload or b"null")}}}')
        return found

    def result(self, answer: Answer) -> str:
        """The fields of an answer: `list`, `candidates` and `zone`, or `skyline` and `zone`."""
        return self.results([answer])[0]

    def results(self, answers: Sequence[Answer]) -> list[str]:
        """As `result` for each. O(objects)."""
        kinds = set(map(type, answers))
        if not answers:
            return []
        if len(kinds) > 1:
            written = {
                kind: iter(self.results([answer for answer in answers if type(answer) is kind])) for kind in kinds
            }
            return [next(written[type(answer)]) for answer in answers]
        if isinstance(answers[0], SkylineAnswer):
            return self._skylines(cast("Sequence[SkylineAnswer]", answers))
        return self._tops(cast("Sequence[TopAnswer]", answers))

    def _skylines(self, answers: Sequence[SkylineAnswer]) -> list[str]:
        texts, distances, payloads = self._columns(answers)
        # Texts and distances in turn, and payloads where there are any; the next text ends an object.
        columns = [texts, distances, list(map(_payload, payloads))] if any(payloads) else [texts, distances]
        width = len(columns)
        pieces = [""] * (width * len(texts))
        for i, column in enumerate(columns):
            pieces[i::width] = column
        found, end = [], 0
        for answer in answers:
            begin, end = end, end + width * len(answer.rows.objects)
            found.append(f'"skyline":[{_listed("".join(pieces[begin:end]))}],"zone":{zone(answer.zone)}')
        return found

    def _tops(self, answers: Sequence[TopAnswer]) -> list[str]:
        columns = zip(*self._columns(answers), number_texts(_joined(answer.score for answer in answers)), strict=True)
        entries = [f'{text}{distance},"score":{score}{_payload(payload)}' for text, distance, payload, score in columns]
        found, end = [], 0
        for answer in answers:
            begin, end = end, end + len(answer.rows.objects)
            mine = entries[begin:end]
            ranks = enumerate(mine[: answer.members], 1)
            ranked = [f'{_BETWEEN}"rank":{rank},{entry[len(_BETWEEN) :]}' for rank, entry in ranks]
            circle = _circle(answer.center, answer.radius)
            found.append(f'"list":[{_listed("".join(ranked))}],"candidates":[{_listed("".join(mine))}],"zone":{circle}')
        return found

    def _columns(self, answers: Sequence[Answer]) -> tuple[list[str], list[str], list[bytes | None]]:
        """Of all objects of some answers: their texts up to the value of the distance, that value, and the payload. A
        text begins with what stands between two objects. An object keeps its text for the next answers that show it.
        """
        objects: list[ShownObject] = _joined(answer.rows.objects for answer in answers)
        new = [one for one in objects if one.text is None]
        if new:
            self._write(new)
        distances: list[float] = _joined(answer.rows.distance for answer in answers)
        texts = cast("list[str]", [one.text for one in objects])
        return texts, number_texts(distances), [one.payload for one in objects]

    def _write(self, objects: list[ShownObject]) -> None:
        """Write the texts of objects, column by column."""
        count = len(objects)
        numbers = [[one.place[0] for one in objects], [one.place[1] for one in objects]]
        numbers += [[one.values[j] for one in objects] for j in range(len(objects[0].values))]
        texts = number_texts(list(chain.from_iterable(numbers)))
        fields = [texts[at : at + count] for at in range(0, len(texts), count)]
        columns = [[one.id for one in objects], *fields, [str(one.created) for one in objects]]
        # What stands between the fields and these in turn; the last text goes with the end of the object.
        between = f'{_BETWEEN}{self._object},"distance":{_END}'.split("%s")
        width = 2 * len(columns) + 1
        pieces = [""] * (width * count)
        for i, text in enumerate(between):
            pieces[2 * i :: width] = [text] * count
        for i, column in enumerate(columns):
            pieces[2 * i + 1 :: width] = column
        for one, text in zip(objects, "".join(pieces).split(_END), strict=False):
            one.text = text

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
    objects = answer.rows.objects
    each = OBJECT + NUMBER * len(objects[0].values) if objects else 0
    sizes = [each if one.payload is None else each + len(one.payload) for one in objects]
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
    coordinates = found["coordinates"]
    text = to_json(coordinates, inf_nan_mode="null").decode()
    if ".0," in text or ".0]" in text:
        text = _nested(coordinates)
    return f'{{"type":"{found["type"]}","coordinates":{text}}}'


def _nested(coordinates: Any) -> str:
    """Coordinates nested to any depth, whole ones without a point."""
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


def _listed(objects: str) -> str:
    """Objects, each behind what stands between two, as the elements of a list."""
    return f"{objects[len(_BETWEEN) - 1 :]}}}" if objects else ""


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
