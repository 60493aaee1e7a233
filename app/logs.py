"""Structured logs: one line an event on stderr, as JSON or for a terminal; other libraries' records too."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog
from structlog.typing import Processor

from app.settings import Settings


def configure(settings: Settings) -> None:
    """Send all logs, structlog's and the standard library's, to stderr in the chosen format."""
    as_json = settings.log_format == "json" or (settings.log_format == "auto" and not sys.stderr.isatty())
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    render: list[Processor] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if as_json
        else [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    )
    structlog.configure(
        processors=[*shared, *render],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
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


def _without_colour(_logger: Any, _name: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    event.pop("color_message", None)
    return event


def get(name: str) -> structlog.typing.FilteringBoundLogger:
    """The logger of one part of the service; `name` is in every line as ``part``."""
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger(part=name)
    return logger
