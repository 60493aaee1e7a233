"""Which processor a process compiles for, and whose kernels it uses."""

from __future__ import annotations

import platform
import re

import pytest

from indexes.compiled import targets
from tests.support.values import UNCOMPILED
from tests.unit.indexes.compiled.conftest import Workshop

pytestmark = pytest.mark.skipif(UNCOMPILED, reason="nothing is compiled")

X86 = platform.machine() in ("x86_64", "AMD64")

KERNELS = """
    import numpy as np
    from indexes.compiled.jit import vectorized

    @vectorized
    def entry(xs):
        total = 0.0
        for i in range(len(xs)):
            total = max(total, xs[i] * 3.0 + xs[i])
        return total
"""

CALL = """
    import some_kernels, numpy as np
    found = some_kernels.entry(np.arange(100.0))
    (code,) = some_kernels.entry.inspect_asm().values() if compiled else [""]
    tell(found=found, target=targets.current(), folder=cache.folder().name, code=code)
"""


@pytest.fixture
def kernels(workshop: Workshop) -> Workshop:
    workshop.write("some_kernels", KERNELS)
    return workshop


def chosen(target: str) -> str:
    return f"    targets.choose({target!r})\n{CALL}"


def mark(kernels: Workshop) -> None:
    for path in {path.parent for path in kernels.files()}:
        (path / "some.ready").touch()


@pytest.mark.skipif(not X86, reason="a target of x86-64")
@pytest.mark.parametrize("how", ["chosen", "named"])
def test_x86_64_v3_has_avx2_and_nothing_of_avx_512(kernels: Workshop, how: str) -> None:
    told = kernels.run(chosen("x86-64-v3")) if how == "chosen" else kernels.run(CALL, NUMBA_CPU_NAME="x86-64-v3")
    assert told["target"] == told["folder"] == "x86-64-v3"
    assert "%ymm" in told["code"]
    assert not re.search(r"%zmm|%[xy]mm(1[6-9]|2\d|3[01])|\{%k\d\}", told["code"])


@pytest.mark.skipif(not X86, reason="a target of x86-64")
def test_generic_has_nothing_of_avx(kernels: Workshop) -> None:
    told = kernels.run(chosen("generic"))
    assert told["target"] == told["folder"] == "generic"
    assert "%xmm" in told["code"] and not re.search(r"%[yz]mm|\bv(mul|add|max)[sp]d\b", told["code"])


def test_a_processor_that_the_environment_names_has_a_folder_of_its_own(kernels: Workshop) -> None:
    name = "x86-64-v2" if X86 else "generic"
    told = kernels.run(CALL, NUMBA_CPU_NAME=name)
    assert told["folder"] != targets.native()
    assert kernels.run(CALL)["folder"] == targets.native()


@pytest.mark.skipif(not targets.runs("x86-64-v3"), reason="this processor cannot run x86-64-v3")
def test_portable_kernels_are_used_the_best_first_unless_there_are_native_ones(kernels: Workshop) -> None:
    kernels.run(chosen("generic"))
    mark(kernels)
    told = kernels.run(CALL)
    assert (told["target"], told["compiled"]) == ("generic", [])
    kernels.run(chosen("x86-64-v3"))
    mark(kernels)
    told = kernels.run(CALL)
    assert (told["target"], told["compiled"]) == ("x86-64-v3", [])
    kernels.run(chosen("native"))
    assert kernels.run(CALL)["target"] == "x86-64-v3"
    mark(kernels)
    told = kernels.run(CALL)
    assert (told["target"], told["compiled"]) == (targets.native(), [])


@pytest.mark.skipif(not X86, reason="a target of x86-64")
def test_a_portable_target_that_was_found_is_what_is_compiled_for(kernels: Workshop) -> None:
    kernels.run(chosen("generic"))
    mark(kernels)
    told = kernels.run(CALL.replace("np.arange(100.0)", "np.arange(100)"))
    assert told["target"] == "generic" and told["compiled"] == ["entry"]
    assert not re.search(r"%[yz]mm", told["code"])


def test_what_a_processor_lacks_it_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llvmlite.binding.get_host_cpu_features", lambda: {"avx": True, "avx2": False})
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    assert targets.runs("generic") and not targets.runs("x86-64-v3") and not targets.runs("other")
    assert targets.portable() == ("x86-64-v3", "generic")
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert targets.portable() == ("generic",)
