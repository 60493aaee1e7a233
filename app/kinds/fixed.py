"""What of a resource's configuration stays as it was made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from indexes.commands import Fault, Refused


def listed(value: Any) -> str:
    """A value of a configuration, a tuple as a list."""
    return repr(list(value) if isinstance(value, tuple) else value)


def check_fixed(
    noun: str, fixed: Mapping[str, str], now: Any, asked: Any, shown: Callable[[Any], str] = listed
) -> None:
    """Compare the configuration that stands with the one that is asked for, in the fields of `fixed`, which says how
    each is called in a body; `shown` writes a value for readers.

    Raises Refused with a fault for each that differs.
    """
    faults = [
        Fault(called, f"the {noun} stands with {shown(getattr(now, field))}", "different")
        for field, called in fixed.items()
        if getattr(now, field) != getattr(asked, field)
    ]
    if faults:
        raise Refused(faults)
