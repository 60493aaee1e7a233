"""Payloads of elements, from values of JSON and from columns of its text."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic_core import from_json

from app.api.element_errors import ElementError, ElementErrors
from app.api.values import payload_text


class Payloads:
    """Reads payloads of at most `most` bytes of compact JSON; what is wrong goes to `errors`."""

    def __init__(self, most: int, errors: ElementErrors) -> None:
        self._most = most
        self._errors = errors

    def text(self, index: int, value: Any) -> bytes | None:
        """The payload of an element as compact JSON text; None for null, and for one that cannot be."""
        try:
            return payload_text(value, self._most)
        except ValueError as error:
            self._errors.append(ElementError(index, "payload", str(error)))
            return None

    def column(self, texts: pa.StringArray, start: int, where: npt.NDArray[np.bool_]) -> dict[int, bytes | None]:
        """The payloads of a column of JSON text whose first row is element `start`, by element, where wanted."""
        found = {}
        for i in np.flatnonzero(where).tolist():
            try:
                value = from_json(texts[i].as_py(), allow_inf_nan=False)
            except ValueError as error:
                self._errors.append(ElementError(start + i, "payload", f"is not JSON: {error}"))
            else:
                found[start + i] = self.text(start + i, value)
        return found
