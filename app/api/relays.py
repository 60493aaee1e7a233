"""Relays themselves: their configuration and their links."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from app.api.bodies import validated
from app.api.context import Done, json_alone
from app.api.models import Seq
from app.api.paging import PageQuery
from app.api.relay_commands import CommandRoutes
from app.api.relay_context import RelayContext
from app.api.relay_links import LinkRoutes
from app.api.relay_lists import SubscriptionRoutes
from app.api.relay_models import (
    MOST_ATTRIBUTES,
    MOST_LINKS,
    RESERVED,
    LinkBody,
    Relay,
    RelayBody,
    RelayPatch,
    Relays,
)
from app.api.relay_notify import NotificationRoutes
from app.api.responses import JsonResponse
from app.api.routing import Routes
from app.api.values import bad_attributes
from app.idempotency import Ticket
from app.overlay.address import bad_url
from app.overlay.overlay import Asked
from app.problems import FieldError, many
from app.service import Service
from app.writer import Skeleton
from indexes.relays.commands import ChangeLinks
from indexes.relays.model import Link, RelayConfig

_PUT = TypeAdapter(RelayBody)
_PATCH = TypeAdapter(RelayPatch)


class RelayRoutes:
    """Everything under ``/v1/relays`` but the streams."""

    def __init__(self) -> None:
        self._context = RelayContext()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def start(self, service: Service) -> None:
        """Give the routes the service that was started."""
        self._context.start(service)

    def add_routes(self, routes: Routes) -> None:
        """Serve the relays."""
        all_, one, tag = "/v1/relays", "/v1/relays/{relay}", "relays"
        write, see, add = "relays:write", "relays:read", routes.add
        add("GET", all_, self.list_relays, needs=see, tag=tag, answers={200: Relays}, query=PageQuery)
        add("PUT", one, self.put_relay, needs=write, tag=tag, answers={201: Relay, 200: Relay}, body=RelayBody)
        add("PATCH", one, self.patch_relay, needs=write, tag=tag, answers={200: Relay}, body=RelayPatch)
        add("GET", one, self.get_relay, needs=see, tag=tag, answers={200: Relay})
        add("DELETE", one, self.delete_relay, needs=write, tag=tag, answers={200: Seq})
        SubscriptionRoutes(self._context).add_routes(routes)
        CommandRoutes(self._context).add_routes(routes)
        NotificationRoutes(self._context).add_routes(routes)
        LinkRoutes(self._context).add_routes(routes)

    async def list_relays(self, request: Request) -> Response:
        """The relays in order of name."""
        return await self._context.listing(request)

    async def put_relay(self, request: Request) -> Response:
        """Make a relay, or change its links to these. With another configuration otherwise, and with a link that would
        close a cycle: 409."""
        name = self._context.name(request)

        async with AsyncExitStack() as turn:

            async def parse(raw: bytes | bytearray) -> RelayConfig:
                body = validated(raw, _PUT)
                config = _config(body)

                def become(standing: Mapping[str, Link]) -> dict[str, Link]:
                    return dict(standing) if body.links is None else self._links(name, body.links, standing)

                def standing() -> Mapping[str, Link]:
                    engine = self._context.resources.get(name)
                    return {} if engine is None else engine.latest_config.links

                links = await self._admitted(name, standing, become, turn)
                return replace(config, links=links)

            return await self._context.put(request, parse)

    async def patch_relay(self, request: Request) -> Response:
        """Add links, change them, or with null take them out. One that would close a cycle is refused with 409."""
        name = self._context.name(request)
        raw = await json_alone(request)

        async def run(ticket: Ticket | None) -> Done:
            async with AsyncExitStack() as turn:
                return await patch(ticket, turn)

        async def patch(ticket: Ticket | None, turn: AsyncExitStack) -> Done:
            self._context.config(request)
            body = validated(raw, _PATCH)
            given = {link: one for link, one in body.links.items() if one is not None}
            gone = {link: None for link, one in body.links.items() if one is None}

            def become(standing: Mapping[str, Link]) -> dict[str, Link]:
                unknown = [
                    FieldError(f"links.{link}", "there is no such link") for link in gone if link not in standing
                ]
                if unknown:
                    raise many(unknown)
                left = {link: one for link, one in standing.items() if link not in gone}
                left |= self._links(name, given, standing)
                _check_count(left)
                return left

            left = await self._admitted(name, lambda: self._context.config(request).links, become, turn)
            changed = {link: left[link] for link in given}

            def skeleton(plan: Any) -> Skeleton:
                engine = self._context.resources.latest(name)
                return Skeleton(
                    200, {"seq": plan.last_seq, **self._context.promised(name, engine.latest_config, engine)}
                )

            answer: dict[str, Any] = {}

            def show(plan: Any) -> None:
                answer.update(self._context.shown_now(name, plan.engine))

            command = ChangeLinks({**changed, **gone})
            await self._context.submit(request, command, ticket=ticket, skeleton=skeleton, then=show)
            return Done(JsonResponse(answer), answer)

        return await self._context.once(request, raw, run)

    async def get_relay(self, request: Request) -> Response:
        """A relay's configuration, its sizes, and how its links are."""
        return await self._context.get(request)

    async def delete_relay(self, request: Request) -> Response:
        """Delete a relay with all that is in it; its streams end."""
        async with self._turn(self._context.name(request)):
            return await self._context.drop(request)

    def _turn(self, relay: str) -> asyncio.Lock:
        """What is held from where the links of a relay are looked at until they have become others."""
        return self._turns.setdefault(relay, asyncio.Lock())

    async def _admitted(
        self,
        relay: str,
        standing: Callable[[], Mapping[str, Link]],
        become: Callable[[Mapping[str, Link]], dict[str, Link]],
        turn: AsyncExitStack,
    ) -> dict[str, Link]:
        """What the links of a relay become, which form a tree; as long as `turn` is held no other request changes them.
        The other sides are asked before it is, for they may be slow, and again only if the links have changed
        meanwhile. Raises what `become` does, and the problem 409."""
        asked: Asked = {}
        overlay, before = self._context.service.overlay, standing()
        await overlay.admit(relay, become(before), before, asked)
        await turn.enter_async_context(self._turn(relay))
        before = standing()
        links = become(before)
        await overlay.admit(relay, links, before, asked)
        return links

    def _links(self, relay: str, given: dict[str, LinkBody], standing: Mapping[str, Link]) -> dict[str, Link]:
        """Links that a body says, by name. What is left out stays as it is in a link that stands. Raises the problem
        422."""
        errors, hosts = [], self._context.settings.link_hosts
        found = {}
        for name, body in given.items():
            before = standing.get(name)
            url, other, link, key = body.url, body.relay, body.link, body.key
            if before is not None:
                url, other, link = before.url if url is None else url, other or before.relay, link or before.link
                # A key is for those who were given it: it goes to no other place with the link.
                kept = before.key if before.same_place(url) else None
                key = key if "key" in body.model_fields_set else kept
            lacking = [field for field, value in (("url", url), ("relay", other), ("link", link)) if value is None]
            errors += [FieldError(f"links.{name}.{field}", "is required") for field in lacking]
            if url is not None and (reason := bad_url(url, hosts)) is not None:
                errors.append(FieldError(f"links.{name}.url", reason))
            if url is not None and other is not None and link is not None:
                found[name] = Link(url, other, link, key)
        if given and ":" in relay:
            errors.append(FieldError("relay", "must not have a : in it, since ids travel as <service>:<relay>:<id>"))
        if errors:
            raise many(errors)
        _check_count(found)
        return found


def _config(body: RelayBody) -> RelayConfig:
    """The configuration that a body says, without links. Raises the problem 422."""
    errors = []
    if len(body.attributes) > MOST_ATTRIBUTES:
        errors.append(FieldError("attributes", f"must be at most {MOST_ATTRIBUTES} attributes"))
    errors += bad_attributes("attributes", body.attributes, RESERVED)
    if body.graph.k is not None and body.graph.kind != "G":
        errors.append(FieldError("graph.k", "goes with G only: the others keep all they need"))
    if errors:
        raise many(errors)
    return RelayConfig(tuple(body.attributes), body.graph.kind, body.graph.k or 1, body.index)


def _check_count(links: dict[str, Link]) -> None:
    if len(links) > MOST_LINKS:
        raise many([FieldError("links", f"must be at most {MOST_LINKS} links")])
