"""The distribution as `pip install .` makes it: a service that works in an empty folder, without a checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from indexes.compiled import cache
from tests.support.patience import PATIENCE
from tests.support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which a copy of the checkout's committed and new files was installed."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("site") / "site-packages"
    listing = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
    files = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in files:
        if (ROOT / name).is_file() and name.startswith(
            ("app/", "client/", "formats/", "indexes/", "spark_jobs/", "bench/")
        ):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (source / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-compile"]
    subprocess.run([*command, "--target", str(target), str(source)], check=True, capture_output=True)
    return target


def run(installed: Path, folder: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """`rankcast` of the installation, in another folder."""
    plain = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", cache.VARIABLE)}
    return subprocess.run(
        [sys.executable, "-S", "-c", _PROGRAM, str(installed), *arguments],
        cwd=folder, env={**plain, **env}, capture_output=True, text=True, timeout=4 * PATIENCE, check=False,
    )  # fmt: skip


# The checkout is on this interpreter's path by a .pth file, so -S leaves its site out and this adds the dependencies.
_PROGRAM = f"""
import sys
sys.path[:0] = [sys.argv.pop(1)]
sys.path.append({next(path for path in sys.path if path.endswith("site-packages"))!r})
from app.__main__ import main
main()
"""


def test_it_holds_the_service_its_jobs_and_the_client_alone(installed: Path) -> None:
    packages = {path.name for path in installed.iterdir() if (path / "__init__.py").is_file()}
    assert packages == {"app", "formats", "indexes", "rankcast_client", "spark_jobs"}
    assert (installed / "rankcast_client" / "py.typed").is_file()


def test_it_works_in_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    done = run(installed, tmp_path, "--version")
    assert done.returncode == 0 and done.stdout.startswith("rankcast "), done.stderr
    done = run(installed, tmp_path, "bench", "boards")
    assert done.returncode == 1 and "checkout" in done.stderr
    program = "import json, sys; from indexes.compiled import cache; print(cache.root(), cache.__file__)"
    plain = {**os.environ, "PYTHONPATH": str(installed), "XDG_CACHE_HOME": str(tmp_path / "home")}
    plain.pop(cache.VARIABLE, None)
    said = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=plain, capture_output=True, text=True, check=True
    )
    assert said.stdout.split() == [
        str(tmp_path / "home/rankcast/kernels"),
        str(installed / "indexes/compiled/cache.py"),
    ]
    assert list(tmp_path.iterdir()) == []


def test_it_serves_with_kernels_of_another_place(installed: Path, tmp_path: Path) -> None:
    """Kernels are found by what they are made of, not by the folder of their sources."""
    data, port = tmp_path / "data", free_port()
    service = subprocess.Popen(
        [sys.executable, "-S", "-c", _PROGRAM, str(installed), "serve", "--port", str(port), "--data", str(data)],
        cwd=tmp_path, env={**os.environ, cache.VARIABLE: str(cache.root())}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert service.stderr is not None
        log = []
        for line in service.stderr:
            log.append(line)
            if "ready" in line:
                break
        done = run(installed, tmp_path, "board", "list", RANKCAST_URL=f"http://127.0.0.1:{port}")
        assert done.returncode == 0, "".join(log) + done.stderr
    finally:
        service.terminate()
        assert service.wait(PATIENCE) == 0
