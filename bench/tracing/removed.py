"""The service without the call sites of tracing: a copy of its sources in which `tracing.tracer` is the constant None.

Comparisons with it are folded, and so are those of the traces that commands hold, so that the compiler leaves out what
they guard.
"""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

from bench.process import CHECKOUT

PACKAGES = ("app", "indexes", "formats", "bench")
"""What a process of the service imports of a checkout."""

_NONE = ast.Constant(None)


class _Remover(ast.NodeTransformer):
    """`removed` counts the places that it changed."""

    def __init__(self) -> None:
        self.removed = 0
        self._names: set[str] = set()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._function(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        assigned = (one for one in ast.walk(node) if isinstance(one, ast.Assign) and _is_tracer(one.value))
        before = self._names
        self._names = {target.id for one in assigned for target in one.targets if isinstance(target, ast.Name)}
        self.generic_visit(node)
        self._names = before
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load) and (_is_tracer(node) or node.attr == "trace"):
            self.removed += 1
            return ast.copy_location(_NONE, node)
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.copy_location(_NONE, node) if isinstance(node.ctx, ast.Load) and node.id in self._names else node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) == 1 and _is_none(node.left) and _is_none(node.comparators[0]):
            return ast.copy_location(ast.Constant(isinstance(node.ops[0], ast.Is)), node)
        return node

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        if isinstance(node.test, ast.Constant):
            return (node.body if node.test.value else node.orelse) or ast.copy_location(ast.Pass(), node)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        return (node.body if node.test.value else node.orelse) if isinstance(node.test, ast.Constant) else node


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_tracer(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "tracer"
        and isinstance(node.value, ast.Name)
        and node.value.id == "tracing"
    )


def without_tracing(source: str) -> tuple[str, int]:
    """A module without its call sites of tracing, and how many there were.

    >>> without_tracing("x = 1 if tracing.tracer is None else tracing.tracer.command(r)")
    ('x = 1', 2)
    """
    remover = _Remover()
    tree = ast.fix_missing_locations(remover.visit(ast.parse(source)))
    return ast.unparse(tree), remover.removed


def copy_to(root: Path) -> int:
    """Copy the sources to a folder, without the call sites; return how many there were."""
    total = 0
    for package in PACKAGES:
        shutil.copytree(CHECKOUT / package, root / package, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (root / "app").rglob("*.py"):
        source = path.read_text()
        if "tracing" in source and path.parent.name != "runtime":
            changed, removed = without_tracing(source)
            if removed:
                path.write_text(changed)
                total += removed
    return total
