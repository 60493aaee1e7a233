"""The last transactions in memory: in order, up to a limit, and who waits is woken from any thread."""

from __future__ import annotations

import asyncio
import threading

import pytest

from app.replication.tap import OVERHEAD, Tap
from app.storage.rows import StoredRow


def row(lsn: int, size: int = 10) -> StoredRow:
    return lsn, "boards/b", lsn, lsn, "events", bytes(size), 1.0, b"c" * 16


def test_transactions_are_kept_in_order_up_to_a_limit() -> None:
    tap = Tap(most_bytes=5 * (OVERHEAD + 10))
    assert tap.follow() == 0
    for lsn in range(1, 9):
        tap.add([row(lsn)], [])
    assert tap.end == 8
    assert tap.since(0, 10**6) is None and tap.since(2, 10**6) is None, "these are not kept any more"
    found = tap.since(3, 10**6)
    assert found is not None and [one.rows[0].row.lsn for one in found] == [4, 5, 6, 7, 8]
    some = tap.since(3, OVERHEAD)
    assert some is not None and len(some) == 1
    assert tap.since(8, 10**6) == []


def test_nothing_is_kept_before_somebody_follows() -> None:
    tap = Tap()
    tap.add([row(1)], [])
    tap.add([row(2)], [])
    assert tap.end == 2, "who asks how many there were does not follow"
    tap.add([row(3)], [])
    assert tap.follow() == 3 and tap.since(2, 10**6) is None and tap.since(3, 10**6) == []
    tap.add([row(4)], [])
    found = tap.since(3, 10**6)
    assert found is not None and [one.rows[0].row.lsn for one in found] == [4]


@pytest.mark.parametrize("followed", [False, True])
def test_who_waits_is_woken_by_a_transaction_in_another_thread(followed: bool) -> None:
    async def story() -> None:
        tap = Tap()
        tap.start()
        if followed:
            tap.follow()
        waiting = asyncio.create_task(tap.wait(0, 60))
        await asyncio.sleep(0)
        threading.Thread(target=tap.add, args=([row(1)], [])).start()
        await waiting
        assert tap.end == 1
        await tap.wait(0, 60)
        await tap.wait(1, 0.01)

    asyncio.run(story())
