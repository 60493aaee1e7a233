"""Every setting of the service, typed, from the environment (``RANKCAST_*``) or the options of ``rankcast serve``."""

from __future__ import annotations

import ipaddress
import re
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

MIB = 1 << 20

_SPARK_OPTION = re.compile(r"spark(\.[A-Za-z0-9_-]+)+=.*", re.DOTALL)


def is_loopback(host: str) -> bool:
    """Whether a host name or address without its port stays on this machine.

    >>> is_loopback("127.0.0.1"), is_loopback("[::1]"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    name = host.strip("[]").lower().rstrip(".")
    if name == "localhost":
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def timezone_of(name: str) -> tzinfo:
    """A time zone by its name; UTC needs no data of the system. Raises what `ZoneInfo` raises."""
    return UTC if name.upper() == "UTC" else ZoneInfo(name)


class Settings(BaseSettings):
    """What can be set. A field ``max_body`` is read from ``RANKCAST_MAX_BODY`` and from ``--max-body``."""

    model_config = SettingsConfigDict(env_prefix="RANKCAST_", extra="ignore", frozen=True, validate_default=True)

    host: str = Field(
        "127.0.0.1", description="Address to listen on. Without keys only a loopback address is accepted."
    )
    port: int = Field(8000, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    data: Path = Field(Path("data"), description="The data directory; made when it is missing.")
    database: str | None = Field(
        None, description="URL of the log's database; a SQLite file in the data directory if left out."
    )
    allow_open: bool = Field(
        False, description="Listen on any address even without keys: everyone who reaches it may do everything."
    )
    trusted_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Host names, separated by commas, that are accepted beside loopback while no key exists."
    )

    warm_first: Annotated[tuple[Literal["boards", "matchers", "relays", "maps", "feeds"], ...], NoDecode] = Field(
        (),
        description="Resources, separated by commas, whose kernels are compiled before all others when some are not "
        "compiled yet.",
    )

    storage: str | None = Field(
        None,
        description="Where snapshots and images are kept: a path, or a URL such as s3://bucket/folder; the data "
        "directory if left out.",
    )
    keep_snapshots: int = Field(2, ge=1, description="Snapshots that are kept; the log reaches back to the oldest.")
    snapshot_every_minutes: float = Field(
        60.0, ge=0, le=525_600, description="Minutes between snapshots while the log grows; 0: none by itself."
    )
    nightly: str | None = Field(
        None,
        description="When everything is rebuilt, in the five fields of cron, such as '15 3 * * *': at 3:15 every day. "
        "Left out: never.",
    )
    nightly_engine: Literal["local", "spark"] = Field("local", description="What the nightly rebuild runs on.")
    nightly_timezone: str = Field("UTC", description="The time zone of the nightly run, such as Europe/Berlin.")
    nightly_verify: bool = Field(False, description="Compare everything with a scan after the nightly rebuild.")
    rebuild_share: float = Field(
        0.5,
        ge=0,
        le=1e9,
        description="The index of a resource is laid out anew in the background once so many of its subscriptions have "
        "changed, as a share of all; 0: never.",
    )
    spark_master: str = Field("local[*]", min_length=1, description="The Spark master of rebuilds and audits.")
    spark_python: str | None = Field(
        None, description="The Python that Spark's jobs run on; the running interpreter if left out."
    )
    spark_options: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Configuration for Spark, such as spark.driver.memory=4g,spark.local.dir=/var/tmp."
    )
    java_home: Path | None = Field(
        None, description="The Java for Spark; JAVA_HOME, or the java on the path, if left out."
    )

    service: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9._-]{1,128}$",
        description="What this service is called among those that its relays are linked to; no two may have one name. "
        "Made up for the data directory if left out.",
    )
    link_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Host names, separated by commas, that links of relays may lead to; any if left out."
    )

    max_body: int = Field(16 * MIB, ge=1024, description="Largest JSON body in bytes.")
    max_bulk: int = Field(1024 * MIB, ge=1024, description="Largest NDJSON or Arrow body in bytes.")
    max_elements: int = Field(100_000, ge=1, description="Most elements in a JSON list.")
    max_k: int = Field(1_000, ge=1, le=100_000, description="Largest k.")
    max_ks: int = Field(16, ge=1, description="Most list lengths that one board may offer.")
    max_payload: int = Field(4096, ge=0, description="Largest payload in bytes of compact JSON.")
    max_tiles: int = Field(100_000, ge=0, description="Most tiles in one answer; past that it is cut and says so.")
    max_queue: int = Field(
        10_000, ge=1, description="Most requests waiting for the writer; past that the answer is 503."
    )

    max_streams: int = Field(100_000, ge=0, description="Most open streams.")
    stream_queue: int = Field(256, ge=1, description="Messages that wait for one slow reader before they are merged.")
    resume_seconds: float = Field(
        60.0, ge=0, description="How long a subscription keeps its list after its last reader left."
    )
    resume_changes: int = Field(256, ge=0, description="Changes kept for a reader that comes back.")
    heartbeat_seconds: float = Field(15.0, gt=0, description="Seconds between heartbeats on a quiet stream.")

    idempotency_hours: float = Field(24.0, gt=0, description="How long an Idempotency-Key is remembered.")
    keep_alive_seconds: int = Field(75, ge=1, description="How long an idle connection is kept.")
    shutdown_seconds: int = Field(10, ge=1, description="How long open requests may take to end after SIGTERM.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level that is logged.")
    log_format: Literal["auto", "json", "console"] = Field(
        "auto", description="auto: console on a terminal, else JSON lines."
    )
    access_log: Literal["all", "errors", "off"] = Field(
        "errors", description="Requests that are logged; errors: status 500 and up."
    )

    @field_validator("trusted_hosts", "link_hosts", "warm_first", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip().lower() for part in value.split(",") if part.strip())
        return value

    @field_validator("storage", "service", "nightly", "spark_python", "java_home", mode="before")
    @classmethod
    def _nothing(cls, value: object) -> object:
        """An empty variable is one that is not set."""
        return None if isinstance(value, str) and not value.strip() else value

    @field_validator("storage")
    @classmethod
    def _holds_no_secret(cls, value: str | None) -> str | None:
        """It is named in logs and in the arguments of processes."""
        if value is not None and re.match(r"[A-Za-z0-9+.-]+://[^/]*@", value):
            raise ValueError("a URL with a user or a password in it; credentials come from the environment")
        return value

    @field_validator("spark_options", mode="before")
    @classmethod
    def _options(cls, value: object) -> object:
        """Options begin after a comma where one begins: the values of some are lists."""
        if isinstance(value, str):
            return tuple(part.strip() for part in re.split(r",(?=\s*spark\.)", value) if part.strip())
        return value

    @field_validator("spark_options")
    @classmethod
    def _are_options(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for option in value:
            if not _SPARK_OPTION.fullmatch(option):
                raise ValueError(f"{option!r} is not like spark.driver.memory=4g")
        return value

    @field_validator("nightly_timezone")
    @classmethod
    def _is_timezone(cls, value: str) -> str:
        try:
            timezone_of(value)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(f"{value!r} is not a time zone such as Europe/Berlin") from None
        return value

    @field_validator("nightly")
    @classmethod
    def _is_cron(cls, value: str | None) -> str | None:
        if value is not None:
            # The scheduler is loaded by those who use it.
            from app.crontab import trigger

            trigger(value)
        return value

    @property
    def loopback(self) -> bool:
        """Whether the service listens on this machine only."""
        return is_loopback(self.host)
