"""The support bundle: what is in it, and what is taken out of it.

What goes in is chosen field by field, so that what is added to the service later stays out until it is chosen here.
"""

from __future__ import annotations

import io
import json
import os
import platform
import re
import secrets
import tarfile
import time
from collections.abc import Callable, Iterable
from hashlib import sha256
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import httpx
from pydantic import SecretStr, ValidationError

from app.cli.checkup import Place, check_up
from app.resource_names import RESOURCES
from app.settings import Settings
from app.version import version

HIDDEN = "(hidden)"
LAST_LINES = 2_000
SECONDS = 20.0

JOB_FIELDS = ("job", "kind", "state", "progress", "started", "ended")
LINE_FIELDS = ("timestamp", "level", "part", "event", "status", "ms", "method", "lsn", "row", "rows", "seconds")

_LABELS = re.compile(r'\b(resource|link)="((?:[^"\\]|\\.)*)"')
_LABEL_KEY = re.compile(r'\b(key|id)="(?:[^"\\]|\\.)*"')
_USER = re.compile(r"(?<=://)[^/@\s]*@")

Name = Callable[[str], str]


def write_bundle(file: Path, place: Place, log: Path | None, hash_names: bool) -> list[str]:
    """Write the archive, which only its owner may read; return what is in it. Raises OSError."""
    salt = secrets.token_bytes(16)

    def name(text: str) -> str:
        """A resource's name: as it is, or a hash that says nothing beyond this bundle."""
        return sha256(salt + text.encode()).hexdigest()[:12] if hash_names else text

    parts: dict[str, str] = {
        "versions.json": _json(_versions()),
        "settings.json": _json(_settings(place)),
        "doctor.json": _json([each._asdict() for each in check_up(place)]),
    }
    if place.url is not None:
        parts |= _service(place.url.rstrip("/"), place.key, name)
    if log is not None:
        parts["log.jsonl"] = _log_lines(log)
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as out, tarfile.open(fileobj=out, mode="w:gz") as archive:
        for title, text in parts.items():
            raw = text.encode()
            entry = tarfile.TarInfo(f"rankcast-support/{title}")
            entry.size, entry.mtime, entry.mode = len(raw), int(time.time()), 0o600
            archive.addfile(entry, io.BytesIO(raw))
    return list(parts)


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n"


def _versions() -> dict[str, Any]:
    packages = {one.metadata["Name"]: one.version for one in distributions() if one.metadata["Name"]}
    return {
        "rankcast": version(),
        "python": platform.python_version(),
        "system": platform.platform(),
        "processors": os.cpu_count(),
        "packages": dict(sorted(packages.items())),
    }


def _settings(place: Place) -> dict[str, Any]:
    """The settings by the environment of this command. Of URLs neither users nor options, of Spark's options names."""
    try:
        settings = Settings(data=place.data, database=place.database, storage=place.storage)
    except ValidationError as error:
        return {"invalid": [".".join(map(str, each["loc"])) for each in error.errors()]}
    found: dict[str, Any] = {}
    for field in Settings.model_fields:
        value = getattr(settings, field)
        if isinstance(value, SecretStr):
            value = HIDDEN
        elif field == "spark_options":
            value = [f"{option.partition('=')[0]}={HIDDEN}" for option in value]
        elif isinstance(value, str) and "://" in value:
            value = _USER.sub(f"{HIDDEN}@", value).partition("?")[0]
        found[field] = value
    return found


def _service(url: str, key: str | None, name: Name) -> dict[str, str]:
    """What the service says. What it does not answer is named with the status."""
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=url, headers=headers, timeout=SECONDS) as http:

        def get(path: str) -> httpx.Response | None:
            try:
                return http.get(path)
            except (httpx.HTTPError, httpx.InvalidURL):
                return None

        ready, metrics, jobs = get("/readyz"), get("/metrics"), get("/v1/admin/jobs")
        sizes = {kind: _sizes(get, kind, name) for kind in RESOURCES}
    return {
        "readyz.json": _json({"status": _status(ready), "answer": _object(ready)}),
        "metrics.txt": _metrics(metrics, name),
        "jobs.json": _json([_chosen(job, JOB_FIELDS) for job in _items(jobs)] or {"status": _status(jobs)}),
        "sizes.json": _json(sizes),
    }


def _sizes(get: Callable[[str], httpx.Response | None], kind: str, name: Name) -> Any:
    """The numbers at the top of each resource's description."""
    answer = get(f"/v1/{kind}?limit=1000")
    return [
        {"name": name(f"{kind}/{each.get('name', '')}")}
        | {field: value for field, value in each.items() if isinstance(value, (int, float))}
        for each in _items(answer)
    ] or {"status": _status(answer)}


def _metrics(answer: httpx.Response | None, name: Name) -> str:
    if answer is None or answer.status_code != 200:
        return f"# status {_status(answer)}\n"
    text = _LABELS.sub(lambda found: f'{found[1]}="{name(found[2])}"', answer.text)
    return _LABEL_KEY.sub(lambda found: f'{found[1]}="{HIDDEN}"', text)


def _log_lines(file: Path) -> str:
    """The last lines of a log in JSON with the fields that hold no content; others are counted."""
    try:
        lines = file.read_text(errors="replace").splitlines()[-LAST_LINES:]
    except OSError as error:
        return _json({"error": error.strerror})
    kept, left_out = [], 0
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            event = None
        if isinstance(event, dict) and "event" in event and "logger" not in event:
            kept.append(json.dumps(_chosen(event, LINE_FIELDS), ensure_ascii=False))
        else:
            left_out += 1
    return "\n".join([*kept, json.dumps({"left_out": left_out})]) + "\n"


def _chosen(fields: Any, names: Iterable[str]) -> dict[str, Any]:
    return {name: fields[name] for name in names if name in fields}


def _status(answer: httpx.Response | None) -> int | None:
    return None if answer is None else answer.status_code


def _object(answer: httpx.Response | None) -> Any:
    try:
        return None if answer is None else answer.json()
    except ValueError:
        return None


def _items(answer: httpx.Response | None) -> list[dict[str, Any]]:
    found = _object(answer) if _status(answer) == 200 else None
    lists = [value for value in found.values() if isinstance(value, list)] if isinstance(found, dict) else []
    return [each for each in (lists[0] if lists else ()) if isinstance(each, dict)]
