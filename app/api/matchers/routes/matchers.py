"""Matchers themselves: their configuration."""

from __future__ import annotations

from starlette.requests import Request

from app.api.matchers.context import MatcherContext
from app.api.matchers.models import MOST_DIMENSIONS, RESERVED, Matcher, MatcherBody, MatcherPage
from app.api.matchers.router import matchers, router
from app.api.problems import many
from app.api.resources import ResourceRoutes
from app.api.values import bad_attributes
from app.errors import FieldError
from indexes.matchers.config import MatcherConfig


class MatcherRoutes(ResourceRoutes[MatcherContext]):
    """``/v1/matchers`` and ``/v1/matchers/{matcher}``."""

    noun = "matcher"
    body, shown, page = MatcherBody, Matcher, MatcherPage

    def context(self, request: Request) -> MatcherContext:
        return matchers(request)

    def config(self, context: MatcherContext, body: MatcherBody) -> MatcherConfig:
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


MatcherRoutes().add_to(router)
