"""Data directories that earlier versions wrote are opened, and answer as they did there.

``data/version-X.tar.xz`` is a directory whose service was killed after a snapshot, a rebuild and further writes to
resources of all types; ``data/version-X.json`` holds requests and what that version answered to them at last.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.support.service_fixtures import MakeClient

DATA = Path(__file__).with_name("data")
VERSIONS = sorted(path.stem.removeprefix("version-") for path in DATA.glob("version-*.json"))


MAY_DIFFER = ("statistics", "zone")
"""Counts of an engine's work start again with it, and a standing query may get another, equally right zone."""


ADDED = {"zones": None}
"""Fields that came later, with what they are where nothing was said of them."""


def comparable(answer: Any) -> Any:
    """An answer without what a restart may change, and without later fields that say nothing."""
    if isinstance(answer, dict):
        said = {name: value for name, value in answer.items() if name not in ADDED or value != ADDED[name]}
        return {name: comparable(value) for name, value in said.items() if name not in MAY_DIFFER}
    return [comparable(each) for each in answer] if isinstance(answer, list) else answer


def test_there_is_a_version_to_open() -> None:
    assert "0.1.0" in VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
def test_a_directory_of_an_earlier_version_answers_as_before(
    version: str, tmp_path: Path, make_client: MakeClient
) -> None:
    with tarfile.open(DATA / f"version-{version}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    client = make_client(data=tmp_path / "data")
    requests = json.loads((DATA / f"version-{version}.json").read_text())
    assert {path.split("/")[2].partition("?")[0] for _, path, _, _ in requests} == {
        "boards", "matchers", "relays", "maps", "feeds",
    }  # fmt: skip
    for method, path, body, expected in requests:
        answer = client.request(method, path, json=body)
        assert answer.status_code == 200, (path, answer.text)
        assert comparable(answer.json()) == comparable(expected), path
