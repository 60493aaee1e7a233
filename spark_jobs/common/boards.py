"""Boards that jobs can read."""

from __future__ import annotations

from typing import Any

from spark_jobs.common.command import Failed


def of_one_attribute(resource: str, about: dict[str, Any]) -> dict[str, Any]:
    """What a manifest says about a board. Raises `Failed` for one with several range attributes or indexed fields."""
    several = len(about["config"].get("range_attributes", ())) > 1
    if several or about["config"].get("indexed"):
        what = "several range attributes" if several else "indexed fields"
        raise Failed(f"{resource} has {what}; the service itself lays it out and verifies it")
    return about
