"""Redis as a user would set it up: objects in sorted sets by x and by y, and one query again for each affected
subscription.

Redis cannot say which ranges hold a point, so the application keeps the ranges, the lists and their k-th values in
numpy columns, finds the affected ones with one pass over them, asks for their lists in one pipeline and publishes those
that changed. A query walks the objects by y where the range is wide, else it takes those in the range and sorts them.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

import numpy as np
import redis

from bench.peers.world import Lists, Peers

X, Y = "rankcast-peers:x", "rankcast-peers:y"
CHANNEL = "rankcast-peers:"

TOP = """
local l, r, k, n = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local out = {}
local inside = redis.call('ZCOUNT', KEYS[1], l, r)
if inside * inside > k * n then
    local low, high, from = tonumber(l), tonumber(r), 0
    while #out < k and from < n do
        local ids = redis.call('ZRANGE', KEYS[2], from, from + 63)
        local xs = redis.call('ZMSCORE', KEYS[1], unpack(ids))
        for i = 1, #ids do
            local x = tonumber(xs[i])
            if #out < k and x >= low and x <= high then out[#out + 1] = ids[i] end
        end
        from = from + 64
    end
elseif inside > 0 then
    local ids = redis.call('ZRANGEBYSCORE', KEYS[1], l, r)
    local some = {}
    for from = 1, #ids, 1000 do
        local ys = redis.call('ZMSCORE', KEYS[2], unpack(ids, from, math.min(from + 999, #ids)))
        for i = 1, #ys do some[#some + 1] = {tonumber(ys[i]), ids[from + i - 1]} end
    end
    table.sort(some, function(a, b) return a[1] < b[1] or (a[1] == b[1] and a[2] < b[2]) end)
    for i = 1, math.min(k, #some) do out[i] = some[i][2] end
end
return out
"""


class RedisPeer:
    """Two keys of its own, which it deletes in the end. Ids are padded, since equal scores go by member."""

    name = "Redis (sorted sets, re-query, PUBLISH)"

    def __init__(self, url: str, peers: Peers, lists: Lists) -> None:
        self._redis = redis.Redis.from_url(url)
        self._redis.delete(X, Y)
        self._peers = peers
        self._y = peers.y.copy()
        self._kth = lists.kth.copy()
        self._rows, self._length = lists.rows.copy(), lists.length.copy()
        before = int(self._redis.info("memory")["used_memory"])
        names = [f"{i:07d}" for i in range(len(peers.x))]
        self._redis.zadd(X, dict(zip(names, peers.x.tolist(), strict=True)))
        self._redis.zadd(Y, dict(zip(names, peers.y.tolist(), strict=True)))
        self._bytes = int(self._redis.info("memory")["used_memory"]) - before
        self._top = self._redis.script_load(TOP)
        connection = self._redis.connection_pool.connection_kwargs
        self._socket = socket.create_connection((connection.get("host", "127.0.0.1"), connection.get("port", 6379)))
        self._socket.sendall(f"PSUBSCRIBE {CHANNEL}*\r\n".encode())
        self.received = 0
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        piece = bytearray(1 << 18)
        # Shutting the socket down ends the thread, by an empty read or a reset.
        with suppress(ConnectionResetError):
            while size := self._socket.recv_into(piece):
                self.received += size

    def update(self, item: int, y: float) -> int:
        p, before = self._peers, self.received
        x, old = p.x[item], self._y[item]
        self._y[item] = y
        affected = np.flatnonzero((p.l <= x) & (x <= p.r) & (self._kth >= min(old, y)))
        n = len(p.x)
        pipeline = self._redis.pipeline(transaction=False)
        pipeline.zadd(Y, {f"{item:07d}": y})
        for sid in affected.tolist():
            pipeline.evalsha(self._top, 2, X, Y, repr(float(p.l[sid])), repr(float(p.r[sid])), p.k, n)
        fresh = pipeline.execute()[1:]
        pipeline = self._redis.pipeline(transaction=False)
        for sid, found in zip(affected.tolist(), fresh, strict=True):
            rows = [int(one) for one in found]
            if item in rows or rows != self._rows[sid, : self._length[sid]].tolist():
                self._rows[sid, : len(rows)], self._length[sid] = rows, len(rows)
                self._kth[sid] = self._y[rows[-1]] if len(rows) == p.k else np.inf
                pipeline.publish(f"{CHANNEL}{sid}", f"{item} {y} {','.join(map(str, rows))}")
        pipeline.execute()
        return self.received - before

    def lists(self, some: list[int]) -> list[list[int]]:
        return [self._rows[sid, : self._length[sid]].tolist() for sid in some]

    def memory(self) -> int:
        p = self._peers
        return self._bytes + sum(a.nbytes for a in (p.l, p.r, self._kth, self._rows, self._length))

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._listener.join()
        self._socket.close()
        self._redis.delete(X, Y)
        self._redis.close()
