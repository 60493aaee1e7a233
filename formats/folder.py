"""A folder that is written once: data files, and a manifest that makes them count.

Files go to their final place, the manifest goes last and is moved into place whole. Until then the folder does not
count and may be written anew, so a writer that dies leaves nothing that is taken for good. That needs of a filesystem
only that one file can be moved, which object stores offer too.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
from pyarrow import fs

FORMAT = 1
MANIFEST = "manifest.json"
_CHUNK = 1 << 22


class Damaged(Exception):
    """A folder is not what its manifest says; the message names the file and what is wrong."""


class Folder:
    """A place on a pyarrow filesystem."""

    def __init__(self, system: fs.FileSystem, path: str) -> None:
        self.system = system
        self.path = path

    @classmethod
    def at(cls, place: str | Path) -> Self:
        """The folder of a local path, or of a URL that pyarrow knows (``file://``, ``s3://``, ``hdfs://``, ...).

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
        """What lies in the folder, in order of name; nothing if it is not there."""
        found = self.system.get_file_info(fs.FileSelector(self.path, allow_not_found=True))
        return sorted(info.base_name for info in found)

    def delete(self) -> None:
        """Delete the folder with all that is in it: its manifest first, so that what is left does not count."""
        if self.exists:
            with suppress(FileNotFoundError):
                self.system.delete_file(f"{self.path}/{MANIFEST}")
            self.system.delete_dir(self.path)

    def open(self, name: str) -> pa.NativeFile:
        """A file for reading at any place. Raises `Damaged` when it is not there or cannot be opened."""
        try:
            return self.system.open_input_file(f"{self.path}/{name}")
        except FileNotFoundError as error:
            raise Damaged(f"{self.path}/{name} is missing") from error
        except OSError as error:
            raise Damaged(f"{self.path}/{name} cannot be read: {error}") from error

    def draft(self) -> Draft:
        """Begin to write the folder. What an unfinished writer left is deleted; raises FileExistsError if it counts."""
        if MANIFEST in self.names():
            raise FileExistsError(f"{self.path} is there already")
        self.delete()
        self.system.create_dir(self.path, recursive=True)
        return Draft(self)

    @property
    def whole(self) -> bool:
        """Whether it was written to its end."""
        return bool(self.system.get_file_info(f"{self.path}/{MANIFEST}").type == fs.FileType.File)

    def manifest(self) -> dict[str, Any]:
        """What the manifest says. Raises `Damaged`."""
        try:
            with self.open(MANIFEST) as file:
                fields = json.loads(file.read())
            told = fields.pop("digest")
            known = fields["format"]
        except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
            raise Damaged(f"{self.path}/{MANIFEST} is damaged: it cannot be read") from error
        if told != _digest(fields):
            raise Damaged(f"{self.path}/{MANIFEST} is damaged: its digest differs")
        if known != FORMAT:
            raise Damaged(f"{self.path}/{MANIFEST} has format {known}; this version reads {FORMAT}")
        return dict(fields)

    def verify(self) -> dict[str, Any]:
        """Compare every file with the manifest, and return the manifest. Raises `Damaged`."""
        fields = self.manifest()
        for name, about in fields["files"].items():
            self.check(name, about)
        return fields

    def check(self, name: str, about: dict[str, Any]) -> None:
        """Compare one file with what the manifest says about it. Raises `Damaged`."""
        digest = hashlib.sha256()
        size = 0
        try:
            with self.open(name) as file:
                while chunk := file.read_buffer(_CHUNK):
                    digest.update(chunk)
                    size += len(chunk)
        except OSError as error:
            raise Damaged(f"{self.path}/{name} cannot be read: {error}") from error
        if size != about["bytes"]:
            raise Damaged(f"{self.path}/{name} has {size} bytes in place of {about['bytes']}")
        if digest.hexdigest() != about["sha256"]:
            raise Damaged(f"{self.path}/{name} is damaged: its SHA-256 differs")


class Draft:
    """A folder on its way. As a context it deletes what it has written when its body fails."""

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
        """Write the manifest: from now on the folder counts."""
        whole = {"format": FORMAT, **fields, "files": dict(sorted(self.files.items()))}
        text = json.dumps({**whole, "digest": _digest(whole)}, indent=1).encode()
        path = f"{self.folder.path}/{MANIFEST}"
        with self.folder.system.open_output_stream(path + ".partial") as out:
            out.write(text)
        self._sync(path + ".partial")
        self.folder.system.move(path + ".partial", path)
        self._sync(path)

    def _sync(self, path: str) -> None:
        """Object stores are durable when a file is closed; a local file is told to be, and the folders that name it."""
        if self.folder.local is None:
            return
        for place in (Path(path), *Path(path).parents):
            try:
                handle = os.open(place, os.O_RDONLY)
            except PermissionError:
                # A folder far above, such as /home, that we may pass through and not list: it was there before.
                continue
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


class Sink:
    """A stream that knows the size and the SHA-256 of what went through it."""

    closed = False

    def __init__(self, out: pa.NativeFile) -> None:
        self.digest = hashlib.sha256()
        self.size = 0
        self._out = out

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._out.write(view)
        self.digest.update(view)
        self.size += view.nbytes
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
        """What is written is made durable when the file is closed."""

    def close(self) -> None:
        """The draft closes the file."""


def _digest(fields: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
