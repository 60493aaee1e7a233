"""The dashboard and the alert rules name what a running service shows, and every objective has its alerts."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.running import CONFIG
from tests.support.service_fixtures import Start

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "deploy/prometheus/rankcast.rules.yaml"
DASHBOARD = ROOT / "deploy/grafana/rankcast.json"

_NAME = re.compile(r"\b(?:rankcast|process|python)_\w+")


def _rules() -> list[dict[str, object]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def _expressions() -> list[str]:
    dashboard = json.loads(DASHBOARD.read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    variables = [variable["query"] for variable in dashboard["templating"]["list"]]
    return [*asked, *variables, *(str(rule["expr"]) for rule in _rules())]


def test_every_metric_that_is_named_is_shown_by_a_running_service(start: Start) -> None:
    service = start()
    link = {"url": "http://127.0.0.1:9", "relay": "r", "link": "l"}
    service.client.put("/v1/relays/r", json={"attributes": ["x"], "links": {"l": link}}).raise_for_status()
    service.client.put("/v1/boards/b", json=CONFIG).raise_for_status()
    service.service.metrics.snapshot_taken(1, 0.0, 1.0)
    text = service.client.get("/metrics").text
    # A metric with labels shows no sample before its first one, but says what it is.
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
    shown = set(kinds)
    for name, kind in kinds.items():
        if kind == "histogram":
            shown |= {f"{name}_bucket", f"{name}_count", f"{name}_sum"}
    named = {name for expression in _expressions() for name in _NAME.findall(expression)}
    assert len(named) > 20
    assert named - shown == set()


def test_every_objective_of_the_documentation_has_its_alerts() -> None:
    page = (ROOT / "docs/operations.md").read_text().split("## Objectives", 1)[1].split("\n## ", 1)[0]
    told = {
        (alert, row.split("`")[1])
        for row in page.splitlines()
        if row.startswith("| `")
        for alert in re.findall(r"Rankcast\w+", row)
    }
    rules = {(str(rule["alert"]), str(rule["labels"]["slo"])) for rule in _rules() if "slo" in rule["labels"]}  # type: ignore[index,operator]
    assert {slo for _, slo in told} == {"writes", "single-writes", "delivery", "exactness"}
    assert told == rules


def test_every_alert_is_in_the_documentation() -> None:
    page = (ROOT / "docs/observability.md").read_text()
    assert {str(rule["alert"]) for rule in _rules()} == set(re.findall(r"`(Rankcast\w+)`", page))


@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed: the package prometheus of Debian"
)
def test_promtool_takes_the_rules() -> None:
    done = subprocess.run(["promtool", "check", "rules", RULES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
