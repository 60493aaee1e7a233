"""The tests of the JavaScript client, by `node --test`, and its types."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.support.node import PACKAGE, node, typescript
from tests.support.patience import PATIENCE

TESTS = sorted((PACKAGE / "test").glob("*.test.js"))


def run(*command: str | Path) -> str:
    """The output of a command in the package's folder, which has to succeed."""
    done = subprocess.run(
        [str(part) for part in command], cwd=PACKAGE, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.name.removesuffix(".test.js"))
def test_what_node_tests(path: Path) -> None:
    output = run(node(), "--test", path)
    print(output)
    passed = re.search(r"^# pass (\d+)$", output, re.M)
    assert passed is not None and int(passed[1]) > 0, output


def test_the_types_compile() -> None:
    run(node(), typescript(), "--project", "test/tsconfig.json")


def test_the_package_has_no_dependencies_and_the_versions_of_the_project() -> None:
    package = json.loads((PACKAGE / "package.json").read_text(encoding="utf-8"))
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "dependencies" not in package
    assert (package["version"], package["license"]) == (project["version"], project["license"])
    assert (PACKAGE / "LICENSE").read_text(encoding="utf-8") == (PACKAGE.parent / "LICENSE").read_text(encoding="utf-8")
    for name in package["files"]:
        assert (PACKAGE / name).exists()


def test_modules_import_nothing_from_elsewhere_and_node_only_where_it_is_loaded_on_demand() -> None:
    """A browser loads all modules but that one."""
    for path in [PACKAGE / "index.js", *(PACKAGE / "src").glob("*.js")]:
        imports = re.findall(r'(?:from|import)\s+"([^"]+)"', path.read_text(encoding="utf-8"))
        foreign = [name for name in imports if not name.startswith("./")]
        assert not foreign or path.name == "node-websocket.js", f"{path.name}: {foreign}"
        assert "./node-websocket.js" not in imports, path.name
