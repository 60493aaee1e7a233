"""The ``rankcast`` command, as a script and as ``python -m app``. Nothing is loaded before signals are seen to."""

from __future__ import annotations

import sys

from app.runtime.interrupts import ending_at_once


def main() -> None:
    """Run the command that the arguments name, and exit with its status."""
    with ending_at_once():
        if sys.argv[1:2] == ["serve"]:
            from app.runtime import interpreter
            from indexes.core.deep_calls import with_room

            # Here and not in the command, since it holds for the whole process, which is not always ours.
            interpreter.prepare()
            with_room(_run)
        else:
            _run()


def _run() -> None:
    from app.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
