"""What reads the bodies of `PUT` and `PATCH` of single subscriptions, kept while a configuration is the latest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pydantic_core import SchemaValidator

from app.api.context import Context
from app.api.subscriptions import SubscriptionRoutes


class Readers(NamedTuple):
    """By one configuration: what checks the bodies of `PUT` and `PATCH`, and what makes a command of an id and a whole
    body, or part of one."""

    config: Any
    put: SchemaValidator
    patch: SchemaValidator
    whole: Callable[[str, dict[str, Any]], Any]
    part: Callable[[str, dict[str, Any]], Any]


class LatestReaders:
    """The readers of the configuration that was asked for last."""

    def __init__(self, context: Context[Any, Any], routes: SubscriptionRoutes[Any, Any, Any]) -> None:
        self._context = context
        self._routes = routes
        self._latest: Readers | None = None

    def of(self, config: Any) -> Readers:
        """The readers by a configuration."""
        latest = self._latest
        if latest is None or latest.config is not config:
            reader: Any = self._routes.reader(self._context, config)
            both = self._routes.validators(self._context, config)
            latest = self._latest = Readers(config, *both, reader.whole, reader.part)
        return latest
