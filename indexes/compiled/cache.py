"""The compiled kernels on disk: one file for each kernel and tuple of argument types.

A file is named by the kernel, by what its machine code depends on (`fingerprint`) and by the types; its folder by
Python, numba, LLVM, the target processor and this package. So a file that is found can be used, whatever was edited
meanwhile, from any checkout, and files can be copied from one machine to another of the same target.

A kernel is compiled by one process at a time: others that want it wait, and load what the first one wrote.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib
import os
import pickle
import platform
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite
import numba
from llvmlite import binding as llvm
from numba.core import compiler, types

from indexes.compiled import library, targets
from indexes.compiled.fingerprint import fingerprint

VARIABLE = "RANKCAST_CACHE"

SUFFIX = ".kernel"

_NO_PART = ("archive.py", "targets.py", "fingerprint.py")
"""Modules of this package that machine code does not depend on, but for the names of its files."""


class Compiled(NamedTuple):
    """A kernel that was compiled in this process. `seconds` are CPU seconds, less those of the kernels that it called
    for and that were compiled meanwhile."""

    kernel: str
    seconds: float


observers: list[Callable[[Compiled], None]] = []
"""Called with each kernel that this process has compiled."""


def root() -> Path:
    """The folder of all compiled kernels: `RANKCAST_CACHE`, else ``.cache/kernels`` of the checkout."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else Path(__file__).resolve().parents[2] / ".cache" / "kernels"


@cache
def toolchain() -> str:
    """The versions that machine code depends on beside the sources of kernels, as a file name."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if path.name not in _NO_PART:
            digest.update(path.read_bytes())
    python = f"{sys.implementation.name}{sys.version_info[0]}{sys.version_info[1]}{getattr(sys, 'abiflags', '')}"
    versions = f"{python}-numba{numba.__version__}-llvmlite{llvmlite.__version__}-{platform.machine()}"
    return f"{versions}-{digest.hexdigest()[:8]}"


@cache
def native() -> str:
    """What the folder of kernels for this machine's processor is called."""
    features = hashlib.sha256(llvm.get_host_cpu_features().flatten().encode()).hexdigest()[:8]
    return f"native-{llvm.get_host_cpu_name()}-{features}"


@cache
def folder() -> Path:
    """The folder of the kernels that this process uses: those of its toolchain and target."""
    home = root() / toolchain()
    targets.choose_imported(home)
    chosen = numba.config.CPU_NAME  # type: ignore[attr-defined]
    name = chosen if chosen in targets.PORTABLE else native()
    checked = "-boundscheck" if numba.config.BOUNDSCHECK else ""  # type: ignore[attr-defined]
    return home / f"{name}{checked}"


class KernelCache:
    """The cache of one kernel, as numba's dispatcher uses it."""

    def __init__(self, dispatcher: Any) -> None:
        self._dispatcher = dispatcher
        function = dispatcher.py_func
        self._name = f"{function.__module__}.{function.__qualname__}".replace("<locals>.", "")
        self._lock: Any = None
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
            if path in self._began:  # the compilation failed
                _release(self._began.pop(path)[1])
            lock = _acquire(path)
            found = self._load(path, args, target_context)
            if found is None:
                self._began[path] = (time.process_time() - _clock.inner, lock)
                return None
            _release(lock)
        return found

    def _load(self, path: Path, args: tuple[Any, ...], target_context: Any) -> Any:
        """What the file holds; None if there is none, or if it refers to code that is there no more."""
        data = _read(path)
        if data is None:
            return None
        *payload, calls = data
        for symbol, call in calls:
            find(call).compile(call.args)
            if not library.is_defined(symbol):
                return None
        found = compiler.CompileResult._rebuild(target_context, *payload)
        function = self._dispatcher.py_func
        made = library.Specialization(function.__module__, function.__qualname__, _is_inlined(self._dispatcher), args)
        if found.library.shared:
            library.define(found.fndesc.llvm_func_name, made)
        _note(made)
        return found

    def save_overload(self, sig: Any, result: Any) -> None:
        """Keep what was compiled."""
        args = sig if isinstance(sig, tuple) else sig.args
        path = self.path(args)
        began, lock = self._began.pop(path)
        try:
            payload = result._reduce()
            _write(path, pickle.dumps((*payload, result.library.calls), protocol=5))
        finally:
            _release(lock)
        function = self._dispatcher.py_func
        _note(library.Specialization(function.__module__, function.__qualname__, _is_inlined(self._dispatcher), args))
        seconds = time.process_time() - _clock.inner - began
        _clock.inner += seconds
        for observe in observers:
            observe(Compiled(self._name, seconds))

    def enable(self) -> None:
        """Numba calls this; the cache is always on."""

    def disable(self) -> None:
        """Numba calls this; the cache is always on."""

    def flush(self) -> None:
        """Numba calls this; files of other sources are never read."""


used: set[library.Specialization] | None = None
"""The specializations that this process has compiled or loaded, if somebody wants to know."""


def _note(specialization: library.Specialization) -> None:
    if used is not None:
        used.add(specialization)


class _Clock:
    """CPU seconds of kernels that are done, which do not count for the kernels that were being compiled meanwhile."""

    inner = 0.0


_clock = _Clock()

kernels: dict[tuple[str, str, bool], Any] = {}
"""All kernels that can be found by name, by module, qualified name and whether they ask to be inlined."""


def keep(dispatcher: Any) -> None:
    """Keep what a kernel is compiled to on disk, and let it be called by symbol if it can be found by name."""
    function = dispatcher.py_func
    dispatcher._cache = KernelCache(dispatcher)
    if "<locals>" not in function.__qualname__:
        kernels[function.__module__, function.__qualname__, _is_inlined(dispatcher)] = dispatcher
        library.shareable.add(function.__code__)


def find(wanted: library.Specialization) -> Any:
    """The kernel of a specialization; imports its module if that was not done yet."""
    if (wanted.module, wanted.qualname, wanted.inlined) not in kernels:
        importlib.import_module(wanted.module)
    return kernels[wanted.module, wanted.qualname, wanted.inlined]


def _is_inlined(dispatcher: Any) -> bool:
    return bool(dispatcher.targetoptions.get("forceinline"))


def _described(kind: Any, classes: set[type[Any]]) -> str:
    """A type of numba's as text that is the same in each process; notes the NamedTuples in it."""
    named: Any = types.BaseNamedTuple
    unnamed: Any = types.BaseTuple
    if isinstance(kind, named):
        made = kind.instance_class
        classes.add(made)
        parts = ",".join(_described(each, classes) for each in kind)
        return f"{made.__module__}.{made.__qualname__}{made._fields}({parts})"
    if isinstance(kind, unnamed):
        return f"({','.join(_described(each, classes) for each in kind)})"
    return str(kind)


def _read(path: Path) -> Any:
    try:
        return pickle.loads(path.read_bytes())
    except FileNotFoundError:
        return None


def _write(path: Path, data: bytes) -> None:
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        beside.write_bytes(data)
        os.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise


def _acquire(path: Path) -> Any:
    """Wait until no other process compiles this kernel."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.with_suffix(".lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def _release(lock: Any) -> None:
    with suppress(OSError):
        os.unlink(lock.name)
    lock.close()
