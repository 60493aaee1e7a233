import resource

from app.server import raise_file_limit


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
