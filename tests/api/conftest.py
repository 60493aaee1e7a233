"""The fixtures of tests that start a service in their own process."""

from tests.support.service_fixtures import (  # noqa: F401
    _kernels_when_needed,
    client,
    database,
    make_client,
    postgres,
    start,
    work,
)
from tests.support.ways import ways  # noqa: F401
