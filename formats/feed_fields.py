"""Configurations and columns of feeds as fields, as the log and snapshots hold them."""

from __future__ import annotations

from operator import sub
from typing import Any

import numpy as np
import pyarrow as pa

from formats.commands import bytes_of, floats_of, one_array, texts_of
from indexes.core.arrays import run_lengths
from indexes.feeds.config import FeedConfig, Keywords, Subscriptions

WORDS = pa.large_list(pa.string())
WEIGHTS = pa.large_list(pa.float64())
"""The types of the columns `words` and `weights`."""


def config_fields(config: FeedConfig) -> dict[str, Any]:
    """The stored fields of a configuration; how subscriptions are indexed is not."""
    stop_words = None if config.stop_words is None else list(config.stop_words)
    return {
        "bounds": list(config.bounds),
        "posts": config.posts,
        "span": config.span,
        "tfidf": config.tfidf,
        "buffer": config.buffer,
        "stop_words": stop_words,
    }


def config_of(fields: dict[str, Any]) -> FeedConfig:
    """The inverse of `config_fields`. Raises ValueError or KeyError."""
    x0, y0, x1, y1 = fields["bounds"]
    stop_words = fields["stop_words"]
    return FeedConfig(
        (x0, y0, x1, y1),
        posts=fields["posts"],
        span=fields["span"],
        tfidf=fields["tfidf"],
        buffer=fields["buffer"],
        stop_words=None if stop_words is None else tuple(stop_words),
    )


def keyword_columns(keywords: Keywords) -> dict[str, pa.Array]:
    """Keywords as lists of words, and lists of weights, null where words were given without."""
    length = run_lengths(keywords.end)
    owner = np.repeat(np.arange(len(keywords)), length)
    weighted = np.zeros(len(keywords), bool)
    weighted[owner[~np.isnan(keywords.weight)]] = True
    end = np.cumsum(np.where(weighted, length, 0))
    mask = pa.array(~weighted)
    return {
        "words": pa.LargeListArray.from_arrays(np.append(0, keywords.end), keywords.column()),
        "weights": pa.LargeListArray.from_arrays(np.append(0, end), keywords.weight[weighted[owner]], mask=mask),
    }


def keywords_of(table: pa.Table) -> Keywords:
    """The keywords in these columns of a table. Raises ValueError where weights are not one for each word."""
    words, weights = one_array(table["words"]), one_array(table["weights"])
    length = words.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
    weighted = weights.is_valid().to_numpy(zero_copy_only=False)
    if not np.array_equal(weights.filter(pa.array(weighted)).value_lengths().to_numpy(), length[weighted]):
        raise ValueError("there are other numbers of weights than of words")
    weight = np.full(int(length.sum()), np.nan)
    weight[np.repeat(weighted, length)] = weights.flatten().to_numpy(zero_copy_only=False)
    word = words.flatten()
    return Keywords(np.cumsum(length), word if word.null_count == 0 else _no_nulls(), weight)


def _no_nulls() -> pa.StringArray:
    raise ValueError("a word is null")


def keyword_fields(keywords: Keywords) -> dict[str, Any]:
    """Keywords as fields: how many each has, the words, and their weights, null where none has any."""
    end = keywords.end.tolist()
    sizes = list(map(sub, end, [0, *end]))
    some = keywords.count_unweighted() < len(keywords.weight)
    return {
        "sizes": sizes,
        "words": keywords.words(),
        "weights": bytes_of(keywords.weight) if some else None,
    }


def keywords_in(fields: dict[str, Any]) -> Keywords:
    """The inverse of `keyword_fields`. Raises ValueError where there are others than there are words."""
    word, weights = texts_of(fields["words"]), fields["weights"]
    weight = np.full(len(word), np.nan) if weights is None else floats_of(weights)
    sizes = np.array(fields["sizes"], np.int64)
    if len(weight) != len(word) or sizes.sum() != len(word) or sizes.min(initial=0) < 0:
        raise ValueError(
            f"there are {len(weight)} weights, and {sizes.sum()} words of documents, for {len(word)} words"
        )
    return Keywords(np.cumsum(sizes), word, weight)


def subscription_fields(some: Subscriptions) -> dict[str, Any]:
    """Subscriptions as fields."""
    numbers = {"points": bytes_of(some.points), "k": some.k.tolist(), "alpha": bytes_of(some.alpha)}
    return {**keyword_fields(some.keywords), **numbers}


def subscriptions_in(fields: dict[str, Any]) -> Subscriptions:
    """The inverse of `subscription_fields`."""
    k = np.array(fields["k"], np.int64)
    points, alpha = floats_of(fields["points"]).reshape(len(k), 2), floats_of(fields["alpha"])
    return Subscriptions(keywords_in(fields), points, k, alpha)
