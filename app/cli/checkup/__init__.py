"""What `rankcast doctor` looks at: data directory, log, snapshots, machine, service. It only reads."""

from app.cli.checkup.finding import Finding, Level, Place
from app.cli.checkup.machine import check_machine
from app.cli.checkup.service import check_service
from app.cli.checkup.stored import check_stored

__all__ = ["Finding", "Level", "Place", "check_up"]


def check_up(place: Place) -> list[Finding]:
    """All findings. O(bytes of the log and of the snapshots)."""
    return [*check_stored(place), *check_machine(place), *check_service(place)]
