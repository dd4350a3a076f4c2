"""The parts of distributed routers as the fake router driver has them: each is a full router."""

from __future__ import annotations

from attrs import evolve, frozen

from netfw.drivers.values.keys import RouterKey
from netfw.drivers.values.router_contribution import RouterContribution
from netfw.drivers.values.router_values import (
    FloatingIpNat,
    FullRouter,
    LocalRouter,
    RouterPart,
    RouterState,
)
from netfw.model.values.ids import RouterId
from netfw.plan import Update


@frozen
class CentralPart:
    """Identity of a central part, in place of the id of a router."""

    router: RouterId

    def __str__(self) -> str:
        return f"snat-{self.router}"


@frozen(kw_only=True)
class LocalState(RouterState):
    """A local part: a full router without a gateway, and the rest of the part."""

    part: LocalRouter


def local_state(state: RouterState) -> LocalState:
    """Return the state of the local part, with the rules that are wanted there."""
    contributions = tuple(
        RouterContribution(owner=each.owner, rules=tuple(r for r in each.rules if r.local))
        for each in state.contributions
    )
    return LocalState(
        contributions=contributions,
        full=FullRouter(interfaces=state.local.interfaces),
        part=state.local,
        routes=state.routes,
        metadata_port=state.metadata_port,
    )


def central_state(state: RouterState) -> RouterState:
    """Return the state of the central part."""
    central = state.central
    ports = tuple(evolve(port, subnets=()) for port in central.ports)
    full = FullRouter(interfaces=ports, gateway=central.gateway, ha=central.ha)
    return evolve(state, full=full, local=None, central=None, metadata_port=None)


def part_entries(key, value) -> dict:
    """Return the entries of the parts of a router, and a floating IP with its part as router."""
    if isinstance(value, FloatingIpNat) and value.part is RouterPart.CENTRAL:
        return {key: evolve(value, router=CentralPart(value.router))}
    if not isinstance(value, RouterState) or value.full is not None:
        return {key: value}
    entries = {}
    if value.local is not None:
        entries[key] = local_state(value)
    if value.central is not None:
        entries[RouterKey(CentralPart(key.router))] = central_state(value)
    return entries


def part_update(update: Update, routers) -> Update:
    """Return *update* with parts in place of routers; *routers* are the parts of the host."""
    put = {k: v for key, value in update.put.items() for k, v in part_entries(key, value).items()}
    lost = (
        {part_key for part_key in part_keys(key) if part_key.router in routers} - put.keys()
        for key, value in update.put.items()
        if isinstance(key, RouterKey) and isinstance(value, RouterState)
    )
    return Update(
        put=put,
        drop=frozenset().union(*map(part_keys, update.drop), *lost),
        keep=frozenset().union(*map(part_keys, update.keep)),
        complete=update.complete,
    )


def part_keys(key) -> frozenset:
    """Return the keys of the parts that a router can have; others are their own."""
    if isinstance(key, RouterKey):
        return frozenset({key, RouterKey(CentralPart(key.router))})
    return frozenset({key})


def public_key(key):
    """Return the key of the router of a part."""
    if isinstance(key, RouterKey) and isinstance(key.router, CentralPart):
        return RouterKey(key.router.router)
    return key


def public_router(router):
    """Return the id of the router of a part."""
    return router.router if isinstance(router, CentralPart) else router


def part_of(router) -> RouterPart:
    """Return which part of a distributed router this is."""
    return RouterPart.CENTRAL if isinstance(router, CentralPart) else RouterPart.LOCAL
