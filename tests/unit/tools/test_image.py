"""How the image is made and started."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.base_image import default

ROOT = Path(__file__).resolve().parents[3]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))


DATA: dict[str, list[str]] = {"nats": ["/data"], "gateway-1": [], "gateway-2": [], "balancer": []}
"""What containers write to, beside services, which have their data."""


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_a_container_has_no_right_but_to_write_its_data(name: str) -> None:
    service = COMPOSE["services"][name]
    assert service["read_only"] is True and service["cap_drop"] == ["ALL"] and "cap_add" not in service
    assert service["security_opt"] == ["no-new-privileges:true"] and "privileged" not in service
    assert [mount.partition(":")[0] for mount in service["tmpfs"]] == ["/tmp"]
    volumes = [volume.partition(":")[2] for volume in service.get("volumes", ())]
    assert [one for one in volumes if not one.endswith(":ro")] == DATA.get(name, ["/var/lib/rankcast/data"])


@pytest.mark.parametrize("stage", ["runtime", "rebuild"])
def test_the_image_is_run_by_a_user_without_rights(stage: str) -> None:
    content = re.split(r"^FROM .* AS (\w+)$", DOCKERFILE, flags=re.MULTILINE)
    stages = dict(zip(content[1::2], content[2::2], strict=True))
    assert re.findall(r"^USER (\w+)$", stages[stage], re.MULTILINE)[-1] == "rankcast"
    assert "USER" not in stages["service"] and "AS service" in DOCKERFILE
    assert "RUN useradd --system --uid 10001" in stages["runtime"]


def test_the_base_is_a_build_argument_without_an_invented_digest() -> None:
    assert default(DOCKERFILE).startswith("python:3.11-") and "@" not in default(DOCKERFILE)
    assert re.findall(r"^FROM (\S+) AS base$", DOCKERFILE, re.MULTILINE) == ["${BASE}"]
    images = re.findall(r"^FROM (\S+) AS (\w+)$", DOCKERFILE, re.MULTILINE)
    stages = {name for _, name in images}
    assert {source for source, _ in images} - stages == {"${BASE}"}


def test_a_release_names_its_base_by_digest() -> None:
    release = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))
    commands = [step["run"] for step in release["jobs"]["image"]["steps"] if "run" in step]
    order = [
        next(i for i, one in enumerate(commands) if part in one) for part in ("base-image", 'make image BASE="$BASE"')
    ]
    assert order == sorted(order)
    assert any("make audit ARGS=--require-list" in one for one in commands)
