"""What comes over links: messages of the relay on the other side, and whether a link to it could be."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from app.api.bodies import validated
from app.api.context import element_refusal, json_alone
from app.api.elements import ElementError, Place
from app.api.payloads import Payloads
from app.api.relay_context import RelayContext
from app.api.relay_models import OPS, MessagesAnswer, MessagesBody, ProbeAnswer, ProbeBody
from app.api.relay_subscriptions import REVERSED, interval
from app.api.responses import JsonResponse
from app.api.routing import Routes
from app.api.values import NAME_REASON, is_name
from app.problems import Problem, invalid, not_found
from indexes.commands import Refused
from indexes.relays.commands import Receive
from indexes.relays.model import Message, RelayConfig

_PROBE = TypeAdapter(ProbeBody)
INLINE = 64 << 10
"""Bytes of messages up to which they are taken apart on the event loop: some hundreds of them."""

_UNBOUNDED: list[float | None] = [None, None]


class LinkRoutes:
    """``/v1/relays/{relay}/links/{link}``."""

    def __init__(self, context: RelayContext) -> None:
        self._context = context

    def add_routes(self, routes: Routes) -> None:
        """Serve what relays of other services say."""
        one, needs, tag, add = "/v1/relays/{relay}/links/{link}", "relays:write", "relays", routes.add
        messages = {200: MessagesAnswer}
        add(
            "POST",
            one + "/messages",
            self.receive_messages,
            needs=needs,
            tag=tag,
            answers=messages,
            body=MessagesBody,
            writes=False,
        )
        probe = {200: ProbeAnswer}
        add("POST", one + "/probe", self.probe_link, needs=needs, tag=tag, answers=probe, body=ProbeBody, writes=False)

    async def receive_messages(self, request: Request) -> Response:
        """Take what the relay on the other side of a link says: its subscriptions, and notifications.

        Messages that are there already are ignored, and `next` says where to go on. One that would close a cycle is
        refused with 409.
        """
        raw = await json_alone(request)
        link, config = request.path_params["link"], self._config(request)
        if len(raw) <= INLINE:
            body, messages = self._read(config, raw)
        else:
            body, messages = await asyncio.to_thread(self._read, config, raw)
            # The link may have gone meanwhile, and the relay may be another one.
            if self._config(request).attributes != config.attributes:
                raise Problem("different", "the relay was made anew meanwhile")
        overlay, name = self._context.service.overlay, self._context.name(request)
        who = [body["identity"]] if body.get("identity") is not None else []
        await overlay.received(name, link, frozenset([*who, *(body.get("behind") or ())]), messages)
        try:
            plan = await self._context.submit(request, Receive(link, body["epoch"], messages))
        except Refused as refused:
            raise element_refusal(refused, Place("messages"), lambda position: position) from None
        overlay.counted(name, link, "in", plan.count)
        answer = {"epoch": plan.epoch, "next": plan.next, "identity": overlay.identity(name)}
        return JsonResponse({**answer, "behind": overlay.behind(name, link)})

    async def probe_link(self, request: Request) -> Response:
        """Say who is here, and who can be reached but over this link, which need not be there. 409 where a link to who
        asks would close a cycle."""
        body = validated(await json_alone(request), _PROBE)
        self._context.engine(request)
        overlay, name, link = self._context.service.overlay, self._context.name(request), request.path_params["link"]
        if not is_name(link):
            raise invalid("link", NAME_REASON)
        overlay.check(name, link, {body.identity, *body.behind})
        return JsonResponse({"identity": overlay.identity(name), "behind": overlay.behind(name, link)})

    def _config(self, request: Request) -> RelayConfig:
        """The configuration that the next command meets. Raises the problem 404 where the link in the path is not
        there."""
        config, link = self._context.config(request), request.path_params["link"]
        if link not in config.links:
            raise not_found("link", f"there is no link {link[:128]!r}")
        return config

    def _read(self, config: RelayConfig, raw: bytes | bytearray) -> tuple[dict[str, Any], list[Message]]:
        """A body and the messages in it. Raises the problems 400, 413 and 422."""
        body: dict[str, Any] = validated(raw, self._context.validators(config).messages, OPS)
        return body, self._messages(config, body["messages"])

    def _messages(self, config: RelayConfig, items: list[dict[str, Any]]) -> list[Message]:
        """Messages that were validated. Raises the problem 422."""
        errors: list[ElementError] = []
        payloads = Payloads(self._context.settings.max_payload, errors)
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
