"""A folder that is written once: data files, and a manifest that makes them valid.

Files go to their final place, the manifest goes last and is moved into place whole. Until then the folder does not
count and may be overwritten, so a writer that dies leaves nothing that is taken for good. That needs of a filesystem
only that one file can be moved, which object stores offer too.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
from pyarrow import fs

FORMAT = 1
LACKING = 2
"""The format of a folder that does not hold all that its kind does. Versions that do not know it pass it over."""
MANIFEST = "manifest.json"
_CHUNK = 1 << 22

FLUSHED = 1 << 20
"""Bytes of a local file that are flushed to disk at a time."""

REST = 0.02
"""The most seconds that the disk is left to others after that."""


class Damaged(Exception):
    """A folder is not what its manifest says; the message names the file and what is wrong."""


class Folder:
    """A place on a pyarrow filesystem."""

    def __init__(self, system: fs.FileSystem, path: str) -> None:
        self.system = system
        self.path = path

    @classmethod
    def at(cls, place: str | Path) -> Self:
        """The folder of a local path, or of a URL that pyarrow supports (``file://``, ``s3://``, ``hdfs://``, ...).

        Raises ValueError for a URL that it does not know.
        """
        if isinstance(place, Path) or "://" not in place:
            return cls(fs.LocalFileSystem(), str(Path(place).absolute()))
        try:
            return cls(*fs.FileSystem.from_uri(place))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
            raise ValueError(f"{place} cannot be used as storage: {error}") from error

    def __truediv__(self, name: str) -> Folder:
        return Folder(self.system, f"{self.path}/{name}")

    def __str__(self) -> str:
        return self.path

    @property
    def local(self) -> Path | None:
        """The path, if it is on this machine."""
        return Path(self.path) if isinstance(self.system, fs.LocalFileSystem) else None

    @property
    def exists(self) -> bool:
        return bool(self.system.get_file_info(self.path).type == fs.FileType.Directory)

    def names(self) -> list[str]:
        """The content of the folder, in order of name; nothing if it does not exist."""
        found = self.system.get_file_info(fs.FileSelector(self.path, allow_not_found=True))
        return sorted(info.base_name for info in found)

    def delete(self) -> None:
        """Delete the folder with its content: its manifest first, so that the rest is not valid."""
        if self.exists:
            with suppress(FileNotFoundError):
                self.system.delete_file(f"{self.path}/{MANIFEST}")
            self.system.delete_dir(self.path)

    def open(self, name: str) -> pa.NativeFile:
        """A file for reading at any place. Raises `Damaged` if it does not exist, is reached through a link inside the
        folder, or cannot be opened."""
        if self.local is not None:
            place = self.local
            for part in name.split("/"):
                place /= part
                if place.is_symlink():
                    raise Damaged(f"{place} is a link, and was not written so")
        try:
            return self.system.open_input_file(f"{self.path}/{name}")
        except FileNotFoundError as error:
            raise Damaged(f"{self.path}/{name} is missing") from error
        except OSError as error:
            raise Damaged(f"{self.path}/{name} cannot be read: {error}") from error

    def write(self, name: str, data: bytes) -> None:
        """Write a small file that no manifest has: whole and durable, or not at all. The folder is made if need be.

        Raises OSError."""
        path = f"{self.path}/{name}"
        self.system.create_dir(self.path, recursive=True)
        with self.system.open_output_stream(path + ".partial") as out:
            out.write(data)
        self.sync(path + ".partial")
        self.system.move(path + ".partial", path)
        self.sync(path)

    def sync(self, path: str) -> None:
        """Flush a local file and the folders above it to disk. On object stores a closed file is durable."""
        if self.local is None:
            return
        for place in (Path(path), *Path(path).parents):
            try:
                handle = os.open(place, os.O_RDONLY)
            except PermissionError:
                # A folder far above, such as /home, that may be entered but not listed: it existed before.
                continue
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def draft(self) -> Draft:
        """Begin to write the folder. Deletes the files of an unfinished writer.

        Raises FileExistsError if there is a manifest."""
        if MANIFEST in self.names():
            raise FileExistsError(f"{self.path} is there already")
        self.delete()
        self.system.create_dir(self.path, recursive=True)
        return Draft(self)

    @property
    def whole(self) -> bool:
        """Whether it was written completely."""
        return bool(self.system.get_file_info(f"{self.path}/{MANIFEST}").type == fs.FileType.File)

    def manifest(self) -> dict[str, Any]:
        """The content of the manifest. Raises `Damaged`, also where it names a file that is not below the folder."""
        try:
            with self.open(MANIFEST) as file:
                fields = json.loads(file.read())
            digest = fields.pop("digest")
            known = fields["format"]
        except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
            raise Damaged(f"{self.path}/{MANIFEST} is damaged: it cannot be read") from error
        if digest != _digest(fields):
            raise Damaged(f"{self.path}/{MANIFEST} is damaged: its digest differs")
        if known not in (FORMAT, LACKING):
            raise Damaged(f"{self.path}/{MANIFEST} has format {known}; this version reads {LACKING} at most")
        if not isinstance(fields.get("files"), dict):
            raise Damaged(f"{self.path}/{MANIFEST} names no files")
        for name in fields["files"]:
            if name == MANIFEST or not is_inside(name):
                raise Damaged(f"{self.path}/{MANIFEST} names the file {name!r}, which is not one of the folder's")
        return dict(fields)

    def verify(self) -> dict[str, Any]:
        """Compare every file with the manifest, and return the manifest. Raises `Damaged`."""
        fields = self.manifest()
        for name, about in fields["files"].items():
            self.check(name, about)
        return fields

    def check(self, name: str, about: dict[str, Any]) -> None:
        """Compare one file with its entry in the manifest. Raises `Damaged`."""
        digest = hashlib.sha256()
        size = 0
        try:
            with self.open(name) as file:
                while chunk := file.read_buffer(_CHUNK):
                    digest.update(chunk)
                    size += len(chunk)
        except OSError as error:
            raise Damaged(f"{self.path}/{name} cannot be read: {error}") from error
        known = about if isinstance(about, dict) else {}
        if size != known.get("bytes"):
            raise Damaged(f"{self.path}/{name} has {size} bytes in place of {known.get('bytes')}")
        if digest.hexdigest() != known.get("sha256"):
            raise Damaged(f"{self.path}/{name} is damaged: its SHA-256 differs")


class Draft:
    """A folder that is being written. As a context it deletes its files when its body fails."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.files: dict[str, dict[str, Any]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            with suppress(OSError):
                self.folder.delete()

    @contextmanager
    def file(self, name: str, **about: Any) -> Iterator[Sink]:
        """A new file of the folder, durable on leaving. `about` goes into the manifest with its size and SHA-256."""
        path = f"{self.folder.path}/{name}"
        self.folder.system.create_dir(path.rpartition("/")[0], recursive=True)
        if self.folder.local is not None:
            with Path(path).open("wb", buffering=0) as file:
                sink = Sink(file, partial(getattr(os, "fdatasync", os.fsync), file.fileno()))
                yield sink
        else:
            with self.folder.system.open_output_stream(path) as out:
                sink = Sink(out)
                yield sink
        self._sync(path)
        self.files[name] = {"bytes": sink.size, "sha256": sink.digest.hexdigest(), **about}

    @property
    def bytes(self) -> int:
        """The size of all files so far."""
        return sum(about["bytes"] for about in self.files.values())

    def publish(self, fields: dict[str, Any]) -> None:
        """Write the manifest: from now on the folder is valid."""
        whole = {"format": FORMAT, **fields, "files": dict(sorted(self.files.items()))}
        text = json.dumps({**whole, "digest": _digest(whole)}, indent=1).encode()
        path = f"{self.folder.path}/{MANIFEST}"
        with self.folder.system.open_output_stream(path + ".partial") as out:
            out.write(text)
        self._sync(path + ".partial")
        self.folder.system.move(path + ".partial", path)
        self._sync(path)

    def _sync(self, path: str) -> None:
        self.folder.sync(path)


class Sink:
    """A stream that computes the size and the SHA-256 of its content.

    What is written is flushed to disk every `FLUSHED` bytes, and the disk is then left to others for as long as that
    took: whoever else waits for it, as each commit of the log does, waits for a piece and not for a whole file.
    """

    closed = False

    def __init__(self, out: Any, flush: Callable[[], None] | None = None) -> None:
        self.digest = hashlib.sha256()
        self.size = 0
        self._out = out
        self._flush = flush
        self._flushed = 0

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        at = 0
        while at < view.nbytes:
            # A raw file may take less than it is given.
            piece = view[at : at + FLUSHED]
            taken = self._out.write(piece)
            at += len(piece) if taken is None else taken
            self.size += len(piece) if taken is None else taken
            if self._flush is not None and self.size - self._flushed >= FLUSHED:
                self._flushed = self.size
                began = time.perf_counter()
                self._flush()
                time.sleep(min(time.perf_counter() - began, REST))
        self.digest.update(view)
        return view.nbytes

    def tell(self) -> int:
        return self.size

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def flush(self) -> None:
        """The content is flushed when the file is closed."""

    def close(self) -> None:
        """The draft closes the file."""


def is_inside(name: str) -> bool:
    """Whether a name, with ``/`` between folders, leads to a place below where it begins, spelled in one way only.

    >>> is_inside("boards/b/free.parquet"), is_inside("boards/../../b"), is_inside("/etc/passwd"), is_inside("a//b")
    (True, False, False, False)
    """
    return isinstance(name, str) and name.isprintable() and all(part not in ("", ".", "..") for part in name.split("/"))


def _digest(fields: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
