"""Matchers themselves: their configuration."""

from __future__ import annotations

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from app.api.bodies import validated
from app.api.matcher_context import MatcherContext
from app.api.matcher_lists import SubscriptionRoutes
from app.api.matcher_match import MatchRoutes
from app.api.matcher_models import MOST_DIMENSIONS, RESERVED, Matcher, MatcherBody, Matchers
from app.api.models import Seq
from app.api.paging import PageQuery
from app.api.routing import Routes
from app.api.values import bad_attributes
from app.problems import FieldError, many
from app.security import Keyring
from app.service import Service
from indexes.matchers.model import MatcherConfig

_PUT = TypeAdapter(MatcherBody)


class MatcherRoutes:
    """Everything under ``/v1/matchers`` but the streams."""

    def __init__(self, keyring: Keyring) -> None:
        self._context = MatcherContext()
        self._keyring = keyring

    def start(self, service: Service) -> None:
        """Give the routes the service that was started."""
        self._context.start(service)

    def add_routes(self, routes: Routes) -> None:
        """Serve the matchers."""
        all_, one, tag = "/v1/matchers", "/v1/matchers/{matcher}", "matchers"
        write, see, add = "matchers:write", "matchers:read", routes.add
        put = {201: Matcher, 200: Matcher}
        add("GET", all_, self.list_matchers, needs=see, tag=tag, answers={200: Matchers}, query=PageQuery)
        add("PUT", one, self.put_matcher, needs=write, tag=tag, answers=put, body=MatcherBody)
        add("GET", one, self.get_matcher, needs=see, tag=tag, answers={200: Matcher})
        add("DELETE", one, self.delete_matcher, needs=write, tag=tag, answers={200: Seq})
        SubscriptionRoutes(self._context).add_routes(routes)
        MatchRoutes(self._context, self._keyring).add_routes(routes)

    async def list_matchers(self, request: Request) -> Response:
        """The matchers in order of name."""
        return await self._context.listing(request)

    async def put_matcher(self, request: Request) -> Response:
        """Make a matcher. One that is there stays as it is: with another configuration 409."""
        return await self._context.put(request, lambda raw: _config(validated(raw, _PUT)))

    async def get_matcher(self, request: Request) -> Response:
        """A matcher's configuration and size."""
        return await self._context.get(request)

    async def delete_matcher(self, request: Request) -> Response:
        """Delete a matcher with all that is in it; its streams end."""
        return await self._context.drop(request)


def _config(body: MatcherBody) -> MatcherConfig:
    """The configuration that a body says. Raises the problem 422."""
    errors = []
    if len(body.dimensions) > MOST_DIMENSIONS:
        errors.append(FieldError("dimensions", f"must be at most {MOST_DIMENSIONS} dimensions"))
    errors += bad_attributes("dimensions", body.dimensions, RESERVED)
    if body.combine is not None and body.mode == "exact":
        errors.append(FieldError("combine", "goes with mode relaxed only: in exact mode there is one score"))
    if errors:
        raise many(errors)
    return MatcherConfig(tuple(body.dimensions), body.mode, body.combine or "sum", body.index)
