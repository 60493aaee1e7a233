from pathlib import Path

import pytest

from app.storage.directory import FORMAT, DataDirectory, DirectoryUnusable


def test_the_epoch_stays(tmp_path: Path) -> None:
    first = DataDirectory.open(tmp_path / "a" / "b")
    epoch = first.epoch
    first.close()
    second = DataDirectory.open(tmp_path / "a" / "b")
    assert second.epoch == epoch
    second.close()


def test_two_directories_have_different_epochs(tmp_path: Path) -> None:
    one, two = DataDirectory.open(tmp_path / "one"), DataDirectory.open(tmp_path / "two")
    assert one.epoch != two.epoch
    one.close()
    two.close()


def test_a_second_user_is_refused_by_name(tmp_path: Path) -> None:
    first = DataDirectory.open(tmp_path)
    with pytest.raises(DirectoryUnusable, match=f"{tmp_path} is in use by another process"):
        DataDirectory.open(tmp_path)
    first.close()
    DataDirectory.open(tmp_path).close()


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    DataDirectory.open(tmp_path).close()
    newer = FORMAT + 1
    (tmp_path / "FORMAT").write_text(f"{newer}\n")
    with pytest.raises(DirectoryUnusable, match=f"format '{newer}'"):
        DataDirectory.open(tmp_path)
    (tmp_path / "FORMAT").write_text("1\n")
    DataDirectory.open(tmp_path).close()


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DirectoryUnusable, match="cannot be used"):
        DataDirectory.open(tmp_path / "file")
