"""All settings of the service, from the environment (``RANKCAST_*``) or the options of ``rankcast serve``."""

import ipaddress
import re
from datetime import UTC, tzinfo
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from app.networks import Allowed
from app.resource_names import ResourceName

MIB = 1 << 20

_SPARK_OPTION = re.compile(r"spark(\.[A-Za-z0-9_-]+)+=.*", re.DOTALL)


@lru_cache(maxsize=64)
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
    """The settings. A field ``max_body`` is read from ``RANKCAST_MAX_BODY`` and from ``--max-body``."""

    model_config = SettingsConfigDict(env_prefix="RANKCAST_", extra="ignore", frozen=True, validate_default=True)

    host: str = Field(
        "127.0.0.1", description="Address to listen on. Without keys only a loopback address is accepted."
    )
    port: int = Field(8000, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    data: Path = Field(Path("data"), description="The data directory; made when it is missing.")
    database: str | None = Field(
        None, description="URL of the log's database; a SQLite file in the data directory if left out."
    )
    accept_log_end: int | None = Field(
        None,
        ge=0,
        description="Start although the log ends at this row, before the last one that was answered: what is missing "
        "is given up.",
    )
    allow_open: bool = Field(
        False, description="Listen on any address even without keys: everyone who can connect may do everything."
    )
    trusted_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Host names, separated by commas, that are accepted like loopback while no key exists."
    )

    warm_first: Annotated[tuple[ResourceName, ...], NoDecode] = Field(
        (),
        description="Resources, separated by commas, whose kernels are compiled before all others when some are not "
        "compiled yet.",
    )

    storage: str | None = Field(
        None,
        description="Where snapshots and images are kept: a path, or a URL such as s3://bucket/folder; the data "
        "directory if left out.",
    )
    keep_snapshots: int = Field(
        2,
        ge=1,
        description="Good snapshots that are kept; the log reaches back to the oldest, and until there are so many as "
        "far as it did.",
    )
    snapshot_every_minutes: float = Field(
        60.0, ge=0, le=525_600, description="Minutes between snapshots while the log grows; 0: none by itself."
    )
    snapshot_rows: int = Field(
        200_000,
        ge=0,
        description="Rows of the log after which a snapshot is taken in any case, since a start replays them; 0: none "
        "by rows.",
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
        description="The indexes of a resource are packed again in the background once so many of its subscriptions "
        "have changed, as a share of all; 0: never.",
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

    follow: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="URLs, separated by commas: be a replica of whichever of these nodes leads. The data directory is "
        "empty, or that of a replica.",
    )
    peers: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="URLs, separated by commas, of all nodes that may lead: a leader that finds a higher term at one "
        "of them steps down.",
    )
    key: SecretStr | None = Field(
        None, description="The API key, with the scope admin, by which this node asks other nodes."
    )
    max_lag: float = Field(
        10.0, gt=0, description="Seconds that a replica may be behind its leader before it is not ready."
    )
    sync_replicas: int = Field(
        0, ge=0, le=64, description="Replicas that have a write on disk before it is answered; 0: none is waited for."
    )
    sync_seconds: float = Field(
        5.0, gt=0, le=300, description="How long a write waits for these replicas before it is answered 503."
    )
    failover_seconds: float = Field(
        10.0,
        ge=0,
        le=3600,
        description="With a log on PostgreSQL that nodes share: a replica leads by itself within about so many seconds "
        "after the leader was lost; 0: only once it is promoted.",
    )

    service: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9._-]{1,128}$",
        description="The name of this service among those that its relays are linked to; no two may have the same. "
        "Generated for the data directory if left out.",
    )
    link_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Host names, each with or without a port, separated by commas, that links of relays may lead to; "
        "any if left out.",
    )
    link_networks: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Networks, each with or without a port, separated by commas, such as 10.0.0.0/8 or 127.0.0.1:8001, "
        "that links made without the scope admin may lead to although they are not public.",
    )

    webhook_networks: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Networks, each with or without a port, separated by commas, such as 10.0.0.0/8 or 127.0.0.1:9000, "
        "that webhooks may lead to although they are not public, and by http too.",
    )
    max_webhooks: int = Field(100, ge=0, description="Most webhooks.")
    webhook_queue: int = Field(
        1_000, ge=1, description="Events of one subscription that wait for a webhook's receiver before a reset."
    )
    webhook_bytes: int = Field(
        MIB,
        ge=1,
        description="Bytes that wait for a webhook's receiver before its subscriptions get a reset.",
    )

    nats: str | None = Field(
        None,
        description="URL of NATS with JetStream, such as nats://host:4222, on which the tiles of boards with zones are "
        "published; none if left out.",
    )
    zone_seconds: float = Field(3600.0, ge=1, description="How long NATS keeps the messages of zones.")
    zone_bytes: int = Field(
        64 * MIB,
        ge=1024,
        description="Bytes of tiles of one board that wait for NATS; past that its readers get a reset, under a new "
        "version of its zones.",
    )
    zone_drift: float = Field(
        2.0,
        ge=0,
        description="The zones of a board are cut again once the largest has so many times its share of the "
        "subscriptions; 0: never by itself.",
    )

    seal_key: SecretStr | None = Field(
        None,
        description="A secret by which the keys of links and the secrets of webhooks are sealed in the database and in "
        "snapshots.",
    )
    jwt_secret: SecretStr | None = Field(
        None, description="The shared secret of JSON Web Tokens (HS256), which are then taken beside keys."
    )
    jwt_jwks: str | None = Field(
        None,
        description="The keys that sign JSON Web Tokens (RS256, ES256, EdDSA) as a JWKS: an https URL, or a file.",
    )
    jwt_audience: str | None = Field(None, description="What the claim aud of tokens must have; anything if left out.")
    cors_origins: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Origins, separated by commas, whose pages may ask, such as https://app.example; * for all. "
        "Only where keys or tokens are asked for.",
    )

    max_body: int = Field(16 * MIB, ge=1024, description="Largest JSON body in bytes.")
    max_bulk: int = Field(1024 * MIB, ge=1024, description="Largest NDJSON or Arrow body in bytes.")
    max_elements: int = Field(100_000, ge=1, description="Most elements in a JSON list.")
    max_k: int = Field(1_000, ge=1, le=100_000, description="Largest k.")
    max_ks: int = Field(16, ge=1, description="Most list lengths that one board may offer.")
    max_payload: int = Field(4096, ge=0, description="Largest payload in bytes of compact JSON.")
    max_answer: int = Field(
        64 * MIB,
        ge=1024,
        description="Largest answer of many lists or tiles in bytes; past that it is 413, or truncated.",
    )
    max_tiles: int = Field(
        100_000,
        ge=0,
        description="Most tiles in one response, or in those of single writes carried out together; past that they are "
        "truncated.",
    )
    max_queue: int = Field(
        10_000, ge=1, description="Most requests waiting for the writer; past that the response is 503."
    )
    busy_poll: float = Field(
        0.0002,
        ge=0,
        le=0.01,
        description="Seconds for which the service looks for the next request without sleeping, after a request by "
        "itself that came as soon after the one before. 0: it always sleeps, as it does where there is one processor.",
    )
    batch_threads: int = Field(
        0,
        ge=0,
        le=16,
        description="Threads that share the work of a large batch: that paint the events of a board, each but one with "
        "a copy of its objects, or serve the posts of a feed, two at most. 0: two where there are two processors or "
        "more.",
    )

    max_streams: int = Field(100_000, ge=0, description="Most open streams.")
    stream_queue: int = Field(256, ge=1, description="Messages that wait for one slow reader before they are merged.")
    stream_bytes: int = Field(
        MIB, ge=1, description="Bytes that wait on the connection of a slow reader before messages are merged."
    )
    resume_seconds: float = Field(
        60.0, ge=0, description="How long a subscription keeps its list after its last reader left."
    )
    resume_changes: int = Field(256, ge=0, description="Changes kept for a reader that resumes.")
    heartbeat_seconds: float = Field(15.0, gt=0, description="Seconds between heartbeats on a quiet stream.")

    head_seconds: float = Field(20.0, gt=0, description="How long the head of a request may take to arrive.")
    body_seconds: float = Field(
        20.0, gt=0, description="How long a body may bring less than the least rate until its request is refused."
    )
    body_rate: int = Field(500, ge=0, description="The least rate at which bodies arrive, in bytes a second.")
    unread_seconds: float = Field(
        60.0, gt=0, description="How long a client may read nothing while much waits for it, until it is cut off."
    )

    idempotency_hours: float = Field(24.0, gt=0, description="How long an Idempotency-Key is remembered.")
    keep_alive_seconds: int = Field(75, ge=1, description="How long an idle connection is kept.")
    shutdown_seconds: int = Field(
        10,
        ge=1,
        description="How long the service may take to end; open requests have three quarters of it, then 503.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level that is logged.")
    log_format: Literal["auto", "json", "console"] = Field(
        "auto", description="auto: console on a terminal, else JSON lines."
    )
    access_log: Literal["all", "errors", "off"] = Field(
        "errors", description="Requests that are logged; errors: status 500 and up."
    )

    @field_validator("follow", "peers", mode="before")
    @classmethod
    def _urls(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip().rstrip("/") for part in value.split(",") if part.strip())
        return value

    @field_validator("follow", "peers")
    @classmethod
    def _are_urls(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for url in value:
            if not re.fullmatch(r"https?://[^/@\s]+(/[^\s?#]*)?", url):
                raise ValueError(f"{url!r} is not a URL such as http://10.0.0.5:8000")
        return value

    @field_validator(
        "trusted_hosts", "link_hosts", "link_networks", "webhook_networks", "warm_first", "cors_origins", mode="before"
    )
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip().lower() for part in value.split(",") if part.strip())
        return value

    @field_validator(
        "storage",
        "service",
        "nightly",
        "spark_python",
        "java_home",
        "seal_key",
        "key",
        "jwt_secret",
        "jwt_jwks",
        "jwt_audience",
        "accept_log_end",
        "nats",
        mode="before",
    )
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

    @field_validator("link_networks", "webhook_networks")
    @classmethod
    def _are_networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for network in value:
            Allowed.parse(network)
        return value

    @field_validator("jwt_jwks")
    @classmethod
    def _is_jwks(cls, value: str | None) -> str | None:
        scheme = value.partition("://")[0] if value is not None and "://" in value else "https"
        if scheme not in ("http", "https"):
            raise ValueError(f"{value!r} is neither a URL that begins with https:// nor a file")
        return value

    @model_validator(mode="after")
    def _has_one_kind_of_token(self) -> Self:
        if self.jwt_secret is not None and self.jwt_jwks is not None:
            raise ValueError("jwt_secret and jwt_jwks do not go together: tokens are signed in one way")
        return self

    @property
    def lease_seconds(self) -> float:
        """How long the leader of a shared log has it without prolonging that: what is left of the time until another
        one leads is for finding out, and for the rest of the log.
        """
        return 0.7 * (self.failover_seconds or 10.0)

    @property
    def shares_log(self) -> bool:
        """Whether this node has its log on a server, where the other nodes have it too."""
        remote = self.database is not None and not self.database.startswith("sqlite")
        return remote and bool(self.follow or self.peers)

    @property
    def loopback(self) -> bool:
        """Whether the service listens on this machine only."""
        return is_loopback(self.host)
