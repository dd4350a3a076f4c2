"""A highly available router on two of three hosts, with machines on all of them.

The HA network is a tunnel network on the underlay; the networks of the router are VLANs on the
provider network.  So each of them can be cut alone.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import Event, Thread
from typing import Any

from netfw.cli.demo.agents import PHYSICAL
from netfw.cli.demo.server import Cloud, ServedHost, make_cloud
from netfw.drivers.values.router_values import HA_PRIORITY
from netfw.testing.lab.agent import PrivateAgent
from netfw.testing.lab.ini import Groups
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.wait import wait_until
from tests.system.l3.environment import is_reached, prefer_switch, running
from tests.system.l3.routed_networks import VLAN_OPTIONS, WORLD4, Guest, RoutedNetworks

PORT = 9698
"""The port of the API: the site of the other tests has the usual one."""
SAMPLE_INTERVAL = 0.1
Targets = dict[str, tuple[Instance, str]]
ADVERT = 1
"""Seconds between two VRRP advertisements."""
SKEW = ADVERT * (256 - HA_PRIORITY) / 256
TAKEOVER = 3 * ADVERT + SKEW + 0.2
"""Seconds without traffic after the active instance fell silent, at most."""
AWAY = 4 * ADVERT + 0.2
"""Seconds without traffic after the active host is away, at most: switches learn, too."""
UNITED = 2 * ADVERT + 0.2
"""Seconds with two active hosts that receive each other's advertisements, at most."""


class HaSite(RoutedNetworks):
    """The router *pair*, which is on the first two hosts, and a machine on each host."""

    def __init__(self, cloud: Cloud, **linux: Any) -> None:
        self.cloud, self.network, self.hosts = cloud, cloud.network, cloud.hosts
        self.routing = cloud.hosts[:2]
        for each in self.routing:
            options = each.l3.options
            options["agent"] |= {
                "report_interval": 1,
                "retry_interval": 0.1,
                "audit_interval": 86400,
            }
            options["linux"] = {"ha_vrrp_advert_int": ADVERT, **linux}
        for each in self.hosts:
            each.agent.options["agent"]["report_interval"] = 1

    @property
    def agents(self) -> tuple[PrivateAgent, ...]:
        routing = (agent for each in self.routing for agent in (each.metadata, each.l3))
        return (*(each.agent for each in self.hosts), *routing)

    def build(self) -> None:
        """Make networks, router, machines and a floating IP, and wait until all is reached."""
        network = self.network
        self.blue, self.outside = self.segment("blue", 1), self.make_outside()
        gateway = {"network_id": self.outside.network.id}
        self.router = network.create_router(name="pair", is_ha=True, external_gateway_info=gateway)
        self.connect(self.router, self.blue)
        self.guests: list[Guest] = [
            self.guest(f"vm{number}", self.blue, host) for number, host in enumerate(self.hosts, 1)
        ]
        self.world = self.make_world(self.router, self.outside, self.hosts[2])
        self.floating_ip = self.make_floating_ip(self.guests[2])
        self.await_reached()
        self.await_reported()

    def make_floating_ip(self, guest: Guest) -> Any:
        """Create a floating IP, and wait until it is ACTIVE."""
        made = self.network.create_ip(
            floating_network_id=self.outside.network.id, port_id=guest.port.id
        )
        wait_until(lambda: self.network.get_ip(made.id).status == "ACTIVE")
        return made

    def targets(self, *without: ServedHost) -> Targets:
        """Return the sender and the target of each flow by its name, except for some hosts."""
        found = {}
        for host, guest in zip(self.hosts, self.guests, strict=True):
            if host not in without:
                found[f"SNAT of {host.host.name}"] = (guest.instance, WORLD4)
                found[f"gateway IPv6 to {host.host.name}"] = (self.world, guest.address(6))
        found["floating IP"] = (self.world, str(self.floating_ip.floating_ip_address))
        return found

    def await_reached(self, targets: Targets | None = None) -> None:
        """Wait until every flow passes."""
        for name, (instance, address) in (targets or self.targets()).items():
            wait_until(lambda i=instance, a=address: is_reached(i, a), name)

    def in_router(self, host: ServedHost, *words: str) -> str:
        """Run a command in the namespace of the router; return its output, also of a failure."""
        netns = f"qrouter-{self.router.id}"
        return host.host.attempt(["ip", "netns", "exec", netns, *words]).output

    def active_hosts(self) -> list[ServedHost]:
        """Return the hosts whose kernel has the address of the router."""
        gateway = f"{self.blue.v4.gateway_ip}/"
        return [each for each in self.routing if gateway in self.in_router(each, "ip", "address")]

    def active(self) -> ServedHost | None:
        """Return the only host with the address of the router, ``None`` if none or two have it."""
        found = self.active_hosts()
        return found[0] if len(found) == 1 else None

    def await_active(self) -> ServedHost:
        """Wait until exactly one host is active; return it."""
        found = wait_until(self.active, self.roles)
        assert found is not None
        return found

    def other(self, host: ServedHost) -> ServedHost:
        """Return the second host of the router."""
        (found,) = (each for each in self.routing if each is not host)
        return found

    def roles(self) -> dict[str, str]:
        """Return the role on each host, as the API shows it."""
        return self.cloud.ha_states(self.router)

    def reported_active(self) -> ServedHost | None:
        """Return the host that alone is active according to the API."""
        found = [host for host, role in self.roles().items() if role == "active"]
        return next((h for h in self.routing if [h.host.name] == found), None)

    def await_reported(self) -> None:
        """Wait until exactly one host is active, and the same one by the API."""

        def is_reported() -> bool:
            found = self.active()
            return found is not None and self.reported_active() is found

        wait_until(is_reported, self.roles)

    def keepalived(self, host: ServedHost) -> list[int]:
        """Return the processes of the router's keepalived on a host, the parent first."""
        pattern = f"^[^ ]*keepalived .*{host.l3.directory}.*{self.router.id}"
        return sorted(map(int, host.host.attempt(["pgrep", "-f", pattern]).output.split()))

    def signal_keepalived(self, host: ServedHost, number: signal.Signals) -> list[int]:
        """Send a signal to the router's keepalived: to all its processes to kill, or the parent.

        Return its processes.
        """
        pids = self.keepalived(host)
        for pid in pids if number == signal.SIGKILL else pids[:1]:
            with suppress(ProcessLookupError):  # the child ends with its parent
                os.kill(pid, number)
        return pids

    def await_restart(self, host: ServedHost, former: list[int]) -> None:
        """Wait until the router's keepalived runs in other processes, a parent and a child."""

        def is_new() -> bool:
            pids = self.keepalived(host)
            return len(pids) == 2 and not {*pids} & {*former}

        wait_until(is_new, lambda: f"{former}, now {self.keepalived(host)}")

    def tracks(self, host: ServedHost, port: int) -> bool:
        """Return whether the router on a host knows an established connection to this port."""
        words = ("conntrack", "-L", "-p", "tcp", "--dport", str(port))
        return "ESTABLISHED" in self.in_router(host, *words)

    def purge_cached_flows(self) -> None:
        """Have the switches learn from the next announcement at once.

        A switch that has cached the flow of an announcement, less than ten seconds ago, learns from
        another one when it counts its packets: up to half a second later.
        """
        for each in self.hosts:
            each.host.ovs.appctl("revalidator/purge")

    def sent_frames(self, host: ServedHost) -> int:
        """Return how many frames the router on a host has sent by interfaces and gateway."""
        links = json.loads(self.in_router(host, "ip", "-s", "-j", "link"))
        shared = (each for each in links if each["ifname"].startswith(("qr-", "qg-")))
        return sum(each["stats64"]["tx"]["packets"] for each in shared)

    @contextmanager
    def sampling(self) -> Iterator[ActiveSampler]:
        """Read the active hosts from time to time while the block runs."""
        sampler = ActiveSampler(self)
        thread = Thread(target=sampler.run, daemon=True)
        thread.start()
        try:
            yield sampler
        finally:
            sampler.ended.set()
            thread.join()

    @contextmanager
    def cut(self, host: ServedHost, *, provider: bool = True) -> Iterator[None]:
        """Cut a host off from the underlay, and from the provider network."""
        fabrics = [self.cloud.lab.fabric]
        fabrics += [self.cloud.lab.provider[PHYSICAL]] if provider else []
        with ExitStack() as stack:
            for fabric in fabrics:
                fabric.disconnect(host.host.name, silently=True)
                stack.callback(fabric.connect, host.host.name)
            yield


class ActiveSampler:
    """Numbers of active hosts, read again and again."""

    def __init__(self, site: HaSite) -> None:
        self.ended = Event()
        self._site = site
        self._samples: list[tuple[float, int]] = []

    def run(self) -> None:
        """Read until it has ended."""
        while not self.ended.wait(SAMPLE_INTERVAL):
            self._samples.append((time.monotonic(), len(self._site.active_hosts())))

    def has_seen(self, number: int) -> bool:
        """Return whether there was a sample with so many active hosts."""
        return any(found == number for _, found in self._samples)

    def longest(self, number: int) -> float:
        """Return the longest time in seconds, between two samples, with so many active hosts."""
        longest, began = 0.0, None
        for at, found in self._samples:
            began = None if found != number else at if began is None else began
            longest = max(longest, 0.0 if began is None else at - began)
        return longest


@contextmanager
def ha_site(options: Groups | None = None, **linux: Any) -> Iterator[HaSite]:
    """Run a server with more *options*, three hosts and the router.

    *linux* are options of its driver.
    """
    with make_cloud({**VLAN_OPTIONS, **(options or {})}, hosts=3, port=PORT) as cloud:
        cloud.server.start()
        site = HaSite(cloud, **linux)
        for each in site.hosts:
            prefer_switch(each.host)
        for each in site.routing:
            each.service.start()
        with running(*site.agents):
            wait_until(lambda: len(list(site.network.agents(agent_type="L3 agent"))) == 2)
            site.build()
            yield site
        assert "Traceback" not in cloud.server.log.read_text()
