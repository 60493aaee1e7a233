"""The compiled kernels on disk: one file for each kernel and tuple of argument types.

A file is named by the kernel, by a hash of what its machine code depends on (`fingerprint`) and by the types; its
folder by Python, numba, LLVM, the target processor and this package. So a file that is found is valid, whatever was
edited since and from any checkout, and files can be copied from one machine to another of the same target.

A kernel is compiled by one process at a time: others that need it wait, and load the result of the first.
"""

from __future__ import annotations

import ast
import fcntl
import hashlib
import importlib
import logging
import os
import pickle
import platform
import struct
import sys
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite
import numba
from numba.core import compiler, types
from numba.core.errors import NumbaError

from indexes.compiled import library, targets
from indexes.compiled.fingerprint import KEPT, fingerprint

VARIABLE = "RANKCAST_CACHE"

SUFFIX = ".kernel"

_CHECKSUM = struct.Struct("<I")
"""What a file begins with: the CRC-32 of the rest."""

FORMAT = 2

_COMPILES = ("arguments.py", "dispatch.py", "jit.py", "library.py", "speedups.py")
"""Modules that machine code depends on, from this folder."""


log = logging.getLogger("rankcast.kernels")


class Compiled(NamedTuple):
    """A kernel that was compiled in this process. `seconds` are CPU seconds, less those of the kernels that it called
    for and that were compiled meanwhile."""

    kernel: str
    seconds: float


observers: list[Callable[[Compiled], None]] = []
"""Called with each kernel that this process has compiled."""


def root() -> Path:
    """The folder of all compiled kernels: `RANKCAST_CACHE`, else ``.cache/kernels`` of the checkout, and for an
    installed package ``rankcast/kernels`` in the user's cache directory."""
    named = os.environ.get(VARIABLE)
    home = Path(__file__).resolve().parents[2]
    if named:
        return Path(named)
    return (_user_cache() / "rankcast" if home.name in _INSTALLED else home / ".cache") / "kernels"


_INSTALLED = ("site-packages", "dist-packages")


def _user_cache() -> Path:
    """Where the platform wants caches of the user's programs."""
    said = os.environ.get("XDG_CACHE_HOME")
    if said and os.path.isabs(said):
        return Path(said)
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")


@cache
def toolchain() -> str:
    """The versions that machine code depends on apart from the sources of kernels, as a file name."""
    digest = hashlib.sha256(str(FORMAT).encode())
    for name in _COMPILES:
        digest.update(_statements((Path(__file__).parent / name).read_text()))
    python = f"{sys.implementation.name}{sys.version_info[0]}{sys.version_info[1]}{getattr(sys, 'abiflags', '')}"
    versions = f"{python}-numba{numba.__version__}-llvmlite{llvmlite.__version__}-{platform.machine()}"
    return f"{versions}-{digest.hexdigest()[:8]}"


def _statements(source: str) -> bytes:
    """The syntax tree of a module without comments and docstrings."""
    parsed = ast.parse(source)
    for node in ast.walk(parsed):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            body[:] = [each for each in body if not _is_text(each)]
    return ast.dump(parsed).encode()


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


@cache
def folder() -> Path:
    """The folder of the kernels that this process uses: those of its toolchain and target."""
    home = root() / toolchain()
    targets.choose_imported(home)
    checked = "-boundscheck" if numba.config.BOUNDSCHECK else ""  # type: ignore[attr-defined]
    return home / f"{targets.current()}{checked}"


class KernelCache:
    """The cache of one kernel, as numba's dispatcher uses it."""

    def __init__(self, dispatcher: Any) -> None:
        self._dispatcher = dispatcher
        function = dispatcher.py_func
        self._name = f"{function.__module__}.{function.__qualname__}".replace("<locals>.", "")
        self._began: dict[Path, tuple[float, Any]] = {}

    @property
    def cache_path(self) -> str:
        return str(folder())

    def path(self, args: tuple[Any, ...]) -> Path:
        """The file for these argument types."""
        classes: set[type] = set()
        described = [_described(each, classes) for each in args]
        key = fingerprint(self._dispatcher, classes) + "".join(described)
        return folder() / f"{self._name}-{hashlib.sha256(key.encode()).hexdigest()[:20]}{SUFFIX}"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled kernel for the argument types; None if it is to be compiled now, by this process."""
        args = sig if isinstance(sig, tuple) else sig.args
        library.target_codegen()
        target_context.refresh()
        path = self.path(args)
        found = self._load(path, args, target_context)
        if found is None:
            lock = _acquire(path)
            found = self._load(path, args, target_context)
            if found is None:
                self._began[path] = (time.process_time() - _clock.inner, lock)
                return None
            _release(lock)
        return found

    def _load(self, path: Path, args: tuple[Any, ...], target_context: Any) -> Any:
        """The content of the file; None if there is none, if it is damaged, or if it refers to code that is missing."""
        data = _read(path)
        if data is None:
            return None
        *payload, calls = data
        for symbol, call in calls:
            try:
                find(call).compile(call.args)
            except (KeyError, ImportError, NumbaError):
                return None
            if not library.is_defined(symbol):
                return None
        found = compiler.CompileResult._rebuild(target_context, *payload)
        made = self._specialization(args)
        if found.library.shared:
            library.define(found.fndesc.llvm_func_name, made)
        _note(made)
        return found

    def save_overload(self, sig: Any, result: Any) -> None:
        """Write the compiled kernel to disk."""
        args = sig if isinstance(sig, tuple) else sig.args
        path = self.path(args)
        began, lock = self._began.pop(path)
        try:
            payload = result._replace(type_annotation="")._reduce()
            _write(path, pickle.dumps((*payload, result.library.calls), protocol=5))
        except OSError as error:
            log.warning("the compiled kernel %s cannot be kept: %s", self._name, error)
        finally:
            _release(lock)
        _note(self._specialization(args))
        seconds = time.process_time() - _clock.inner - began
        _clock.inner += seconds
        for observe in observers:
            observe(Compiled(self._name, seconds))

    def _specialization(self, args: tuple[Any, ...]) -> library.Specialization:
        function = self._dispatcher.py_func
        return library.Specialization(function.__module__, function.__qualname__, _is_inlined(self._dispatcher), args)

    def give_up(self, args: tuple[Any, ...]) -> None:
        """The compilation has failed: let other processes try."""
        found = self._began.pop(self.path(args), None)
        if found is not None:
            _release(found[1])

    def enable(self) -> None:
        """Numba calls this; the cache is always on."""

    def disable(self) -> None:
        """Numba calls this; the cache is always on."""

    def flush(self) -> None:
        """Numba calls this; files of other sources are never read."""


used: set[library.Specialization] | None = None
"""The specializations that this process has compiled or loaded, or None if they are not recorded."""


def _note(specialization: library.Specialization) -> None:
    if used is not None:
        used.add(specialization)


class _Clock:
    """CPU seconds of finished kernels, which are not counted for the kernels that called for them."""

    inner = 0.0


_clock = _Clock()

kernels: dict[tuple[str, str, bool], Any] = {}
"""All kernels that can be found by name, by module, qualified name and whether they are to be inlined."""


def keep(dispatcher: Any) -> None:
    """Cache a kernel on disk, and let it be called by symbol if it can be found by name."""
    function = dispatcher.py_func
    kept = dispatcher._cache = KernelCache(dispatcher)
    compile_ = dispatcher._compiler.compile

    def compile_or_give_up(args: Any, return_type: Any) -> Any:
        try:
            return compile_(args, return_type)
        except BaseException:
            kept.give_up(tuple(args))
            raise

    dispatcher._compiler.compile = compile_or_give_up
    if "<locals>" not in function.__qualname__:
        kernels[function.__module__, function.__qualname__, _is_inlined(dispatcher)] = dispatcher
        library.shareable.add(function.__code__)


def find(wanted: library.Specialization) -> Any:
    """The kernel of a specialization; imports its module if necessary."""
    if (wanted.module, wanted.qualname, wanted.inlined) not in kernels:
        importlib.import_module(wanted.module)
    return kernels[wanted.module, wanted.qualname, wanted.inlined]


def _is_inlined(dispatcher: Any) -> bool:
    return bool(dispatcher.targetoptions.get("forceinline"))


def _described(kind: Any, classes: set[type[Any]]) -> str:
    """A numba type as text that is the same in each process; adds the NamedTuples in it to `classes`."""
    named: Any = types.BaseNamedTuple
    unnamed: Any = types.BaseTuple
    if isinstance(kind, named):
        made = kind.instance_class
        classes.add(made)
        parts = ",".join(_described(each, classes) for each in kind)
        if hasattr(made, KEPT):
            parts += f";{_described(getattr(made, KEPT)(), classes)}"
        return f"{made.__module__}.{made.__qualname__}{made._fields}({parts})"
    if isinstance(kind, unnamed):
        return f"({','.join(_described(each, classes) for each in kind)})"
    return str(kind)


def _read(path: Path) -> Any:
    """What `_write` was given, unpickled; None if there is no such file, or if it is damaged."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if len(data) < _CHECKSUM.size or _CHECKSUM.unpack_from(data) != (zlib.crc32(memoryview(data)[_CHECKSUM.size :]),):
        return None
    try:
        return pickle.loads(memoryview(data)[_CHECKSUM.size :])  # noqa: S301 - this user's own cache
    except (AttributeError, ImportError):  # it names a class that is gone
        return None


def _write(path: Path, data: bytes) -> None:
    replace_file(path, _CHECKSUM.pack(zlib.crc32(data)) + data)


def replace_file(path: Path, data: bytes) -> None:
    """Write a file of the cache as a whole: others see the one before, or all of this one. Raises OSError."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        draft.write_bytes(data)
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise


def _acquire(path: Path) -> Any:
    """Wait until no other process compiles this kernel, and have others wait until `_release`. None in a folder that
    cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            lock = path.with_suffix(".lock").open("w")
            fcntl.flock(lock, fcntl.LOCK_EX)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(lock.fileno()), os.stat(lock.name)):
                    return lock
            lock.close()  # who held it has removed it, and another process may hold its successor
    except OSError:
        return None


def _release(lock: Any) -> None:
    if lock is not None:
        with suppress(OSError):
            os.unlink(lock.name)
        lock.close()
