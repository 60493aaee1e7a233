"""What all targets share: inputs that once failed first, then new ones until the time is over; failures are kept."""

from __future__ import annotations

import hashlib
import re
import resource
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Protocol

CORPUS = Path(__file__).with_name("corpus")

MOST_MEMORY = 512 << 20
"""Bytes by which one input may raise the peak of this process's memory."""


class Fell(AssertionError):
    """An input did what none may do; the message says what."""


class Target(Protocol):
    """Something to fuzz. An input is complete in itself: the same one does the same in another process."""

    name: str

    def make(self, rng: Random) -> bytes:
        """An input."""

    def run(self, data: bytes) -> int:
        """Try an input; returns how many things it held (requests, messages, rows). Raises `Fell`."""

    def smaller(self, data: bytes) -> Iterator[bytes]:
        """Inputs that may fail in the same way and are smaller, the most promising first."""

    def close(self) -> None:
        """Give back what the target holds."""


class Report:
    """What came of a run."""

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        self.seed = seed
        self.inputs = 0
        self.parts = 0
        self.seconds = 0.0
        self.failures: dict[str, Path] = {}

    def __str__(self) -> str:
        rate = self.parts / max(self.seconds, 1e-9)
        counted = f"{self.parts:,} in {self.inputs:,} inputs"
        head = f"{self.name}: {counted}, {self.seconds:.0f} s ({rate:,.0f}/s), seed {self.seed}"
        return "\n".join([head, *(f"  {path.name}: {what}" for what, path in self.failures.items())])


def corpus(name: str) -> list[Path]:
    """The inputs of a target that once failed."""
    return sorted(path for path in (CORPUS / name).glob("*") if path.is_file())


def attempt(target: Target, data: bytes) -> tuple[int, str | None]:
    """Try an input; returns what it held, and what went wrong: the kind of it, without numbers."""
    try:
        return target.run(data), None
    except Exception as error:
        return 0, kind_of(error)


def kind_of(error: BaseException) -> str:
    """A failure without what differs from one time to the next."""
    text = re.sub(r"[0-9]+", "0", str(error).split("\n", 1)[0])[:300]
    if isinstance(error, Fell):
        return text
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/tests/fuzz/" not in frame.filename]
    where = f" at {Path(frames[-1].filename).name}:{frames[-1].name}" if frames else ""
    return f"{type(error).__name__}: {text}{where}"


def fuzz(target: Target, seconds: float, seed: int, into: Path = CORPUS, patience: float = 60) -> Report:
    """Replay the corpus of a target, then try new inputs until the time is over. Failures are reduced and written to
    the corpus, one of each kind.
    """
    report = Report(target.name, seed)
    began = time.monotonic()
    for path in corpus(target.name):
        parts, failure = attempt(target, path.read_bytes())
        report.inputs, report.parts = report.inputs + 1, report.parts + parts
        if failure is not None:
            report.failures[failure] = path
    number = 0
    while time.monotonic() - began < seconds:
        data = target.make(Random(f"{seed}/{number}"))
        number += 1
        parts, failure = attempt(target, data)
        report.inputs, report.parts = report.inputs + 1, report.parts + parts
        if failure is not None and failure not in report.failures:
            print(f"{target.name}: input {number - 1} of seed {seed}: {failure}", file=sys.stderr, flush=True)
            data = reduced(target, data, failure, time.monotonic() + patience)
            place = into / target.name / hashlib.sha256(data).hexdigest()[:12]
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
            report.failures[failure] = place
    report.seconds = time.monotonic() - began
    return report


def reduced(target: Target, data: bytes, failure: str, until: float) -> bytes:
    """A smaller input with the same failure, as far as the time suffices."""
    again = True
    while again:
        again = False
        for smaller in target.smaller(data):
            if time.monotonic() > until:
                return data
            if attempt(target, smaller)[1] == failure:
                data, again = smaller, True
                break
    return data


def parts_left_out(parts: list[bytes], first: int = 0) -> Iterator[list[bytes]]:
    """Lists without some of the parts, the longest pieces first; those before `first` stay."""
    size = (len(parts) - first) // 2
    while size:
        for start in range(len(parts) - size, first - 1, -size):
            yield parts[:start] + parts[start + size :]
        size //= 2


def peak() -> int:
    """The most memory that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


@contextmanager
def bounded(what: str) -> Iterator[None]:
    """Raises `Fell` where the body takes much memory, or much time of the processor."""
    memory, spent = peak(), time.process_time()
    yield
    if peak() - memory > MOST_MEMORY:
        raise Fell(f"{what} took {(peak() - memory) >> 20} MiB")
    if time.process_time() - spent > 5:
        raise Fell(f"{what} took {time.process_time() - spent:.1f} s")
