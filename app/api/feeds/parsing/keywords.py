"""Keywords out of bodies: lists, weights by word, and texts, each as it is shown from then on."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from app.api.element_errors import ElementError, ElementErrors
from app.api.problems import many
from app.errors import FieldError
from indexes.feeds.config import (
    MOST_LETTERS,
    MOST_WEIGHT,
    MOST_WORDS,
    SPACE,
    Keywords,
    Shown,
    Spaced,
    Texts,
    listed,
    weighted,
)
from indexes.feeds.tokens import STOP_WORDS, tokens

FEW, SOME = 8, 1_024
"""Documents up to which their words stay a list, or become one text; those of more become an Arrow array."""

_NUMBERS = frozenset({float, int})
_NEITHER = "must be a list of words, or an object of weights by word"
_WEIGHT = f"must be a number above 0 and at most {MOST_WEIGHT:g}"
_TOO_MANY = f"there are more than {MOST_WORDS} keywords"
_BOTH = "stands beside keywords: give one of them"
_NONE: Shown = []


class Words:
    """Reads the keywords of the documents of one body; `errors` is where it notes what is wrong. With `needed` there
    must be one at least."""

    def __init__(self, stop_words: Collection[str] | None, errors: ElementErrors, needed: bool) -> None:
        self._stop_words = STOP_WORDS if stop_words is None else frozenset(stop_words)
        self._errors = errors
        self._needed = needed

    def read(self, start: int, items: Sequence[Any]) -> Keywords:
        """Those of validated elements, the first of which is element `start`; None is one that is known to be
        bad."""
        plain = plain_keywords(items)
        if plain is not None and not plain.faults(not self._needed):
            return plain
        shown = [_NONE if item is None else self._one(at, item) for at, item in enumerate(items, start)]
        return self._checked(start, shown, lambda i: "text" if "text" in items[i] else "keywords")

    def batch(self, start: int, batch: pa.RecordBatch, texts: pa.StringArray | None) -> Keywords:
        """Those of an Arrow batch: of its column `keywords`, with `weights` or without, or else of `texts`."""
        n = len(batch)
        given, weights = _lists(batch, "keywords", "text"), _lists(batch, "weights", "numbers")
        written: list[Any] = [None] * n if texts is None else texts.to_pylist()
        shown = []
        rows = zip(given or repeat(None, n), weights or repeat(None, n), written, strict=True)
        for at, (words, weighing, text) in enumerate(rows, start):
            item: dict[str, Any] = {}
            if words is not None and len(words) > MOST_WORDS:
                self._wrong(at, "keywords", _TOO_MANY)
                shown.append(_NONE)
                continue
            if words is not None:
                item["keywords"] = words if weighing is None else self._paired(at, words, weighing)
            elif weighing is not None:
                self._wrong(at, "weights", "there are no keywords to go with")
            if text is not None:
                item["text"] = text
            shown.append(self._one(at, item))
        return self._checked(start, shown, lambda i: "keywords" if written[i] is None else "text")

    def _one(self, at: int, item: dict[str, Any]) -> Shown:
        """The keywords of one document, casefolded."""
        given = item.get("keywords", item)
        if given is item:
            if "text" in item:
                return listed(tokens(item["text"], self._stop_words))
            self._wrong(at, "keywords", "is required, or text")
            return _NONE
        if "text" in item:
            self._wrong(at, "text", _BOTH)
            return _NONE
        if type(given) is list:
            try:
                return listed(given)
            except AttributeError:
                # Of what JSON knows only text has letters. Where there are too many that alone is said.
                bad = [i for i, word in enumerate(given) if not isinstance(word, str)][: MOST_WORDS + 1]
                if len(bad) > MOST_WORDS:
                    self._wrong(at, "keywords", _TOO_MANY)
                else:
                    for i in bad:
                        self._wrong(at, f"keywords[{i}]", "must be a string")
                return _NONE
        if type(given) is not dict:
            self._wrong(at, "keywords", _NEITHER)
            return _NONE
        return self._weighted(at, given)

    def _weighted(self, at: int, given: dict[str, Any]) -> Shown:
        if len(given) > MOST_WORDS:
            self._wrong(at, "keywords", _TOO_MANY)
            return _NONE
        bad = [word for word, weight in given.items() if type(weight) not in _NUMBERS or not 0 < weight <= MOST_WEIGHT]
        for word in bad:
            self._wrong(at, f"keywords.{word[:80]}", _WEIGHT)
        return _NONE if bad else weighted(given)

    def _paired(self, at: int, words: list[Any], weights: list[Any]) -> Any:
        """Words with the weights beside them; those of a word that is there twice are added."""
        if len(words) != len(weights):
            self._wrong(at, "weights", f"must be as many as keywords: {len(words)}")
            return words
        found: dict[Any, Any] = {}
        for i, (word, weight) in enumerate(zip(words, weights, strict=True)):
            if not isinstance(word, str):
                self._wrong(at, f"keywords[{i}]", "must be a string")
            elif weight is None or not 0 < weight <= MOST_WEIGHT:
                self._wrong(at, f"weights[{i}]", _WEIGHT)
            else:
                found[word] = found.get(word, 0.0) + float(weight)
        return found

    def _checked(self, start: int, shown: list[Shown], field: Callable[[int], str]) -> Keywords:
        """All as columns; what cannot be is noted, of those in which nothing was wrong yet."""
        keywords = Keywords.of(shown)
        found = keywords.faults(not self._needed)
        # An element may have several of these.
        good = [(i, reason) for i, reason in found if start + i not in self._errors]
        for i, reason in good:
            self._wrong(start + i, field(i), reason)
        return keywords

    def _wrong(self, at: int, field: str, reason: str) -> None:
        self._errors.append(ElementError(at, field, reason))


def plain_keywords(items: Sequence[Any]) -> Keywords | None:
    """The keywords of elements that all have them as lists or with weights, casefolded; None if one has not, or if a
    weight is no number. Where they are sound they say so; what is wrong is left to `Keywords.faults`."""
    words: list[str] = []
    weights: list[float] = []
    ends: list[int] = []
    listed_words = longest = 0
    for item in items:
        given = None if item is None or "text" in item else item.get("keywords")
        if type(given) is dict:
            weights.extend(given.values())
        elif type(given) is list:
            weights.extend(repeat(math.nan, len(given)))
            listed_words += len(given)
        else:
            return None
        words.extend(given)
        ends.append(len(words))
        longest = max(longest, len(given))
    if not set(map(type, weights)) <= _NUMBERS:
        return None
    # Most have few words, for which Python is faster than numpy.
    numbers = weights if not listed_words else [weight for weight in weights if weight == weight]
    try:
        together, total, weight = SPACE.join(words), sum(numbers), np.array(weights, np.float64)
    except (TypeError, OverflowError):
        # What is no text, or a number too large.
        return None
    if together.casefold() != together or total != total or len(numbers) + listed_words != len(words):
        return None
    sound = not numbers or (min(numbers) > 0 and max(numbers) <= MOST_WEIGHT)
    letters = set(map(len, words))
    sound = sound and 0 not in letters and max(letters, default=0) <= MOST_LETTERS and longest <= MOST_WORDS
    return Keywords(np.array(ends, np.int64), _texts(words, together, len(items)), weight, sound, listed_words)


def _texts(words: list[str], together: str, documents: int) -> Texts:
    """The words in the form that is fastest for so many documents; `together` is the same with spaces between them."""
    if documents > SOME:
        return pa.array(words, pa.string())
    return words if documents <= FEW else Spaced.of(words, together) or words


def _lists(batch: pa.RecordBatch, name: str, of: str) -> list[Any] | None:
    """A column of lists, None where it is null; None when it is not there. Raises the problem 422 for another type."""
    index = batch.schema.get_field_index(name)
    if index < 0:
        return None
    column = batch.column(index)
    kind = column.type
    if pt.is_null(kind):
        return None
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        inner = kind.value_type
        text = pt.is_string(inner) or pt.is_large_string(inner) or pt.is_string_view(inner)
        if pt.is_dictionary(inner):
            text = pt.is_string(inner.value_type) or pt.is_large_string(inner.value_type)
        numbers = pt.is_integer(inner) or pt.is_floating(inner)
        if pt.is_null(inner) or (text if of == "text" else numbers):
            # One more than a document may have, so that a longer list is refused without being unpacked.
            found: list[Any] = pc.list_slice(column, 0, MOST_WORDS + 1, return_fixed_size_list=False).to_pylist()
            return found
    raise many([FieldError(name, f"must be a column of lists of {of}, not {kind}")])
