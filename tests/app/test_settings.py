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
