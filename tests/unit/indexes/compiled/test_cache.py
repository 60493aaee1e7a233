"""What is compiled is compiled once, and found again by other processes unless something is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.values import UNCOMPILED
from tests.unit.indexes.compiled.conftest import Workshop
from tests.unit.indexes.compiled.helpers import LARGE

pytestmark = pytest.mark.skipif(UNCOMPILED, reason="nothing is compiled")


KERNELS = f"""
    from indexes.compiled.jit import allocating_kernel
    from indexes.compiled.jit import internal

    @internal
    def large(x, y):
        total = 0
        {LARGE}
        return total

    @allocating_kernel
    def entry(x):
        return large(x, x + 7) + 1

    @allocating_kernel
    def sibling(x):
        return large(x, x + 7) + 2
"""

CALL = "import some_kernels; tell(found=some_kernels.entry(5))"


@pytest.fixture
def kernels(workshop: Workshop) -> Workshop:
    workshop.write("some_kernels", KERNELS)
    return workshop


def test_a_second_process_compiles_nothing(kernels: Workshop) -> None:
    first = kernels.run(CALL)
    assert first["compiled"] == ["entry", "large"]
    assert kernels.run(CALL) == {"found": first["found"], "compiled": []}
    assert not list(kernels.cache.rglob("*.lock")) and not list(kernels.cache.rglob("*.tmp"))


def test_other_types_of_arguments_are_another_kernel(kernels: Workshop) -> None:
    kernels.run(CALL)
    program = "import some_kernels; tell(found=some_kernels.entry(5.0))"
    assert kernels.run(program)["compiled"] == ["entry", "large"]
    assert len(kernels.files("entry")) == 2


def test_bounds_checks_are_other_kernels(kernels: Workshop) -> None:
    kernels.run(CALL)
    assert kernels.run(CALL, NUMBA_BOUNDSCHECK="1")["compiled"] == ["entry", "large"]
    assert kernels.run(CALL)["compiled"] == []


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def turned(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@pytest.mark.parametrize("damage", [cut, turned, lambda data: b"", lambda data: bytes(len(data)), lambda data: b"abc"])
def test_a_damaged_file_is_compiled_again(kernels: Workshop, damage: Callable[[bytes], bytes]) -> None:
    first = kernels.run(CALL)
    (path,) = kernels.files("large")
    path.write_bytes(damage(path.read_bytes()))
    again = kernels.run(CALL)
    assert again["found"] == first["found"]
    assert "large" in again["compiled"]
    assert kernels.run(CALL) == {"found": first["found"], "compiled": []}


def test_a_caller_whose_callee_is_gone_is_compiled_again_when_its_symbol_is(kernels: Workshop) -> None:
    first = kernels.run(CALL)
    (path,) = kernels.files("large")
    path.unlink()
    # The callee's new symbol differs by the number of kernels that were compiled before it.
    more = "import some_kernels; some_kernels.sibling(1.0); tell(found=some_kernels.entry(5))"
    again = kernels.run(more)
    assert again["found"] == first["found"]
    assert {"large", "entry"} <= set(again["compiled"])
    assert kernels.run(CALL) == {"found": first["found"], "compiled": []}


def test_a_file_that_names_a_kernel_that_is_gone_is_compiled_again(kernels: Workshop) -> None:
    first = kernels.run(CALL)
    (path,) = kernels.files("entry")
    kernels.run(f"""
        import pickle
        from pathlib import Path
        import some_kernels
        path = Path({str(path)!r})
        *payload, ((symbol, call),) = cache._read(path)
        cache._write(path, pickle.dumps((*payload, ((symbol, call._replace(qualname="gone")),))))
        tell()
    """)
    assert kernels.run(CALL) == {"found": first["found"], "compiled": ["entry"]}


def test_processes_that_want_the_same_kernel_at_once_compile_it_once(kernels: Workshop, tmp_path: Path) -> None:
    program = f"""
        import os, time
        import some_kernels
        (Path := __import__("pathlib").Path)({str(tmp_path)!r}, f"ready{{os.getpid()}}").touch()
        end = time.monotonic() + 60
        while len(list(Path({str(tmp_path)!r}).glob("ready*"))) < 3 and time.monotonic() < end:
            time.sleep(0.001)
        tell(found=some_kernels.entry(5))
    """
    told = [kernels.finish(process) for process in [kernels.start(program) for _ in range(3)]]
    assert len({each["found"] for each in told}) == 1
    assert sorted(name for each in told for name in each["compiled"]) == ["entry", "large"]


def test_a_kernel_that_cannot_be_compiled_holds_up_nobody(kernels: Workshop) -> None:
    told = kernels.run("""
        import some_kernels
        from numba.core.errors import TypingError
        failures = 0
        for kernel in (some_kernels.entry, some_kernels.entry, some_kernels.sibling):
            try:
                kernel("text")
            except TypingError:
                failures += 1
        tell(failures=failures, locks=[path.name for path in cache.folder().glob("*.lock")])
    """)
    assert told == {"failures": 3, "locks": [], "compiled": []}


def test_without_a_folder_that_can_be_written_kernels_are_compiled_all_the_same(kernels: Workshop) -> None:
    kernels.cache.write_text("no folder")
    assert kernels.run(CALL)["compiled"] == ["entry", "large"]


def test_an_edit_compiles_what_it_concerns(kernels: Workshop) -> None:
    first = kernels.run(CALL)
    kernels.write("some_kernels", KERNELS.replace("large(x, x + 7) + 1", "large(x, x + 7) + 3"))
    again = kernels.run(CALL)
    assert again == {"found": first["found"] + 2, "compiled": ["entry"]}
