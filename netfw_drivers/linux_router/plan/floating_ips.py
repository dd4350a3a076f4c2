"""Floating IPs of routers: which ones each router should have, and the stages of a change.  Pure.

The connections of a floating IP that gets another port end in three stages: its rules are removed,
then its connections, then the new rules are added.  Whatever stage is the last before a crash, its
address is on the gateway without rules, by which the next plan knows that connections may be left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from attrs import evolve, field, frozen

from netfw.drivers.keys import FloatingIpKey, RouterKey
from netfw.drivers.router_values import FloatingIpNat, RouterDriverKey, RouterDriverValue
from netfw.errors import Conflict, NetfwError
from netfw.linux.ip.operations import AddAddress, DelAddress
from netfw.linux.ip.values import Address
from netfw.linux.iptables.chain import Chain, ChainKey
from netfw.linux.iptables.mirror import Mirror
from netfw.linux.iptables.plan import plan_chains
from netfw.linux.service_netns.steps import ChangeNetwork, RemoveConnections, RestoreTables, Step
from netfw.model.address import IpAddress
from netfw.model.ids import FloatingIpId, RouterId
from netfw.plan import Operation, Stage, Update
from netfw_drivers.linux_router.plan.floating_ip_rules import (
    DNAT,
    Translation,
    Translations,
    float_chain,
    floating_interface,
    present_float_chains,
    render_float_chains,
)
from netfw_drivers.linux_router.plan.names import CHAIN_OWNER
from netfw_drivers.linux_router.plan.observed import FoundRouter, ObservedRouters

RouterUpdate = Update[RouterDriverKey, RouterDriverValue]


@frozen(kw_only=True)
class FloatingIpChanges:
    """The floating IPs that each router of an update should have."""

    desired: Mapping[RouterId, Translations] = field(factory=dict)
    refused: Mapping[RouterDriverKey, NetfwError] = field(factory=dict)


def sort_floating_ips(update: RouterUpdate, observed: ObservedRouters) -> FloatingIpChanges:
    """Return the floating IPs of the routers after *update*; those not named stay."""
    put = {
        key.floating_ip: value
        for key, value in update.put.items()
        if isinstance(key, FloatingIpKey) and isinstance(value, FloatingIpNat)
    }
    named = {key.floating_ip for key in update if isinstance(key, FloatingIpKey)}
    kept = {key.floating_ip for key in update.keep if isinstance(key, FloatingIpKey)}
    desired: dict[RouterId, dict[FloatingIpId, Translation]] = {}
    for router, found in observed.routers.items():
        desired[router] = {
            id: each
            for id, each in found.translations.items()
            if id not in named and (not update.complete or id in kept)
        }
    refused: dict[RouterDriverKey, NetfwError] = {}
    for id, nat in put.items():
        own = desired.setdefault(nat.router, {})
        rivals = [each for each, has in own.items() if has.floating == nat.floating_address]
        if rivals:
            text = f"{nat.floating_address} belongs to floating IP {rivals[0]} of the same router"
            refused[FloatingIpKey(id)] = Conflict(text)
        else:
            own[id] = Translation(nat.floating_address, nat.fixed_address)
    return FloatingIpChanges(desired=desired, refused=refused)


def plan_ended_connections(
    router: RouterId, desired: Translations, found: FoundRouter
) -> tuple[tuple[Stage, ...], FoundRouter]:
    """Plan the end of the connections of floating IPs that get another port.

    Return the stages, and the router as it is after them.
    """
    wanted = {each.floating: each.fixed for each in desired.values()}
    moved = {
        id: each
        for id, each in found.translations.items()
        if wanted.get(each.floating, each.fixed) != each.fixed
    }
    translated = {each.floating for each in found.translations.values()}
    left = wanted.keys() & _gateway_addresses(found) - translated
    bare = {id: each for id, each in desired.items() if each.floating in left}
    if not moved and not bare:
        return (), found
    stages: list[Stage] = []
    if moved:
        stay = {id: each for id, each in found.translations.items() if id not in moved}
        restore, mirror = _restore(found, stay)
        stages += [_stage(router, restore, moved)] if restore is not None else []
        found = evolve(found, netns=evolve(found.netns, rules=mirror))
    ended = dict.fromkeys(each.floating for each in (*moved.values(), *bare.values()))
    stages += [
        _stage(router, RemoveConnections(found.netns.netns, address), {**moved, **bare})
        for address in ended
    ]
    return tuple(stages), found


def plan_floating_ips(
    router: RouterId, desired: Translations, found: FoundRouter
) -> Iterator[Stage]:
    """Plan the floating IPs of a router that is otherwise left as it is.

    An address is removed before its rules, and added after them.
    """
    device = found.gateway_device
    if device is None:
        return
    netns, there = found.netns.netns, _gateway_addresses(found)
    wanted = {each.floating for each in desired.values()}
    gone = {id: each for id, each in found.translations.items() if each.floating not in wanted}
    for id, each in gone.items():
        if each.floating in there:
            remove = DelAddress(_address(device, each.floating))
            change = ChangeNetwork(netns=netns, operation=remove, forget=each.floating)
            yield _stage(router, change, [id])
    restore, _ = _restore(found, desired)
    if restore is not None:
        changed = found.translations.keys() ^ desired.keys()
        yield _stage(router, restore, changed or desired)
    for id, each in gone.items():
        yield _stage(router, RemoveConnections(netns, each.floating), [id])
    for id, each in desired.items():
        if each.floating not in there:
            add = AddAddress(_address(device, each.floating), replace=True)
            yield _stage(router, ChangeNetwork(netns=netns, operation=add), [id])


def is_served(translation: Translation, found: FoundRouter) -> bool:
    """Return whether the router, as it is, has a gateway for *translation*."""
    has_gateway = found.gateway_device is not None
    return has_gateway and float_chain(DNAT, translation.family) in found.mirror.chains


def _restore(found: FoundRouter, translations: Translations) -> tuple[RestoreTables | None, Mirror]:
    """Plan the rules of *translations*; return the step, and the mirror after it."""
    put: dict[ChainKey, Chain] = {}
    for family, name in present_float_chains(found.mirror.chains):
        put |= render_float_chains([name], family, translations)
    changes = plan_chains(Update(put=put), found.mirror, CHAIN_OWNER, found.netns.spelling)
    mirror = found.mirror.copy()
    for change in changes:
        mirror.record(change.operations)
    step = RestoreTables(found.netns.netns, CHAIN_OWNER, changes) if changes else None
    return step, mirror


def _gateway_addresses(found: FoundRouter) -> frozenset[IpAddress]:
    device = found.gateway_device
    return frozenset(
        entry.address.interface.ip
        for entry in found.netns.addresses
        if entry.address.device == device
    )


def _address(device: str, floating: IpAddress) -> Address:
    return Address(
        device=device, interface=floating_interface(floating), nodad=floating.version == 6
    )


def _stage(router: RouterId, step: Step, ids: Iterable[FloatingIpId]) -> Stage:
    keys: list[RouterDriverKey] = [FloatingIpKey(id) for id in ids]
    owners = frozenset(keys or [RouterKey(router)])
    return Stage((Operation(step.backend, step.text, owners, step),))
