"""Lets a test say where a process of `rankcast` dies or is held up: Python imports this module by itself.

``RANKCAST_TEST_POINTS`` names functions as "module:Class.function", separated by commas. Whenever one of them is called
the file ``RANKCAST_TEST_ORDER`` is asked, which holds ``what point when number``: `what` is "die" (by SIGKILL), or
"wait" (until the file says otherwise), `when` "before" or "after" the call, `number` the how-manyth call, counted from
when the order was given. "wait" writes the file's name with ``.there`` once the point is reached.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_ORDER = os.environ.get("RANKCAST_TEST_ORDER", "")
_PATIENCE = 300.0
"""Seconds that nobody is held up longer than."""

_calls: Counter[tuple[str, str]] = Counter()
_lock = threading.Lock()


def _read() -> str:
    try:
        with open(_ORDER, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def _reach(point: str, when: str) -> None:
    order = _read()
    if not order:
        return
    what, where, moment, number = order.split()
    if (where, moment) != (point, when):
        return
    with _lock:
        _calls[order, point] += 1
        if _calls[order, point] != int(number):
            return
    if what == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    with open(_ORDER + ".there", "w", encoding="utf-8") as file:
        file.write(order)
    until = time.monotonic() + _PATIENCE
    while _read() == order and time.monotonic() < until:
        time.sleep(0.005)


def _watched(function: Any, point: str) -> Any:
    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        _reach(point, "before")
        answer = function(*arguments, **named)
        _reach(point, "after")
        return answer

    return call


def _watch(module: ModuleType, path: str) -> None:
    owner: Any = module
    *outer, name = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    found = owner.__dict__[name]
    point = f"{module.__name__}:{path}"
    if isinstance(found, classmethod | staticmethod):
        setattr(owner, name, type(found)(_watched(found.__func__, point)))
    else:
        setattr(owner, name, _watched(found, point))


class _Watching(Loader):
    """Loads a module as ever, and then watches its points."""

    def __init__(self, loader: Loader, points: list[str]) -> None:
        self._loader = loader
        self._points = points

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        for path in self._points:
            _watch(module, path)


class _Finder(MetaPathFinder):
    def __init__(self, points: dict[str, list[str]]) -> None:
        self._points = points

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in self._points:
            return None
        spec = next(
            found
            for finder in sys.meta_path
            if finder is not self and (found := finder.find_spec(name, path, target)) is not None
        )
        assert spec.loader is not None
        spec.loader = _Watching(spec.loader, self._points[name])
        return spec


if _ORDER and {"connect", "serve", "restore"} & set(sys.orig_argv):
    _named: dict[str, list[str]] = {}
    for _point in os.environ["RANKCAST_TEST_POINTS"].split(","):
        _module, _, _path = _point.partition(":")
        _named.setdefault(_module, []).append(_path)
    sys.meta_path.insert(0, _Finder(_named))
