"""The zones of boards: which there are, cutting them again, and where a stream of a subscription goes on."""

from __future__ import annotations

from math import isinf
from typing import Annotated, Any

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from app.api.boards.context import BoardContext, json_of
from app.api.boards.models import BoardStreamStart, BoardZones
from app.api.boards.router import READ, WRITE, boards, router
from app.api.bodies import read
from app.api.context import Done, check_id
from app.api.models import NoQuery
from app.api.pages import Query, query
from app.api.problems import invalid, not_found
from app.api.responses import JsonResponse, json_response
from app.api.routing import accepts, caller_of, follows
from app.rendering.boards import end, number
from app.runtime.broker import subject_of
from app.service import Service
from app.write_path.idempotency import Ticket
from app.write_path.writer import Skeleton
from app.zones.balance import new_cut, points_of, zone_counts
from indexes.boards.commands import Configure
from indexes.boards.engine import BoardEngine
from indexes.boards.results import SubscriptionView
from indexes.boards.zones import Cut, counts_of, zone_of
from indexes.core.commands import Fault, Refused


class StartQuery(Query):
    """What a stream's route takes to let its reader in."""

    ticket: Annotated[str | None, Field(description="A ticket, in place of a key.", max_length=256)] = None


@router.get("/{board}/zones", response_model=BoardZones, dependencies=READ)
async def get_zones(request: Request) -> Response:
    """Get the zones in which a board's tiles are published on NATS."""
    query(request, NoQuery)
    context = boards(request)
    board = context.engine(request)
    cut = board.config.cut
    if cut is None:
        raise not_found("zones", "the board has no zones")
    seq, counts = board.seq, await zone_counts(board, cut)
    return JsonResponse(_shown(context, context.name(request), seq, cut, counts))


@router.post("/{board}/zones", response_model=BoardZones, dependencies=WRITE, openapi_extra=accepts())
async def cut_zones(request: Request) -> Response:
    """Cut the zones again by the present subscriptions, under the next version. The old subjects end with `moved`."""
    context, name = boards(request), request.path_params["board"]
    query(request, NoQuery)
    raw = await read(request)
    if raw.strip() not in (b"", b"{}"):
        raise invalid("body", "must be empty")

    async def run(ticket: Ticket | None) -> Done:
        config = context.config(request)
        if config.zones is None:
            raise Refused([Fault("zones", "the board has no zones", "different")])
        zones = await new_cut(context.reader(request), config.zones)
        counts = counts_of(zones, *points_of(context.reader(request)))

        def answer(plan: Any) -> dict[str, Any]:
            cut = plan.engine.latest_config.cut
            return _shown(context, name, plan.last_seq, cut, counts)

        def skeleton(plan: Any) -> Skeleton:
            return Skeleton(200, answer(plan))

        said: dict[str, Any] = {}
        await context.submit(
            request, Configure(cut=zones), ticket=ticket, skeleton=skeleton, then=lambda plan: said.update(answer(plan))
        )
        return Done(JsonResponse(said), said)

    return await context.once(request, raw, run)


def _shown(context: BoardContext, name: str, seq: int, cut: Cut, counts: list[int]) -> dict[str, Any]:
    service = context.service
    resource = context.resources.prefix + name
    chain = service.zones.chain(resource)
    # A subject ends with the zone.
    subject = subject_of(service.hub.epoch, name, cut.version, "")
    return {
        "seq": seq,
        "version": cut.version,
        "base": cut.seq,
        "subject": subject,
        "published": None if chain is None else service.zones.position(resource),
        "zones": [
            {
                "id": i,
                "l": [_end(zone.l_lo), _end(zone.l_hi)],
                "r": [_end(zone.r_lo), _end(zone.r_hi)],
                "subscriptions": counts[i],
                "rate": 0.0 if chain is None or chain.cut != cut else round(chain.rate(i), 3),
            }
            for i, zone in enumerate(cut.zones)
        ],
    }


def _end(side: float) -> float | int | None:
    return None if isinf(side) else int(side) if side.is_integer() and abs(side) <= 1 << 53 else side


@router.get(
    "/{board}/subscriptions/{id}/start",
    response_model=BoardStreamStart,
    dependencies=follows("boards:read"),
    openapi_extra=accepts(query=StartQuery),
)
async def get_stream_start(request: Request) -> Response:
    """Get what a stream of a subscription begins with, and the zone in which it goes on, as gateways do. Who may
    follow the stream may ask."""
    query(request, StartQuery)
    context = boards(request)
    board, id, caller = context.engine(request), request.path_params["id"], caller_of(request)
    check_id(request)
    caller.require_id(id)
    view = board.subscription(id)
    if view is None:
        raise not_found("id", f"there is no subscription {id[:128]!r}")
    context.touch(request, id)
    expires = "null" if caller.expires is None else repr(caller.expires)
    zone = _zone(context.service, context.resources.prefix + context.name(request), board, view)
    config, write = board.config, json_of(board.config)
    l, r = view.region.ends[0]
    depth = view.offset + view.k
    fields = [
        f'"seq":{board.seq},"epoch":"{context.service.hub.epoch}","id":"{id}","l":{end(l)},"r":{end(r)},"k":{depth}',
        f'"offset":{view.offset},"ttl":{"null" if view.ttl is None else number(view.ttl)}',
        f'"range_attribute":"{config.range_attributes[0]}"',
        f'"rank":{{"attribute":"{config.rank_attribute}","order":"{config.order}"}}',
        f'"caller":{{"id":"{caller.id}","expires":{expires}}},"zone":{zone}',
        f'"list":{write.list(board.top(view.region, depth, 0, view.where))}',
    ]
    return json_response(f"{{{','.join(fields)}}}")


def _zone(service: Service, resource: str, board: BoardEngine, view: SubscriptionView) -> str:
    """The zone of a subscription in JSON: null where its tiles are not published."""
    cut, chain = board.config.cut, service.zones.chain(resource)
    if cut is None or chain is None:
        return "null"
    l, r = view.region.ends[0]
    known = chain.cut == cut
    zone = chain.zone_of(l, r) if known else zone_of(cut.zones, l, r)
    published = service.zones.position(resource)
    last = chain.taken.get(zone, cut.seq) if known and zone is not None else cut.seq
    return f'{{"version":{cut.version},"zone":{zone},"base":{cut.seq},"published":{published},"last":{last}}}'
