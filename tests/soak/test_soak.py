"""Ports and routers that come and go for minutes, under faults: nothing grows, nothing is left.

``NETFW_SOAK_MINUTES`` says for how long.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from itertools import count, cycle
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from attrs import frozen

from netfw.testing.lab import sandbox
from netfw.testing.lab.daemon import PrivateDaemon
from netfw.testing.lab.wait import suspend, wait_until
from tests.system.l3.environment import RoutedCloud, is_reached, routed_cloud

LOG = logging.getLogger("soak")
MINUTES = float(os.environ.get("NETFW_SOAK_MINUTES") or 1)
ROUNDS_AT_LEAST = 8
WARM = 0.25
"""Share of the rounds after which caches and pools have their size."""
MEGABYTES = 8.0
"""Growth of a process that its allocator may have."""
DESCRIPTORS, THREADS = 6, 6
"""Growth by connections and threads of pools that were idle before."""

pytestmark = [
    pytest.mark.timeout(MINUTES * 60 + 900),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]


@frozen
class Usage:
    """What a process has at one moment."""

    megabytes: float
    descriptors: int
    threads: int

    @classmethod
    def of(cls, pid: int) -> Usage:
        proc = Path(f"/proc/{pid}")
        fields = dict(
            line.split(":", 1) for line in (proc / "status").read_text().splitlines() if ":" in line
        )
        resident, threads = fields["VmRSS"].split()[0], fields["Threads"]
        return cls(int(resident) / 1024, len(list((proc / "fd").iterdir())), int(threads))


class Soak:
    """A server and two hosts, what they have at rest, and the usage of processes after rounds."""

    def __init__(self, routed: RoutedCloud) -> None:
        self.routed, self.network = routed, routed.network
        self.outside, _ = routed.make_network("outside", "203.0.113.0/24", is_router_external=True)
        self.watched: dict[str, PrivateDaemon] = {
            "server": routed.cloud.server,
            "L2 agent": routed.hosts[0].agent,
            "L3 agent": routed.l3,
            "metadata agent": routed.hosts[1].metadata,
        }
        """Processes that no fault ends, so that they show what grows."""
        self.samples: dict[str, list[Usage]] = {name: [] for name in self.watched}
        self._numbers = count(1)

    def round(self) -> None:
        """Make a network with an instance behind a router with a floating IP, and delete it all."""
        number = next(self._numbers)
        third = number % 200
        blue, subnet = self.routed.make_network(f"blue{number}", f"10.1.{third}.0/24")
        gateway = {"network_id": self.outside.id}
        router = self.network.create_router(name=f"r{number}", external_gateway_info=gateway)
        self.network.add_interface_to_router(router, subnet=subnet.id)
        port, instance = self.routed.boot(f"vm{number}", blue, f"10.1.{third}.11")
        floating = self.network.create_ip(floating_network_id=self.outside.id, port_id=port.id)
        wait_until(lambda: is_reached(instance, f"10.1.{third}.1"), "the router answers")
        wait_until(lambda: self.network.get_ip(floating.id).status == "ACTIVE")
        self.network.delete_ip(floating)
        self.routed.hosts[0].unplug_port(port)
        self.network.delete_port(port.id)
        self.network.remove_interface_from_router(router, subnet=subnet.id)
        self.network.delete_router(router)
        self.network.delete_network(blue.id)
        self.routed.hosts[0].host.instances.pop(f"vm{number}").close()

    def remains(self) -> dict[str, int]:
        """Return the number of flows, ports of switches and namespaces of routers on the hosts."""
        found = {}
        for each in self.routed.hosts:
            ovs, name = each.host.ovs, each.host.name
            for bridge in ("br-int", "br-ex"):
                flows = ovs.ofctl("dump-flows", bridge).splitlines()
                found[f"{name} {bridge} flows"] = sum("cookie=" in line for line in flows)
                found[f"{name} {bridge} ports"] = len(ovs.vsctl("list-ports", bridge).split())
            found[f"{name} routers"] = len(each.router_namespaces())
        return found

    def rest(self) -> dict[str, int]:
        """Return what is on the hosts after a first round: some things are made once."""
        self.round()
        wait_until(lambda: not any(each.router_namespaces() for each in self.routed.hosts))
        for agent in self.routed.agents:
            agent.wait_for(lambda status: bool(status.get("ready")))
        wait_until(lambda: self.remains() == self.remains())
        return self.remains()

    def sample(self) -> None:
        for name, daemon in self.watched.items():
            self.samples[name].append(Usage.of(daemon.pid))

    def growth(self) -> dict[str, str]:
        """Return what grew between the warm rounds and the last ones, by process."""
        found = {}
        for name, samples in self.samples.items():
            warm = samples[int(len(samples) * WARM) :]
            quarter = max(2, len(warm) // 4)
            first, last = _middle(warm[:quarter]), _middle(warm[-quarter:])
            LOG.info("%s: %s at first, %s at last", name, first, last)
            if (
                last.megabytes > first.megabytes + MEGABYTES
                or last.descriptors > first.descriptors + DESCRIPTORS
                or last.threads > first.threads + THREADS
            ):
                found[name] = f"{first} at first, {last} at last"
        return found

    def faults(self) -> Iterator[Callable[[], None]]:
        """Yield faults in turn, again and again."""
        yield from cycle((self._kill_agent, self._pause_server, self._reload, self._restart_switch))

    def _kill_agent(self) -> None:
        agent = self.routed.hosts[1].agent
        agent.kill()
        agent.start()

    def _pause_server(self) -> None:
        pid = self.routed.cloud.server.pid
        suspend(pid)
        os.kill(pid, signal.SIGCONT)

    def _reload(self) -> None:
        for daemon in self.watched.values():
            os.kill(daemon.pid, signal.SIGHUP)

    def _restart_switch(self) -> None:
        self.routed.hosts[1].host.restart_switch()


def _middle(samples: list[Usage]) -> Usage:
    def middle(of: Callable[[Usage], Any]) -> Any:
        return median(map(of, samples))

    return Usage(
        middle(lambda each: each.megabytes),
        int(middle(lambda each: each.descriptors)),
        int(middle(lambda each: each.threads)),
    )


@pytest.mark.spec("DRV-48")
def test_nothing_grows_and_nothing_is_left_while_routers_come_and_go() -> None:
    sandbox.require()
    with routed_cloud() as routed:
        soak = Soak(routed)
        at_rest = soak.rest()
        faults, end = soak.faults(), time.monotonic() + MINUTES * 60
        for number in count(1):
            next(faults)()
            soak.round()
            wait_until(lambda: soak.remains() == at_rest, lambda: (at_rest, soak.remains()))
            soak.sample()
            if time.monotonic() > end and number >= ROUNDS_AT_LEAST:
                break
        LOG.info("%d rounds; at rest %s", number, at_rest)
        assert soak.growth() == {}
