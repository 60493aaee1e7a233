"""Generate `openapi.yaml` from the service: `python -m tools.openapi`; with `--check` compare only."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from app.main import create_app
from app.settings import Settings
from tools.documents import run


def document() -> dict[str, Any]:
    """The document of a service with default settings."""
    with tempfile.TemporaryDirectory() as folder:
        return create_app(Settings(data=Path(folder))).openapi()


if __name__ == "__main__":
    sys.exit(run(__doc__, "openapi.yaml", document))
