"""Sealing of secrets that the database has to give back, such as the keys of links, by a key that is not in it."""

from __future__ import annotations

import base64
import hashlib

from app.settings import Settings
from formats.links import seal_with


class Seal:
    """Seals texts under a secret by AES-128-CBC and HMAC-SHA256 (Fernet).

    >>> Seal("of 32 random bytes, as a text").open(Seal("of 32 random bytes, as a text").seal("rk_a"))
    'rk_a'
    """

    def __init__(self, secret: str) -> None:
        # Loaded where it is used: 30 ms.
        from cryptography.fernet import Fernet

        self._fernet = Fernet(base64.urlsafe_b64encode(hashlib.sha256(secret.encode()).digest()))

    def seal(self, text: str) -> str:
        """A text that only this secret opens."""
        return self._fernet.encrypt(text.encode()).decode()

    def open(self, sealed: str) -> str | None:
        """The text that was sealed; None where that was under another secret, or it was changed."""
        from cryptography.fernet import InvalidToken

        try:
            return self._fernet.decrypt(sealed.encode()).decode()
        except InvalidToken:
            return None


def seal_links(settings: Settings) -> None:
    """Have the keys of links sealed, and opened again, by the settings' seal key, where there is one."""
    seal_with(None if settings.seal_key is None else Seal(settings.seal_key.get_secret_value()))
