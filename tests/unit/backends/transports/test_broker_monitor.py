"""The monitor of the broker, when something fails that is no error of a connection."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from netfw.testing.lab.wait import wait_until

pytest.importorskip("amqp")
pytest.importorskip("oslo_messaging")
from netfw_drivers.transports.oslo import broker_monitor
from netfw_drivers.transports.oslo.broker_monitor import BrokerMonitor
from netfw_drivers.transports.oslo.messaging import BrokerHost
from netfw_drivers.transports.oslo.options import Settings

HOST = BrokerHost(host="h", port=1, user="u", password="p", virtual_host="/", tls={})


class Connection:
    """A connection that is lost when it is told."""

    sock = None

    def __init__(self, lost: threading.Event) -> None:
        self._lost = lost

    def connect(self) -> None:
        return None

    def drain_events(self, timeout: float) -> None:
        time.sleep(0.01)
        if self._lost.is_set():
            self._lost.clear()
            raise OSError("gone")

    def heartbeat_tick(self) -> None:
        return None

    def collect(self) -> None:
        return None


@pytest.mark.parametrize("failing", ["connected", "disconnected", "check"])
def test_monitor_connects_again_after_a_callback_failed(
    failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost, failures = threading.Event(), [RuntimeError("can't start new thread")]

    def callback(name: str) -> Any:
        def call(*_: object) -> None:
            if name == failing and failures:
                raise failures.pop()

        return call

    monkeypatch.setattr(broker_monitor, "make_connection", lambda *_: Connection(lost))
    names = ("connected", "disconnected", "check")
    settings = Settings(url="rabbit://", pause=0.01, pause_max=0.01)
    monitor = BrokerMonitor(settings, [HOST], *map(callback, names))
    monitor.start()
    try:
        assert monitor.wait(60)
        lost.set()
        wait_until(lambda: monitor.epoch > 1 and monitor.connected, "it connects again")
        assert not failures
    finally:
        monitor.close()
