import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from app.runtime import logs
from app.settings import Settings


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def test_lines_are_json_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(Settings(log_format="json"))
    logs.get("service").info("ready", lsn=7)
    logging.getLogger("elsewhere").warning("low on %s", "space")
    said = capsys.readouterr()
    assert said.out == ""
    own, foreign = (json.loads(line) for line in said.err.splitlines())
    assert (own["event"], own["part"], own["lsn"], own["level"]) == ("ready", "service", 7, "info")
    assert (foreign["event"], foreign["level"]) == ("low on space", "warning")


def test_what_is_below_the_level_is_not_logged(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(Settings(log_format="json", log_level="error"))
    logs.get("service").warning("nearly full")
    assert capsys.readouterr().err == ""


def test_an_exception_is_logged_with_its_trace(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(Settings(log_format="json"))
    try:
        raise RuntimeError("broken")
    except RuntimeError:
        logs.get("service").exception("failed")
    assert "RuntimeError: broken" in json.loads(capsys.readouterr().err)["exception"]


def test_a_terminal_shows_an_exception_with_its_source(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs.configure(Settings(log_format="console"))
    seen = "some value"
    try:
        raise RuntimeError("broken")
    except RuntimeError:
        logs.get("service").exception("failed")
    said = capsys.readouterr().err
    assert "RuntimeError: broken" in said
    assert f"seen = '{seen}'" in said and 'raise RuntimeError("broken")' in said
