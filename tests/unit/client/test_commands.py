"""What the commands make of text and files before anything is sent."""

from __future__ import annotations

import gzip
import io
import json
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from rich.console import Console
from rich.text import Text

from app.api.values import NAME_REASON
from app.cli import line, name_of, parse_range, ranges_of, rows
from app.cli.load import Target, load_rows, stream_of
from app.cli.options import RowFile
from app.cli.rows import BadRow, Columns, Source, Unreadable, format_of
from app.cli.socket_load import SocketTarget
from app.cli.watch import Picture
from rankcast_client import (
    BoardInfo,
    Change,
    Entry,
    FieldError,
    ProblemError,
    Published,
    Snapshot,
    Subscription,
    Unreachable,
)

SCORES = Columns(("id",), {"level": "level", "score": "points"})


@pytest.mark.parametrize(
    ("text", "name", "ends"),
    [
        ("500:1000", None, (500, 1000)),
        ("500:", None, (500, None)),
        (":1000", None, (None, 1000)),
        (":", None, (None, None)),
        ("-5:-1.5", None, (-5, -1.5)),
        (" 1e3 : 2e3 ", None, (1000, 2000)),
        ("-inf:3", None, (None, 3)),
        ("price=-2:", "price", (-2, None)),
    ],
)
def test_a_range_reads_low_to_high(text: str, name: str | None, ends: tuple[float | None, float | None]) -> None:
    assert parse_range(text) == (name, ends)


@pytest.mark.parametrize("text", ["500", "", "a:b", "1:2:3", "nan:3", "10:5", "x=y=1:2", "1-2"])
def test_what_is_no_range_is_said_to_be_none(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_range(text)


def test_a_name_is_refused_before_anything_is_sent() -> None:
    assert [name_of(text) for text in ("arcade-2", None)] == ["arcade-2", None]
    for text in ("", "a/b", "a b", ".."):
        with pytest.raises(typer.BadParameter, match="is no name"):
            name_of(text)


def test_ranges_name_their_attribute_where_there_are_several() -> None:
    assert ranges_of(["1:2"], ["x"]) == {"x": (1, 2)}
    assert ranges_of(["y=1:2"], ["x", "y"]) == {"y": (1, 2)}
    assert ranges_of(None, ["x"]) == {}
    for texts in (["1:2"], ["z=1:2"], ["x=1:2", "x=2:3"]):
        with pytest.raises(typer.BadParameter):
            ranges_of(texts, ["x", "y"])


def test_lines_for_pipes_have_one_field_a_tab() -> None:
    assert line(12345678, "change", None, 2, "a\tb\n", 719.5, {"to": "IAH"}) == (
        '12345678\tchange\t-\t2\ta b \t719.5\t{"to":"IAH"}'
    )


def test_the_picture_marks_who_came_who_moved_and_who_left() -> None:
    info = BoardInfo("delays", ("distance",), "delay", "desc", (3,), "sparse", None)
    picture = Picture(info, Subscription("mine", {"distance": (500, None)}, 3))
    a, b, c, d = (
        Entry(id, {"distance": 700, "delay": delay}, 0) for id, delay in zip("abcd", (9, 8, 7, 10), strict=True)
    )
    better = Entry("b", {"distance": 700, "delay": 8.5}, 0, {"to": "IAH"})
    picture.take(Snapshot(1, (a, b, c)), (a, b, c))
    picture.take(Change(2, ()), (d, a, b))
    assert picture.draw("live", 2).renderables[-1] == Text("live, seq 2, 1 change. Ctrl-C ends.")
    picture.take(Change(3, ()), (d, a, better))

    console = Console(width=100, file=io.StringIO())
    console.print(picture.draw("live", 3))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines() if line.startswith("│")]
    assert rows == [
        ["1", "new", "d", "10", "700", ""],
        ["2", "▼ 1", "a", "9", "700", ""],
        ["3", "•", "b", "8.5", "700", "to IAH"],
    ]
    assert shown.startswith("delays: the 3 with the largest delay, distance from 500\n")
    assert "left: c" in shown
    assert "live, seq 3, 2 changes. Ctrl-C ends." in shown


def load(path: Path, columns: Columns, **options: Any) -> tuple[list[dict[str, Any]], list[int], list[BadRow]]:
    """All events of a file, their rows, and the rows that are none."""
    events: list[dict[str, Any]] = []
    numbers: list[int] = []
    bad: list[BadRow] = []
    with path.open("rb") as file:
        packed = path.suffix == ".gz"
        source = Source(file, format_of(path), size=path.stat().st_size, packed=packed, **options)
        for chunk in source.chunks(columns):
            events += pa.ipc.open_stream(stream_of(chunk.batch)).read_all().to_pylist()
            numbers += chunk.rows
            bad += chunk.bad
        assert source.done == source.total
    assert len(events) == len(numbers)
    return events, numbers, bad


def test_a_csv_names_its_bad_rows_and_keeps_the_others(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text(
        "id,level,points,city\n"
        "ada,12,9100,London\n"
        "grace, 17 ,8700,\n"
        "alan,,1,x\n"
        ",1,1,x\n"
        'bob,1,"many, many",x\n'
        "eve,1,inf,x\n"
        "nan,1,NA,x\n"
        "007,1,1e3,007\n"
    )
    columns = Columns(("id",), {"level": "level", "score": "points"}, fields=("city", "points"))
    events, numbers, bad = load(path, columns, nulls=["NA"])
    assert [(event["id"], event["level"], event["score"]) for event in events] == [
        ("ada", 12, 9100),
        ("grace", 17, 8700),
        ("007", 1, 1000),
    ]
    assert [json.loads(event["payload"]) for event in events] == [
        {"city": "London", "points": 9100},
        {"city": None, "points": 8700},
        {"city": "007", "points": 1000.0},
    ]
    assert numbers == [1, 2, 8]
    assert bad == [
        BadRow(3, "level is empty"),
        BadRow(4, "id is empty"),
        BadRow(5, "points is 'many, many', which is no number"),
        BadRow(6, "points is not finite"),
        BadRow(7, "points is empty"),
    ]


def test_an_id_is_joined_and_quoted_line_ends_are_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "flights.csv.gz"
    path.write_bytes(gzip.compress(b'carrier,flight,note,x,y\nUA,15,"two\nlines",1,2\nAA,7,,3,4\n'))
    columns = Columns(("carrier", "flight"), {"x": "x", "y": "y"}, fields=("note",))
    with path.open("rb") as file:
        (chunk,) = Source(file, "csv", size=path.stat().st_size, packed=True).chunks(columns)
    assert chunk.batch.column("id").to_pylist() == ["UA15", "AA7"]
    assert chunk.batch.column("payload").to_pylist() == ['{"note":"two\\nlines"}', '{"note":null}']


def test_a_parquet_file_is_read_with_its_types(tmp_path: Path) -> None:
    path = tmp_path / "cars.parquet"
    table = pa.table(
        {
            "op": ["upsert", "update", "delete", None],
            "id": [1, 2, 3, 4],
            "level": pa.array([1.5, None, None, None], pa.float32()),
            "points": [7, 8, None, 9],
            "extra": [{"a": 1}, None, {"a": float("nan")}, None],
        }
    )
    pq.write_table(table, path)
    columns = Columns(("id",), {"level": "level", "score": "points"}, payload="extra", op="op")
    events, numbers, bad = load(path, columns)
    assert [(event["op"], event["id"], event["level"], event["score"]) for event in events] == [
        ("upsert", "1", 1.5, 7),
        ("update", "2", None, 8),
        ("delete", "3", None, None),
    ]
    assert [event["payload"] for event in events] == ['{"a":1.0}', None, '{"a":null}']
    assert numbers == [1, 2, 3]
    assert bad == [BadRow(4, "level is empty")]

    with pytest.raises(Unreadable, match="no column 'miles'"):
        load(path, Columns(("id",), {"level": "miles"}))
    with pytest.raises(Unreadable, match=r"'extra' is struct.*not numbers"):
        load(path, Columns(("id",), {"level": "extra"}))


def test_lines_are_read_plain_or_in_the_services_own_shape(tmp_path: Path) -> None:
    path = tmp_path / "scores.ndjson"
    own = Columns(("id",), {"level": "level", "score": "score"})
    lines = [
        '{"id": "a", "level": 1, "score": 2, "city": "Rome"}',
        "",
        '{"op": "update", "id": "b", "values": {"score": 3}, "payload": [1]}',
        '{"op": "delete", "id": "c"}',
        "{",
        "[]",
        '{"id": "d", "level": "1", "score": 2}',
        '{"level": 1, "score": 2}',
        '{"id": "e", "score": 2}',
    ]
    path.write_text("\n".join(lines))
    events, numbers, bad = load(path, own)
    assert [(event["op"], event["id"], event["level"], event["score"], event["payload"]) for event in events] == [
        ("upsert", "a", 1, 2, None),
        ("update", "b", None, 3, "[1]"),
        ("delete", "c", None, None, None),
    ]
    assert numbers == [1, 3, 4]
    assert [row for row, _ in bad] == [5, 6, 7, 8, 9]
    assert bad[2].reason == 'level is "1", which is no number'

    events, _, _ = load(path, Columns(("id",), {"level": "level", "score": "score"}, fields=("city",)))
    assert events[0]["payload"] == '{"city":"Rome"}'


def test_a_file_is_cut_into_chunks_that_know_their_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "CHUNK_ROWS", 3)
    monkeypatch.setattr(rows, "CSV_BLOCK_BYTES", 32)
    path = tmp_path / "scores.csv"
    path.write_text("id,level,points\n" + "".join(f"o{i},{i},{'x' if i == 7 else i}\n" for i in range(1, 21)))
    events, numbers, bad = load(path, SCORES)
    assert numbers == [row for row in range(1, 21) if row != 7]
    assert [event["level"] for event in events] == numbers
    assert [row for row, _ in bad] == [7]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "id,level\nada,12\n", "there is no column 'points'; there are id, level$"),
        (
            "a.csv",
            "name,level,points\nada,12,3\n",
            "no column 'id', and --id names no other for the id; there are name,",
        ),
        ("a.csv", ",".join(f"c{n}" for n in range(30)) + "\n", r"there are c0, .*, c19, \.\.\.$"),
        ("a.csv", "id,level,points\nada,12\n", "Expected 3 columns"),
        ("a.csv", "", "[Ee]mpty"),
        ("a.parquet", "no parquet at all", "[Pp]arquet"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, name: str, content: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(Unreadable, match=message):
        load(path, SCORES)


def test_a_name_says_the_format() -> None:
    assert [format_of(Path(name)) for name in ("a.CSV", "a.csv.gz", "b.parquet", "c.jsonl")] == [
        "csv",
        "csv",
        "parquet",
        "ndjson",
    ]
    with pytest.raises(Unreadable, match="--format"):
        format_of(Path("data"))


def left_out(path: Path, columns: Columns) -> list[str]:
    with path.open("rb") as file:
        source = Source(file, format_of(path), size=path.stat().st_size, packed=path.suffix == ".gz")
        assert sum(len(chunk.rows) for chunk in source.chunks(columns)) == 1
        return source.left_out


def test_columns_that_are_not_loaded_are_named(tmp_path: Path) -> None:
    text = b'\xef\xbb\xbfid,level,"the ""big"" city,\nor town",points,,zip\nada,1,x,2,,\n'
    plain, packed, table, lines = (tmp_path / f"a{end}" for end in (".csv", ".csv.gz", ".parquet", ".ndjson"))
    plain.write_bytes(text)
    packed.write_bytes(gzip.compress(text))
    pq.write_table(pa.table({"zip": ["1"], "id": ["ada"], "level": [1.0], "points": [2.0]}), table)
    lines.write_text('{"zip": 1, "payload": 2, "id": "ada", "level": 1, "points": 2}\n')
    assert left_out(plain, SCORES) == left_out(packed, SCORES) == ['the "big" city,\nor town', "zip"]
    assert left_out(table, SCORES) == ["zip"]
    assert left_out(lines, SCORES) == ["payload", "zip"]
    assert left_out(plain, Columns(("id",), {"score": "points"}, fields=("zip", "level"))) == [
        'the "big" city,\nor town'
    ]
    lines.write_text('{"id": "ada", "op": "upsert", "values": {"level": 1, "points": 2, "x": 3}, "payload": 4, "y": 5}')
    assert left_out(lines, SCORES) == ["values.x", "y"]
    place = Columns(("id",), {"x": "lon", "y": "lat"}, location=("x", "y"))
    lines.write_text('{"id": "ada", "location": [1, 2], "values": {}, "name": "x"}')
    assert left_out(lines, place) == ["name"]


def test_the_names_of_very_many_columns_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MOST_LEFT_OUT", 3)
    path = tmp_path / "a.ndjson"
    path.write_text("".join(f'{{"id": "a", "level": 1, "points": 2, "x{i}": 3}}\n' for i in range(9)))
    with path.open("rb") as file:
        source = Source(file, "ndjson", size=path.stat().st_size)
        assert sum(len(chunk.rows) for chunk in source.chunks(SCORES)) == 9
    assert source.left_out == ["x0", "x1", "x2"]


class Taking:
    """A target that takes chunks until it raises what comes next."""

    def __init__(self, *ends: BaseException | int) -> None:
        self.ends = list(ends)
        self.taken: list[list[str]] = []

    def __call__(self, batch: pa.RecordBatch, on_error: object) -> Published:
        end = self.ends.pop(0)
        if isinstance(end, BaseException):
            raise end
        self.taken.append(batch.column("id").to_pylist())
        return Published(end, len(self.taken[-1]))


@pytest.mark.parametrize(
    ("ends", "first", "status", "said"),
    [
        (
            [7, 8, KeyboardInterrupt()],
            1,
            130,
            "rankcast: interrupted; rows 1 to 6 are loaded (5 applied, 1 passed over, seq 8), and rows 7 to 9 may be: "
            "they were on their way. To go on: the same command with --from-row 7",
        ),
        (
            [7, Unreachable("the service is away")],
            5,
            1,
            "rankcast: the service is away; rows 5 to 6 are loaded (1 applied, 1 passed over, seq 7), and rows 7 to 9 "
            "may be: they were on their way. To go on: the same command with --from-row 7",
        ),
        (
            [KeyboardInterrupt()],
            4,
            130,
            "rankcast: interrupted; nothing was loaded, and rows 4 to 6 may be: they were on their way",
        ),
    ],
)
def test_it_is_said_how_far_a_file_was_loaded(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    ends: list[BaseException | int],
    first: int,
    status: int,
    said: str,
) -> None:
    monkeypatch.setattr(rows, "CHUNK_ROWS", 3)
    path = tmp_path / "scores.csv"
    path.write_text("id,level,points\n" + "".join(f"o{i},{i},{'x' if i == 5 else i}\n" for i in range(1, 13)))
    taking = Taking(*ends)
    with pytest.raises(typer.Exit) as end:
        load_rows(RowFile(path, on_error="skip", from_row=first), SCORES, Target("arcade", taking))
    assert end.value.exit_code == status
    assert capsys.readouterr().err.splitlines()[-1] == said
    assert (
        list(chain.from_iterable(taking.taken)) == [f"o{i}" for i in range(first, 7) if i != 5][: 3 * len(taking.taken)]
    )


@pytest.mark.parametrize("kind", ["csv", "ndjson"])
def test_all_bad_rows_of_a_chunk_are_said_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    cells = [("ada", "1"), ("a b", "2"), ("bob", "x"), ("eve", "1e301"), ("..", "5")]
    lines = ["id,level,points", *(f"{id},1,{points}" for id, points in cells)]
    if kind == "ndjson":
        numbers = {"x": '"x"'}
        lines = [f'{{"id":"{id}","level":1,"points":{numbers.get(points, points)}}}' for id, points in cells]
    path = tmp_path / f"scores.{kind}"
    path.write_text("\n".join(lines) + "\n")
    taking = Taking()
    with pytest.raises(typer.Exit):
        load_rows(RowFile(path), SCORES, Target("arcade", taking))
    assert not taking.taken
    number = {"csv": "'x'", "ndjson": '"x"'}[kind]
    assert capsys.readouterr().err.splitlines()[-4:] == [
        f"  row 2: id {NAME_REASON}",
        f"  row 3: points is {number}, which is no number",
        "  row 4: values.score must be at most 1e+300 in size",
        f"  row 5: id {NAME_REASON}",
    ]


def test_a_column_that_an_option_cannot_name_is_not_proposed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "scores.csv"
    path.write_text('id,level,points,"a, b",to city\nada,1,2,3,4\n')
    load_rows(RowFile(path), SCORES, Target("arcade", Taking(1)))
    said = capsys.readouterr()
    assert said.out.startswith("1 of 1 rows are on arcade, seq 1 ")
    assert said.err.splitlines()[-1] == "columns left out: a, b, to city. As payload: --payload 'to city'"


class Piping:
    """A socket whose requests are answered when somebody waits for their answers."""

    def __init__(self, refused: int | None = None) -> None:
        self.refused = refused
        self.sent: list[list[Any]] = []
        self.most = 0
        self.open = 0

    def begin_publish(self, board: str, events: list[Any], **options: Any) -> Any:
        self.sent.append(events)
        self.open += 1
        self.most = max(self.most, self.open)
        number = len(self.sent)

        def result() -> Published:
            self.open -= 1
            if number == self.refused:
                errors = (FieldError("events[1].values.level", "must be finite", 1),)
                raise ProblemError(422, "/problems/invalid", "invalid", errors=errors)
            return Published(number, len(events))

        return SimpleNamespace(result=result)


def test_rows_go_over_a_socket_in_small_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rows, "CHUNK_ROWS", 10)
    path = tmp_path / "scores.csv"
    path.write_text("id,level,points\n" + "".join(f"o{i},{i},{'x' if i == 5 else i}\n" for i in range(1, 26)))
    piping: Any = Piping()
    load_rows(RowFile(path, on_error="skip"), SCORES, SocketTarget(piping, "arcade", 3, 2))
    said = capsys.readouterr()
    assert said.out.startswith("24 of 25 rows are on arcade, seq 9 ")
    assert "row 5: points is 'x'" in said.err
    assert [event["id"] for events in piping.sent for event in events] == [f"o{i}" for i in range(1, 26) if i != 5]
    assert {len(events) for events in piping.sent} <= {1, 2, 3} and piping.most == 2
    assert piping.sent[0][0] == {"op": "upsert", "id": "o1", "values": {"level": 1.0, "score": 1.0}}

    refusing: Any = Piping(refused=2)
    with pytest.raises(typer.Exit):
        load_rows(RowFile(path, from_row=6), SCORES, SocketTarget(refusing, "arcade", 2, 3))
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "rankcast: bad rows; rows 6 to 7 are loaded, of rows 10 to 12, which were on their way, some may be too, "
        "and --on-error skip passes such rows over",
        "  row 9: values.level must be finite",
    ]
