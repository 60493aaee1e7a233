"""Questions to maps as options of the command line: where, how many, and by which score."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import shown

if TYPE_CHECKING:
    from rankcast_client import MapAnswer, MapInfo, Place, Question, Score

Location = tuple[float, float]

At = Annotated[str, typer.Option("--at", metavar="X,Y", help="The place; with great-circle distances LON,LAT.")]
M = Annotated[int, typer.Option("-m", min=1, help="With m - 1 more candidates the zone is wider.")]
Ordered = Annotated[bool, typer.Option("--ordered", help="The order of the k holds in the zone too.")]


@dataclass(frozen=True)
class ScoreOptions:
    """By which score: one of the three."""

    weight: Annotated[
        list[str] | None,
        typer.Option("--weight", "-w", metavar="NAME=NUMBER", help="A weighted sum: of an attribute, or distance."),
    ] = None
    expression: Annotated[
        str | None, typer.Option("--expression", "-e", help="A score such as 'distance * 2 + price ** 0.5'.")
    ] = None
    score: Annotated[
        str | None, typer.Option("--score", metavar="JSON", help="Any score, as the service takes it.")
    ] = None

    @property
    def given(self) -> bool:
        """Whether there is any."""
        return bool(self.weight) or self.expression is not None or self.score is not None

    def read(self) -> Score:
        """The score. Raises typer.BadParameter for none or several, and for what is no score."""
        return score_of(self.weight, self.expression, self.score)


@dataclass(frozen=True)
class QuestionOptions(ScoreOptions):
    """A question: the k best by a score, or the skyline."""

    k: Annotated[int | None, typer.Option("-k", "--top", min=1, help="The k best by a score.")] = None
    m: M = 1
    ordered: Ordered = False
    skyline: Annotated[bool, typer.Option("--skyline", help="The skyline, in place of the k best.")] = False

    def read_question(self) -> Question:
        """The question. Raises typer.BadParameter where the options ask nothing, or two things."""
        from rankcast_client import Skyline, Top

        if self.k is not None and not self.skyline:
            return Top(self.k, self.read(), self.m, self.ordered)
        if not self.skyline:
            raise typer.BadParameter("ask for --skyline, or with -k for the k best")
        if self.k is not None or self.m != 1 or self.ordered or self.given:
            raise typer.BadParameter("--skyline goes without -k, -m, --ordered and a score")
        return Skyline()


def point(text: str) -> Location:
    """``X,Y`` as two numbers. Raises typer.BadParameter for anything else.

    >>> point("12.5, -40")
    (12.5, -40.0)
    """
    parts = text.split(",")
    try:
        x, y = (float(part) for part in parts)
    except ValueError:
        x = y = math.nan
    if not (math.isfinite(x) and math.isfinite(y)):
        raise typer.BadParameter(f"{text!r} is no place: write X,Y")
    return x, y


def score_of(weights: list[str] | None, expression: str | None, score: str | None) -> Score:
    """The score of one of the options. Raises typer.BadParameter for none or several, and for what is no score."""
    if sum([bool(weights), expression is not None, score is not None]) != 1:
        raise typer.BadParameter("say by which score: --weight, once for each, or --expression, or --score")
    if expression is not None:
        return {"kind": "expression", "expression": expression}
    if score is not None:
        try:
            read = json.loads(score)
        except ValueError as error:
            raise typer.BadParameter(f"--score is not JSON: {error}") from None
        if not isinstance(read, dict) or "kind" not in read:
            raise typer.BadParameter("--score is a JSON object with a kind")
        return read  # type: ignore[return-value]
    found: dict[str, float] = {}
    for text in weights or ():
        name, equals, number = text.partition("=")
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not equals or not math.isfinite(value):
            raise typer.BadParameter(f"{text!r} is no weight: write NAME=NUMBER")
        if name in found:
            raise typer.BadParameter(f"there are two weights for {name}")
        found[name] = value
    return {"kind": "weighted_sum", "weights": found}


def in_words(question: Question, at: Location) -> str:
    """``the 5 best at 10,10`` or ``the skyline at 10,10``."""
    from rankcast_client import Top

    what = f"the {question.k} best" if isinstance(question, Top) else "the skyline"
    return f"{what} at {at[0]:g},{at[1]:g}"


def zone_in_words(answer: MapAnswer) -> str:
    """Where an answer holds."""
    from rankcast_client import Circle

    zone = answer.zone
    if zone is None or (isinstance(zone, Circle) and zone.radius == 0):
        return "at this place only"
    if not isinstance(zone, Circle):
        rings = zone["coordinates"] if zone["type"] == "Polygon" else [r for one in zone["coordinates"] for r in one]
        holes = "" if len(rings) == 1 else f", {len(rings) - 1} more rings"
        return f"within a polygon of {len(rings[0]) - 1} edges{holes}"
    if zone.radius is None:
        return "everywhere"
    return f"within {zone.radius:g} of {zone.center[0]:g},{zone.center[1]:g}"


def cells(info: MapInfo, rank: int, one: Place) -> tuple[Any, ...]:
    """An object of an answer as a row: rank, id, x, y, distance, score, the attributes, payload."""
    values = [one.values.get(name) for name in info.attributes]
    return rank, one.id, *one.location, one.distance, one.score, *values, one.payload


def texts(info: MapInfo, rank: int, one: Place) -> list[str]:
    """The same for eyes: numbers are shortened."""
    return [f"{cell:g}" if isinstance(cell, float) else shown(cell) for cell in cells(info, rank, one)]


def heads(info: MapInfo) -> tuple[str, ...]:
    """What these cells are called."""
    return "rank", "id", "x", "y", "distance", "score", *info.attributes, "payload"
