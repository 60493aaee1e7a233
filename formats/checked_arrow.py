"""Arrow from outside, checked before anything reads it: none of it reaches beyond its buffers.

pyarrow checks what its arrays hold, but not the views of texts that lie under nulls, although its conversions read
these: a stream that is crafted so ends the process.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.types as pt


def check(batch: pa.RecordBatch) -> None:
    """Raise pa.ArrowInvalid where a batch is not valid. O(its values)."""
    batch.validate(full=True)
    for column in batch.columns:
        for array in _views(column):
            if array.null_count:
                # What lies under a null has to be valid, too.
                buffers = [None, *array.buffers()[1:]]
                pa.Array.from_buffers(array.type, len(array), buffers, 0, array.offset).validate(full=True)


def _views(array: pa.Array) -> Iterator[pa.Array]:
    """The arrays of views in an array, at any depth."""
    kind = array.type
    if pt.is_string_view(kind) or pt.is_binary_view(kind):
        yield array
    elif pt.is_dictionary(kind):
        yield from _views(array.dictionary)
    elif pt.is_map(kind):
        yield from _views(array.keys)
        yield from _views(array.items)
    elif pt.is_struct(kind) or pt.is_union(kind):
        for i in range(kind.num_fields):
            yield from _views(array.field(i))
    elif isinstance(kind, pa.BaseExtensionType):
        yield from _views(array.storage)
    elif pt.is_run_end_encoded(kind) or pt.is_nested(kind):
        yield from _views(array.values)
