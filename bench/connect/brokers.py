"""Brokers of the benchmark, and how events get into them before a connector begins."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from secrets import token_hex

from app.runtime.listening import free_port
from bench.process import HOST, START_SECONDS, Failed

RABBITMQ = os.environ.get("RANKCAST_PEER_RABBITMQ", "amqp://guest:guest@127.0.0.1:5672")
TOGETHER = 500
"""Events under way at once while a broker is filled."""

NAME = "BENCH"


@contextmanager
def broker(name: str, folder: Path) -> Iterator[str | None]:
    """The URL of a broker in a process of its own, or of the RabbitMQ that runs; None where there is none."""
    if name == "amqp":
        with suppress(OSError):
            socket.create_connection((HOST, 5672), 5).close()
            yield RABBITMQ
            return
        yield None
        return
    program = shutil.which(
        {"nats": "nats-server", "redis": "redis-server"}[name], path=f"{os.environ['PATH']}:/usr/sbin"
    )
    if program is None:
        yield None
        return
    own = folder / name
    own.mkdir()
    port = free_port()
    options = {
        "nats": ["-a", HOST, "-p", str(port), "-js", "-sd", str(own)],
        "redis": ["--port", str(port), "--dir", str(own), "--save", ""],
    }
    with (own / "log").open("wb") as log:
        process = subprocess.Popen([program, *options[name]], stdout=log, stderr=log)
    try:
        _answers(port, process)
        yield f"{name}://{HOST}:{port}"
    finally:
        process.kill()
        process.wait()


def _answers(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        with suppress(OSError):
            socket.create_connection((HOST, port), 1).close()
            return
        time.sleep(0.02)
    raise Failed("a broker does not start")


def fill(url: str, events: Iterable[str]) -> str:
    """Put events into a stream or queue that is made for them; its address."""
    name = f"{NAME}-{token_hex(4)}"
    asyncio.run({"nats": _nats, "redi": _redis, "amqp": _rabbit}[url[:4]](url, name, iter(events)))
    return f"{url}/{name}"


async def _nats(url: str, name: str, events: Iterator[str]) -> None:
    import nats

    connection = await nats.connect(url)
    js = connection.jetstream(timeout=60)
    await js.add_stream(name=name, subjects=[name])
    while some := list(islice(events, TOGETHER)):
        await asyncio.gather(*(js.publish(name, one.encode()) for one in some))
    await connection.close()


async def _redis(url: str, name: str, events: Iterator[str]) -> None:
    from redis.asyncio import Redis

    async with Redis.from_url(url) as redis:
        while some := list(islice(events, TOGETHER)):
            pipe = redis.pipeline(transaction=False)
            for one in some:
                pipe.xadd(name, {"data": one})
            await pipe.execute()


async def _rabbit(url: str, name: str, events: Iterator[str]) -> None:
    import aio_pika

    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        await channel.declare_queue(name, durable=True, arguments={"x-expires": 3_600_000})
        while some := list(islice(events, TOGETHER)):
            await asyncio.gather(
                *(
                    channel.default_exchange.publish(aio_pika.Message(one.encode(), delivery_mode=2), name)
                    for one in some
                )
            )
