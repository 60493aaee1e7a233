"""Resources of any type: listed, put, read and deleted the same way everywhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

from fastapi import APIRouter
from pydantic import BaseModel, TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from app.api.bodies import validated
from app.api.context import Context
from app.api.models import SeqResponse
from app.api.pages import PageQuery
from app.api.routing import accepts, needs

ContextT = TypeVar("ContextT", bound=Context[Any, Any])


class ResourceRoutes(ABC, Generic[ContextT]):
    """The operations on resources of one type, for its router.

    `noun` is what a resource is called; `body`, `shown` and `page` are the models of a configuration, of a resource and
    of a page of them; `put_prose` is what the document adds to the description of PUT.
    """

    noun: ClassVar[str]
    body: ClassVar[type[BaseModel]]
    shown: ClassVar[type[BaseModel]]
    page: ClassVar[type[BaseModel]]
    put_prose: ClassVar[str] = "One that exists stays as it is; with another configuration it is refused with 409."

    def __init__(self) -> None:
        self._body: TypeAdapter[Any] = TypeAdapter(self.body)

    def add_to(self, router: APIRouter) -> None:
        """Add the operations to the router of the type."""
        noun = self.noun
        reads, writes = needs(f"{noun}s:read"), needs(f"{noun}s:write")
        router.add_api_route(
            "",
            self.list_page,
            methods=["GET"],
            response_model=self.page,
            dependencies=reads,
            openapi_extra=accepts(query=PageQuery),
            description=f"List the {noun}s in order of name.",
        )
        router.add_api_route(
            f"/{{{noun}}}",
            self.put,
            methods=["PUT"],
            status_code=201,
            response_model=self.shown,
            responses={200: {"model": self.shown}},
            dependencies=writes,
            openapi_extra=accepts(self.body),
            description=f"Create a {noun}. {self.put_prose}",
        )
        router.add_api_route(
            f"/{{{noun}}}",
            self.get,
            methods=["GET"],
            response_model=self.shown,
            dependencies=reads,
            description=f"Get a {noun}'s configuration and sizes.",
        )
        router.add_api_route(
            f"/{{{noun}}}",
            self.delete,
            methods=["DELETE"],
            response_model=SeqResponse,
            dependencies=writes,
            description=f"Delete a {noun} with all that is in it; its streams end.",
        )

    @abstractmethod
    def context(self, request: Request) -> ContextT:
        """The resources of the service that a request came to."""

    @abstractmethod
    def config(self, context: ContextT, body: Any) -> Any:
        """The configuration that a body describes. Raises the problem 422."""

    async def list_page(self, request: Request) -> Response:
        """List resources."""
        return await self.context(request).listing(request)

    async def put(self, request: Request) -> Response:
        """Create a resource."""
        context = self.context(request)
        return await context.put(request, lambda raw: self.config(context, validated(raw, self._body)))

    async def get(self, request: Request) -> Response:
        """Get a resource."""
        return await self.context(request).get(request)

    async def delete(self, request: Request) -> Response:
        """Delete a resource."""
        return await self.context(request).drop(request)
