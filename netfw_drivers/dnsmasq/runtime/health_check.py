"""Finding out which dnsmasq hangs: it has not died, and serves nobody."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from attrs import evolve, frozen

from netfw.drivers.dhcp import DhcpNetwork
from netfw.linux.process import Supervisor, is_asleep
from netfw.linux.sockets.dns_probe import Server, silent_servers
from netfw.model.device_names import dhcp_namespace
from netfw.model.ids import NetworkId
from netfw_drivers.dnsmasq.plan.steps import process_key

LOG = logging.getLogger(__name__)

PATIENCE = 5.0
"""Seconds within which one that is well answers."""
ENDLESS = 300.0
"""Seconds for which one that works may be silent.  The longest work that is known is reading very
many files one by one, which takes a minute or two; the driver has them read at a start instead."""
_TOGETHER = 64
"""How many are asked at once: each costs an open file meanwhile."""


@frozen(kw_only=True)
class _Silence:
    """Of a process that was asked and did not answer."""

    pid: int
    since: float
    asleep: bool
    times: int = 1
    """How often in a row it was silent and asleep."""

    def after(self, former: _Silence | None) -> _Silence:
        """The same, if *former* was the last time that it was asked."""
        if former is None or former.pid != self.pid:
            return self
        return evolve(
            self, since=former.since, times=former.times + 1 if former.asleep and self.asleep else 1
        )

    def is_hung(self, now: float) -> bool:
        return (self.asleep and self.times > 1) or now - self.since > ENDLESS


class HealthChecker:
    """Asks each dnsmasq for its version now and then; one that does not answer twice is killed, and
    what follows is what follows each death.

    One that works, be it that it reads very many files, is not taken for one that hangs, unless it
    does so for longer than anything takes.

    :param interval: seconds between two questions.
    :param watched: the networks whose dnsmasq is watched over.
    :param expect_answer: whether each is known to answer, if it is well: nothing else than we told
        it
        what to do.  Of others it is believed when they have answered once.
    """

    def __init__(
        self,
        interval: float,
        watched: Callable[[], Iterable[tuple[NetworkId, DhcpNetwork]]],
        *,
        expect_answer: bool = True,
    ) -> None:
        self._interval, self._watched, self._expect_answer = interval, watched, expect_answer
        self._patience = min(interval, PATIENCE)
        self._guard = threading.Lock()
        self._over: threading.Event | None = None

    def begin(self, supervisor: Supervisor) -> None:
        """Look from now on, in a thread of its own; beginning twice is beginning once.

        :param supervisor: who holds the processes.
        """
        with self._guard:
            if self._over is None:
                self._over = threading.Event()
                threading.Thread(
                    target=self._run,
                    args=(supervisor, self._over),
                    name="netfw-dnsmasq-health-check",
                    daemon=True,
                ).start()

    def end(self) -> None:
        """Look no more; a question that was asked is not waited for, and has no consequence."""
        with self._guard:
            if self._over is not None:
                self._over.set()
            self._over = None

    def _run(self, supervisor: Supervisor, over: threading.Event) -> None:
        silences: dict[NetworkId, _Silence] = {}
        heard: dict[NetworkId, int] = {}
        while not over.wait(self._pause(silences)):
            began = time.monotonic()
            found: dict[NetworkId, _Silence] = {}
            for pids, silent in self._asked(supervisor, over):
                heard |= {id: pid for id, pid in pids.items() if id not in silent}
                found |= {
                    id: _Silence(pid=pids[id], since=began, asleep=is_asleep(pids[id])).after(
                        silences.get(id)
                    )
                    for id in silent
                    if self._expect_answer or heard.get(id) == pids[id]
                }
            hung = {id for id, silence in found.items() if silence.is_hung(time.monotonic())}
            for id in hung if not over.is_set() else ():
                _kill(supervisor, id, found[id].pid)
            silences = {id: silence for id, silence in found.items() if id not in hung}

    def _pause(self, silences: Mapping[NetworkId, _Silence]) -> float:
        suspected = any(silence.asleep for silence in silences.values())
        return self._patience if suspected else self._interval

    def _asked(
        self, supervisor: Supervisor, over: threading.Event
    ) -> Iterator[tuple[dict[NetworkId, int], frozenset[NetworkId]]]:
        """Those asked together, with their pids, and who of them does not answer."""
        watched = iter([*self._watched()])
        while not over.is_set() and (some := [*islice(watched, _TOGETHER)]):
            pids = {id: supervisor.pid(process_key(id)) for id, _ in some}
            servers = {
                id: Server(dhcp_namespace(id), network.server.addresses[0].ip)
                for id, network in some
                if network.server.addresses and pids[id] is not None
            }
            silent = silent_servers(servers, self._patience)
            yield {id: pid for id, pid in pids.items() if pid is not None}, silent


def _kill(supervisor: Supervisor, network: NetworkId, pid: int) -> None:
    key = process_key(network)
    if supervisor.pid(key) == pid:
        LOG.warning("network %s: dnsmasq (process %d) hangs, and is killed", network, pid)
        supervisor.signal(key, signal.SIGKILL)
