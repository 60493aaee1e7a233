"""Structured logs: one line an event on stderr, as JSON or for a terminal; other libraries' records too."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TextIO, cast

import structlog
from structlog.typing import Processor

from app.settings import Settings

exported: Callable[[Mapping[str, Any]], None] | None = None
"""Called with each line of the service's own log; set while logs are sent elsewhere too."""


class _FailSafe:
    """A stream that ignores failures: a full disk or a closed pipe must not stop the program that logs."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):
            return self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()


def configure(settings: Settings) -> None:
    """Send all logs, structlog's and the standard library's, to stderr in the chosen format."""
    as_json = settings.log_format == "json" or (settings.log_format == "auto" and not sys.stderr.isatty())
    stream = _FailSafe(sys.stderr)
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    render: list[Processor] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if as_json
        else [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=_show_exception)]
    )
    structlog.configure(
        processors=[*shared, _export, *render],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=cast(TextIO, stream)),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(cast(TextIO, stream))
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _without_colour, *render],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in ("uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(max(level, logging.WARNING))
    logging.getLogger("uvicorn.access").disabled = True


def _show_exception(out: TextIO, error: structlog.typing.ExcInfo) -> None:
    """Write an exception for a terminal, with lines of the source and local variables."""
    # Most starts have nothing to show: structlog was imported without it.
    from rich.console import Console
    from rich.traceback import Traceback

    shown = Traceback.from_exception(*error, show_locals=True, word_wrap=True)
    out.write("\n")
    Console(file=out, color_system="truecolor" if sys.stderr.isatty() else None).print(shown)


def _without_colour(_logger: Any, _name: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    event.pop("color_message", None)
    return event


def silence() -> None:
    """Log nothing, for commands whose output says all."""
    structlog.configure(processors=[_drop])


def _drop(_logger: Any, _name: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    raise structlog.DropEvent


def _export(_logger: Any, _name: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    if exported is not None:
        exported(event)
    return event


def get(name: str) -> structlog.typing.FilteringBoundLogger:
    """The logger of one part of the service; `name` is in every line as ``part``."""
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger(part=name)
    return logger
