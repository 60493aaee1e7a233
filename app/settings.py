"""Every setting of the service, typed, from the environment (``RANKCAST_*``) or the options of ``rankcast serve``."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

MIB = 1 << 20


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

    @field_validator("trusted_hosts", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip().lower() for part in value.split(",") if part.strip())
        return value

    @property
    def loopback(self) -> bool:
        """Whether the service listens on this machine only."""
        return is_loopback(self.host)
