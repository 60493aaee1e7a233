"""Reading of the bodies of `PUT` and `PATCH` of single subscriptions; parsers are cached by configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pydantic_core import SchemaValidator

from app.api.context import Context
from app.api.subscriptions import SubscriptionRoutes
from app.api.together.kind import Elsewhere, Sent
from app.api.together.latest import Latest
from app.api.values import is_name
from app.security.callers import Caller
from app.security.scopes import Need


class Readers(NamedTuple):
    """For one configuration: the validators of `PUT` and `PATCH`, and the methods of `reader` that make a command of an
    id and a body, which is a `whole` subscription or `part` of one."""

    config: Any
    put: SchemaValidator
    patch: SchemaValidator
    whole: Callable[[str, dict[str, Any]], Any]
    part: Callable[[str, dict[str, Any]], Any]
    reader: Any


class OfSubscription:
    """The base of kinds of requests about one subscription."""

    def __init__(self, context: Context[Any, Any], routes: SubscriptionRoutes[Any, Any, Any]) -> None:
        self.context = context
        self.routes = routes
        self._readers: Latest[Any, Readers] = Latest(self._make_readers)

    def need(self, name: str) -> Need:
        """The right to change subscriptions of a resource."""
        return Need(f"{self.context.noun}s", "subscribe", name)

    def addressed(self, sent: Sent, caller: Caller) -> tuple[Any, Readers]:
        """The engine of a request or burst, and the readers for its configuration. Any exception sends it to the slow
        path. The ids of a burst are not known yet: the caller's right to them is not checked here."""
        if sent.query:
            raise Elsewhere
        if sent.count == 1:
            if not is_name(sent.id):
                raise Elsewhere
            self.routes.require_ids(caller, [sent.id])
        engine = self.context.resources.latest(sent.name)
        return engine, self._readers.of(self.context.config_of(engine))

    def _make_readers(self, config: Any) -> Readers:
        reader: Any = self.routes.reader(self.context, config)
        both = self.routes.validators(self.context, config)
        return Readers(config, *both, reader.whole, reader.part, reader)
