"""A source in another process passes the suite that every source passes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from hypothesis import settings

from netfw.drivers.registry.loader import check_options, load
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.state_source import StateSource
from netfw.state.memory_source import MemorySource
from netfw.state.rpc import RemoteSource, StateRpcServer
from netfw.testing.conformance.state_source.environment import SourceEnvironment
from netfw.testing.conformance.state_source.memory_backend import MemorySourceBackend
from netfw.testing.conformance.state_source.suite import StateSourceConformance
from netfw.testing.fakes.transport import FakeBroker
from netfw_drivers.transports.sockets.transport import SocketTransport
from tests.conformance.state_source.memory_environment import RESOURCE_BYTES, remote_memory
from tests.conformance.transport.hint_for_all import hints_for_all

pytestmark = pytest.mark.services

LONG = bool(os.environ.get("NETFW_LONG"))


@pytest.mark.spec("RPC-02", "RPC-04", "RPC-07")
class TestOverAWire(StateSourceConformance):
    examples = settings(StateSourceConformance.examples, max_examples=50 if LONG else 20)

    @contextmanager
    def make_environment(self, page: int) -> Iterator[SourceEnvironment]:
        memory, wire = MemorySource(page=page), FakeBroker()
        rpc_server = StateRpcServer(memory, wire.transport(), budget=page * RESOURCE_BYTES)
        rpc_server.open()
        source = RemoteSource(wire.transport(), timeout=10)

        def cut() -> None:
            wire.cut = True

        try:
            yield SourceEnvironment(source, MemorySourceBackend(memory), cut)
        finally:
            source.close()
            rpc_server.close()
            wire.close()


@pytest.mark.spec("RPC-01", "RPC-02", "RPC-04", "RPC-07")
class TestOverASocket(StateSourceConformance):
    examples = settings(StateSourceConformance.examples, max_examples=20 if LONG else 8)

    @contextmanager
    def make_environment(self, page: int) -> Iterator[SourceEnvironment]:
        with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
            address = f"unix:{directory}/server"
            server, client = socket_transport(listen=address), socket_transport(connect=address)
            yield remote_memory(stack, server, client, page, timeout=10)


@pytest.mark.spec("RPC-02")
def test_a_hint_for_all_hosts_reaches_each_over_a_socket() -> None:
    with tempfile.TemporaryDirectory() as directory:
        address = f"unix:{directory}/server"
        server, client = socket_transport(listen=address), socket_transport(connect=address)
        rpc_server, source = StateRpcServer(MemorySource(), server), RemoteSource(client)
        rpc_server.open()
        assert hints_for_all(server, source)
        for each in (source, rpc_server, client, server):
            each.close()


def socket_transport(**options: Any) -> SocketTransport:
    checked = check_options("socket", SocketTransport, {"reconnect_interval": 0.05, **options})
    return SocketTransport.from_conf(checked, LocalHostResources())


def test_the_source_of_a_server_loads_by_its_name() -> None:
    assert load(StateSource, "server") is RemoteSource
