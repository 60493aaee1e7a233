from typing import Any

import pytest
from pydantic import ValidationError

from app.settings import Settings, is_loopback


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKCAST_MAX_BODY", "2048")
    monkeypatch.setenv("RANKCAST_TRUSTED_HOSTS", "a.example, B.example")
    settings = Settings()
    assert settings.max_body == 2048
    assert settings.trusted_hosts == ("a.example", "b.example")


def test_what_is_given_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKCAST_PORT", "9000")
    assert Settings(port=9001).port == 9001


def test_a_setting_out_of_range_is_refused() -> None:
    with pytest.raises(ValidationError):
        Settings(port=70_000)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.8.9.1", "localhost", "LOCALHOST", "::1", "[::1]", "::ffff:127.0.0.1"]
)
def test_loopback_hosts_are_known(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "10.0.0.1", "example.com", "", "127.0.0.1.example.com", "localhost.x"]
)
def test_other_hosts_are_not_loopback(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("spark.driver.memory=4g, spark.ui.enabled=false", ("spark.driver.memory=4g", "spark.ui.enabled=false")),
        ("spark.jars=a.jar,b.jar,spark.x=1", ("spark.jars=a.jar,b.jar", "spark.x=1")),
        ("", ()),
    ],
)
def test_options_of_spark_are_separated_by_commas(
    monkeypatch: pytest.MonkeyPatch, text: str, options: tuple[str, ...]
) -> None:
    monkeypatch.setenv("RANKCAST_SPARK_OPTIONS", text)
    assert Settings().spark_options == options


def test_an_empty_variable_is_one_that_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STORAGE", "NIGHTLY", "SPARK_PYTHON", "JAVA_HOME"):
        monkeypatch.setenv(f"RANKCAST_{name}", "")
    settings = Settings()
    assert (settings.storage, settings.nightly, settings.spark_python, settings.java_home) == (None, None, None, None)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("nightly", "15 3 * *", "must have the five fields"),
        ("nightly", "15 3 31 2 *", "never comes"),
        ("nightly_timezone", "Mars/Olympus", "'Mars/Olympus' is not a time zone"),
        ("nightly_timezone", "../x", "is not a time zone"),
        ("nightly_engine", "hadoop", "'local' or 'spark'"),
        ("spark_options", "driver.memory=4g", "'driver.memory=4g' is not like spark.driver.memory=4g"),
        ("storage", "s3://key:secret@bucket/folder", "credentials come from the environment"),
        ("keep_snapshots", 0, "greater than or equal to 1"),
    ],
)
def test_what_cannot_work_is_refused_at_the_start(name: str, value: Any, reason: str) -> None:
    with pytest.raises(ValidationError, match=reason) as refusal:
        Settings(**{name: value})
    assert refusal.value.errors()[0]["loc"] == (name,)
