"""Relays themselves: their configuration and their links."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from app.api.bodies import validated
from app.api.callers import caller_of
from app.api.context import Done, json_body
from app.api.problems import many
from app.api.relays.context import RelayContext
from app.api.relays.models import (
    MOST_ATTRIBUTES,
    MOST_LINKS,
    RESERVED,
    Relay,
    RelayBody,
    RelayLinkBody,
    RelayPage,
    RelayPatch,
)
from app.api.relays.router import WRITE, relays, router
from app.api.resources import ResourceRoutes
from app.api.responses import JsonResponse
from app.api.routing import accepts
from app.api.values import bad_attributes
from app.errors import FieldError
from app.links.address import bad_url
from app.links.tree import ProbeResults
from app.write_path.idempotency import Ticket
from app.write_path.writer import Skeleton
from indexes.relays.commands import ChangeLinks
from indexes.relays.config import Link, RelayConfig

_PATCH = TypeAdapter(RelayPatch)


class RelayRoutes(ResourceRoutes[RelayContext]):
    """``/v1/relays`` and ``/v1/relays/{relay}``."""

    noun = "relay"
    body, shown, page = RelayBody, Relay, RelayPage
    put_prose = (
        "The links of one that exists become these; any other difference, and a link that would close a cycle, is "
        "refused with 409."
    )

    def context(self, request: Request) -> RelayContext:
        return relays(request)

    async def put(self, request: Request) -> Response:
        context = self.context(request)
        name = context.name(request)

        async with AsyncExitStack() as turn:

            async def parse(raw: bytes | bytearray) -> RelayConfig:
                body = validated(raw, self._body)
                config = self.config(context, body)

                def become(standing: Mapping[str, Link]) -> dict[str, Link]:
                    return dict(standing) if body.links is None else _links(request, body.links, standing)

                def standing() -> Mapping[str, Link]:
                    engine = context.resources.get(name)
                    return {} if engine is None else engine.latest_config.links

                links = await _admitted(context, name, standing, become, turn)
                return replace(config, links=links)

            return await context.put(request, parse)

    def config(self, context: RelayContext, body: RelayBody) -> RelayConfig:
        """The configuration that a body describes, without links. Raises the problem 422."""
        errors = []
        if len(body.attributes) > MOST_ATTRIBUTES:
            errors.append(FieldError("attributes", f"must be at most {MOST_ATTRIBUTES} attributes"))
        errors += bad_attributes("attributes", body.attributes, RESERVED)
        if body.graph.k is not None and body.graph.kind != "G":
            errors.append(FieldError("graph.k", "goes with G only: the others keep all they need"))
        if errors:
            raise many(errors)
        return RelayConfig(tuple(body.attributes), body.graph.kind, body.graph.k or 1, body.index)

    async def delete(self, request: Request) -> Response:
        context = self.context(request)
        async with context.turn(context.name(request)):
            return await super().delete(request)


RelayRoutes().add_to(router)


@router.patch("/{relay}", response_model=Relay, dependencies=WRITE, openapi_extra=accepts(RelayPatch))
async def patch_relay(request: Request) -> Response:
    """Add links, change them, or remove them with null. One that would close a cycle is refused with 409."""
    context = relays(request)
    name = context.name(request)
    raw = await json_body(request)

    async def run(ticket: Ticket | None) -> Done:
        async with AsyncExitStack() as turn:
            return await patch(ticket, turn)

    async def patch(ticket: Ticket | None, turn: AsyncExitStack) -> Done:
        context.config(request)
        body = validated(raw, _PATCH)
        given = {link: one for link, one in body.links.items() if one is not None}
        gone = {link: None for link, one in body.links.items() if one is None}

        def become(standing: Mapping[str, Link]) -> dict[str, Link]:
            unknown = [FieldError(f"links.{link}", "there is no such link") for link in gone if link not in standing]
            if unknown:
                raise many(unknown)
            left = {link: one for link, one in standing.items() if link not in gone}
            left |= _links(request, given, standing)
            _check_count(left)
            return left

        left = await _admitted(context, name, lambda: context.config(request).links, become, turn)
        changed = {link: left[link] for link in given}

        def skeleton(plan: Any) -> Skeleton:
            engine = context.resources.latest(name)
            return Skeleton(200, {"seq": plan.last_seq, **context.pending(name, engine.latest_config, engine)})

        answer: dict[str, Any] = {}

        def show(plan: Any) -> None:
            answer.update(context.visible(request, context.shown_now(name, plan.engine)))

        command = ChangeLinks({**changed, **gone})
        await context.submit(request, command, ticket=ticket, skeleton=skeleton, then=show)
        return Done(JsonResponse(answer), answer)

    return await context.once(request, raw, run)


async def _admitted(
    context: RelayContext,
    relay: str,
    standing: Callable[[], Mapping[str, Link]],
    become: Callable[[Mapping[str, Link]], dict[str, Link]],
    turn: AsyncExitStack,
) -> dict[str, Link]:
    """What the links of a relay become, which form a tree; as long as `turn` is held no other request changes them.
    The other sides are asked before it is, for they may be slow, and again only if the links have changed
    meanwhile. Raises what `become` does, and the problem 409."""
    asked: ProbeResults = {}
    tree, before = context.service.links, standing()
    await tree.admit(relay, become(before), before, asked)
    await turn.enter_async_context(context.turn(relay))
    before = standing()
    links = become(before)
    await tree.admit(relay, links, before, asked)
    return links


def _links(request: Request, given: dict[str, RelayLinkBody], standing: Mapping[str, Link]) -> dict[str, Link]:
    """The links of a body, by name. What is absent stays as it is in a link that exists. Raises the problem 422.

    Those that an administrator makes may lead to addresses that are not public.
    """
    context, trusted = relays(request), caller_of(request).grants.admin
    relay, hosts = context.name(request), context.settings.link_hosts
    errors = []
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
            private = trusted or (before is not None and before.private and before.same_place(url))
            found[name] = Link(url, other, link, key, private)
    if given and ":" in relay:
        errors.append(FieldError("relay", "must not have a : in it, since ids travel as <service>:<relay>:<id>"))
    if errors:
        raise many(errors)
    _check_count(found)
    return found


def _check_count(links: dict[str, Link]) -> None:
    if len(links) > MOST_LINKS:
        raise many([FieldError("links", f"must be at most {MOST_LINKS} links")])
