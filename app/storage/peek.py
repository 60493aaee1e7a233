"""A look into a SQLite database that changes nothing, before it is opened for good.

Opening it for writing is a change: frames of the write-ahead log that cannot be read are cut off then.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote


@contextmanager
def read_only(file: str | Path) -> Iterator[sqlite3.Cursor | None]:
    """A cursor that only reads; None where there is no such file, or none that can be read."""
    path = Path(file).absolute()
    if not path.exists():
        yield None
        return
    wal = path.with_name(path.name + "-wal")
    # Without a write-ahead log nothing beside the file is needed, and without this option it would be made.
    alone = "" if wal.exists() and wal.stat().st_size else "&immutable=1"
    with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro{alone}", uri=True)) as connection:
        cursor = connection.cursor()
        try:
            cursor.execute("select name from sqlite_master where name = 'meta'")
            there = cursor.fetchone() is not None
        except sqlite3.Error:
            # What is wrong is said where it is opened.
            there = False
        yield cursor if there else None
