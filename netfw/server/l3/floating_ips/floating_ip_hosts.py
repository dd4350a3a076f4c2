"""Hosts of floating IPs: where those of distributed routers are translated.

A floating IP is at the host of its port, if the L3 agent there serves floating IPs. Otherwise the
central part of the router has it, and its ``host`` is ``None``: that of a plain router always is.
Other ports that may have the address too, by an allowed address pair, can be on any host; the
central part finds the one that has it. All of this changes in the transactions of what it depends
on.

A transaction locks routers, then ports, then floating IPs, then agents. One that adds an address
pair locks the routers of the network, so that it does not miss a concurrent association.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from typing import cast
from uuid import UUID

from attrs import evolve

from netfw.drivers.server.change import Change
from netfw.drivers.server.query import Query
from netfw.model.agent import Agent
from netfw.model.floating_ip import FloatingIp
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref, Resource, ref
from netfw.model.router import Router
from netfw.model.values.address import IpAddress, IpNetwork
from netfw.model.values.common_fields import Status
from netfw.model.values.device_owner import DeviceOwner, is_trusted
from netfw.model.values.ids import NetworkId, PortId
from netfw.server.agents.agents import L3_AGENT
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.agents.locked_agents import agents_for_share
from netfw.server.db.resources.address_pairs import pairs_containing
from netfw.server.db.resources.rows import AT_ONCE
from netfw.server.l3.floating_ips.forwarded_ports import lock_floating_ips
from netfw.server.l3.router_ports import router_of
from netfw.server.scheduling.choice import serves_floating_ips

Pairs = Mapping[NetworkId, Collection[tuple[PortId, IpNetwork]]]
"""The allowed address pairs of networks that matter, with the ports that have them."""


def decide_floating_ip_host(
    router: Router, port: Port, address: IpAddress, serving: Set[str], pairs: Pairs
) -> str | None:
    """Return the host of a floating IP that leads to *address* of *port*; ``None``: it is central.

    *serving*: the hosts whose agents serve floating IPs. Pure.
    """
    if not router.distributed or port.binding.host not in serving:
        return None
    for user, prefix in pairs.get(port.network_id, ()):
        if user != port.id and address.version == prefix.version and address in prefix:
            return None
    return port.binding.host


def find_host(unit: UnitOfWork, router: Router, port: Port, address: IpAddress) -> str | None:
    """Return the host of a floating IP that leads by *router*, which is locked, to *port*."""
    if not router.distributed:
        return None
    serving = _serving_hosts(unit, {port.binding.host})
    pairs = _read_pairs(unit, {port.network_id: {address}} if serving else {})
    return decide_floating_ip_host(router, port, address, serving, pairs)


def update_floating_ip_hosts(unit: UnitOfWork, change: Change) -> None:
    """Update the hosts of floating IPs that depend on a port, a router or an L3 agent.

    It is a :data:`.PrecommitHook`.
    """
    match change.before, change.after:
        case Router() as before, Router() as router if before.distributed != router.distributed:
            update_hosts(unit, _find(unit, router_id=[router.id]))
        case ((Port() | None), (Port() | None)):
            _follow_port(unit, change.before, change.after)
        case (Agent() | None) as before, (Agent() | None) as after if _serving(before) != _serving(
            after
        ):
            _follow_agent(unit, cast(Agent, before or after).host)
        case _:
            pass


def update_hosts(unit: UnitOfWork, ids: Collection[UUID]) -> None:
    """Set the hosts of the floating IPs *ids*; one that moves is DOWN until its host reports."""
    locked = lock_floating_ips(unit, ids) if ids else []
    routers = _present(unit, Kind.ROUTER, (each.router_id for each in locked))
    ports = _present(unit, Kind.PORT, (each.port_id for each in locked))
    local = [
        each
        for each in locked
        if each.port_id in ports
        and each.router_id in routers
        and cast(Router, routers[each.router_id]).distributed
    ]
    inside = [cast(Port, ports[each.port_id]) for each in local]
    serving = _serving_hosts(unit, {port.binding.host for port in inside})
    addresses: dict[NetworkId, set[IpAddress]] = {}
    for floating, port in zip(local, inside, strict=True):
        if port.binding.host in serving and floating.fixed_address is not None:
            addresses.setdefault(port.network_id, set()).add(floating.fixed_address)
    pairs = _read_pairs(unit, addresses)
    hosts = {
        floating.id: decide_floating_ip_host(
            cast(Router, routers[floating.router_id]), port, floating.fixed_address, serving, pairs
        )
        for floating, port in zip(local, inside, strict=True)
        if floating.fixed_address is not None
    }
    for floating in locked:
        host = hosts.get(floating.id)
        if host != floating.host:
            unit.tx.statuses.delete([ref(floating)])
            unit.update(floating, evolve(floating, host=host, status=Status.DOWN))


def _follow_port(unit: UnitOfWork, before: Port | None, after: Port | None) -> None:
    if before is not None and after is not None and _moved(before, after):
        update_hosts(unit, _find(unit, port_id=[after.id]))
    former, present = _pairs_of(before), _pairs_of(after)
    if former == present:
        return
    (network,) = {each.network_id for each in (before, after) if each is not None}
    _follow_pairs(unit, network, former ^ present)


def _moved(before: Port, after: Port) -> bool:
    """Return whether a port that can have floating IPs is on another host."""
    return before.binding.host != after.binding.host and not is_trusted(after.device_owner)


def _pairs_of(port: Port | None) -> frozenset[IpNetwork]:
    if port is None:
        return frozenset()
    return frozenset(pair.prefix for pair in port.allowed_address_pairs)


def _follow_pairs(unit: UnitOfWork, network: NetworkId, changed: Set[IpNetwork]) -> None:
    """Update the floating IPs on *network* whose addresses are in prefixes that ports got or
    lost."""
    owner = DeviceOwner.ROUTER_INTERFACE_DISTRIBUTED.value
    filters = {"network_id": (str(network),), "device_owner": (owner,)}
    rows = unit.tx.resources.find(Kind.PORT, Query(filters=filters))
    named = {router_of(cast(Port, row.resource())) for row in rows}
    routers = unit.tx.statuses.get_for_update(Kind.ROUTER, (id for id in named if id is not None))
    if not routers:
        return
    wanted = {"router_id": tuple(map(str, routers))}
    if all(prefix.num_addresses == 1 for prefix in changed):
        wanted["fixed_ip_address"] = tuple(str(prefix.network_address) for prefix in changed)
    found = unit.tx.resources.find(Kind.FLOATING_IP, Query(filters=wanted))
    floating = [cast(FloatingIp, row.resource()) for row in found]
    update_hosts(unit, [each.id for each in floating if _is_within(each.fixed_address, changed)])


def _is_within(address: IpAddress | None, prefixes: Set[IpNetwork]) -> bool:
    return address is not None and any(
        address.version == prefix.version and address in prefix for prefix in prefixes
    )


def _follow_agent(unit: UnitOfWork, host: str) -> None:
    query = Query(filters={"binding:host_id": (host,)})
    ports = [row.ref.id for row in unit.tx.resources.find(Kind.PORT, query)]
    update_hosts(unit, [id for part in _parts(ports) for id in _find(unit, port_id=part)])


def _serving(agent: object) -> bool:
    is_l3 = isinstance(agent, Agent) and agent.agent_type == L3_AGENT
    return is_l3 and serves_floating_ips(cast(Agent, agent))


def _serving_hosts(unit: UnitOfWork, hosts: Set[str]) -> Set[str]:
    """Return those of *hosts* whose L3 agents serve floating IPs; the agents are locked, so that a
    concurrent change of their modes waits."""
    wanted = hosts - {""}
    agents = agents_for_share(unit.tx.connection, L3_AGENT, wanted) if wanted else ()
    return {agent.host for agent in agents if serves_floating_ips(agent)}


def _read_pairs(unit: UnitOfWork, addresses: Mapping[NetworkId, Set[IpAddress]]) -> Pairs:
    """Read the allowed address pairs that contain some addresses of networks."""
    return {
        network: pairs_containing(unit.tx.connection, network, wanted)
        for network, wanted in addresses.items()
    }


def _find(unit: UnitOfWork, **filters: Collection[UUID]) -> list[UUID]:
    """Return the floating IPs of routers or ports."""
    query = Query(filters={name: tuple(map(str, ids)) for name, ids in filters.items()})
    return [row.ref.id for row in unit.tx.resources.find(Kind.FLOATING_IP, query)]


def _present(
    unit: UnitOfWork, kind: Kind, ids: Iterable[UUID | None]
) -> Mapping[UUID | None, Resource]:
    refs = {Ref(kind, id) for id in ids if id is not None}
    return {row.ref.id: row.resource() for row in unit.tx.resources.present(refs)} if refs else {}


def _parts(ids: list[UUID]) -> Iterator[list[UUID]]:
    return (ids[at : at + AT_ONCE] for at in range(0, len(ids), AT_ONCE))
