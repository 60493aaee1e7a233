"""The bill of materials names what the service runs with, and who asks for what."""

from __future__ import annotations

import os
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.unit.tools.locks import LOCKS, PROJECT, ROOT, needed, versions
from tools import sbom

CLIENT = tomllib.loads((ROOT / "client/pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHON = ROOT / ".venv-audit/bin/python"


def read(lock: Path) -> dict[str, Any]:
    """What `cyclonedx-bom` makes of a lock, as far as it is used."""
    components = [
        {"bom-ref": f"L{i}", "name": name, "version": version, "purl": f"pkg:pypi/{name}@{version}", "description": "-"}
        for i, (name, version) in enumerate(versions(lock).items())
    ]
    return {"metadata": {"component": {"bom-ref": "root", "name": "rankcast"}}, "components": components}


@pytest.mark.parametrize("lock", ["runtime", "postgres"])
def test_it_has_the_lock_the_client_and_the_graph(lock: str) -> None:
    document = sbom.complete(read(LOCKS[lock]), LOCKS[lock], CLIENT)
    found = {each["name"]: each for each in document["components"]}
    foreign = {"colorama", "tzdata"} if os.name == "posix" else {"uvloop"}
    assert found.keys() == (versions(LOCKS[lock]).keys() | {"rankcast-client"}) - foreign
    graph = {each["ref"]: each["dependsOn"] for each in document["dependencies"]}
    assert graph.keys() == {"root", *(each["bom-ref"] for each in found.values())}
    extra = PROJECT["optional-dependencies"]["postgres"] if lock == "postgres" else []
    direct = {"rankcast-client", *needed([*PROJECT["dependencies"], *extra])}
    assert set(graph["root"]) == {found[name]["bom-ref"] for name in direct}
    assert graph[found["rankcast-client"]["bom-ref"]] == [found["httpx"]["purl"]]
    assert set(graph[found["numba"]["purl"]]) == {found["llvmlite"]["purl"], found["numpy"]["purl"]}
    reached, ahead = set[str](), ["root"]
    while ahead:
        one = ahead.pop()
        ahead += set(graph[one]) - reached
        reached |= {one}
    assert reached == graph.keys(), "each package is there because of another"


@pytest.mark.skipif(not PYTHON.exists(), reason="needs the environment that `make sbom` makes")
def test_the_documents_are_valid_and_the_same_each_time(tmp_path: Path) -> None:
    for folder in ("first", "second"):
        command = [str(PYTHON), "-m", "tools.sbom", "--folder", str(tmp_path / folder)]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    for name in sbom.DOCUMENTS:
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()
