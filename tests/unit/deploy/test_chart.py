"""The Helm chart: its values are what its schema says, its templates name what is there, and what Helm makes of it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from pydantic import SecretStr

from app.api.accounting import ALWAYS_SERVED
from app.settings import Settings

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "deploy/helm/rankcast"
TEMPLATES = sorted((CHART / "templates").iterdir())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())

OWN = {"host", "port", "data", "nats", "database", "key", "seal_key", "jwt_secret"}
"""Settings that the chart gives by itself, or from secrets."""

OF_A_GROUP = {"follow", "peers", "failover_seconds", "max_lag", "sync_replicas", "sync_seconds"}
"""Settings of several nodes; the chart has one."""

GATEWAY = {"RANKCAST_UPSTREAM"}
"""Variables of `rankcast gateway` alone."""

Doc = dict[str, Any]


def values() -> Doc:
    found: Doc = yaml.safe_load((CHART / "values.yaml").read_text())
    return found


def valid(given: Doc) -> bool:
    rs = pytest.importorskip("jsonschema_rs")
    return bool(rs.is_valid(SCHEMA, given))


# --- without Helm ---------------------------------------------------------------------------------------------------


def test_the_chart_has_the_version_of_the_project() -> None:
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert about["apiVersion"] == "v2" and about["version"] == about["appVersion"] == version


def test_the_values_are_what_the_schema_says() -> None:
    assert valid(values())


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        ("service.settings", {"zone_second": 1}),
        ("service.settings", {"seal_key": "secret"}),
        ("service.persistence.size", "many"),
        ("gateways.autoscaling.maxReplicas", 0),
        ("gateways.replica", 3),
        ("nats.url", "http://nats"),
        ("expose.port", 70000),
        ("image.pullPolicy", "Often"),
    ],
)
def test_the_schema_refuses_what_cannot_be(path: str, wrong: object) -> None:
    given = values()
    *above, last = path.split(".")
    at = given
    for name in above:
        at = at[name]
    at[last] = wrong
    assert not valid(given)


def test_every_value_is_described_by_the_schema_and_the_other_way_round() -> None:
    def same(given: Doc, schema: Doc, path: str) -> None:
        described = set(schema.get("properties", ()))
        if described:
            assert set(given) == described - {"global"}, path
            for name, value in given.items():
                if isinstance(value, dict):
                    same(value, schema["properties"][name], f"{path}.{name}")

    same(values(), SCHEMA, "")


def test_settings_are_those_of_the_service_and_secrets_come_by_reference() -> None:
    secret = {
        name
        for name, field in Settings.model_fields.items()
        if SecretStr in (field.annotation, *get_args(field.annotation))
    }
    assert secret <= OWN | OF_A_GROUP
    known = set(Settings.model_fields) - OWN - OF_A_GROUP
    for part in ("service", "gateways"):
        assert set(SCHEMA["properties"][part]["properties"]["settings"]["propertyNames"]["enum"]) == known


def test_templates_name_values_and_variables_that_are_there() -> None:
    named: set[str] = set()
    variables: set[str] = set()
    aliases = {"$s": "service", "$g": "gateways", "$n": "nats"}
    for template in TEMPLATES:
        text = template.read_text()
        named |= set(re.findall(r"\.Values\.([A-Za-z.]+)", text))
        named |= {f"{aliases[name]}.{rest}" for name, rest in re.findall(r"(\$[sgn])\.([A-Za-z.]+)", text)}
        variables |= set(re.findall(r"\bRANKCAST_[A-Z_]+\b", text))
    for path in named:
        at: Any = values()
        for name in path.split("."):
            assert name in at, f"the values have no {path}"
            at = at[name]
    known = {f"RANKCAST_{name.upper()}" for name in Settings.model_fields}
    assert variables - GATEWAY - {"RANKCAST_"} <= known
    assert {f"RANKCAST_{name.upper()}" for name in OWN} <= variables


def test_probes_ask_paths_that_the_service_and_gateways_have() -> None:
    for name in ("service.yaml", "gateways.yaml"):
        text = (CHART / "templates" / name).read_text()
        paths = re.findall(r"path: (/\w+), port: (\w+)", text)
        assert {path for path, _ in paths} == {"/healthz", "/readyz"} <= ALWAYS_SERVED
        assert {port for _, port in paths} == {"http"}
        assert re.search(r"- name: http\n\s+containerPort: 8000", text)
        assert 'name: RANKCAST_PORT\n              value: "8000"' in text


# --- with Helm ------------------------------------------------------------------------------------------------------


def rendered(*sets: str) -> list[Doc]:
    """The objects of a release."""
    helm = shutil.which("helm")
    if helm is None:
        pytest.skip("helm is not installed")
    options = [text for one in sets for text in ("--set", one)]
    command = ["template", "rc", str(CHART)]
    done = subprocess.run([helm, *command, *options], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


CASES = [
    (),
    ("gateways.autoscaling.enabled=false", "ingress.enabled=true", "ingress.tlsSecret=tls"),
    ("gateways.enabled=false", "nats.enabled=false", "expose.type=LoadBalancer", "ingress.enabled=true"),
    ("nats.enabled=false", "nats.urlSecret.name=nats", "gateways.keySecret.name=k", "service.jwtSecret.name=j"),
    ("service.maintenance=true", "service.settings.zone_seconds=7200", "service.persistence.storageClass=fast"),
]


@pytest.mark.parametrize("sets", CASES)
def test_what_is_rendered_fits_together(sets: tuple[str, ...]) -> None:
    found = rendered(*sets)
    by_name = {(one["kind"], one["metadata"]["name"]): one for one in found}
    assert len(by_name) == len(found)
    pods = [one for one in found if one["kind"] in ("StatefulSet", "Deployment")]
    labels = [one["spec"]["template"]["metadata"]["labels"] for one in pods]
    for one in pods:
        spec = one["spec"]["template"]["spec"]
        assert one["spec"]["selector"]["matchLabels"].items() <= one["spec"]["template"]["metadata"]["labels"].items()
        assert spec["securityContext"]["runAsNonRoot"] and not spec["automountServiceAccountToken"]
        (container,) = spec["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        ports = {port["name"] for port in container["ports"]}
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            if probe in container:
                assert container[probe]["httpGet"]["port"] in ports
        mounts = {mount["name"] for mount in container["volumeMounts"]}
        claims = {claim["metadata"]["name"] for claim in one["spec"].get("volumeClaimTemplates", ())}
        assert mounts == claims | {volume["name"] for volume in spec["volumes"]}
        names = [variable["name"] for variable in container.get("env", ())]
        assert len(names) == len(set(names))
        for variable in container.get("env", ()):
            assert isinstance(variable.get("value", ""), str)
    for one in found:
        if one["kind"] == "Service":
            assert any(one["spec"]["selector"].items() <= label.items() for label in labels)
        if one["kind"] == "HorizontalPodAutoscaler":
            assert ("Deployment", one["spec"]["scaleTargetRef"]["name"]) in by_name
        if one["kind"] == "Ingress":
            for rule in one["spec"]["rules"]:
                backend = rule["http"]["paths"][0]["backend"]["service"]
                ports = by_name["Service", backend["name"]]["spec"]["ports"]
                assert backend["port"]["name"] in {port["name"] for port in ports}
    urls = [
        variable["value"]
        for one in pods
        for variable in one["spec"]["template"]["spec"]["containers"][0].get("env", ())
        if "://" in variable.get("value", "")
    ]
    for url in urls:
        host, _, port = url.rpartition("/")[2].partition(":")
        assert int(port) in {one["port"] for one in by_name["Service", host]["spec"]["ports"]}
    assert ("Deployment" in {one["kind"] for one in pods}) == ("gateways.enabled=false" not in sets)


def test_what_cannot_run_is_refused() -> None:
    rendered()
    for sets, why in (
        ("nats.enabled=false", "gateways need NATS"),
        ("service.settings.zone_second=1", "zone_second"),
        ("expose.port=0", "expose.port"),
    ):
        done = subprocess.run(
            ["helm", "template", "rc", str(CHART), "--set", sets], check=False, capture_output=True, text=True
        )
        assert done.returncode != 0 and why in done.stderr


def test_helm_finds_nothing_wrong() -> None:
    rendered()
    done = subprocess.run(["helm", "lint", "--strict", str(CHART)], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
