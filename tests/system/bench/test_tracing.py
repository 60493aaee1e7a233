"""What tracing is compared with: the same service without the places that ask for it."""

from __future__ import annotations

import ast
from pathlib import Path

from bench.process import CHECKOUT
from bench.tracing.removed import copy_to, without_tracing


def test_what_tracing_guards_is_left_out() -> None:
    source = """
def commit(group):
    tracer = tracing.tracer
    if tracing.tracer is not None:
        for one in group:
            if one.trace is not None:
                one.trace.committed()
    if tracer is None:
        return 1
    with nullcontext() if tracing.tracer is None else tracing.tracer.link(group):
        return 2
"""
    wanted = """
def commit(group):
    tracer = None
    pass
    return 1
    with nullcontext():
        return 2
"""
    found, removed = without_tracing(source)
    assert ast.dump(ast.parse(found)) == ast.dump(ast.parse(wanted)) and removed >= 5
    assert without_tracing("x = a.tracer\ny = tracing.wanted()") == ("x = a.tracer\ny = tracing.wanted()", 0)


def test_the_copy_has_no_call_site_left_and_is_otherwise_the_same(tmp_path: Path) -> None:
    assert copy_to(tmp_path) > 10
    for path in (tmp_path / "app").rglob("*.py"):
        text = path.read_text()
        compile(text, str(path), "exec")
        if path.parent.name == "runtime":
            continue
        calls = [one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.Attribute) and one.attr == "tracer"]
        assert not calls, path
        if "tracing" not in text:
            assert text == (CHECKOUT / path.relative_to(tmp_path)).read_text()
