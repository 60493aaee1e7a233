"""The types of resources, as paths, scopes, settings and files of the disk name them."""

from __future__ import annotations

from typing import Literal, get_args

ResourceName = Literal["boards", "matchers", "relays", "maps", "feeds"]

RESOURCES: tuple[ResourceName, ...] = get_args(ResourceName)
