"""Snapshots and images: read, or refused as damaged, also where their manifest was made to fit what is in them."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from app.resources.base import ResourceTypes, UnknownResourceType
from app.resources.boards import BoardType
from app.resources.feeds import FeedType
from app.resources.maps import MapType
from app.resources.matchers import MatcherType
from app.resources.relays import RelayType
from app.storage.snapshots import Snapshots, read_answers, read_keys
from formats.folder import MANIFEST, Damaged, Folder
from tests.fuzz.fuzzing import bounded
from tests.fuzz.grammar import World
from tests.fuzz.requests import rendered
from tests.fuzz.sessions import serve
from tests.fuzz.values import mutate_bytes, mutate_table, mutate_tree


class Folders:
    """The snapshot and the images of a small service. An input is a file in place of one of them; with `sealed` the
    manifest has its size and its SHA-256, as no accident makes them.
    """

    name = "folders"

    def __init__(self) -> None:
        self._path = Path(tempfile.mkdtemp(prefix="fuzz-"))
        self._files: dict[str, bytes] = {}
        self._epoch = ""
        self._types = ResourceTypes(BoardType(), MatcherType(), RelayType(), MapType(), FeedType())

    def _prepare(self) -> None:
        if self._files:
            return
        self._epoch = asyncio.run(_make(self._path / "data"))
        root = self._path / "data"
        for part in ("snapshots", "images"):
            for file in sorted((root / part).rglob("*")):
                if file.is_file():
                    self._files[str(file.relative_to(root))] = file.read_bytes()

    def make(self, rng: Random) -> bytes:
        self._prepare()
        name = rng.choice(list(self._files))
        return json.dumps(
            {
                "file": name,
                "content": base64.b64encode(_mutated(rng, name, self._files[name])).decode(),
                "sealed": rng.random() < 0.8,
            }
        ).encode()

    def run(self, data: bytes) -> int:
        self._prepare()
        given = json.loads(data)
        root = self._path / "data"
        if given["file"] not in self._files:
            return 0
        file = root / given["file"]
        folder = next(parent for parent in file.parents if (parent / MANIFEST).exists())
        file.write_bytes(base64.b64decode(given["content"]))
        try:
            if given["sealed"]:
                _seal(folder, file)
            with bounded(f"reading a changed {file.name.partition('.')[2]}"):
                self._read()
        finally:
            for changed in (file, folder / MANIFEST):
                changed.write_bytes(self._files[str(changed.relative_to(root))])
        return 1

    def _read(self) -> None:
        snapshots = Snapshots(Folder.at(self._path / "data"), self._epoch, self._types)
        for lsn in snapshots.lsns():
            try:
                read = snapshots.read(lsn)
            except (Damaged, UnknownResourceType):
                continue
            for some in (read_keys, read_answers):
                try:
                    list(some(snapshots.folder(lsn)))
                except Damaged:
                    continue
            for resource in read.states:
                snapshots.packed(lsn, resource)

    def smaller(self, data: bytes) -> Iterator[bytes]:
        return iter(())

    def close(self) -> None:
        shutil.rmtree(self._path, ignore_errors=True)


def _mutated(rng: Random, name: str, data: bytes) -> bytes:
    if rng.random() < 0.3:
        return mutate_bytes(rng, data)
    try:
        if name.endswith(".json"):
            return json.dumps(mutate_tree(rng, json.loads(data))).encode()
        out = io.BytesIO()
        if name.endswith(".parquet"):
            pq.write_table(mutate_table(rng, pq.read_table(io.BytesIO(data))), out)
        else:
            table = mutate_table(rng, pa.ipc.open_file(io.BytesIO(data)).read_all())
            with pa.ipc.new_file(out, table.schema) as writer:
                writer.write_table(table)
        return out.getvalue()
    except (pa.ArrowException, ValueError, TypeError):
        return mutate_bytes(rng, data)


def _seal(folder: Path, file: Path) -> None:
    """Make the manifest fit."""
    try:
        about: Any = json.loads((folder / MANIFEST).read_bytes())
        about.pop("digest", None)
        if file.name != MANIFEST:
            content = file.read_bytes()
            sums = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            about["files"][str(file.relative_to(folder))].update(sums)
        text = json.dumps(about, sort_keys=True, separators=(",", ":")).encode()
        sealed = {**about, "digest": hashlib.sha256(text).hexdigest()}
        (folder / MANIFEST).write_text(json.dumps(sealed))
    except (ValueError, KeyError, TypeError, AttributeError):
        return


async def _make(data: Path) -> str:
    """A small service's snapshot, and images made from it; returns the epoch."""
    rng = Random(2)
    async with serve(data) as served:
        world = World(rng)
        for plan in world.setup():
            await served.send(rendered(rng, plan, 0.0))
        for target in ("/v1/admin/snapshots", "/v1/admin/rebuilds"):
            body = "{}" if target.endswith("snapshots") else '{"engine":"local"}'
            request = {
                "method": "POST",
                "target": target,
                "headers": {"content-type": "application/json"},
                "text": body,
            }
            _, _, answer = await served.send(request)
            await served.service.jobs.wait(json.loads(answer)["job"])
        return served.service.stores.directory.epoch
