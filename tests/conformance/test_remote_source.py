"""A source in another process passes the suite that every source passes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import settings
from memory_world import MemoryWorld

from netfw.drivers.loader import load
from netfw.drivers.state_source import StateSource
from netfw.messaging.memory import MemorySource
from netfw.messaging.remote import Desk, RemoteSource
from netfw.testing.conformance.state_source import StateSourceConformance
from netfw.testing.conformance.state_world import Setting
from netfw.testing.fakes.transport import Wire

BYTES = 700
"""About one resource in a message."""


@pytest.mark.spec("RPC-02", "RPC-04", "RPC-07")
class TestOverAWire(StateSourceConformance):
    examples = settings(StateSourceConformance.examples, max_examples=50)

    @contextmanager
    def setting(self, page: int) -> Iterator[Setting]:
        memory, wire = MemorySource(page=page), Wire()
        desk = Desk(memory, wire.transport(), budget=page * BYTES)
        desk.open()
        source = RemoteSource(wire.transport(), timeout=10)

        def cut() -> None:
            wire.cut = True

        try:
            yield Setting(source, MemoryWorld(memory), cut)
        finally:
            source.close()
            desk.close()
            wire.close()


def test_the_source_of_a_server_loads_by_its_name() -> None:
    assert load(StateSource, "server") is RemoteSource
