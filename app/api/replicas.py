"""The nodes of a group: who follows, promotion, and what nodes send each other."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import pyarrow as pa
from fastapi import APIRouter
from pydantic import Field, TypeAdapter
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from app.api.bodies import format_of, read, validated
from app.api.models import Page
from app.api.pages import PageQuery, Query, cursor, query
from app.api.problems import NAME_PATTERN, Problem, invalid, not_found
from app.api.responses import JsonResponse
from app.api.routing import REFUSALS, DirectRoute, accepts, needs
from app.api.values import Strict
from app.api.wired import wired
from app.errors import NotReady
from app.replication.followers import Follower
from app.replication.frames import MEDIA_TYPE
from app.replication.node import Node
from app.security.scopes import ADMIN
from app.storage.role import MOST_TERM
from formats.folder import MANIFEST, Damaged, Folder

router = APIRouter(
    prefix="/v1/admin", tags=["admin"], route_class=DirectRoute, responses=REFUSALS, dependencies=needs(ADMIN)
)
"""For people and their tools."""

protocol = APIRouter(prefix="/v1/admin", route_class=DirectRoute, include_in_schema=False, dependencies=needs(ADMIN))
"""For other nodes of the same version."""

PIECE = 1 << 20

MOST_PLACES = 20_000


class ReplicaLag(Strict):
    """How far a replica is behind."""

    rows: Annotated[int, Field(description="Rows of the log that it has not applied.")]
    seconds: Annotated[float, Field(description="Seconds since it was last heard of.")]


class Replica(Strict):
    """A replica as the leader knows it."""

    node: Annotated[str, Field(description="Id of its data directory.")]
    name: Annotated[str, Field(description="Its `RANKCAST_SERVICE`; empty where it has none.")]
    address: Annotated[str, Field(description="The address that it asks from.")]
    connected: Annotated[bool, Field(description="Whether it follows the log now.")]
    durable: Annotated[int, Field(description="The last row that it has on disk.")]
    lsn: Annotated[int, Field(description="The last row that its reads show.")]
    lag: Annotated[ReplicaLag, Field(description="How far it is behind.")]
    since: Annotated[str, Field(description="When it began to follow, in RFC 3339.")]


class ReplicaPage(Page):
    """This node, and those that follow it."""

    node: Annotated[str, Field(description="The id of this node.")]
    role: Annotated[Literal["leader", "replica"], Field(description="Whether it leads or follows.")]
    term: Annotated[int, Field(description="The highest term that it knows.")]
    lsn: Annotated[int, Field(description="The last row of the log that its reads show.")]
    leader: Annotated[str | None, Field(description="The URL of the leader that it follows; null at the leader.")]
    sync_replicas: Annotated[int, Field(description="Replicas that have a write on disk before it is answered.")]
    items: Annotated[list[Replica], Field(description="The replicas that follow or followed, in order of node.")]


class PromoteBody(Strict):
    """How to promote."""

    force: Annotated[
        bool, Field(description="Also where a node that can be reached has more of the log: that is given up.")
    ] = False


class PromoteResponse(Strict):
    """The node after it was promoted."""

    role: Annotated[Literal["leader", "replica"], Field(description="`leader`.")]
    term: Annotated[int, Field(description="Its term.")]
    lsn: Annotated[int, Field(description="The last row of the log.")]


class _Term(Strict):
    term: Annotated[int, Field(ge=0, lt=MOST_TERM)]
    node: Annotated[str, Field(pattern=NAME_PATTERN)]


class _Progress(Strict):
    node: Annotated[str, Field(pattern=NAME_PATTERN)]
    name: Annotated[str, Field(max_length=128)] = ""
    term: Annotated[int, Field(ge=0, lt=MOST_TERM)]
    durable: Annotated[int, Field(ge=0)]
    applied: Annotated[int, Field(ge=0)]
    touched: Annotated[list[tuple[str, str]], Field(max_length=MOST_PLACES)]


class _LogQuery(Query):
    after: Annotated[int, Field(ge=0)]
    checksum: Annotated[str, Field(pattern=r"^([0-9a-f]{2}){0,64}$")]
    node: Annotated[str, Field(pattern=NAME_PATTERN)]
    name: Annotated[str, Field(max_length=128)] = ""
    term: Annotated[int, Field(ge=0, lt=MOST_TERM)] = 0


class _FileQuery(Query):
    name: Annotated[str, Field(max_length=1000)]


_PROMOTE: TypeAdapter[PromoteBody | None] = TypeAdapter(PromoteBody | None)
_TERM = TypeAdapter(_Term)
_PROGRESS = TypeAdapter(_Progress)


@router.get("/replicas", response_model=ReplicaPage, openapi_extra=accepts(query=PageQuery))
async def list_replicas(request: Request) -> Response:
    """The role of this node, and the replicas that follow it, in order of node."""
    page = query(request, PageQuery)
    node = _node(request)
    after = page.after
    found = [one for one in node.followers.all() if after is None or one.node > after]
    last = wired(request).service.writer.last_lsn
    items = [_shown(one, last, node.followers.shared) for one in found[: page.limit]]
    leader = node.link.leader
    about = {
        "node": node.role.node,
        "role": node.role_name,
        "term": node.about()["term"],
        "lsn": node.lsn,
        "leader": None if node.leads or leader is None else leader.url,
        "sync_replicas": wired(request).service.settings.sync_replicas,
    }
    more = cursor(items[-1]["node"]) if len(found) > page.limit else None
    return JsonResponse({**about, "items": items, "next": more})


@router.post("/promote", response_model=PromoteResponse, openapi_extra=accepts(PromoteBody | None, idempotent=False))
async def promote_node(request: Request) -> Response:
    """Make this node the leader. A leader that can be reached ends its writes first, and nothing is lost.

    It is refused (409) where another replica that can be reached has more of the log, or the leader can be reached and
    does not hand over; `force` promotes all the same, and what only others have is given up. At the leader it changes
    nothing.
    """
    query(request, Query)
    format_of(request)
    raw = await read(request)
    body = (validated(raw, _PROMOTE) if raw else None) or PromoteBody()
    return JsonResponse(await _node(request).promote(body.force))


# --- between nodes ----------------------------------------------------------------------------------------------------


@protocol.get("/log")
async def follow_log(request: Request) -> Response:
    """The rows of the log after one, for as long as they are taken: `app.replication.frames`."""
    asked, node = query(request, _LogQuery), _node(request)
    if asked.term > node.term:
        await node.hear(asked.term, asked.node)
    _check_leads(node)
    chained = bytes.fromhex(asked.checksum)
    await asyncio.to_thread(node.followers.check, asked.after, chained)
    address = request.client.host if request.client is not None else ""
    follower = node.followers.add(asked.node, asked.name, address, asked.after)
    return StreamingResponse(node.followers.stream(follower, asked.after), media_type=MEDIA_TYPE)


@protocol.get("/log/{lsn}")
async def log_row(request: Request) -> Response:
    """The checksum of a row."""
    lsn = _number(request)
    found = await asyncio.to_thread(wired(request).service.stores.log.checksum_at, lsn)
    if found is None:
        raise not_found("lsn", f"row {lsn} is not in the log")
    return JsonResponse({"lsn": lsn, "checksum": found.hex()})


@protocol.post("/log/progress", openapi_extra=accepts(_Progress, asks=True))
async def note_progress(request: Request) -> Response:
    """Take how far a replica is, and which subscriptions with a time to live are used there."""
    format_of(request)
    said, node = validated(await read(request), _PROGRESS), _node(request)
    if said.term > node.term:
        await node.hear(said.term, said.node)
    _check_leads(node)
    address = request.client.host if request.client is not None else ""
    node.followers.note(said.node, said.durable, said.applied, said.name, address)
    for resource, id in said.touched:
        wired(request).service.expiry.touch(resource, id)
    return JsonResponse({"term": node.term})


@protocol.post("/replicas/handover", openapi_extra=accepts(_Term, asks=True))
async def hand_over(request: Request) -> Response:
    """End writes here, since another node is about to lead."""
    format_of(request)
    said = validated(await read(request), _TERM)
    return JsonResponse({"lsn": await _node(request).hand_over(said.term, said.node)})


@protocol.post("/replicas/term", openapi_extra=accepts(_Term, asks=True))
async def hear_term(request: Request) -> Response:
    """Take that another node leads."""
    format_of(request)
    said, node = validated(await read(request), _TERM), _node(request)
    await node.hear(said.term, said.node)
    return JsonResponse({"term": node.about()["term"]})


@protocol.get("/snapshots/newest")
async def newest_snapshot(request: Request) -> Response:
    """What a new replica begins from: the newest snapshot with its images, or the beginning of the log."""
    service = wired(request).service
    _check_leads(service.node)
    found = await asyncio.to_thread(_manifest, service)
    if found["folders"]:
        service.maintenance.hold()
    return JsonResponse(found)


@protocol.get("/snapshots/{lsn}/file")
async def snapshot_file(request: Request) -> Response:
    """A file of a snapshot or of its images, from a byte on."""
    service = wired(request).service
    service.maintenance.hold()
    lsn, name = _number(request), query(request, _FileQuery).name
    try:
        folder, inside, size = await asyncio.to_thread(_find, service.snapshots.root, lsn, name)
    except (Damaged, OSError) as error:
        raise not_found("name", f"it cannot be read: {error}") from None
    begin = _begin(request, size)
    headers = {"Content-Length": str(size - begin), "Accept-Ranges": "bytes"}
    if begin:
        headers["Content-Range"] = f"bytes {begin}-{size - 1}/{size}"
    pieces = _pieces(service.maintenance.hold, folder, inside, begin)
    return StreamingResponse(pieces, 206 if begin else 200, headers, "application/octet-stream")


def _node(request: Request) -> Node:
    return wired(request).service.node


def _check_leads(node: Node) -> None:
    if not node.leads or node.fenced is not None:
        raise NotReady(node.fenced or "this node is a replica itself", retry_after=1)


def _number(request: Request) -> int:
    text = request.path_params["lsn"]
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise not_found("lsn", "there is no such row")
    return int(text)


def _shown(one: Follower, last: int, shared: bool) -> dict[str, Any]:
    return {
        "node": one.node,
        "name": one.name,
        "address": one.address,
        "connected": one.follows(shared),
        "durable": one.durable,
        "lsn": one.applied,
        "lag": {"rows": last - one.applied, "seconds": round(time.monotonic() - one.heard, 3)},
        "since": datetime.fromtimestamp(one.since, UTC).isoformat(timespec="milliseconds"),
    }


def _manifest(service: Any) -> dict[str, Any]:
    """What a new replica begins from. Raises `NotReady` where there is nothing yet."""
    snapshots, log = service.snapshots, service.stores.log
    found = {"epoch": service.stores.directory.epoch, "term": service.node.term, "cuts": service.stores.cuts}
    for lsn in snapshots.lsns():
        checksum = log.checksum_at(lsn)
        try:
            about = snapshots.folder(lsn).manifest()
        except Damaged:
            continue
        if checksum is None or about.get("epoch") != found["epoch"] or about.get("behind"):
            continue
        folders = {f"snapshots/{lsn}": _text(snapshots.folder(lsn))}
        for resource in about["resources"]:
            image = snapshots.image(lsn, resource)
            if image.whole:
                folders[f"images/{lsn}/{resource}"] = _text(image)
        return {**found, "lsn": lsn, "checksum": checksum.hex(), "folders": folders}
    if log.pruned_through:
        raise NotReady("there is no snapshot that the log goes on from; one is due", retry_after=5)
    return {**found, "lsn": 0, "checksum": "", "folders": {}}


def _text(folder: Folder) -> str:
    with folder.open(MANIFEST) as file:
        return bytes(file.read()).decode()


def _find(root: Folder, lsn: int, name: str) -> tuple[Folder, str, int]:
    """The folder of a file, its name in it, and its size. Raises `Damaged` where a manifest does not name it."""
    parts = name.split("/")
    deep = {"snapshots": 2, "images": 4}.get(parts[0], 0)
    if not deep or len(parts) <= deep or parts[1] != str(lsn) or {"", ".", ".."} & set(parts):
        raise Damaged("it is no file of this snapshot")
    folder, inside = root / "/".join(parts[:deep]), "/".join(parts[deep:])
    about = folder.manifest()["files"].get(inside)
    if about is None:
        raise Damaged("its manifest does not name it")
    return folder, inside, int(about["bytes"])


def _begin(request: Request, size: int) -> int:
    """The first byte that is asked for. Raises the problem 422."""
    text = request.headers.get("range")
    if text is None:
        return 0
    number = text.removeprefix("bytes=").removesuffix("-")
    if not text.startswith("bytes=") or not (number.isascii() and number.isdigit()) or len(number) > 18:
        raise invalid("Range", "must be bytes=<first>-")
    if int(number) >= size:
        raise Problem("invalid", f"the file has {size} bytes")
    return int(number)


async def _pieces(hold: Any, folder: Folder, name: str, begin: int) -> AsyncIterator[bytes]:
    file: pa.NativeFile = await asyncio.to_thread(folder.open, name)
    try:
        if begin:
            await asyncio.to_thread(file.seek, begin)
        while piece := await asyncio.to_thread(file.read, PIECE):
            hold()
            yield bytes(piece)
    finally:
        file.close()
