"""Health check: finds each dnsmasq that hangs, and kills it."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from attrs import evolve, frozen

from netfw.drivers.dhcp import DhcpNetwork
from netfw.drivers.support.daemon_thread import start_daemon_thread
from netfw.errors import NetfwError
from netfw.linux.process import Supervisor, is_asleep
from netfw.linux.sockets.dns_probe import DnsServer, silent_servers
from netfw.model.values.device_names import dhcp_namespace
from netfw.model.values.ids import NetworkId
from netfw_drivers.dnsmasq.plan.steps import process_key

LOG = logging.getLogger(__name__)

ANSWER_TIMEOUT = 5.0
"""Seconds within which a healthy dnsmasq answers."""
BUSY_LIMIT = 300.0
"""Seconds for which a busy dnsmasq may be silent.  The longest known work is reading very many
files one by one, which takes a minute or two; the driver restarts dnsmasq instead."""
_BATCH = 64
"""Processes probed at once: each probe costs an open file."""


@frozen(kw_only=True)
class _Silence:
    """Consecutive probes without an answer of one process."""

    pid: int
    since: float
    asleep: bool
    times: int = 1
    """Consecutive probes during which it was silent and asleep."""

    def after(self, former: _Silence | None) -> _Silence:
        """Return this silence, continued from *former* if that is of the same process."""
        if former is None or former.pid != self.pid:
            return self
        return evolve(
            self, since=former.since, times=former.times + 1 if former.asleep and self.asleep else 1
        )

    def is_hung(self, now: float) -> bool:
        return (self.asleep and self.times > 1) or now - self.since > BUSY_LIMIT


class HealthChecker:
    """Probes each dnsmasq for its version at intervals, and kills one that is silent twice.

    The supervisor then handles its death as any other.  A busy dnsmasq, such as one that reads very
    many files, is killed only after ``BUSY_LIMIT``.

    :param interval: seconds between two probes.
    :param watched: returns the networks whose dnsmasq is probed.
    :param expect_answer: each healthy dnsmasq answers, since it has no configuration beside the
        driver's.  Otherwise silence counts only after it has answered once.
    """

    def __init__(
        self,
        interval: float,
        watched: Callable[[], Iterable[tuple[NetworkId, DhcpNetwork]]],
        *,
        expect_answer: bool = True,
    ) -> None:
        self._interval, self._watched, self._expect_answer = interval, watched, expect_answer
        self._answer_timeout = min(interval, ANSWER_TIMEOUT)
        self._lock = threading.Lock()
        self._stopped: threading.Event | None = None

    def start(self, supervisor: Supervisor) -> None:
        """Start probing in a thread of its own.  Idempotent.

        :param supervisor: has the processes.
        :raises BackendUnavailable: the machine has no thread left.
        """
        with self._lock:
            if self._stopped is not None:
                return
            stopped = threading.Event()
            start_daemon_thread(
                "netfw-dnsmasq-health-check",
                "dnsmasq cannot be probed",
                self._run,
                supervisor,
                stopped,
            )
            self._stopped = stopped

    def stop(self) -> None:
        """Stop probing; a probe under way is not waited for, and has no effect."""
        with self._lock:
            if self._stopped is not None:
                self._stopped.set()
            self._stopped = None

    def _run(self, supervisor: Supervisor, stopped: threading.Event) -> None:
        silences: dict[NetworkId, _Silence] = {}
        answered: dict[NetworkId, int] = {}
        while not stopped.wait(self._pause(silences)):
            try:
                silences = self._check(supervisor, stopped, silences, answered)
            except (NetfwError, OSError) as error:
                LOG.warning("dnsmasq is not probed now: %s", error)
            except Exception:  # the thread serves all networks
                LOG.exception("dnsmasq was not probed")

    def _check(
        self,
        supervisor: Supervisor,
        stopped: threading.Event,
        silences: Mapping[NetworkId, _Silence],
        answered: dict[NetworkId, int],
    ) -> dict[NetworkId, _Silence]:
        """Probe once, after *silences*, and kill what hangs; return what is silent."""
        started = time.monotonic()
        found: dict[NetworkId, _Silence] = {}
        running: set[NetworkId] = set()
        for pids, silent in self._probe(supervisor, stopped):
            running |= pids.keys()
            answered |= {id: pid for id, pid in pids.items() if id not in silent}
            found |= {
                id: _Silence(pid=pids[id], since=started, asleep=is_asleep(pids[id])).after(
                    silences.get(id)
                )
                for id in silent
                if self._expect_answer or answered.get(id) == pids[id]
            }
        for gone in answered.keys() - running:
            del answered[gone]
        hung = {id for id, silence in found.items() if silence.is_hung(time.monotonic())}
        for id in hung if not stopped.is_set() else ():
            _kill(supervisor, id, found[id].pid)
        return {id: silence for id, silence in found.items() if id not in hung}

    def _pause(self, silences: Mapping[NetworkId, _Silence]) -> float:
        suspected = any(silence.asleep for silence in silences.values())
        return self._answer_timeout if suspected else self._interval

    def _probe(
        self, supervisor: Supervisor, stopped: threading.Event
    ) -> Iterator[tuple[dict[NetworkId, int], frozenset[NetworkId]]]:
        """Yield batches: pids by network, and the networks that do not answer."""
        watched = iter([*self._watched()])
        while not stopped.is_set() and (batch := [*islice(watched, _BATCH)]):
            pids = {id: supervisor.pid(process_key(id)) for id, _ in batch}
            servers = {
                id: DnsServer(dhcp_namespace(id), network.server.addresses[0].ip)
                for id, network in batch
                if network.server.addresses and pids[id] is not None
            }
            silent = silent_servers(servers, self._answer_timeout)
            yield {id: pid for id, pid in pids.items() if pid is not None}, silent


def _kill(supervisor: Supervisor, network: NetworkId, pid: int) -> None:
    key = process_key(network)
    if supervisor.pid(key) == pid:
        LOG.warning("network %s: killing dnsmasq (process %d), which hangs", network, pid)
        supervisor.signal(key, signal.SIGKILL)
