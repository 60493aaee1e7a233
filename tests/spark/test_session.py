"""What surrounds a session: the temporary folder, and the code that goes to a cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

from spark_jobs.common import session, worker
from spark_jobs.common.session import Options, pack

HOLD = """
import pathlib
import sys
from spark_jobs.common.session import _temporary
with _temporary(pathlib.Path(sys.argv[1])) as temp:
    (temp / "shuffle").write_text("much")
    print(temp, flush=True)
    sys.stdin.read()
"""


def hold(folder: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process with a temporary folder, until its stdin ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_what_a_killed_job_left_is_deleted_and_what_a_living_one_has_is_not(tmp_path: Path) -> None:
    killed, left = hold(tmp_path)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    living, held = hold(tmp_path)
    try:
        assert not left.exists() and held.is_dir()
        with session._temporary(tmp_path) as own:
            assert own.is_dir() and (held / "shuffle").exists()
    finally:
        living.communicate()
    assert living.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_only_a_local_master_is_local() -> None:
    assert all(Options(master).local for master in ("local", "local[2]", "local[*]", "local[2,3]"))
    assert not any(Options(master).local for master in ("local-cluster[1,1,1024]", "spark://h:7077", "yarn", "localx"))


def test_the_temporary_folder_is_where_the_user_says() -> None:
    local = {"spark.local.dir": "/big/disk,/other"}
    assert Options().home == Path(tempfile.gettempdir())
    assert Options(conf=local).home == Path("/big/disk")
    assert Options(conf=local, temp="/here").home == Path("/here")
    assert Options("yarn", conf=local).home == Path(tempfile.gettempdir())  # that is a folder of the workers
    settings = session._places(Options(conf={"spark.driver.extraJavaOptions": "-Xss4m"}), Path("/t/a b"))
    assert settings["spark.driver.extraJavaOptions"] == '-Xss4m "-Djava.io.tmpdir=/t/a b"'


def test_the_code_is_named_by_what_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "root"
    for package in worker.PACKAGES:
        (root / package).mkdir(parents=True)
        (root / package / "__init__.py").write_text("")
    monkeypatch.setattr(session, "ROOT", root)
    first = pack(tmp_path)
    os.utime(root / "indexes/__init__.py", (1, 400_000_000))
    assert pack(tmp_path).name == first.name
    (root / "indexes/__init__.py").write_text("# edited")
    second = pack(tmp_path)
    (root / "indexes/__init__.py").rename(root / "indexes/other.py")
    assert len({first.name, second.name, pack(tmp_path).name}) == 3


def test_the_code_is_all_that_a_worker_imports(tmp_path: Path) -> None:
    names = zipfile.ZipFile(pack(tmp_path)).namelist()
    assert {
        "formats/folder.py",
        "indexes/compiled/jit.py",
        "indexes/boards/kernels/forest.py",
        "spark_jobs/common/worker.py",
    } <= set(names)
    assert {name.split("/")[0] for name in names} == set(worker.PACKAGES)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's temporary folder, for this test."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr("spark_jobs.common.worker.tempfile.gettempdir", lambda: str(folder))
    monkeypatch.setattr("spark_jobs.common.worker.tempfile.tempdir", str(folder))
    return folder


def test_the_code_is_unpacked_once_and_found_again(tmp_path: Path, home: Path) -> None:
    archive = pack(tmp_path)
    folder = worker.unpack(archive)
    assert (folder / "indexes/compiled/jit.py").is_file() and folder.name == archive.stem
    (folder / "compiled").write_text("by numba")
    assert worker.unpack(archive) == folder
    assert (folder / "compiled").exists()
    assert list(folder.parent.iterdir()) == [folder]


def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path, home: Path) -> None:
    archive = pack(tmp_path)
    worker.unpack(archive).parent.chmod(0o777)
    with pytest.raises(RuntimeError, match="open to others"):
        worker.unpack(archive)


def test_a_worker_runs_the_unpacked_code(tmp_path: Path) -> None:
    """In a process that has nothing but the zip on its path, as an executor's worker has."""
    archive = pack(tmp_path)
    script = f"""
import sys
sys.path.insert(1, {str(archive)!r})
from spark_jobs.common.worker import Task, prepare
prepare({archive.name!r}, 3)
prepare({archive.name!r}, 3)
import os, indexes.compiled.jit, spark_jobs.audit.ranges
from indexes.compiled.cache import folder
print(indexes.compiled.jit.__file__, spark_jobs.audit.ranges.__file__, folder(), os.getpriority(os.PRIO_PROCESS, 0))
"""
    environ = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": ""}
    environ.pop("RANKCAST_CACHE", None)
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environ, capture_output=True, text=True, check=True
    )
    kernel, module, cache, nice = done.stdout.split()
    folder = tmp_path / f"rankcast-code-{os.getuid()}" / archive.stem
    assert kernel == f"{folder}/indexes/compiled/jit.py"
    assert module == f"{folder}/spark_jobs/audit/ranges.py"
    assert cache.startswith(f"{folder}/.cache/kernels/")
    assert int(nice) >= 3


def test_code_that_did_not_come_is_missed() -> None:
    with pytest.raises(RuntimeError, match="did not come"):
        worker.prepare("rankcast_000000000000.zip", 0)
