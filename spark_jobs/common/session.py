"""The start and the end of a job's Spark.

A local master (``local``, ``local[2]``, ``local[*]``) runs the checkout's own code with its kernel cache, and listens
on the loopback address only. Other masters get the code as a zip; see `spark_jobs.common.worker`.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs.common.java import NoJava, find
from spark_jobs.common.worker import PACKAGES, Task

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
_SECONDS_TO_END = 5.0
"""For the JVM between SIGTERM and SIGKILL."""


class NoSpark(Exception):
    """Spark cannot be started; the message is one sentence."""


class SparkFailed(Exception):
    """Spark failed; the message is one sentence, and the log on stderr has the rest."""


LITERALLY = {"__globPaths__": "false"}
"""Options of a DataFrameReader to take a path literally: folders may have names that look like patterns, boards a
colon. Spark has no public option for it."""


@dataclass(frozen=True)
class Options:
    """The user's options of Spark.

    `conf` takes precedence. The temporary folder is created in `temp`, or in the spark.local.dir of a local master, or
    in the system's.
    """

    master: str = "local[*]"
    conf: dict[str, str] = field(default_factory=dict)
    driver_memory: str = "1g"
    nice: int = 0
    temp: str | None = None

    @property
    def local(self) -> bool:
        return re.fullmatch(r"local(\[.*\])?", self.master) is not None

    @property
    def home(self) -> Path:
        """The folder of the temporary folder; of several local folders, the first."""
        said = self.conf.get("spark.local.dir", "").split(",")[0] if self.local else ""
        return Path(self.temp or said or tempfile.gettempdir()).absolute()


@dataclass(frozen=True)
class Running:
    """A session, and what its tasks need."""

    spark: SparkSession
    code: str | None
    nice: int

    @property
    def context(self) -> SparkContext:
        return self.spark.sparkContext

    def task(self, target: str, *arguments: Any) -> Task:
        """The function "module:function" as a task for `mapInArrow`."""
        return Task(target, arguments, self.code, self.nice)


@contextmanager
def session(name: str, options: Options, conf: dict[str, str] | None = None) -> Iterator[Running]:
    """A Spark session under this application name, with the job's own settings. On exit it is stopped and its files
    are deleted.

    Raises `NoSpark`, and `SparkFailed` for errors of Spark in the body.
    """
    _be_nice(options.nice)
    with _temporary(options.home) as temp:
        settings = {**_settings(options), **(conf or {}), **options.conf, **_places(options, temp)}
        _environment(options, temp, settings)
        spark = _start(name, options.master, settings)
        at_once = False
        try:
            code: str | None = None
            if not options.local:
                archive = pack(temp)
                spark.sparkContext.addPyFile(str(archive))
                code = archive.name
            yield Running(spark, code, options.nice)
        except (KeyboardInterrupt, SystemExit):
            at_once = True
            raise
        except Exception as error:
            if not _of_spark(error):
                raise
            _raise_if_java_ended(spark, error)
            text = str(error)  # calls the JVM, which is about to end
            sys.stderr.write(text + "\n")
            raise SparkFailed(f"Spark failed: {_reason(text)}") from None
        finally:
            _end(spark, at_once)


def _be_nice(nice: int) -> None:
    """Set the niceness, which the JVM and the workers of a local master inherit."""
    if os.getpriority(os.PRIO_PROCESS, 0) < nice:
        os.setpriority(os.PRIO_PROCESS, 0, nice)


def _settings(options: Options) -> dict[str, str]:
    settings = {
        "spark.driver.memory": options.driver_memory,
        "spark.log.level": "ERROR",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if options.local:
        settings |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
        }
    return settings


def _places(options: Options, temp: Path) -> dict[str, str]:
    """Settings that direct Spark's own files on this machine to the temporary folder."""
    java = [options.conf.get("spark.driver.extraJavaOptions", ""), f'"-Djava.io.tmpdir={temp}"']
    places = {
        "spark.driver.extraJavaOptions": " ".join(filter(None, java)),
        "spark.sql.warehouse.dir": (temp / "warehouse").as_uri(),
    }
    return places | ({"spark.local.dir": str(temp)} if options.local else {})


def _environment(options: Options, temp: Path, settings: dict[str, str]) -> None:
    """Set environment variables of Spark that take precedence over settings. Raises `NoSpark`."""
    try:
        os.environ["JAVA_HOME"] = str(find().home)
    except NoJava as error:
        raise NoSpark(str(error)) from error
    if "spark.pyspark.python" not in settings:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if options.local:
        os.environ["SPARK_LOCAL_DIRS"] = str(temp)
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        os.environ.pop("SPARK_HOME", None)  # the package brings its own, and another version does not fit
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))


def _start(name: str, master: str, settings: dict[str, str]) -> SparkSession:
    try:
        from pyspark import SparkConf, SparkContext
        from pyspark.errors import PySparkException
        from pyspark.java_gateway import launch_gateway
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise NoSpark("Spark needs the package pyspark: `make setup` installs it, or pip install pyspark") from error
    from py4j.protocol import Py4JError, Py4JJavaError

    conf = SparkConf().setAppName(name).setMaster(master)
    for key, value in settings.items():
        conf.set(key, value)
    gateway = None
    try:
        with _signals_held():
            gateway = launch_gateway(conf)  # type: ignore[no-untyped-call]
        return SparkSession(SparkContext(gateway=gateway, conf=conf))
    except BaseException as error:
        reason = error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else "its log says why"
        _terminate_java(gateway)
        if not isinstance(error, (PySparkException, Py4JError, OSError)):
            raise
        raise NoSpark(f"Spark did not start with master {master}: {reason}") from error


@contextmanager
def _signals_held() -> Iterator[None]:
    """Hold back SIGTERM and SIGINT until the body is done.

    PySpark can only stop a JVM that has been launched. One that loses its parent before that waits for ever.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []
    before = {number: signal.signal(number, lambda n, _: held.append(n)) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if held:
            signal.raise_signal(held[0])


def _end(spark: SparkSession, at_once: bool) -> None:
    """Stop Spark and its JVM; `at_once` does not wait for running jobs."""
    if not at_once:
        with suppress(Exception):  # a broken session ends with its JVM
            spark.stop()
    _terminate_java(spark.sparkContext._gateway)


def _raise_if_java_ended(spark: SparkSession, error: Exception) -> None:
    """Raise `SparkFailed` if the end of the JVM caused the error."""
    from py4j.protocol import Py4JError, Py4JJavaError

    gateway = spark.sparkContext._gateway
    if gateway is None:
        return
    # A connection that breaks in a call is a plain Py4JError; what Java raises has a type of its own.
    if isinstance(error, (Py4JError, OSError)) and not isinstance(error, Py4JJavaError):
        with suppress(subprocess.TimeoutExpired):  # the JVM may end a moment after its connection
            gateway.proc.wait(_SECONDS_TO_END)
    code = gateway.proc.poll()
    if code is not None:
        how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        raise SparkFailed(f"Spark failed: its Java {how}") from error


def _terminate_java(gateway: JavaGateway | None) -> None:
    """Terminate the JVM, and reset PySpark, so that this process can start another."""
    from pyspark import SparkContext

    if gateway is None:
        return
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    process = gateway.proc
    process.terminate()
    with suppress(Exception):  # its connection may be cut already
        gateway.shutdown()
    try:
        process.wait(_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _of_spark(error: Exception) -> bool:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return isinstance(error, (Py4JError, PySparkException, ConnectionError))


def _reason(text: str) -> str:
    """The error of a Python worker, if one caused it, otherwise the first line."""
    raised = re.findall(r"^(?:\w+\.)*(\w+(?:Error|Exception): .+)$", text, re.MULTILINE)
    lines = [*raised[-1:], *text.strip().splitlines()]
    return lines[0].strip() if lines else "it gave no reason"


@contextmanager
def _temporary(home: Path) -> Iterator[Path]:
    """A folder in `home` that is deleted at the end. Those of jobs that were killed are deleted first."""
    home.mkdir(parents=True, exist_ok=True)
    for old in home.glob("rankcast-spark-*"):
        _delete_if_left(old)
    draft = Path(tempfile.mkdtemp(prefix="rankcast-new-", dir=home))
    lock = os.open(draft / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        temp = draft.rename(home / draft.name.replace("-new-", "-spark-"))
        try:
            yield temp
        finally:
            shutil.rmtree(temp, ignore_errors=True)
    finally:
        os.close(lock)


def _delete_if_left(folder: Path) -> None:
    """Delete the temporary folder of a job that has ended: its lock is free."""
    try:
        lock = os.open(folder / "lock", os.O_RDWR)
    except OSError:  # another user's
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except BlockingIOError:
        pass
    finally:
        os.close(lock)


def pack(folder: Path) -> Path:
    """The code of the jobs as a zip in `folder`, named by a hash of what is in it."""
    files = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    digest = hashlib.sha256()
    for path in files:
        text = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT).as_posix()}\0{len(text)}\0".encode())
        digest.update(text)
    archive = folder / f"rankcast_{digest.hexdigest()[:12]}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in files:
            packed.write(path, path.relative_to(ROOT).as_posix())
    return archive
