"""One more distributed router with a machine, and what a host has of routers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from attrs import frozen

from netfw.cli.demo.server import ServedHost
from netfw.testing.lab.wait import wait_until
from tests.system.l3.distributed.site import DistributedSite
from tests.system.l3.environment import is_reached
from tests.system.l3.routed_networks import Guest, Segment

_VOLATILE = re.compile(r"(cookie|duration|n_packets|n_bytes|idle_age|hard_age)=[^,]*, ?")


@frozen
class SpareRouter:
    """A distributed router with a gateway, and a machine behind it."""

    router: Any
    segment: Segment
    guest: Guest


@contextmanager
def spare_router(
    site: DistributedSite, number: int, host: ServedHost, outside: Segment | None = None
) -> Iterator[SpareRouter]:
    """Make one more router and a machine; remove what is left of them at the end."""
    network = site.network
    gateway = {"network_id": (outside or site.outside).network.id}
    segment = site.segment(f"spare{number}", number)
    router = network.create_router(
        name=f"spare{number}", is_distributed=True, external_gateway_info=gateway
    )
    site.connect(router, segment)
    guest = site.guest(f"spare{number}", segment, host)
    try:
        wait_until(lambda: is_reached(guest.instance, segment.v4.gateway_ip))
        yield SpareRouter(router, segment, guest)
    finally:
        for floating_ip in network.ips(port_id=guest.port.id):
            network.delete_ip(floating_ip)
        network.delete_port(guest.port.id)
        host.unplug_port(guest.port)
        site.disconnect(router, segment)
        network.delete_router(router)
        network.delete_network(segment.network.id)


def traces(site: DistributedSite, host: ServedHost) -> dict[str, set[str]]:
    """Return what a host has of routers, by kind: namespaces, devices, ports and flows."""
    ovs = host.host.ovs
    flows = {
        bridge: {
            _VOLATILE.sub("", line).strip()
            for line in ovs.ofctl("dump-flows", ovs.management(bridge)).splitlines()
            if "table=" in line
        }
        for bridge in ("br-int", "br-tun")
    }
    links = (line.split()[1] for line in host.host.run(["ip", "-o", "link"]).splitlines())
    return {
        "namespaces": host.router_namespaces(),
        "devices": {name for name in links if not name.startswith("tap")},  # an instance has those
        "ports": {*ovs.vsctl("list-ports", "br-int").split()},
        **flows,
    }


def difference(before: dict[str, set[str]], after: dict[str, set[str]]) -> dict[str, list[str]]:
    """Return what is there now and was not, by kind, and what is missing."""
    changed = {kind: before[kind] ^ after[kind] for kind in before}
    return {kind: sorted(found) for kind, found in changed.items() if found}
