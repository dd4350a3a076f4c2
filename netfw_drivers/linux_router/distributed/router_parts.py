"""The parts of a router on this host, each with the state that its namespace follows from.  Pure.

A central part is a full router between the ports of that part and the gateway, without metadata and
advertisements.  Contributions of extensions belong to the part with the gateway; a local part has
the limits of floating IPs and the local rules, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import evolve

from netfw.drivers.values.keys import RouterKey
from netfw.drivers.values.router_contribution import RouterContribution
from netfw.drivers.values.router_values import (
    CentralRouter,
    FloatingIpNat,
    FullRouter,
    RouterDriverKey,
    RouterDriverValue,
    RouterPart,
    RouterState,
)
from netfw.model.values.ids import PortId, RouterId
from netfw.plan import Update
from netfw_drivers.linux_router.plan.names import CentralPart, PartId


def part_states(router: RouterId, state: RouterState) -> dict[PartId, RouterState]:
    """Return the parts of a router; each state is full, or that of a local part alone."""
    if state.full is not None:
        return {router: state}
    states: dict[PartId, RouterState] = {}
    if state.local is not None:
        own = tuple(_local_contributions(state.contributions))
        states[router] = evolve(state, central=None, contributions=own)
    if state.central is not None:
        full = _as_full(state.central)
        states[CentralPart(router)] = evolve(
            state, full=full, local=None, central=None, metadata_port=None
        )
    return states


def _local_contributions(
    contributions: Iterable[RouterContribution],
) -> Iterator[RouterContribution]:
    """Yield the local rules, and the limits of floating IPs, which may be at a local part."""
    for each in contributions:
        limits = tuple(qos for qos in each.qos if qos.fixed_address is not None and qos.rules)
        rules = tuple(rule for rule in each.rules if rule.local)
        if limits or rules:
            yield RouterContribution(owner=each.owner, rules=rules, qos=limits)


def parts_in(
    key: RouterKey, update: Update[RouterDriverKey, RouterDriverValue]
) -> dict[PartId, RouterState]:
    """Return the parts that a router has by *update*; none if it is dropped."""
    state = update.put.get(key)
    return part_states(key.router, state) if isinstance(state, RouterState) else {}


def nat_part(nat: FloatingIpNat) -> PartId:
    """Return the part that translates a floating IP."""
    return CentralPart(nat.router) if nat.part is RouterPart.CENTRAL else nat.router


def ports_of(state: RouterState | None) -> frozenset[PortId]:
    """Return the ports of one part; none if its state is not known."""
    if state is not None and state.local is not None:
        return frozenset(port.id for port in state.local.interfaces)
    full = None if state is None else state.full
    if full is None:
        return frozenset()
    gateway = () if full.gateway is None else (full.gateway.port,)
    ha = () if full.ha is None else (full.ha.port,)
    return frozenset(port.id for port in (*full.interfaces, *gateway, *ha))


def _as_full(central: CentralRouter) -> FullRouter:
    interfaces = tuple(evolve(port, subnets=()) for port in central.ports)
    return FullRouter(interfaces=interfaces, gateway=central.gateway, ha=central.ha)
