"""The command line of jobs: options, signals, and exit codes.

Exit codes: 0 done, 1 failed (the last line on stdout is ``{"error": "one sentence"}``), 2 if a job defines it, 143
after SIGTERM.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn
from urllib.parse import unquote, urlsplit

from formats.folder import Damaged, Folder
from spark_jobs.common.progress import Progress, own_stdout
from spark_jobs.common.session import NoSpark, Options, SparkFailed

_SCHEMES = {"s3": "s3a"}
"""Hadoop's names of filesystems, where pyarrow's differ."""

_EXAMPLES = {
    "boards": "boards/delays",
    "matchers": "matchers/ads",
    "relays": "relays/market",
    "maps": "maps/food",
    "feeds": "feeds/city",
}
"""A resource of each type, for --help."""

_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9_.:-]{1,128}")


class Failed(Exception):
    """The job cannot be done; the message is one sentence for its user."""


@dataclass(frozen=True)
class Number:
    """An option of a job, --`name`: an integer, at least 1."""

    name: str
    default: int
    about: str


@dataclass(frozen=True)
class Place:
    """A required option of a job, --`name`: a local path or a URL."""

    name: str
    about: str


@dataclass(frozen=True)
class Text:
    """A required option of a job, --`name`: JSON."""

    name: str
    about: str


@dataclass(frozen=True)
class Order:
    """The arguments of a job: one resource of one snapshot below a storage root, and the job's own options."""

    place: str
    lsn: int
    resource: str
    options: Options
    numbers: Mapping[str, int] = field(default_factory=dict)
    places: Mapping[str, Folder] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the resource within its type."""
        return self.resource.partition("/")[2]

    def folder(self, kind: str) -> Folder:
        """The folder of this lsn in a `kind` of folders: snapshots, images or audits."""
        return Folder.at(self.place) / kind / str(self.lsn)

    def spark_path(self, folder: Folder, name: str) -> str:
        """The path of a file or folder for Spark, to be read with `LITERALLY`."""
        if folder.local is not None:
            root = f"file://{folder.path}"
        else:
            url = urlsplit(self.place)
            below = folder.path.removeprefix(Folder.at(self.place).path)
            root = f"{_SCHEMES.get(url.scheme, url.scheme)}://{url.netloc}{unquote(url.path).rstrip('/')}{below}"
        return f"{root}/{name}"


Job = Callable[[Order, Progress], tuple[dict[str, Any], int]]
"""Runs a job; returns its last line and exit code. Raises `Failed`, `Damaged`, `NoSpark` or `SparkFailed`."""


class _Parser(argparse.ArgumentParser):
    """A parser that exits with 1 on misuse; jobs may use argparse's 2 for something else."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        raise Failed(message)


@dataclass(frozen=True)
class Frame:
    """The command ``python -m spark_jobs.<name>`` of a job for resources of one type. `about` begins its --help."""

    name: str
    about: str
    kind: str = "boards"
    numbers: Sequence[Number] = ()
    places: Sequence[Place] = ()
    texts: Sequence[Text] = ()


def main(
    name: str,
    about: str,
    job: Job,
    arguments: Sequence[str] | None = None,
    numbers: Sequence[Number] = (),
    places: Sequence[Place] = (),
    kind: str = "boards",
    texts: Sequence[Text] = (),
) -> NoReturn:
    """Run a job with the options of its `Frame`, and exit the process."""
    frame = Frame(name, about, kind, numbers, places, texts)
    run(_parser(frame), lambda given, progress: job(_order(given, frame), progress), arguments)


def run(
    parser: argparse.ArgumentParser,
    job: Callable[[argparse.Namespace, Progress], tuple[dict[str, Any], int]],
    arguments: Sequence[str] | None = None,
) -> NoReturn:
    """Run a job with the arguments that its parser, from `make_parser`, returns, and exit the process."""
    if arguments is None:
        arguments = sys.argv[1:]
    if {"-h", "--help"} & set(arguments):
        parser.parse_args(["--help"])
    progress = Progress(own_stdout())
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGALRM, _stop)
    hook, sys.unraisablehook = sys.unraisablehook, _stop_again
    try:
        given = parser.parse_args(arguments)
        if given.until_stdin_ends:
            threading.Thread(target=_end_with_stdin, name="stdin", daemon=True).start()
        fields, code = job(given, progress)
    except (Failed, Damaged, NoSpark, SparkFailed) as error:
        fields, code = {"error": str(error)}, 1
    except BrokenPipeError:
        sys.exit(1)  # the reader of stdout is gone
    except Exception as error:
        traceback.print_exc()
        fields, code = {"error": f"{type(error).__name__}: {error}"}, 1
    finally:
        sys.unraisablehook = hook
    progress.last(fields)
    sys.exit(code)


@contextmanager
def user_errors(kind: type[Exception]) -> Iterator[None]:
    """Turn a `SparkFailed` that an error of this kind in a worker caused into a `Failed` with its message: the user's
    data is wrong."""
    try:
        yield
    except SparkFailed as failed:
        _, found, reason = str(failed).partition(f"{kind.__name__}: ")
        if found:
            raise Failed(reason) from failed
        raise


def _stop(number: int, frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(128 + signal.SIGTERM)


def _stop_again(lost: sys.UnraisableHookArgs) -> None:
    """Nothing leaves a finalizer, as py4j has for every Java object: an exit that was raised in one is raised again."""
    if isinstance(lost.exc_value, SystemExit):
        signal.setitimer(signal.ITIMER_REAL, 0.01)
    else:
        sys.__unraisablehook__(lost)


def _end_with_stdin() -> None:
    """Terminate this process when its standard input is closed."""
    while os.read(0, 1 << 12):
        pass
    if os.getpgrp() == os.getpid():
        # A Java that is being launched is not registered yet, and would wait for its driver for ever.
        os.killpg(0, signal.SIGTERM)
    else:
        os.kill(os.getpid(), signal.SIGTERM)


def make_parser(program: str, about: str, examples: str) -> argparse.ArgumentParser:
    """A parser with the options of all jobs, which `spark_options` reads."""
    parser = _Parser(
        prog=program, description=about, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"""\
examples:
{examples}

On stdout, one JSON object a line: {{"progress": 0.4, "step": "..."}} and at the end the result, or {{"error": "..."}}
with exit code 1. Logs go to stderr. Spark needs Java 17 or newer, which `make setup` sees to. Reading and writing
s3:// takes Hadoop's connector: --conf spark.jars.packages=org.apache.hadoop:hadoop-aws:VERSION.""",
    )  # fmt: skip
    parser.add_argument("--master", default="local[*]", help="Spark's master (default: %(default)s)")
    parser.add_argument(
        "--conf", action="append", default=[], metavar="KEY=VALUE", help="a setting of Spark; may be repeated"
    )
    parser.add_argument("--driver-memory", default="1g", metavar="SIZE", help="heap of the driver (default: 1g)")
    parser.add_argument("--nice", type=int, default=0, metavar="N", help="run at this niceness, 0 to 19 (default: 0)")
    parser.add_argument("--until-stdin-ends", action="store_true", help="terminate when the standard input is closed")
    parser.add_argument("--temp", metavar="FOLDER", help="where the temporary folder is made (default: the system's)")
    return parser


def spark_options(given: argparse.Namespace) -> Options:
    """The options of Spark. Raises `Failed`."""
    if not 0 <= given.nice <= 19:
        raise Failed(f"--nice is {given.nice}; it has to be from 0 to 19")
    conf = dict(setting.partition("=")[::2] for setting in given.conf)
    if not all(re.match(r"spark\.\S+=", setting) for setting in given.conf):
        raise Failed("--conf takes settings of Spark as spark.KEY=VALUE")
    if given.temp is not None and not os.path.isdir(given.temp):
        raise Failed(f"--temp is {given.temp!r}, which is no folder")
    return Options(given.master, conf, given.driver_memory, given.nice, given.temp)


def name_of(resource: str, kind: str) -> str:
    """The name of a resource of this type. Raises `Failed`."""
    found, _, name = resource.partition("/")
    if found != kind or not _NAME.fullmatch(name):
        raise Failed(f"--resource is {resource!r}; it has to be {kind}/NAME")
    return name


def _parser(frame: Frame) -> argparse.ArgumentParser:
    program = f"python -m spark_jobs.{frame.name}"
    resource = _EXAMPLES[frame.kind]
    needed = [*(place.name for place in frame.places), *(text.name for text in frame.texts)]
    own = "".join(f" --{option} {option.upper()}" for option in needed)
    parser = make_parser(
        program, frame.about,
        f"""\
  {program} --storage data --lsn 1200 --resource {resource}{own}
  {program} --storage s3://bucket/rankcast --lsn 1200 --resource {resource}{own} \\
      --master spark://host:7077 --conf spark.executor.memory=8g""",
    )  # fmt: skip
    parser.add_argument("--storage", required=True, metavar="PLACE", help="storage root: a local path or a URL")
    parser.add_argument("--lsn", required=True, type=int, help="the snapshot, by its lsn")
    parser.add_argument("--resource", required=True, help=f"the {frame.kind[:-1]}, as {frame.kind}/NAME")
    for place in frame.places:
        parser.add_argument(f"--{place.name}", required=True, metavar="PLACE", help=place.about)
    for text in frame.texts:
        parser.add_argument(f"--{text.name}", required=True, metavar="JSON", help=text.about)
    for number in frame.numbers:
        parser.add_argument(
            f"--{number.name}",
            type=int,
            default=number.default,
            metavar="N",
            help=f"{number.about} (default: %(default)s)",
        )
    return parser


def _order(given: argparse.Namespace, frame: Frame) -> Order:
    name_of(given.resource, frame.kind)
    if given.lsn < 0:
        raise Failed(f"--lsn is {given.lsn}; it cannot be negative")
    options = spark_options(given)
    own = {number.name: getattr(given, number.name) for number in frame.numbers}
    for key, value in own.items():
        if value < 1:
            raise Failed(f"--{key} is {value}; it has to be at least 1")
    try:
        Folder.at(given.storage)
        places = {place.name: Folder.at(getattr(given, place.name)) for place in frame.places}
    except ValueError as error:
        raise Failed(str(error)) from error
    texts = {text.name: getattr(given, text.name) for text in frame.texts}
    return Order(given.storage, given.lsn, given.resource, options, own, places, texts)
