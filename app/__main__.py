"""The ``rankcast`` command, as a script and as ``python -m app``. Nothing is loaded before signals are seen to."""

from __future__ import annotations

from app.interrupts import ending_at_once


def main() -> None:
    """Run the command that the arguments name, and exit with its status."""
    with ending_at_once():
        from app.cli import main as run

        run()


if __name__ == "__main__":
    main()
