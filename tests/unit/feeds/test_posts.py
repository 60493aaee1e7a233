"""The posts of the window by number and by id, against a list."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.feeds.config import SPACE, Keywords, Shown, Spaced
from indexes.feeds.posts import Newest, Piece, Posts
from indexes.feeds.results import PostView

seeds = st.integers(0, 2**32 - 1)
SHOWN: list[Shown] = [["b", "a", "b"], {"x": 1.0, "y": 2.5}, [], ["\u00df"]]


class Model:
    """A window of posts, and the same as a list of views."""

    def __init__(self, seed: int, first: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.posts = Posts()
        self.posts.first = self.posts.next = first
        self.there: list[PostView] = []
        self.seq = 7
        self.at = 0

    def append(self, n: int) -> None:
        first, free = self.posts.next, [f"p{i}" for i in range(200)]
        taken = {view.id for view in self.there}
        ids = [id for id in self.rng.permutation(free).tolist() if id not in taken][:n]
        shown = [SHOWN[i] for i in self.rng.integers(0, len(SHOWN), len(ids)).tolist()]
        points, payload = self.rng.random((len(ids), 2)), {i: b"[%d]" % i for i in range(0, len(ids), 3)}
        keywords = Keywords.of(shown)
        if self.rng.random() < 0.5:
            words = keywords.words()
            text = Spaced.of(words, SPACE.join(words)) if self.rng.random() < 0.5 else None
            keywords = Keywords(keywords.end, text or words, keywords.weight).unlisted()
        step = Newest(first, self.seq, self.at, ids, keywords, points, payload)
        for part in step.parts(int(self.rng.integers(1, 9))):
            self.posts.append(part)
        for i, (key, words, (x, y)) in enumerate(zip(ids, shown, points.tolist(), strict=True)):
            view = PostView(first + i, self.seq + i, key, words, (x, y), self.at, payload.get(i))
            self.there.append(view)
        self.seq += len(ids)
        self.at += 1

    def expire(self, n: int) -> None:
        first = min(self.posts.first + n, self.posts.next)
        self.posts.expire(first)
        self.there = [view for view in self.there if view.number >= first]

    def withdraw(self) -> None:
        if self.there:
            view = self.there.pop(int(self.rng.integers(len(self.there))))
            self.posts.withdraw(view.number)

    def compare(self) -> None:
        posts = self.posts
        posts.check()
        assert len(posts) == len(self.there)
        assert [posts.view(view.number) for view in self.there] == self.there
        assert [posts.find(view.id) for view in self.there] == [view.number for view in self.there]
        assert [posts.at(view.number) for view in self.there] == [view.at for view in self.there]
        assert posts.after(None, 1_000) == sorted(self.there, key=lambda view: view.id)
        assert posts.oldest_at == (self.there[0].at if self.there else None)
        keys = [view.id for view in self.there]
        assert posts.have_none([]) and posts.have_none(["q", "r"]) and not any(posts.have_none([key]) for key in keys)
        by_number = {n: piece for piece in posts.pieces() for n in range(piece.first, piece.first + len(piece.seq))}
        assert all(by_number[view.number].view(view.number) == view for view in self.there)


def whole(pieces: list[Piece]) -> int:
    return sum(len(piece.seq) for piece in pieces)


@settings(max_examples=60, deadline=None)
@given(seed=seeds, piece=st.integers(1, 20), window=st.integers(1, 40), first=st.sampled_from([0, 1 << 40]))
def test_posts_are_found_listed_and_forgotten_like_a_list(seed: int, piece: int, window: int, first: int) -> None:
    with patch("indexes.feeds.posts.PIECE", piece), patch("indexes.feeds.posts.LOWER", (1 << 6) - 1):
        model = Model(seed, first)
        for _ in range(25):
            if model.rng.random() < 0.3:
                model.withdraw()
            room = 60 - (model.posts.next - model.posts.first)
            model.append(min(room, int(model.rng.integers(0, 12))) if room > 0 else 0)
            model.expire(max(0, model.posts.next - model.posts.first - window))
            model.posts.trim()
            model.compare()
            assert whole(model.posts.pieces()) <= window + 3 * piece + 80, "what has expired is dropped"
        model.expire(1_000)
        model.posts.trim()
        model.compare()
