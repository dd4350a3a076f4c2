"""A lane of the outbox is its process's own for as long as the process lives."""

from __future__ import annotations

import threading
import time

import pytest

from netfw.drivers.server.change import Change
from netfw.model.resource import Kind
from netfw.server.core.server_context import ServerContext
from netfw.server.db import Database
from netfw.server.outbox.worker import DeliveryConfig
from netfw.testing.lab.wait import wait_until
from netfw_drivers.ipam.internal import InternalIpamDriver
from tests.server.outbox.samples import OutboxEnvironment, Recorder


@pytest.mark.spec("ML2-03")
def test_a_slow_delivery_keeps_its_lane_and_a_stopped_process_gives_it_back(
    file_database: Database,
) -> None:
    context = ServerContext(database=file_database, ipam=InternalIpamDriver())
    begun, may_end = threading.Event(), threading.Event()

    def slow(change: Change) -> None:
        begun.set()
        assert may_end.wait(60)

    driver = Recorder(does=slow)
    first = OutboxEnvironment(context, driver, pace=DeliveryConfig(poll=0.02, lease=6.0))
    others = ServerContext(database=context.database, ipam=context.ipam)
    other = Recorder()
    second = OutboxEnvironment(others, other, pace=DeliveryConfig(poll=0.02, lease=60.0))
    first.delivery.start()
    try:
        network = first.network()
        assert begun.wait(60)
        deadline = time.monotonic() + 9.0
        while time.monotonic() < deadline:
            second.delivery.drain()
            time.sleep(0.02)
        assert other.changes == [], "the lease is renewed while its process lives"
        first.touch(Kind.NETWORK, network)
    finally:
        stopping = threading.Thread(target=first.delivery.close)
        stopping.start()
        wait_until(first.delivery._stopped.is_set)
        may_end.set()
        stopping.join()
    second.delivery.drain()
    assert first.waiting() == 0
    assert other.lines() == ["network 1>2"], "any process may take what was left at once"
