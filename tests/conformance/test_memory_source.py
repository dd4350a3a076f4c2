"""The source in memory passes the suite that every source passes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from memory_world import MemoryWorld

from netfw.messaging.memory import MemorySource
from netfw.testing.conformance.state_source import StateSourceConformance
from netfw.testing.conformance.state_world import Setting


@pytest.mark.spec("DRV-21", "RPC-02")
class TestMemorySource(StateSourceConformance):
    @contextmanager
    def setting(self, page: int) -> Iterator[Setting]:
        source = MemorySource(page=page)
        yield Setting(source, MemoryWorld(source))
        source.close()
