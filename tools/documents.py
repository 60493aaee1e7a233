"""Generated documents in the checkout: written, most of them as YAML, and compared with what the service says."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent


class _Dumper(yaml.SafeDumper):
    """Writes long texts as blocks and never uses anchors, so that a diff shows what changed."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)


def render(document: dict[str, Any]) -> str:
    """A document as YAML text."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def run(description: str | None, name: str, make: Callable[[], dict[str, Any]]) -> int:
    """The command that writes the file `name`, or with `--check` exits with 1 and a diff where it has drifted."""
    return run_text(description, name, lambda: render(make()))


def run_text(description: str | None, name: str, make: Callable[[], str]) -> int:
    """As `run`, of any text."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare only")
    check = parser.parse_args().check
    target, text = ROOT / name, make()
    if not check:
        target.write_text(text, encoding="utf-8")
        print(f"{name}: {len(text.splitlines())} lines")
        return 0
    kept = target.read_text(encoding="utf-8") if target.exists() else ""
    if kept == text:
        return 0
    diff = difflib.unified_diff(kept.splitlines(), text.splitlines(), name, "the service", lineterm="")
    print(*list(diff)[:80], sep="\n")
    print(f"{name} has drifted from the service; `make openapi` regenerates it.")
    return 1
