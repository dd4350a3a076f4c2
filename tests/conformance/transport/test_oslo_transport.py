"""The transport over RabbitMQ passes the suite that all transports pass."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from netfw.testing.lab.services.rabbitmq import PrivateRabbitmq
from tests.conformance.transport.oslo_environment import OsloTransports

pytestmark = [
    pytest.mark.services,
    pytest.mark.spec("RPC-01", "RPC-06"),
    # kombu leaves sockets of connections that broke to the garbage collector
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module", autouse=True)
def broker() -> Iterator[PrivateRabbitmq]:
    """Yield one broker for all tests: it takes seconds to start."""
    made = PrivateRabbitmq(Path(tempfile.mkdtemp(prefix="rabbitmq-", dir="/run")))
    try:
        OsloTransports.broker = made.start()
        yield made
    finally:
        made.stop()
        gc.collect()


class TestRabbitmq(OsloTransports):
    pass
