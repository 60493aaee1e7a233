"""Notifications out of bodies: JSON lists, NDJSON and Arrow become the same columns."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from app.api.arrow import check_columns, floats, given_but_bad, nulls, strings
from app.api.bodies import BodyFormat
from app.api.bulk import Elements, Read
from app.api.element_errors import ElementError, ElementErrors
from app.api.models import OnErrorQuery
from app.api.payloads import Payloads
from app.api.relays.models import RelayValidators
from app.api.values import NAME_REASON, bad_names
from indexes.relays.commands import Notify
from indexes.relays.config import RelayConfig

Float64 = npt.NDArray[np.float64]


class NotificationReader:
    """Reads the notifications of a relay with this configuration; a payload has at most `max_payload` bytes."""

    def __init__(self, config: RelayConfig, validators: RelayValidators, max_payload: int) -> None:
        self._names = config.attributes
        self._links = config.links
        self._validators = validators
        self._max_payload = max_payload

    def read(self, kind: BodyFormat, raw: bytes | bytearray, query: OnErrorQuery) -> Read[Notify]:
        """The notifications of a body; `query` its other fields. Raises the problems 400, 413 and 422."""
        columns = _Columns()
        place, _, skip = Elements(
            "notifications",
            self._validators.notifications,
            self._validators.notification,
            columns.errors,
            partial(self._add_items, columns),
            lambda schema: check_columns(schema, self._names, ("payload", "from")),
            partial(self._add_batch, columns),
        ).take(kind, raw, query)
        command, indexes = columns.command(len(self._names))
        return Read(command, skip, place, indexes, columns.errors)

    def _add_items(self, columns: _Columns, items: list[Any]) -> None:
        """Append validated elements; None is one that is known to be invalid."""
        start = columns.count
        if columns.errors:
            bad: dict[str, Any] = {"values": dict.fromkeys(self._names, 0.0)}
            items = [bad if item is None else item for item in items]
        values = np.array([[item["values"][name] for name in self._names] for item in items], np.float64)
        payloads = Payloads(self._max_payload, columns.errors)
        for index, item in enumerate(items, start):
            if item.get("payload") is not None:
                columns.add_payloads({index: payloads.text(index, item["payload"])})
            if item.get("from") is not None:
                self._add_link(columns, index, item["from"])
        columns.add(values.reshape(len(items), len(self._names)))

    def _add_batch(self, columns: _Columns, batch: pa.RecordBatch) -> None:
        start, n, wrong = columns.count, len(batch), columns.errors
        values = np.empty((n, len(self._names)))
        for j, name in enumerate(self._names):
            column = floats(batch, name)
            assert column is not None, "the columns were checked"
            wrong += given_but_bad(batch, name, column, start, f"values.{name}")
            missing = np.flatnonzero(np.asarray(batch.column(name).is_null()))
            wrong += [ElementError(start + i, f"values.{name}", "is required") for i in missing.tolist()]
            values[:, j] = column
        texts, links = strings(batch, "payload"), strings(batch, "from")
        if texts is not None:
            columns.add_payloads(Payloads(self._max_payload, wrong).column(texts, start, ~nulls(texts)))
        if links is not None:
            bad = set(bad_names(links).tolist())
            wrong += [ElementError(start + i, "from", NAME_REASON) for i in sorted(bad)]
            for i, link in enumerate(links.to_pylist()):
                if link is not None and i not in bad:
                    self._add_link(columns, start + i, link)
        columns.add(values)

    def _add_link(self, columns: _Columns, index: int, link: str) -> None:
        if link not in self._links:
            columns.errors.append(ElementError(index, "from", f"there is no link {link!r}"))
        columns.links[index] = link


class _Columns:
    """Columns under construction, a part for each chunk of the body."""

    def __init__(self) -> None:
        self.count = 0
        self.payload: dict[int, bytes] = {}
        self.links: dict[int, str] = {}
        self.errors = ElementErrors()
        self._values: list[Float64] = []

    def add(self, values: Float64) -> None:
        self.count += len(values)
        self._values.append(values)

    def add_payloads(self, texts: dict[int, bytes | None]) -> None:
        self.payload |= {index: text for index, text in texts.items() if text is not None}

    def command(self, width: int) -> tuple[Notify, list[int] | None]:
        """The command without the elements that have errors, and the places of the others if there were such."""
        values = np.concatenate(self._values) if self._values else np.empty((0, width))
        if not self.errors:
            return Notify(values, self.payload, self.links), None
        keep = self.errors.valid(self.count)
        payload = {at: self.payload[i] for at, i in enumerate(keep) if i in self.payload}
        links = {at: self.links[i] for at, i in enumerate(keep) if i in self.links}
        return Notify(values[keep], payload, links), keep
