"""Whether the service may listen where it was asked to."""

from __future__ import annotations

from app.security.keyring import Keyring
from app.settings import Settings


class DoorOpen(Exception):
    """The service was asked to listen beyond this machine although it asks for no keys."""


def check_door(settings: Settings, keyring: Keyring) -> None:
    """Refuse, with `DoorOpen`, to listen beyond this machine without keys, unless allowed by the settings."""
    if keyring.open and not settings.loopback and not settings.allow_open:
        raise DoorOpen(
            f"refusing to listen on {settings.host} without keys: anyone who reaches it could do everything. "
            "Make a key first (rankcast keys create --name admin --scope admin), or listen on 127.0.0.1, "
            "or pass --allow-open"
        )
