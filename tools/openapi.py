"""Write `openapi.yaml` from the service, or check that the one in the checkout is what the service says.

`python -m tools.openapi` writes it; with `--check` it exits with 1 and a diff when the file has drifted.
"""

from __future__ import annotations

import argparse
import difflib
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from app.main import create_app
from app.settings import Settings

TARGET = Path(__file__).resolve().parent.parent / "openapi.yaml"


class _Dumper(yaml.SafeDumper):
    """Writes long texts as blocks and never uses anchors, so that a diff shows what changed."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)


def render() -> str:
    """The document of a service with default settings."""
    with tempfile.TemporaryDirectory() as folder:
        document = create_app(Settings(data=Path(folder))).openapi()
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare only")
    check = parser.parse_args().check
    text = render()
    if not check:
        TARGET.write_text(text, encoding="utf-8")
        print(f"{TARGET.name}: {len(text.splitlines())} lines")
        return 0
    kept = TARGET.read_text(encoding="utf-8") if TARGET.exists() else ""
    if kept == text:
        return 0
    diff = difflib.unified_diff(kept.splitlines(), text.splitlines(), "openapi.yaml", "the service", lineterm="")
    print(*list(diff)[:80], sep="\n")
    print("openapi.yaml is not what the service says. `make openapi` writes it anew.")
    return 1


if __name__ == "__main__":
    sys.exit(main())
