"""What comes over links: messages of the relay on the other side, and whether a link to it could be."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from app.api.bodies import validated
from app.api.bulk import Place
from app.api.context import element_refusal, json_body
from app.api.element_errors import ElementError, ElementErrors
from app.api.payloads import Payloads
from app.api.problems import Problem, invalid, not_found
from app.api.relays.context import RelayContext
from app.api.relays.models import OPS, LinkMessagesBody, LinkMessagesResponse, LinkProbeBody, LinkProbeResponse
from app.api.relays.parsing.subscriptions import interval
from app.api.relays.router import LINK, relays, router
from app.api.responses import JsonResponse
from app.api.routing import accepts
from app.api.values import NAME_REASON, is_name
from indexes.core.commands import Refused
from indexes.relays.commands import Receive
from indexes.relays.config import REVERSED, Message, RelayConfig

_PROBE = TypeAdapter(LinkProbeBody)
INLINE = 64 << 10
"""Bytes of messages up to which they are taken apart on the event loop: some hundreds of them."""

_UNBOUNDED: list[float | None] = [None, None]


@router.post(
    "/{relay}/links/{link}/messages",
    response_model=LinkMessagesResponse,
    dependencies=LINK,
    openapi_extra=accepts(LinkMessagesBody, idempotent=False),
)
async def receive_messages(request: Request) -> Response:
    """Take what the relay on the other side of a link says: its subscriptions, and notifications.

    Messages that are there already are ignored, and `next` says where to go on. One that would close a cycle is
    refused with 409.
    """
    context = relays(request)
    raw = await json_body(request)
    link, config = request.path_params["link"], _config(request)
    if len(raw) <= INLINE:
        body, messages = _read(context, config, raw)
    else:
        body, messages = await asyncio.to_thread(_read, context, config, raw)
        # The link may have gone meanwhile, and the relay may be another one.
        if _config(request).attributes != config.attributes:
            raise Problem("different", "the relay was recreated meanwhile")
    tree, name = context.service.links, context.name(request)
    who = [body["identity"]] if body.get("identity") is not None else []
    await tree.received(name, link, frozenset([*who, *(body.get("behind") or ())]), messages)
    try:
        plan = await context.submit(request, Receive(link, body["epoch"], messages))
    except Refused as refused:
        raise element_refusal(refused, Place("messages"), lambda position: position) from None
    tree.count_messages(name, link, "in", plan.count)
    answer = {"epoch": plan.epoch, "next": plan.next, "identity": tree.identity(name)}
    return JsonResponse({**answer, "behind": tree.behind(name, link)})


@router.post(
    "/{relay}/links/{link}/probe",
    response_model=LinkProbeResponse,
    dependencies=LINK,
    openapi_extra=accepts(LinkProbeBody, asks=True),
)
async def probe_link(request: Request) -> Response:
    """Say who is here, and who can be reached but over this link, which need not be there. 409 where a link to who
    asks would close a cycle."""
    context = relays(request)
    body = validated(await json_body(request), _PROBE)
    context.engine(request)
    tree, name, link = context.service.links, context.name(request), request.path_params["link"]
    if not is_name(link):
        raise invalid("link", NAME_REASON)
    tree.check(name, link, {body.identity, *body.behind})
    return JsonResponse({"identity": tree.identity(name), "behind": tree.behind(name, link)})


def _config(request: Request) -> RelayConfig:
    """The configuration that the next command meets. Raises the problem 404 where the link in the path is not
    there."""
    context = relays(request)
    config, link = context.config(request), request.path_params["link"]
    if link not in config.links:
        raise not_found("link", f"there is no link {link[:128]!r}")
    return config


def _read(context: RelayContext, config: RelayConfig, raw: bytes | bytearray) -> tuple[dict[str, Any], list[Message]]:
    """A body and the messages in it. Raises the problems 400, 413 and 422."""
    body: dict[str, Any] = validated(raw, context.validators(config).messages, OPS)
    return body, _messages(context, config, body["messages"])


def _messages(context: RelayContext, config: RelayConfig, items: list[dict[str, Any]]) -> list[Message]:
    """Messages that were validated. Raises the problem 422."""
    errors = ElementErrors()
    payloads = Payloads(context.settings.max_payload, errors)
    found = []
    for index, item in enumerate(items):
        n, op = item["n"], item["op"]
        if op == "subscribe":
            box = tuple(interval(item["box"].get(name, _UNBOUNDED)) for name in config.attributes)
            wrong = [name for name, (lo, hi) in zip(config.attributes, box, strict=True) if lo > hi]
            errors += [ElementError(index, f"box.{name}", REVERSED) for name in wrong]
            found.append(Message(n, op, id=item["id"], box=box))
        elif op == "unsubscribe":
            found.append(Message(n, op, id=item["id"]))
        elif op == "reset":
            found.append(Message(n, op, follow=item["follow"]))
        else:
            values = tuple(item["values"][name] for name in config.attributes)
            payload = payloads.text(index, item.get("payload"))
            mark = None if item.get("mark") is None else (item["mark"][0], item["mark"][1])
            found.append(Message(n, op, values=values, payload=payload, mark=mark))
    if errors:
        raise Place("messages").refusal(errors)
    return found
