"""Another router beside *edge*, which faults may concern."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from attrs import frozen

from netfw.testing.lab.wait import wait_until
from tests.system.l3.edge_site import EdgeSite
from tests.system.l3.routed_networks import Segment


@frozen(kw_only=True)
class SpareRouter:
    """Another router, with a network and a floating IP of a port there."""

    router: Any
    segment: Segment
    floating_ip: Any


@contextmanager
def spare_router(edge: EdgeSite) -> Iterator[SpareRouter]:
    """Make another router by the API, and remove it without a trace."""
    network = edge.network
    segment = edge.segment("spare", 9)
    gateway = {"network_id": edge.outside.network.id}
    router = network.create_router(name="spare", external_gateway_info=gateway)
    edge.connect(router, segment)
    port = network.create_port(network_id=segment.network.id, name="spare")
    floating_ip = network.create_ip(floating_network_id=edge.outside.network.id, port_id=port.id)
    try:
        yield SpareRouter(router=router, segment=segment, floating_ip=floating_ip)
    finally:
        network.delete_ip(floating_ip)
        network.delete_port(port)
        edge.disconnect(router, segment)
        network.delete_router(router)
        network.delete_network(segment.network)
    wait_until(lambda: not edge.has_namespace(router))
    wait_until(lambda: not edge.processes(router), lambda: edge.processes(router))
    edge.await_converged()


def status(edge: EdgeSite, thing: Any) -> str:
    """Return the status of a router or floating IP by the API."""
    found = {each.id: each.status for each in (*edge.network.routers(), *edge.network.ips())}
    return str(found[thing.id])


def await_active(edge: EdgeSite, *things: Any) -> None:
    for thing in things:
        wait_until(lambda thing=thing: status(edge, thing) == "ACTIVE", edge.l3.status)


def external_address(edge: EdgeSite, router: Any) -> str:
    """Return the external IPv4 address of a router."""
    found = edge.network.get_router(router.id).external_gateway_info["external_fixed_ips"]
    return next(str(each["ip_address"]) for each in found if ":" not in each["ip_address"])
