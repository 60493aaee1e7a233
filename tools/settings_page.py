"""Write `docs/settings.md` from the settings class, or check that the one in the checkout is the same.

`python -m tools.settings_page` writes it; with `--check` it exits with 1 when the page has drifted.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from app.settings import MIB, Settings

TARGET = Path(__file__).resolve().parent.parent / "docs" / "settings.md"

HEAD = """# Settings

Every setting of the service. `max_body` is read from the variable `RANKCAST_MAX_BODY` or the option `--max-body` of
`rankcast serve`; an option overrides the variable. `make settings` writes this page from `app/settings.py`.

| Option | Values | Default | Meaning |
| --- | --- | --- | --- |
"""


def render() -> str:
    """The page."""
    return HEAD + "".join(_row(name, field) for name, field in Settings.model_fields.items())


def _row(name: str, field: FieldInfo) -> str:
    option = f"`--{name.replace('_', '-')}`"
    cells = (option, _values(field), _default(field.default), field.description or "")
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def _values(field: FieldInfo) -> str:
    """What a setting takes: its type or its choices, and its bounds."""
    annotation = next((one for one in _parts(field.annotation) if one is not type(None)), str)
    if get_origin(annotation) is tuple:
        element = get_args(annotation)[0]
        return f"list of {_named(element)}" if get_origin(element) is Literal else "list of strings"
    bounds = [f"{_SIGNS[type(one)]} {_bound(one):g}" for one in field.metadata if type(one) in _SIGNS]
    return ", ".join([_named(annotation), *bounds])


_SIGNS: dict[type, str] = {Ge: "≥", Gt: ">", Le: "≤"}


def _bound(limit: Any) -> float:
    return float(next(getattr(limit, name) for name in ("ge", "gt", "le") if hasattr(limit, name)))


def _parts(annotation: Any) -> tuple[Any, ...]:
    """The alternatives of a union, or the annotation itself."""
    return (annotation,) if get_origin(annotation) in (Literal, tuple, None) else get_args(annotation)


def _named(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(annotation))
    names = {SecretStr: "string", int: "integer", float: "number", bool: "true or false", Path: "path", str: "string"}
    return names[annotation]


def _default(value: Any) -> str:
    if value is None or value == ():
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, int) and value >= MIB and value % MIB == 0:
        return f"`{value}` ({value // MIB} MiB)"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def main() -> int:
    """Write the page, or with ``--check`` say whether it would change."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page would change")
    check = parser.parse_args().check
    text = render()
    if not check:
        TARGET.write_text(text, encoding="utf-8")
        return 0
    if TARGET.exists() and TARGET.read_text(encoding="utf-8") == text:
        return 0
    print("docs/settings.md is not what app/settings.py says; `make settings` writes it")
    return 1


if __name__ == "__main__":
    sys.exit(main())
