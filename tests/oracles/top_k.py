"""Moving top-k by brute force: scores as wire.md writes them, in plain Python, in the order that it says.

Objects are (place, values): values by attribute as users give them. An attribute is (name, high, range).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

RADIUS = 6_371_008.8
MOST = 1.7976931348623157e308

Place = tuple[float, float]
Attributes = Sequence[tuple[str, bool, tuple[float, float] | None]]


def distance(metric: str, a: Place, b: Place) -> float:
    """How far two places are apart; on the sphere, places are longitude and latitude."""
    dx, dy = b[0] - a[0], b[1] - a[1]
    if metric == "euclidean":
        return math.sqrt(dx * dx + dy * dy)
    if metric == "manhattan":
        return abs(dx) + abs(dy)
    radian = math.pi / 180.0
    up, along = math.sin(dy * radian * 0.5), math.sin(dx * radian * 0.5)
    h = up * up + math.cos(a[1] * radian) * math.cos(b[1] * radian) * (along * along)
    return 2.0 * RADIUS * math.asin(math.sqrt(min(1.0, h)))


def vector_distance(metric: str, a: Place, b: Place) -> float:
    """As `distance`, by another way: the angle between two vectors to the sphere."""
    if metric != "great-circle":
        return distance(metric, a, b)
    u, v = _vector(a), _vector(b)
    cross = (u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0])
    return RADIUS * math.atan2(math.hypot(*cross), sum(p * q for p, q in zip(u, v, strict=True)))


def _vector(a: Place) -> tuple[float, float, float]:
    lon, lat = math.radians(a[0]), math.radians(a[1])
    return math.cos(lat) * math.cos(lon), math.cos(lat) * math.sin(lon), math.sin(lat)


def score(
    kind: str,
    attributes: Attributes,
    weights: Mapping[str, float],
    far: float,
    values: Mapping[str, float],
    scale: float = 1.0,
    shift: float = 0.01,
    blend: float = 0.5,
) -> float:
    """The score of an object that is `far` away; infinite where it has none."""
    D, wd = far / scale, weights.get("distance", 0.0)
    plain = lead = 0.0
    product = 1.0
    for name, high, limits in attributes:
        w = weights.get(name, 0.0)
        if w == 0.0:
            continue
        if kind == "weighted_sum":
            plain += w * (-values[name] if high else values[name])
            continue
        assert limits is not None
        n = (values[name] - limits[0]) / (limits[1] - limits[0])
        v = 1.0 - n if high else n
        plain += w * v
        lead += w * (1.0 - v)
        product *= (v + shift) ** w
    if kind == "weighted_distance":
        sigma = shift + lead
        return D / sigma if sigma > 0.0 else math.inf
    if wd > 0.0:
        plain += wd * D
        product *= D**wd
    if kind == "weighted_sum":
        return plain
    return product if kind == "weighted_product" else blend * plain + (1.0 - blend) * product


def expression(text: str, far: float, values: Mapping[str, float], scale: float = 1.0) -> float:
    """The value of an expression, by Python itself; infinite where it has none."""

    class Number(float):
        """A float whose steps stay within those that are finite, and fail where there is no value."""

        def __add__(self, other: object) -> Number:
            return limited(float(self) + float(other))  # type: ignore[arg-type]

        def __sub__(self, other: object) -> Number:
            return limited(float(self) - float(other))  # type: ignore[arg-type]

        def __mul__(self, other: object) -> Number:
            return limited(float(self) * float(other))  # type: ignore[arg-type]

        def __truediv__(self, other: object) -> Number:
            return limited(float(self) / float(other))  # type: ignore[arg-type]

        def __neg__(self) -> Number:
            return Number(-float(self))

        def __pos__(self) -> Number:
            return self

        def __pow__(self, other: object, modulo: object = None) -> Number:
            a, b = float(self), float(other)  # type: ignore[arg-type]
            if a < 0.0 and b != math.floor(b):
                raise ValueError
            try:
                return limited(a**b)
            except OverflowError:
                return Number(-MOST if a < 0.0 and b % 2 else MOST)

        __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rpow__ = None  # type: ignore[assignment]

    def limited(x: float) -> Number:
        return Number(max(-MOST, min(MOST, x)))

    def exponential(x: float) -> Number:
        try:
            return limited(math.exp(x))
        except OverflowError:
            return Number(MOST)

    names: dict[str, object] = {name: Number(value) for name, value in values.items()}
    names |= {"distance": Number(far / scale), "min": min, "max": max, "exp": exponential, "Number": Number}
    names |= {"sqrt": lambda x: Number(math.sqrt(x)), "log": lambda x: Number(math.log(x))}
    wrapped = re.sub(r"(?<![A-Za-z0-9_.])((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)", r"Number(\1)", text)
    try:
        return float(eval(wrapped, {"__builtins__": {}}, names))
    except (ValueError, ZeroDivisionError):
        return math.inf


def top(scores: Sequence[float], created: Sequence[int], k: int) -> list[int]:
    """The k best objects, by number: smaller scores first, then the older."""
    return sorted(range(len(scores)), key=lambda i: (scores[i], created[i]))[:k]
