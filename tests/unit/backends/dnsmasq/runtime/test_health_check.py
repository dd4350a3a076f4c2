"""The health check of dnsmasq on a machine without files or threads."""

from __future__ import annotations

import errno
import threading
from typing import Any, cast

import pytest

from netfw.errors import BackendUnavailable
from netfw.testing.lab.wait import wait_until
from netfw_drivers.dnsmasq.runtime import health_check
from netfw_drivers.dnsmasq.runtime.health_check import HealthChecker
from tests.thread_limit import no_threads


@pytest.mark.parametrize(
    "error", [OSError(errno.EMFILE, "Too many open files"), BackendUnavailable("no"), KeyError(1)]
)
def test_probes_go_on_after_one_failed(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    probes: list[int] = []

    def silent_servers(*_: object) -> frozenset[object]:
        probes.append(1)
        if len(probes) == 1:
            raise error
        return frozenset()

    monkeypatch.setattr(health_check, "silent_servers", silent_servers)
    supervisor = cast(Any, type("Processes", (), {"pid": lambda *_: None})())
    checker = HealthChecker(0.02, lambda: [(cast(Any, 1), cast(Any, Network()))])
    checker.start(supervisor)
    try:
        wait_until(lambda: len(probes) > 1, "it probes again")
    finally:
        checker.stop()


class Network:
    """A network whose server has no address."""

    def __init__(self) -> None:
        self.server = cast(Any, type("Server", (), {"addresses": ()}))


def test_networks_that_are_gone_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_check, "silent_servers", lambda *_: frozenset())
    supervisor = cast(Any, type("Processes", (), {"pid": lambda *_: 7})())
    networks = [cast(Any, (number, Network())) for number in range(3)]
    checker = HealthChecker(60.0, lambda: networks, expect_answer=False)
    stopped, answered = threading.Event(), dict[Any, int]()
    checker._check(supervisor, stopped, {}, answered)
    assert answered == {0: 7, 1: 7, 2: 7}
    del networks[:2]
    checker._check(supervisor, stopped, {}, answered)
    assert answered == {2: 7}


def test_check_starts_later_if_its_thread_was_refused() -> None:
    rounds: list[int] = []

    def watched() -> list[Any]:
        rounds.append(1)
        return []

    checker = HealthChecker(0.02, watched)
    with no_threads(), pytest.raises(BackendUnavailable):
        checker.start(cast(Any, None))
    checker.start(cast(Any, None))
    wait_until(lambda: rounds, "it probes")
    checker.stop()
