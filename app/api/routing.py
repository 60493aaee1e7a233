"""Routes as FastAPI has them, but called directly: with the request alone, after the key was checked.

FastAPI's own way of calling an endpoint (solving dependencies, two exit stacks) takes longer than most responses here,
and to make a hundred of its routes takes longer than the rest of the start. So a router is an `APIRouter` with the
route class `DirectRoute`, which becomes a whole route of FastAPI when the OpenAPI document is first asked for. An
endpoint takes the request and reads its body with `app.api.bodies`; `accepts` names the models of what it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import RLock
from typing import Any

from fastapi import Depends, Security, params
from fastapi.routing import APIRoute
from fastapi.security import APIKeyQuery, HTTPBearer
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from app.api.callers import caller_of, keyring_of
from app.api.operations import REFUSALS, accepts, documented, shown_as, writes
from app.api.wired import wired
from app.errors import Forbidden
from app.security.callers import Caller
from app.security.keyring import Keyring
from app.security.scopes import ADMIN, ADMINISTRATION, LINK, LINK_SCOPE, SCOPES, Need
from app.security.tokens import UnknownSigningKey

__all__ = ["REFUSALS", "DirectRoute", "accepts", "caller_of", "follows", "keyring_of", "needs", "shown_as"]

API_KEY = HTTPBearer(
    scheme_name="key",
    description="An API key, or a JSON Web Token where the service takes those. Not needed while it has neither "
    "and listens on loopback only. Scopes: "
    + ", ".join(f"`{scope}`" for scope in SCOPES)
    + ", each of the latter also "
    "about one resource, as `boards/delays:read`. `admin` includes all others, `write` the three other rights, "
    f"`subscribe` includes `read`. `{LINK_SCOPE}` is for the neighbour behind a relay's link.",
    auto_error=False,
)

TICKET = APIKeyQuery(
    name="ticket",
    scheme_name="ticket",
    description="A ticket of `POST /v1/tickets`, which opens this stream for those who cannot send a header.",
    auto_error=False,
)

_DESCRIBING = RLock()


def needs(*scopes: str) -> list[params.Depends]:
    """The dependency of a route that needs a key with this scope on the resource in its path; without one, any key."""
    return [Security(API_KEY, scopes=scopes)]


def follows(scope: str) -> list[params.Depends]:
    """The dependencies of a stream: a key with this scope, or a ticket."""
    return [*needs(scope), Depends(TICKET)]


class DirectRoute(APIRoute):
    """A route that calls its endpoint with the request, once the key has the scope that its dependencies name.

    It is given what FastAPI's decorators take. Only what routing needs is set up at once: its other attributes
    (dependant, response fields, ...) are made when one of them is first read, which the OpenAPI document does.
    """

    methods: set[str]
    admission: Admission | None
    """What checks the rights of a request; None where none are needed."""
    writes: bool
    """Whether a request may change something."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        self.path = path
        self.methods = set(options["methods"] or ("GET",))
        self.name = options.get("name") or endpoint.__name__
        self.call = endpoint
        self.writes = writes(options)
        self._options: dict[str, Any] | None = options
        self.admission = admission = _admission(options.get("dependencies") or ())

        async def run(scope: Scope, receive: Receive, send: Send) -> None:
            if admission is not None:
                try:
                    admission.admit(scope)
                except UnknownSigningKey:
                    await scope["app"].state.keyring.tokens.refresh()
                    admission.admit(scope)
            response = await endpoint(Request(scope, receive, send))
            await response(scope, receive, send)

        self.app = run

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in self.methods:
            raise HTTPException(405, headers={"Allow": ", ".join(sorted(self.methods))})
        await self.app(scope, receive, send)

    def __getattr__(self, name: str) -> Any:
        """An attribute that FastAPI's route has, made when it is first read."""
        if name.startswith("__"):
            raise AttributeError(name)
        with _DESCRIBING:
            options, self._options = self.__dict__.get("_options"), None
            if options is not None:
                app = self.app
                super().__init__(self.path, **documented(self.path, self.call, options))
                self.app = app
        return object.__getattribute__(self, name)


class Admission:
    """What checks the rights of a request: `needed` says which, by the parameters of its path; None: any key will do.

    A ticket will do as well where the route `takes_ticket`, as that of a stream.
    """

    def __init__(self, needed: Callable[[Mapping[str, str]], Need] | None, takes_ticket: bool) -> None:
        self._needed = needed
        self._takes_ticket = takes_ticket

    def has_ticket(self, scope: Scope) -> bool:
        """Whether a request comes with a ticket."""
        return self._takes_ticket and b"ticket=" in scope["query_string"]

    def admit(self, scope: Scope) -> None:
        """Find the caller of a request by its head. Raises `Unauthorized` and `Forbidden`."""
        keyring: Keyring = scope["app"].state.keyring
        if self.has_ticket(scope):
            _admit_ticket(keyring, scope)
            return
        if keyring.open:
            return
        header = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        self.admit_caller(scope, keyring.admit(header.decode("latin-1")))

    def admit_caller(self, scope: Scope, caller: Caller) -> None:
        """Note the caller of a request. Raises `Forbidden` where it lacks the rights."""
        scope["caller"], scope["key_id"] = caller, caller.id
        if self._needed is not None:
            caller.require(self._needed(scope["path_params"]))


def _admission(dependencies: Sequence[params.Depends]) -> Admission | None:
    """What checks the rights of a route's requests; None where none are needed."""
    security = next((one for one in dependencies if isinstance(one, params.Security)), None)
    if security is None:
        return None
    return Admission(_needed(*(security.scopes or ())), any(one.dependency is TICKET for one in dependencies))


def _admit_ticket(keyring: Keyring, scope: Scope) -> None:
    """Let in who has a ticket for the stream in the path."""
    secret = QueryParams(scope["query_string"]).get("ticket", "")
    ticket = wired(Request(scope)).tickets.find(secret)
    keyring.check(ticket.caller)
    _, _, resources, name, _, id, _ = scope["path"].split("/")
    if not ticket.opens(f"{resources}/{name}", id):
        raise Forbidden("the ticket does not open this stream")
    scope["caller"], scope["key_id"] = ticket.caller, ticket.caller.id


def _needed(scope: str | None = None) -> Callable[[Mapping[str, str]], Need] | None:
    """What a route with this scope needs, by the parameters of its path; None where any key will do."""
    if scope is None:
        return None
    if scope == ADMIN:
        return lambda _: ADMINISTRATION
    resources, _, right = scope.rpartition(":")
    resources = resources.partition("/")[0]
    noun = resources.removesuffix("s")
    if right.startswith(LINK):
        return lambda path: Need(resources, LINK + path["link"], path[noun])
    return lambda path: Need(resources, right, path.get(noun))
