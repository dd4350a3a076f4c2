"""A source behind a broker passes the suite that every source passes."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import settings
from memory_world import MemoryWorld

from netfw.drivers.host import LocalHost
from netfw.drivers.loader import create
from netfw.drivers.transport import Transport
from netfw.messaging.memory import MemorySource
from netfw.messaging.remote import Desk, RemoteSource
from netfw.testing.conformance.state_source import StateSourceConformance
from netfw.testing.conformance.state_world import Setting
from netfw.testing.lab.rabbitmq import PrivateRabbitmq


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

    def make(self, prefix: str) -> Transport:
        options = {"transport_url": self.broker.url(), "prefix": prefix}
        return create(Transport, "oslo", options, LocalHost())

    @contextmanager
    def setting(self, page: int) -> Iterator[Setting]:
        prefix = f"t{secrets.token_hex(4)}"
        with ExitStack() as stack:
            server, client = self.make(prefix), self.make(prefix)
            for transport in (server, client):
                stack.callback(transport.close)
            memory = MemorySource(page=page)
            desk = Desk(memory, server, budget=page * 700)
            desk.open()
            stack.callback(desk.close)
            source = RemoteSource(client, timeout=20)
            stack.callback(source.close)

            def cut() -> None:
                desk.close()
                server.close()
                source.timeout = 0.5

            yield Setting(source, MemoryWorld(memory), cut)
