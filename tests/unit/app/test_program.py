"""The program in one file: what is imported from it is what Python itself would import."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from indexes.compiled.places import VARIABLE

BEGIN = """
import json, sys
from app.runtime import program
program.begin()
import app.errors
served = lambda *names: {name: type(sys.modules[name].__loader__).__name__ == "_Loader" for name in names}
"""

END = """
program.end()
print(json.dumps(said))
"""


class Home:
    """A folder with a package of its own, and a cache."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cache = path / "cache"
        self.package = path / "first" / "ours"
        self.package.mkdir(parents=True)
        self.write("__init__", "")
        self.write("part", "VALUE = 1\n\n\ndef where():\n    raise ValueError('here')\n")

    def write(self, name: str, text: str) -> None:
        (self.package / f"{name}.py").write_text(text)

    def run(self, program: str, *options: str, begin: str = BEGIN) -> Any:
        """What a process with the program puts into `said`."""
        folders = [str(self.path / "zeroth"), str(self.path / "first"), *filter(None, sys.path)]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(folders), VARIABLE: str(self.cache)}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        ran = subprocess.run(
            [sys.executable, *options, "-c", begin + textwrap.dedent(program) + END],
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    @property
    def file(self) -> Path:
        (found,) = self.cache.glob("*.program")
        return found


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


PART = """
import ours.part
said = {**served("ours", "ours.part"), "value": ours.part.VALUE}
"""


def test_a_second_start_imports_from_the_file(home: Home) -> None:
    assert home.run(PART) == {"ours": False, "ours.part": False, "value": 1}
    before = home.file.stat()
    assert home.run(PART) == {"ours": True, "ours.part": True, "value": 1}
    assert home.file.stat().st_mtime_ns == before.st_mtime_ns, "nothing was missing, so it was not written again"
    assert [file.suffix for file in home.cache.iterdir()] == [".program"], "no draft is left over"


def test_modules_are_as_python_makes_them(home: Home) -> None:
    program = """
    import inspect, traceback, ours.part, ours
    try:
        ours.part.where()
    except ValueError as error:
        trace = traceback.format_exception(error)
    names = ("__name__", "__file__", "__cached__", "__package__", "__path__")
    said = [
        [repr(getattr(one, name, None)) for name in names] + [one.__spec__.origin, one.__spec__.has_location]
        for one in (ours, ours.part)
    ] + [trace, inspect.getsource(ours.part), ours.part.where.__code__.co_filename]
    """
    assert home.run(program) == home.run(program)


def test_an_edited_module_is_imported_as_it_is(home: Home) -> None:
    home.run(PART)
    home.write("part", "VALUE = 23\n")
    assert home.run(PART) == {"ours": True, "ours.part": False, "value": 23}
    assert home.run(PART) == {"ours": True, "ours.part": True, "value": 23}


def test_a_module_of_the_same_size_counts_by_its_time(home: Home) -> None:
    home.run(PART)
    part = home.package / "part.py"
    time = part.stat().st_mtime - 100
    part.write_text(part.read_text().replace("VALUE = 1", "VALUE = 2"))
    os.utime(part, (time, time))
    assert home.run(PART)["value"] == 2


def test_a_package_before_it_on_the_path_goes_first(home: Home) -> None:
    home.run(PART)
    other = home.path / "zeroth" / "ours"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("")
    (other / "part.py").write_text("VALUE = 5\n")
    assert home.run(PART)["value"] == 5
    assert home.run(PART) == {"ours": True, "ours.part": True, "value": 5}


def test_a_file_before_it_that_is_no_module_is_passed_over(home: Home) -> None:
    (home.path / "zeroth").mkdir()
    home.run(PART)
    (home.path / "zeroth" / "ours.log").write_text("")
    assert home.run(PART) == {"ours": True, "ours.part": True, "value": 1}


def test_a_module_that_is_gone_is_missing(home: Home) -> None:
    home.run(PART)
    (home.package / "part.py").unlink()
    program = """
    said = 0
    try:
        import ours.part
    except ImportError:
        said = 1
    """
    assert home.run(program) == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:1000],
        lambda data: data[:-1000],
        lambda data: b"x" + data[1:],
        lambda data: bytes(len(data)),
        lambda data: data[: len(data) // 2] + bytes(len(data) - len(data) // 2),
    ],
)
def test_a_damaged_file_is_as_none(home: Home, damage: Any) -> None:
    home.run(PART)
    home.file.write_bytes(damage(home.file.read_bytes()))
    assert home.run(PART)["value"] == 1


def test_each_way_to_start_adds_what_it_imports(home: Home) -> None:
    home.write("other", "VALUE = 4\n")
    home.run("import ours.part\nsaid = 0")
    home.run("import ours.other\nsaid = 0")
    program = 'import ours.part, ours.other\nsaid = served("ours.part", "ours.other")'
    assert home.run(program) == {"ours.part": True, "ours.other": True}


def test_optimized_code_is_another_file(home: Home) -> None:
    home.run(PART)
    assert home.run(PART, "-O")["ours.part"] is False
    assert len(list(home.cache.glob("*.program"))) == 2


def test_a_folder_that_cannot_be_written_is_left_alone(home: Home) -> None:
    home.cache.write_text("a file")
    assert home.run(PART) == {"ours": False, "ours.part": False, "value": 1}


TEXTS = """
import collections, dataclasses, typing
import ours.part
compiled = []
program._active.compile = lambda text, mode, old=program._active.compile: (compiled.append(text), old(text, mode))[1]
known = len(program._active._texts)

@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: "list[int]" = dataclasses.field(default_factory=list)

class Row(typing.NamedTuple):
    a: "int"
    b: "dict[str, float]" = {}

Pair = collections.namedtuple("Pair", "left right")
said = [
    repr(Point(1)), Point(1) == Point(1, []), hash(Point) != 0, repr(Row(1)), repr(Pair(1, right=2)),
    str(typing.get_type_hints(Row)), str(typing.get_type_hints(Point)), Point.__init__.__code__.co_filename,
    len(program._active._texts) - known,
]
"""


def test_texts_are_compiled_once_for_all_starts(home: Home) -> None:
    *first, new = home.run(TEXTS)
    *second, newer = home.run(TEXTS)
    assert new > 5 and newer == 0
    plain = TEXTS.replace("program._active.compile =", "dummy =").replace("program._active._texts", "[]")
    usual = home.run(plain.replace("program._active.compile", "compile"), begin=BEGIN.replace("program.begin()", ""))
    assert first == second == usual[:-1]


def test_afterwards_python_is_as_before(home: Home) -> None:
    program = """
    import collections, dataclasses, sys, typing
    before = [finder for finder in sys.meta_path if type(finder).__name__ == "Program"]
    program.end()
    left = [name for module, name in ((dataclasses, "exec"), (collections, "eval"), (typing, "compile"))
            if name in vars(module)]
    after = [finder for finder in sys.meta_path if type(finder).__name__ == "Program"]
    import ours.part
    said = [len(before), len(after), left, *served("ours.part").values()]
    """
    assert home.run(program) == [1, 0, [], False]
    assert home.run(program) == [1, 0, [], False]
