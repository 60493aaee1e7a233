"""The service at a URL, if it runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime

from app.cli.checkup.finding import Finding, Place

SECONDS = 10.0


def check_service(place: Place) -> Iterator[Finding]:
    """The findings; none where no service is named."""
    import httpx

    if place.url is None:
        return
    try:
        answer = httpx.get(place.url.rstrip("/") + "/readyz", timeout=SECONDS)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        yield Finding("service", "warning", f"{type(error).__name__} at {place.url}", "does it run there?")
        return
    if answer.status_code == 200:
        yield Finding("service", "ok", "ready")
    else:
        try:
            why = str(answer.json().get("detail", ""))
        except ValueError:
            why = ""
        yield Finding(
            "service", "error", f"/readyz answers {answer.status_code}: {why}", "do what it says, or read its log"
        )
    if "date" in answer.headers:
        apart = parsedate_to_datetime(answer.headers["date"]).timestamp() - time.time()
        if abs(apart) > 5.0:
            yield Finding("clock", "warning", f"the service's clock differs by {apart:.0f} s", "keep both by NTP")
