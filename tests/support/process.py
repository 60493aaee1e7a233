"""What the system knows of a service's process."""

from __future__ import annotations

from pathlib import Path

from tests.support.live import LiveService

MB = 1 << 20
_PAGE = 4096


def resident(service: LiveService) -> int:
    """Bytes of its memory."""
    return int(Path(f"/proc/{service.process.pid}/statm").read_text().split()[1]) * _PAGE


def handles(service: LiveService) -> int:
    """Its open file handles."""
    return len(list(Path(f"/proc/{service.process.pid}/fd").iterdir()))
