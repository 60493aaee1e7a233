"""Where a rebuild writes, and what it takes away before."""

from __future__ import annotations

from pathlib import Path

import pytest

from formats.folder import Damaged, Folder
from spark_jobs.common.command import Failed
from spark_jobs.rebuild.images import make_room, pieces_of, storing


def test_only_the_resource_s_own_image_and_pieces_are_taken_away(tmp_path: Path) -> None:
    images = Folder.at(tmp_path)
    names = ["b", "b~pieces-1", "b~pieces-2", "bb", "bb~pieces-1", "b.pieces-1", "c"]
    for name in names:
        (tmp_path / "boards" / name).mkdir(parents=True)
        (tmp_path / "boards" / name / "manifest.json").write_text("{}")
    (tmp_path / "matchers" / "b").mkdir(parents=True)
    pieces = pieces_of(images, "boards/b")
    make_room(images, "boards/b", pieces)
    own = pieces.path.rpartition("/")[2]
    assert own.startswith("b~pieces-") and pieces.exists
    assert (images / "boards").names() == ["b.pieces-1", "bb", "bb~pieces-1", own, "c"]
    assert (images / "matchers").names() == ["b"]


def test_runs_have_pieces_of_their_own(tmp_path: Path) -> None:
    assert pieces_of(Folder.at(tmp_path), "boards/b").path != pieces_of(Folder.at(tmp_path), "boards/b").path


def test_what_goes_wrong_with_the_storage_is_a_sentence_and_leaves_no_image(tmp_path: Path) -> None:
    image = Folder.at(tmp_path / "b")
    image.draft().publish({})
    with pytest.raises(Failed, match=r"b cannot be written: No space left on device$"), storing(image):
        raise OSError(28, "No space left on device")
    assert not image.exists
    with pytest.raises(Failed, match="a piece is missing; every worker has to reach the storage"), storing(image):
        raise Damaged("a piece is missing")
