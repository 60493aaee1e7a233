import resource
import threading
from pathlib import Path

import httpx
import pytest

from app.main import create_app
from app.runtime.listening import CannotListen, address, listen
from app.server.limits import raise_file_limit
from app.server.serving import serve
from app.settings import Settings
from tests.support.patience import PATIENCE


def test_as_many_connections_as_the_system_allows() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
        raise_file_limit()
        raised = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        assert raised > 256
        assert hard == resource.RLIM_INFINITY or raised <= hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_requests_that_come_before_the_service_does_are_answered(tmp_path: Path, host: str) -> None:
    try:
        sockets = listen(host, 0)
    except CannotListen as refusal:
        pytest.skip(str(refusal))
    url = f"http://{address(host, sockets[0].getsockname()[1])}/healthz"
    answers: list[int] = []
    early = threading.Thread(target=lambda: answers.append(httpx.get(url, timeout=PATIENCE).status_code))
    early.start()
    app = create_app(Settings(data=tmp_path / "data", host=host), listen_first=True)
    server = threading.Thread(target=serve, args=(app, Settings(data=tmp_path / "data", host=host), sockets))
    server.start()
    try:
        early.join(PATIENCE)
        assert answers == [200]
    finally:
        app.state.lifecycle.failed()
        server.join(PATIENCE)
    assert all(one.fileno() == -1 for one in sockets), "the port is free again"
