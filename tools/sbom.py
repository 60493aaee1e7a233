"""Write what the service runs with as bills of materials: CycloneDX 1.6, in JSON.

`cyclonedx-bom` reads a lock. This adds what it does not know: which packages of the lock this platform needs, the
client, which is part of the service's installation, and who depends on whom, from the remarks that `uv` leaves in
locks. The same sources give the same file. It runs in the environment of `requirements/audit.lock`, see ``make sbom``.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.install import LOCKS, ROOT, pins

BUILD = ROOT / "build"
DOCUMENTS = {"sbom.json": "runtime", "sbom-image.json": "postgres"}
"""Each document with its lock: what `make install` installs for the service, and what the image has."""

_ENTRY = re.compile(r"^([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?==", re.MULTILINE)
_VIA = re.compile(r"^    # +(?:via +)?([A-Za-z0-9][\w.-]*)(?: \(.*\))?$", re.MULTILINE)

Document = dict[str, Any]


def requirers(lock: str) -> dict[str, set[str]]:
    """Each package of a lock with the names of those that ask for it; the project itself is one of them."""
    entries = _ENTRY.split(lock)[1:]
    return {
        name: {each for each in _VIA.findall(text) if each != "via"}
        for name, text in zip(entries[::2], entries[1::2], strict=True)
    }


def complete(document: Document, lock: Path, client: Document) -> Document:
    """A document of `cyclonedx-bom` for a lock with the client, without what other platforms need, and with the graph
    of dependencies. `client` is the client's table ``[project]``.
    """
    root = document["metadata"]["component"]
    needed = {pin.name for pin in pins(lock)}
    components = [each for each in document["components"] if each["name"] in needed]
    for each in components:
        each["bom-ref"] = each["purl"]
        each.pop("description", None)  # the line of the lock, with all its hashes
    references = {each["name"]: each["bom-ref"] for each in components}
    ours = {
        "bom-ref": f"pkg:pypi/{client['name']}@{client['version']}",
        "type": "library",
        "name": client["name"],
        "version": client["version"],
        "description": client["description"],
        "purl": f"pkg:pypi/{client['name']}@{client['version']}",
        "licenses": [{"license": {"id": client["license"], "acknowledgement": "declared"}}],
    }
    asked: dict[str, set[str]] = {reference: set() for reference in references.values()}
    asked[root["bom-ref"]] = {ours["bom-ref"]}
    asked[ours["bom-ref"]] = {references[re.split(r"[^\w.-]", each)[0]] for each in client["dependencies"]}
    references[root["name"]] = root["bom-ref"]
    for name, by in requirers(lock.read_text(encoding="utf-8")).items():
        for each in by & references.keys() if name in needed else ():
            asked[references[each]].add(references[name])
    return {
        **document,
        "components": sorted([*components, ours], key=lambda each: str(each["bom-ref"])),
        "dependencies": [{"ref": each, "dependsOn": sorted(on)} for each, on in sorted(asked.items())],
    }


def read(lock: Path) -> Document:
    """What `cyclonedx-bom` makes of a lock."""
    command = [sys.executable, "-W", "ignore", "-m", "cyclonedx_py", "requirements", str(lock)]
    command += ["--pyproject", str(ROOT / "pyproject.toml"), "--output-reproducible", "--sv", "1.6"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    document: Document = json.loads(done.stdout)
    return document


def validate(text: str) -> None:
    """Raise ValueError unless a text is a document of CycloneDX 1.6 in JSON."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if error is not None:
        raise ValueError(f"not a CycloneDX document: {error}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write all documents."""
    parser = argparse.ArgumentParser(prog="python -m tools.sbom", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=BUILD, help="where to write them")
    folder: Path = parser.parse_args(arguments).folder
    client = tomllib.loads((ROOT / "client/pyproject.toml").read_text(encoding="utf-8"))["project"]
    folder.mkdir(parents=True, exist_ok=True)
    for name, lock in DOCUMENTS.items():
        path = LOCKS / f"{lock}.lock"
        document = complete(read(path), path, client)
        text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
        validate(text)
        (folder / name).write_text(text, encoding="utf-8")
        print(f"{folder / name}: {len(document['components'])} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
