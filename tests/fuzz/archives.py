"""Archives of kernels: taken in completely, or refused with nothing taken in."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from indexes.compiled import archive, cache, targets
from tests.fuzz.fuzzing import Fell, bounded
from tests.fuzz.values import STRINGS, mutate_bytes, mutate_tree

FILES = {"k.one-1.kernel": b"one" * 200, "k.two-2.kernel": b"two", "g-1.ready": b"mark"}


class Archives:
    """A small archive of this machine, whose members, headers, manifest and bytes are changed."""

    name = "archives"

    def __init__(self) -> None:
        self._path = Path(tempfile.mkdtemp(prefix="fuzz-"))

    def make(self, rng: Random) -> bytes:
        digests = {name: hashlib.sha256(data).hexdigest() for name, data in FILES.items()}
        about: Any = {**archive._made_by(), "target": targets.native(), "files": digests}
        if rng.random() < 0.4:
            about = mutate_tree(rng, about)
        manifest = json.dumps(about).encode()
        members = [
            (tarfile.TarInfo(archive.MANIFEST), manifest),
            *((tarfile.TarInfo(name), data) for name, data in FILES.items()),
        ]
        for entry, data in members:
            entry.size = len(data)
        for _ in range(rng.choice((0, 1, 1, 2))):
            _change(rng, members)
        out = io.BytesIO()
        kind = rng.choice((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT))
        with tarfile.open(fileobj=out, mode="w", format=kind, errors="surrogatepass") as made:
            for entry, data in members:
                try:
                    made.addfile(entry, io.BytesIO(data[: entry.size].ljust(min(entry.size, 4096), b"\0")))
                except (ValueError, OSError, OverflowError, TypeError):
                    continue
        data = out.getvalue()
        return mutate_bytes(rng, data) if rng.random() < 0.5 else data

    def run(self, data: bytes) -> int:
        shutil.rmtree(self._path, ignore_errors=True)
        (self._path / "cache").mkdir(parents=True)
        file = self._path / "kernels.tar"
        file.write_bytes(data)
        taken = False
        with patch.dict(os.environ, {cache.VARIABLE: str(self._path / "cache")}), bounded("an archive"):
            try:
                archive.read_archive(file)
                taken = True
            except (archive.Refused, OSError):
                pass
        found = [path for path in self._path.rglob("*") if path.is_file() and path != file]
        if any(not path.is_relative_to(self._path / "cache") for path in found):
            raise Fell("an archive is written outside of the cache")
        if found and not taken:
            raise Fell("an archive is refused, and taken in all the same")
        return 1

    def smaller(self, data: bytes) -> Iterator[bytes]:
        return iter(())

    def close(self) -> None:
        shutil.rmtree(self._path, ignore_errors=True)


def _change(rng: Random, members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    at = rng.randrange(len(members))
    entry, data = members[at]
    match rng.randrange(7):
        case 0:
            entry.name = rng.choice(
                (*STRINGS[:20], "../k.kernel", "/tmp/k.kernel", "a/k.kernel", "k.one-1.kernel", "k.kernel")
            )
        case 1:
            entry.type = rng.choice(
                (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, b"Z")
            )
            entry.linkname = rng.choice(("/etc/passwd", "manifest.json", "k.one-1.kernel"))
        case 2:
            members.append((entry, data))
        case 3:
            members.pop(at)
            members[:] = members or [(entry, data)]
        case 4:
            entry.size = rng.choice((0, 1, 1 << 20, 1 << 30, (1 << 33) - 1))
        case 5:
            size = str(rng.choice((1 << 25, 60 << 20, 1 << 40)))
            entry.pax_headers = {"GNU.sparse.major": "0", "GNU.sparse.size": size, "GNU.sparse.map": "0,1", "size": "1"}
        case _:
            entry.pax_headers = {
                rng.choice(("size", "path", "mtime", "x")): rng.choice(("-1", "1e300", "9" * 30, "\x00", "x"))
            }
