"""A distributed router whose central part is highly available, on two hosts."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from netfw.cli.demo.server import ServedHost
from netfw.testing.lab.wait import wait_until
from tests.system.l3.distributed.site import DistributedSite, Targets
from tests.system.l3.routed_networks import WORLD4

NUMBERS = 0x30, 0x31
"""Of the networks of the router."""


class DistributedPair:
    """The router *pair* with networks of its own: central on the last two hosts."""

    def __init__(self, site: DistributedSite) -> None:
        self.site, self.hosts = site, site.hosts[1:]
        network = site.network
        gateway = {"network_id": site.outside.network.id}
        self.segments = [site.segment(f"pair{number}", number) for number in NUMBERS]
        self.router = network.create_router(
            name="pair", is_distributed=True, is_ha=True, external_gateway_info=gateway
        )
        for segment in self.segments:
            site.connect(self.router, segment)
        self.one = site.guest("pair1", self.segments[0], site.first)
        self.two = site.guest("pair2", self.segments[1], site.second)
        fixed_ips = network.get_router(self.router.id).external_gateway_info["external_fixed_ips"]
        self.gateways = [each["ip_address"] for each in fixed_ips]
        (gateway6,) = (each for each in self.gateways if ":" in each)
        for segment in self.segments:
            site.world.namespaces.ip(f"route add {segment.v6.cidr} via {gateway6}")
        self.floating_ip = site.make_floating_ip(self.one)

    @property
    def namespace(self) -> str:
        return f"snat-{self.router.id}"

    def local(self) -> Targets:
        """Return the flows that need no central part."""
        one, two = self.one, self.two
        return {
            "east-west IPv4": (one.instance, two.address(4)),
            "east-west IPv6": (two.instance, one.address(6)),
            "floating IP in": (self.site.world, str(self.floating_ip.floating_ip_address)),
            "floating IP out": (one.instance, WORLD4),
        }

    def central(self) -> Targets:
        """Return the flows by the central part."""
        return {
            "SNAT": (self.two.instance, WORLD4),
            "gateway IPv6": (self.site.world, self.two.address(6)),
        }

    def active_hosts(self) -> list[ServedHost]:
        """Return the hosts whose kernel has the address of the gateway."""
        words = ["ip", "netns", "exec", self.namespace, "ip", "-o", "address"]
        gateway = next(each for each in self.gateways if ":" not in each)
        return [h for h in self.hosts if f" {gateway}/" in h.host.attempt(words).output]

    def await_active(self) -> ServedHost:
        """Wait until exactly one host is active, also by the API; return it."""

        def reported() -> ServedHost | None:
            found = self.active_hosts()
            roles = self.site.cloud.ha_states(self.router)
            active = [host for host, role in roles.items() if role == "active"]
            is_one = len(found) == 1 and [found[0].host.name] == active
            return found[0] if is_one else None

        host = wait_until(reported, lambda: self.site.cloud.ha_states(self.router))
        assert host is not None
        return host

    def kill_keepalived(self, host: ServedHost) -> None:
        """Kill the router's keepalived on a host."""
        pattern = f"^[^ ]*keepalived .*{host.l3.directory}.*{self.router.id}"
        pids = [int(each) for each in host.host.run(["pgrep", "-f", pattern]).split()]
        for pid in pids:
            with suppress(ProcessLookupError):  # the child ends with its parent
                os.kill(pid, signal.SIGKILL)

    def purge_cached_flows(self) -> None:
        """Have the switches learn from the next announcement at once, not half a second later."""
        for each in self.site.hosts:
            each.host.ovs.appctl("revalidator/purge")

    def remove(self) -> None:
        """Remove the router and what is on its networks, by the API."""
        network = self.site.network
        network.delete_ip(self.floating_ip)
        for guest, host in ((self.one, self.site.first), (self.two, self.site.second)):
            network.delete_port(guest.port.id)
            host.unplug_port(guest.port)
        for segment in self.segments:
            self.site.disconnect(self.router, segment)
        network.delete_router(self.router)
        for segment in self.segments:
            network.delete_network(segment.network.id)


@contextmanager
def distributed_pair(site: DistributedSite) -> Iterator[DistributedPair]:
    """Run the router while the second host can have central parts, too."""
    options, agent = site.second.l3.options["agent"], site.second.l3
    usual = options["agent_mode"]
    options["agent_mode"] = "dvr_snat"
    agent.stop()
    agent.start()
    pair = DistributedPair(site)
    try:
        site.await_reached({**pair.local(), **pair.central()})
        yield pair
    finally:
        pair.remove()
        options["agent_mode"] = usual
        agent.stop()
        agent.start()
