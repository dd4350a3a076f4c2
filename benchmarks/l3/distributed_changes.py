"""L3: single changes with distributed routers: floating IPs, an instance elsewhere, flows.

A floating IP is for an instance that is there before.  The first of the compute host needs an agent
gateway with a port of its own, the next does not; both are deleted after each round, and with them
the agent gateway.  Operations are counted by the kernel and in the database of the switch
(:func:`benchmarks.l3.restart.count_operations`), and what the L3 agent receives by its log.  Flows
are counted on the real switch of the compute host, all bridges, each time as the difference to the
same without distributed routing: a router interface to a port of an instance, which is wired alike;
a host to one without a MAC address for routed traffic; a remote port to one on a network without a
router.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from statistics import median

from benchmarks.figure import Figure, milliseconds, zero
from benchmarks.l2.rig import run_alone
from benchmarks.l3.distributed_rig import CIDR, GATEWAY, DistributedRig, distributed_rig
from benchmarks.l3.restart import count_operations
from netfw.testing.lab.wait import wait_until

ROUNDS = 11
PORTS = 10
"""Instances that are created on another host."""
INTERFACES = 5
FIRST, NEXT = 500.0, 300.0
PER_INTERFACE, PER_HOST = 14.0, 3.0
"""Flows."""
_OTHER = "10.1.0.0/24"
_BRIDGES = ("br-int", "br-tun")
_STILL = 1.0
"""Seconds without a change after which flows are counted."""


def figures(rounds: int = ROUNDS) -> Iterator[Figure]:
    """Yield the figures of this file."""
    with distributed_rig(hosts=3) as found:
        print(f"    load of the machine: {os.getloadavg()[0]:.1f}", flush=True)
        (router,) = found.routers(1, CIDR, 0, distributed=True)
        other, _ = _make_network(found, _OTHER, router.id)
        for name in ("first", "next"):
            found.instance(name, router.network, CIDR, GATEWAY, found.compute.host)
        yield from _floating_ips(found, rounds)
        yield from _instances_elsewhere(found, other)
        yield from _flows_of_interfaces(found)
        yield from _flows_of_a_host(found)


def _make_network(found: DistributedRig, cidr: str, router: str = "") -> tuple[str, str]:
    """Make a network with a subnet, on a router if one is named; return the ids of both."""
    (network,) = found.create_many("networks", [{"name": "inside"}])
    body = {"network_id": network["id"], "ip_version": 4, "cidr": cidr}
    (subnet,) = found.create_many("subnets", [body])
    if router:
        _add_interface(found, router, subnet["id"])
    return network["id"], subnet["id"]


def _add_interface(found: DistributedRig, router: str, subnet: str) -> None:
    path = f"/routers/{router}/add_router_interface"
    found.request("PUT", path, {"subnet_id": subnet}, 200)


def _floating_ips(found: DistributedRig, rounds: int) -> Iterator[Figure]:
    first, later = list[float](), list[float]()
    for _ in range(rounds):
        for each in found.serving:
            found.await_rest(each.agent)
        made = []
        for name, times in (("first", first), ("next", later)):
            began = time.monotonic()
            made.append(found.floating_ip(found.ports[name]))
            times.append(found.answered(made[-1]["floating_ip_address"]) - began)
        for floating in made:
            found.delete_floating_ip(floating["id"])
        wait_until(lambda: not _gateways(found) and not _gateway_ports(found), seconds=60)
    name = "l3: distributed, from the API to the first ping,"
    yield milliseconds(f"{name} first of a host", median(first), FIRST)
    yield milliseconds(f"{name} next", median(later), NEXT)


def _gateways(found: DistributedRig) -> bool:
    return found.gateway_netns in found.namespaces(found.compute)


def _gateway_ports(found: DistributedRig) -> bool:
    path = "/ports?device_owner=network:floatingip_agent_gateway&fields=id"
    return bool(found.request("GET", path, None, 200)["ports"])


def _instances_elsewhere(found: DistributedRig, other: str) -> Iterator[Figure]:
    """Create instances on the network node; they answer one of the compute host by the router."""
    found.instance("before", other, _OTHER, "10.1.0.1", found.node.host)
    _await_answer(found, "before")
    for each in found.serving:
        found.await_rest(each.agent)
    log = found.compute.agent.log
    received = log.read_text().count("source:")
    plain, _ = _make_network(found, _OTHER)
    found.instance("plain", plain, _OTHER, None, found.compute.host)
    found.instance("plain-before", plain, _OTHER, None, found.node.host)
    names = sorted(found.namespaces(found.compute))
    flows = [_flows(found)]
    with count_operations(found.compute.host, names) as operations:
        for number in range(PORTS):
            found.instance(f"far{number}", other, _OTHER, "10.1.0.1", found.node.host)
            _await_answer(found, f"far{number}")
        flows.append(_flows(found))
    for number in range(PORTS):
        found.instance(f"plain{number}", plain, _OTHER, None, found.node.host)
    flows.append(_flows(found))
    routed, unrouted = (late - early for early, late in pairwise(flows))
    print(f"    flows for {PORTS} remote ports: {routed}, without a router {unrouted}", flush=True)
    name = f"l3: distributed, {PORTS} instances on another host,"
    yield zero(f"{name} operations", operations[0])
    yield zero(f"{name} changes received", log.read_text().count("source:") - received)
    yield zero(f"{name} flows for the router", routed - unrouted)


def _await_answer(found: DistributedRig, name: str) -> None:
    """Wait until an instance answers one of the compute host."""
    port = found.request("GET", f"/ports/{found.ports[name]}", None, 200)["port"]
    address = port["fixed_ips"][0]["ip_address"]
    instance = found.host.instances["first"]
    wait_until(lambda: not instance.ping(address, count=1, timeout=1).lost, name, seconds=60)


def _flows_of_interfaces(found: DistributedRig) -> Iterator[Figure]:
    """Connect networks with an instance on the compute host to a router."""
    (router,) = found.create_many("routers", [{"distributed": True}])
    ports, interfaces = [], []
    for number in range(INTERFACES):
        cidr = f"10.{10 + number}.0.0/24"
        network, subnet = _make_network(found, cidr)
        found.instance(f"local{number}", network, cidr, None, found.compute.host)
        counts = [_flows(found)]
        found.instance(f"more{number}", network, cidr, None, found.compute.host)
        counts.append(_flows(found))
        _add_interface(found, router["id"], subnet)
        counts.append(_flows(found))
        ports.append(counts[1] - counts[0])
        interfaces.append(counts[2] - counts[1])
    port, interface = median(ports), median(interfaces)
    print(f"    flows for a router interface: {interface:g}, for a local port {port:g}", flush=True)
    name = "l3: flows for each distributed router interface"
    yield _count(name, interface - port, PER_INTERFACE)


def _flows_of_a_host(found: DistributedRig) -> Iterator[Figure]:
    """Give a host that is there before a MAC address for routed traffic."""
    agent = found.hosts[-1].l2
    before = _flows(found)
    agent.stop()
    agent.options["agent"]["enable_distributed_routing"] = True
    agent.start()
    name = "l3: flows for each host with distributed routing"
    yield _count(name, _flows(found) - before, PER_HOST)


def _count(name: str, count: float, target: float) -> Figure:
    return Figure(
        name=name, measured=count, target=target, unit="", raw_seconds=0.0, own_seconds=0.0
    )


def _flows(found: DistributedRig) -> int:
    """Count the flows of the compute host, when they do not change any more."""
    count: Callable[[], int] = partial(_count_flows, found)
    former, now = -1, count()
    while now != former:
        time.sleep(_STILL)
        for each in found.serving:
            found.await_rest(each.agent)
        found.await_rest(found.compute.l2)
        former, now = now, count()
    return now


def _count_flows(found: DistributedRig) -> int:
    ovs = found.compute.host.ovs
    dumps = (ovs.ofctl("dump-flows", ovs.management(name)) for name in _BRIDGES)
    return sum(dump.count("cookie=") for dump in dumps)


if __name__ == "__main__":
    run_alone("benchmarks.l3.distributed_changes", partial(figures, *map(int, sys.argv[1:])))
