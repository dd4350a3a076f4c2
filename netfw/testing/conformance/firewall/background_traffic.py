"""Load for the firewall suite: packets all the time while something else is going on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from netfw.testing.conformance.firewall.case import FirewallCase
from netfw.testing.conformance.firewall.environment import Delivery


class BackgroundTraffic:
    """Packets all the time: some that must pass, and some that must not."""

    def __init__(self, suite: FirewallCase, deliveries: list[Delivery]) -> None:
        self._suite, self._deliveries = suite, deliveries
        self._end = threading.Event()
        self.rounds = 0
        self.wrong: list[str] = []
        self._thread = threading.Thread(target=self._run, name="netfw-load", daemon=True)

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._end.set()
            self._thread.join()

    def _run(self) -> None:
        while not self._end.is_set() and not self.wrong:
            try:
                self._suite.assert_deliveries(self._deliveries)
            except AssertionError as error:
                self.wrong.append(str(error))
            self.rounds += 1
