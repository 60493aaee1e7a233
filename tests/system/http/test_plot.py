"""`rankcast plot` against a live service."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from app.cli.main import cli
from tests.support.pictures import need_matplotlib
from tests.system.http.explaining import made, upsert
from tests.system.http.talk import Talk


def test_a_picture_of_an_event_is_drawn(talk: Talk, tmp_path: Path) -> None:
    need_matplotlib()
    path = made(talk, ks=[2])
    board = path.rpartition("/")[2]
    talk.good("POST", f"{path}/events", {"events": [upsert(f"o{n}", n * 7 % 31, n * 5 % 13) for n in range(25)]})
    wants = [{"range": {"distance": [n, None if n == 3 else n + 9]}, "k": 2} for n in range(20)]
    talk.good("POST", f"{path}/subscriptions", {"subscriptions": wants, "lists": False})
    before = talk.good("GET", path)

    def drawn(id: str, *options: str, name: str = "event.svg") -> str:
        output = tmp_path / "new" / name
        found = CliRunner().invoke(cli, ["plot", board, id, *options, "-o", str(output), "--url", talk.url])
        assert found.exit_code == 0, found.output
        assert output.stat().st_size > 1_000
        return found.output

    said = talk.good("POST", f"{path}/explain", {"event": {"op": "update", "id": "o5", "values": {"delay": -1}}})
    assert f"worse, {said['affected']} subscriptions affected, {said['tile_count']} tiles for k = 2" in drawn(
        "o5", "--set", "delay=-1"
    )
    first = (tmp_path / "new" / "event.svg").read_bytes()
    drawn("o5", "--set", "delay=-1")
    assert (tmp_path / "new" / "event.svg").read_bytes() == first
    assert "insertion" in drawn("new", "--set", "delay=50", "--set", "distance=12", "--algorithm", "dense")
    assert "deletion" in drawn("o5", "--delete", "--epsilon", "1", "--subscriptions", "0", name="event.png")
    assert "nothing" in drawn("o5")
    refused = CliRunner().invoke(cli, ["plot", board, "nobody", "--delete", "--url", talk.url])
    assert refused.exit_code == 1 and "there is no object 'nobody'" in refused.output
    refused = CliRunner().invoke(cli, ["plot", board, "o5", "-k", "9", "--url", talk.url])
    assert refused.exit_code == 2 and "offers k = 2" in refused.output
    assert talk.good("GET", path) == before


def test_an_object_that_is_in_no_list_is_not_called_missing(talk: Talk, tmp_path: Path) -> None:
    need_matplotlib()
    path = made(talk, ks=[2])
    board = path.rpartition("/")[2]
    talk.good("POST", f"{path}/events", {"events": [upsert(f"o{n}", 7, n) for n in range(4)]})
    output = tmp_path / "event.svg"
    refused = CliRunner().invoke(cli, ["plot", board, "o0", "-o", str(output), "--url", talk.url])
    assert refused.exit_code == 1 and "'o0' is among the 2 best of no range" in refused.output
    assert not output.exists()


def test_a_board_whose_subscriptions_lie_in_no_plane_is_refused(talk: Talk, tmp_path: Path) -> None:
    need_matplotlib()
    for more in ({"indexed": ["to"]}, {"range_attributes": ["distance", "price"]}):
        board = made(talk, **more).rpartition("/")[2]
        output = tmp_path / "event.svg"
        refused = CliRunner().invoke(cli, ["plot", board, "o5", "-o", str(output), "--url", talk.url])
        assert refused.exit_code == 1 and "several range attributes or indexed fields" in refused.output
        assert not output.exists()
