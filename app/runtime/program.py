"""The byte code of all modules of a start in one file, and that of the texts that libraries compile.

To find, read and check the files of some thousand modules takes a tenth of a start, and to compile the methods of
dataclasses, the constructors of named tuples and annotations that are text another one. The first start writes what it
imported and compiled this way to the cache, and the next ones read it there. A module counts as long as its source is
as it was, by size and time as Python itself compares them, and nothing lies before it on the path; for all else there
is Python's usual way.
"""

from __future__ import annotations

import importlib.machinery
import marshal
import mmap
import os
import struct
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import MAGIC_NUMBER
from itertools import chain
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

FORMAT = b"rankcast program 2\n" + MAGIC_NUMBER

_LENGTHS = struct.Struct("<QQ")
"""What follows: the bytes of the index, and those of all code behind it."""

SUFFIX = ".program"

_HEADER = 16
"""Bytes before the code in a file of Python's own: a magic number, flags, and the time and the size of the source."""


class _Entry(NamedTuple):
    """A module: its source, that of which time and size, Python's own file of its code, the folder of a package, and
    where the code lies.
    """

    source: str
    time: int
    size: int
    cached: str
    folder: str | None
    at: int
    length: int


class _Loader(SourceFileLoader):
    """Loads a module from the file, and does all else as usual."""

    def get_code(self, fullname: str) -> CodeType | None:
        code = None if _active is None else _active.code(fullname)
        return super().get_code(fullname) if code is None else code


class Program:
    """What there is in a file, in use from `begin` to `end`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._entries: dict[str, _Entry] = {}
        self._texts: dict[str, CodeType] = {}
        self._code = memoryview(b"")
        self._missed: set[str] = set()
        self._compiled = False
        self._replaced: list[tuple[ModuleType, str]] = []

    def read(self) -> None:
        """Read the file. One that is missing, damaged or of another version is as one that is empty."""
        with suppress(OSError, ValueError, EOFError, TypeError, struct.error), self.path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ, flags=mmap.MAP_SHARED | _POPULATE)
            view = memoryview(mapped)
            if bytes(view[: len(FORMAT)]) != FORMAT:
                return
            begin = len(FORMAT) + _LENGTHS.size
            index, length = _LENGTHS.unpack_from(view, len(FORMAT))
            if len(view) != begin + index + length:
                return
            entries, texts = marshal.loads(view[begin : begin + index])  # noqa: S302 - this user's own cache
            homes = _homes({name.partition(".")[0] for name in entries})
            self._entries = {
                name: _Entry(*entry)
                for name, entry in entries.items()
                if homes.get(name.partition(".")[0]) == _home(name, entry[0], entry[4])
            }
            self._texts = texts
            self._code = view[begin + index :]

    # --- modules ------------------------------------------------------------------------------------------------------

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """As any finder of modules; finds those that are in the file and whose source is as it was."""
        entry = self._entries.get(name)
        if entry is None or not _is_source(entry.source, entry.time, entry.size):
            self._missed.add(name)
            return None
        spec = ModuleSpec(name, _Loader(name, entry.source), origin=entry.source)
        spec.cached = entry.cached
        spec.has_location = True
        if entry.folder is not None:
            spec.submodule_search_locations = [entry.folder]
        return spec

    def code(self, name: str) -> CodeType | None:
        """The code of a module; None if it cannot be read."""
        entry = self._entries.get(name)
        if entry is None:
            return None
        try:
            code = marshal.loads(self._code[entry.at : entry.at + entry.length])  # noqa: S302 - as Python does
        except (ValueError, EOFError, TypeError):
            code = None
        return code if isinstance(code, CodeType) else None

    # --- texts --------------------------------------------------------------------------------------------------------

    def compile(self, text: str, mode: str) -> CodeType:
        """Compile a text without a file name, or take the code that it was compiled to before."""
        key = f"{mode} {text}"
        code = self._texts.get(key)
        if code is None:
            code = self._texts[key] = compile(text, "<string>", mode, dont_inherit=True)
            self._compiled = True
        return code

    def _exec(self, text: Any, *namespaces: Any) -> None:
        exec(self.compile(text, "exec") if isinstance(text, str) else text, *namespaces)  # noqa: S102 - as its caller does

    def _eval(self, text: Any, *namespaces: Any) -> Any:
        return eval(self.compile(text, "eval") if isinstance(text, str) else text, *namespaces)  # noqa: S307 - as its caller does

    def _compile(self, text: Any, file: str, mode: str, *more: Any, **options: Any) -> Any:
        if isinstance(text, str) and file == "<string>" and not more and not options:
            return self.compile(text, mode)
        return compile(text, file, mode, *more, **options)

    # --- beginning and end --------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Let imports, and what the standard library compiles for classes, ask here first."""
        import collections
        import dataclasses
        import typing

        builtin: Mapping[tuple[ModuleType, str], Callable[..., Any]] = {
            (dataclasses, "exec"): self._exec,
            (collections, "eval"): self._eval,
            (typing, "compile"): self._compile,
        }
        for (module, name), own in builtin.items():
            # A global of the module goes before the builtin of that name.
            setattr(module, name, own)
            self._replaced.append((module, name))
        sys.meta_path.insert(sys.meta_path.index(importlib.machinery.PathFinder), self)

    def end(self) -> None:
        """Let go of it."""
        sys.meta_path.remove(self)
        for module, name in self._replaced:
            delattr(module, name)
        self._replaced.clear()

    def write(self) -> None:
        """Write the file again if modules or texts were not in it. Raises OSError."""
        there = {name: entry for name in self._missed if (entry := _described(sys.modules.get(name))) is not None}
        if not there and not self._compiled:
            return
        found: dict[str, _Entry] = {}
        length = 0
        for name, entry in {**self._entries, **there}.items():
            size = _code_size(entry)
            if size is not None:
                found[name] = entry._replace(at=length, length=size)
                length += size
        index = marshal.dumps(({name: tuple(entry) for name, entry in found.items()}, self._texts))
        from indexes.compiled.places import replace_pieces

        self.path.parent.mkdir(parents=True, exist_ok=True)
        head = FORMAT, _LENGTHS.pack(len(index), length), index
        # Not all in memory at once, of which some would stay with the process.
        replace_pieces(self.path, chain(head, map(_code_of, found.values())))


_active: Program | None = None

_POPULATE = getattr(mmap, "MAP_POPULATE", 0)

_SUFFIXES = tuple(importlib.machinery.all_suffixes())


def begin() -> None:
    """Import from the file from now on, until `end`."""
    global _active
    import hashlib

    from indexes.compiled.places import root

    about = repr((sys.version, sys.flags.optimize, sys.prefix, str(Path(__file__).resolve())))
    _active = Program(root() / f"{hashlib.sha256(about.encode()).hexdigest()[:20]}{SUFFIX}")
    _active.read()
    _active.begin()


def end() -> None:
    """When all that a start imports is imported: keep it for the next one. To be called in a thread."""
    global _active
    program, _active = _active, None
    if program is not None:
        program.end()
        with suppress(OSError):
            program.write()


def _code_size(entry: _Entry) -> int | None:
    """The bytes of a module's code in Python's own file; None where that, or the source, is another one or gone."""
    try:
        with open(entry.cached, "rb") as file:
            size = os.fstat(file.fileno()).st_size - _HEADER
            whole = _is_of(file.read(_HEADER), entry.time, entry.size)
    except OSError:
        return None
    return size if whole and _is_source(entry.source, entry.time, entry.size) else None


def _code_of(entry: _Entry) -> bytes:
    """The code of a module from Python's own file. Raises OSError where that has changed meanwhile."""
    data = Path(entry.cached).read_bytes()
    if len(data) != _HEADER + entry.length or not _is_of(data, entry.time, entry.size):
        raise OSError(f"{entry.cached} has changed")
    return data[_HEADER:]


def _described(module: ModuleType | None) -> _Entry | None:
    """A module that was imported from a source whose code Python keeps; None for any other."""
    spec = getattr(module, "__spec__", None)
    if spec is None or type(spec.loader) not in (SourceFileLoader, _Loader) or not spec.cached or not spec.origin:
        return None
    folders = spec.submodule_search_locations
    if folders is not None and list(folders) != [os.path.dirname(spec.origin)]:
        return None
    try:
        source = os.stat(spec.origin)
        with open(spec.cached, "rb") as file:
            head = file.read(_HEADER)
    except OSError:
        return None
    time, size = int(source.st_mtime), source.st_size
    return (
        _Entry(spec.origin, time, size, spec.cached, folders and folders[0], 0, 0) if _is_of(head, time, size) else None
    )


def _is_of(data: bytes, time: int, size: int) -> bool:
    """Whether a file of Python's own holds the code of a source of this time and size."""
    return data[:_HEADER] == MAGIC_NUMBER + b"".join((n & 0xFFFFFFFF).to_bytes(4, "little") for n in (0, time, size))


def _is_source(path: str, time: int, size: int) -> bool:
    try:
        found = os.stat(path)
    except OSError:
        return False
    return int(found.st_mtime) == time and found.st_size == size


def _home(name: str, source: str, folder: str | None) -> str:
    """The folder of the path in which a module's top package lies."""
    for _ in range(name.count(".") + (folder is not None)):
        source = os.path.dirname(source)
    return os.path.dirname(source)


def _homes(names: set[str]) -> dict[str, str]:
    """For top packages and modules, the first folder of the path that has something of this name."""
    found: dict[str, str] = {}
    for folder in sys.path:
        folder = folder or os.getcwd()
        with suppress(OSError):
            for name in os.listdir(folder):
                if "." not in name or name.endswith(_SUFFIXES):
                    found.setdefault(name.partition(".")[0], folder)
    return {name: found[name] for name in names if name in found}
