"""A source behind a broker passes the suite that every source passes."""

from __future__ import annotations

import gc
import secrets
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import settings

from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.transport import Transport
from netfw.state.memory_source import MemorySource
from netfw.state.rpc import RemoteSource, StateRpcServer
from netfw.testing.conformance.state_source.environment import SourceEnvironment
from netfw.testing.conformance.state_source.suite import StateSourceConformance
from netfw.testing.lab.services.rabbitmq import PrivateRabbitmq
from tests.conformance.state_source.memory_environment import remote_memory
from tests.conformance.transport.hint_for_all import hints_for_all

pytestmark = pytest.mark.services


def close_left_over() -> None:
    """End connections that the broker's client did not end; at the end of the run they would fail
    it, in the name of no test."""
    for each in gc.get_objects():
        if not isinstance(each, socket.socket) or each.fileno() < 0:
            continue
        if each.family is socket.AF_INET and each.getsockname()[0] == "127.0.0.1":
            each.close()


# kombu leaves sockets to the garbage collector
@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.spec("RPC-01", "RPC-02", "RPC-04", "RPC-07")
class TestOverABroker(StateSourceConformance):
    examples = settings(StateSourceConformance.examples, max_examples=3)
    broker: ClassVar[PrivateRabbitmq]

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _broker(cls) -> Iterator[None]:
        made = PrivateRabbitmq(Path(tempfile.mkdtemp(prefix="rabbitmq-", dir="/run")))
        try:
            cls.broker = made.start()
            yield
        finally:
            made.stop()
            close_left_over()

    def make(self, prefix: str) -> Transport:
        options = {"transport_url": self.broker.url(), "prefix": prefix}
        return create(Transport, "oslo", options, LocalHostResources())

    @contextmanager
    def make_environment(self, page: int) -> Iterator[SourceEnvironment]:
        prefix = f"t{secrets.token_hex(4)}"
        with ExitStack() as stack:
            server, client = self.make(prefix), self.make(prefix)
            yield remote_memory(stack, server, client, page, timeout=20)

    def test_a_hint_for_all_hosts_reaches_each(self) -> None:
        prefix = f"t{secrets.token_hex(4)}"
        server, client = self.make(prefix), self.make(prefix)
        rpc_server, source = StateRpcServer(MemorySource(), server), RemoteSource(client)
        rpc_server.open()
        assert hints_for_all(server, source)
        for each in (source, rpc_server, client, server):
            each.close()
