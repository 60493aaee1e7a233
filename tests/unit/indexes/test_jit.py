"""Who calls kernels that Python cannot call: there is no code behind them for it, and the process would end."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import indexes

ROOT = Path(indexes.__file__).parent.parent
SOURCES = sorted(path for folder in ("indexes", "bench", "tests") for path in (ROOT / folder).rglob("*.py"))

INNER = {"internal", "inlined", "float_internal", "float_inlined"}
OUTER = {"kernel", "short_kernel", "float_kernel", "float_inlined_kernel", "allocating_kernel"}
COMPILED = INNER | OUTER | {"expanded", "vectorized", "overload"}


def _decorators(function: ast.FunctionDef) -> set[str]:
    called = (one.func if isinstance(one, ast.Call) else one for one in function.decorator_list)
    return {one.id for one in called if isinstance(one, ast.Name)}


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def _inner_kernels(tree: ast.Module) -> set[str]:
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and _decorators(node) & INNER}


def _calls(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Lines and names of what Python calls below a node: kernels and what overloads are made of are not Python."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef) and _decorators(child) & COMPILED:
            continue
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Name):
            yield child.lineno, child.func.id
        yield from _calls(child)


def calls_of_inner_kernels(sources: dict[str, str]) -> list[str]:
    """Calls by Python of kernels that only kernels may call, as ``module:line name``, given sources by module."""
    trees = {module: ast.parse(source) for module, source in sources.items()}
    inner = {module: _inner_kernels(tree) for module, tree in trees.items()}
    found = []
    for module, tree in trees.items():
        names = set(inner[module])
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                there = inner.get(node.module or "", set())
                names |= {one.asname or one.name for one in node.names if one.name in there}
        found += [f"{module}:{line} {name}" for line, name in _calls(tree) if name in names]
    return found


def test_only_kernels_call_inner_kernels() -> None:
    assert not calls_of_inner_kernels({_module(path): path.read_text() for path in SOURCES})


@pytest.mark.parametrize("way", ["from a import _f as g", "from a import h"])
def test_such_a_call_is_found(way: str) -> None:
    kernels = "@internal\ndef _f(x):\n    return x\n\n@kernel\ndef h(x):\n    return _f(x)\n"
    python = f"{way}\nclass C:\n    def check(self):\n        return [g(x) + h(x) for x in self]\n"
    assert calls_of_inner_kernels({"a": kernels, "b": python}) == (["b:4 g"] if "g" in way else [])
    assert calls_of_inner_kernels({"a": kernels + "_f(1)\n"}) == ["a:8 _f"]
