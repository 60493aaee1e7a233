"""Commands of a feed in the service's log as operations, and configurations from the log or from JSON."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from formats.feed_commands import decode
from indexes.core.commands import Create, Drop
from indexes.feeds import commands as fc
from indexes.feeds.config import FeedConfig, bag_of_shown
from indexes.feeds.theta import BUFFERS
from spark_jobs.feeds.front import Operation, Posts, Subscribe, Tick, Unsubscribe, Withdraw


class Left(Exception):
    """The log does not continue with the feed that was followed; the message is one sentence."""


def config_of_wire(fields: Any) -> FeedConfig:
    """A configuration from the body of `PUT /v1/feeds/NAME`. Raises `Left`."""
    try:
        window = fields["window"]
        x0, y0, x1, y1 = (float(side) for side in fields["bounds"])
        posts = None if isinstance(window, dict) else int(window)
        span = round(1_000 * float(window["seconds"])) if isinstance(window, dict) else None
        stop = fields.get("stop_words")
        weighting, buffer = fields.get("weighting", "tfidf"), fields.get("buffer", "cost")
        if weighting not in ("tfidf", "given") or buffer not in BUFFERS:
            raise ValueError("weighting is tfidf or given, and buffer " + ", ".join(BUFFERS))
        if not (x0 < x1 and y0 < y1 and math.isfinite(x1 - x0) and math.isfinite(y1 - y0)):
            raise ValueError("bounds are [x0, y0, x1, y1], with an extent")
        if (posts or span or 0) < 1:
            raise ValueError('window is a number of posts, or {"seconds": s}')
        words = None if stop is None else tuple(sorted({str(word).casefold() for word in stop}))
        return FeedConfig((x0, y0, x1, y1), posts, span, weighting == "tfidf", buffer, stop_words=words)
    except KeyError as error:
        raise Left(f"--config has no {error.args[0]}") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise Left(f"--config cannot be read: {error}") from error


def created_by(command: str, payload: bytes) -> FeedConfig:
    """The configuration in the row of the log that creates a feed. Raises `Damaged` and `Left`."""
    made = decode([(command, payload)])
    if not isinstance(made, Create):
        raise Left(f"the log's row is {command}, and makes no feed")
    config: FeedConfig = made.config
    return config


def operations(parts: list[tuple[str, bytes]], now: int) -> tuple[list[Operation], int]:
    """The operations of a command, from its rows, and the time after it. Raises `Damaged`; `Left` if the feed ends."""
    command = decode(parts)
    match command:
        case fc.Post():
            now = max(now, command.at)
            bags = [bag_of_shown(shown) for shown in command.keywords.shown()]
            times = np.full(len(command), now, np.int64)
            return [Posts(command.ids, bags, command.points, times)], now
        case fc.Tick(at):
            now = max(now, at)
            return [Tick(now)], now
        case fc.Withdraw():
            return [Withdraw(command.ids)], now
        case fc.AddSubscriptions():
            s = command.subscriptions
            bags = [bag_of_shown(shown) for shown in s.keywords.shown()]
            return [Subscribe(command.ids.to_pylist(), bags, s.points, s.k, s.alpha)], now
        case fc.SetSubscription():
            bag, point = bag_of_shown(command.keywords), np.array([command.location], np.float64)
            k, alpha = np.array([command.k], np.int64), np.array([command.alpha], np.float64)
            return [Subscribe([command.id], [bag], point, k, alpha)], now
        case fc.DeleteSubscriptions():
            return [Unsubscribe(command.ids)], now
        case Create() | Drop():
            raise Left("the feed was deleted or made again: delete the checkpoint, to follow the one that is there now")
    raise Left(f"the log holds a {type(command).__name__}, which no feed on Spark knows")
