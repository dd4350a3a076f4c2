"""Floating IPs of routers: which ones each router should have, and the stages of a change.  Pure.

The address of a floating IP is added after its rules, and removed after them.  The connections of
one that is removed, or gets another port, end as
:mod:`netfw_drivers.linux_router.plan.ended_connections` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from attrs import evolve, field, frozen

from netfw.drivers.values.keys import FloatingIpKey, RouterKey
from netfw.drivers.values.router_values import FloatingIpNat, RouterDriverKey, RouterDriverValue
from netfw.errors import Conflict, NetfwError
from netfw.linux.ip.operations import AddAddress, DelAddress
from netfw.linux.ip.values import Address
from netfw.linux.iptables.chain import Chain, ChainKey
from netfw.linux.iptables.plan import plan_chains
from netfw.linux.iptables.rule import Family
from netfw.linux.service_netns.steps import ChangeNetwork, RestoreTables, Step
from netfw.model.address import IpAddress
from netfw.model.ids import FloatingIpId, RouterId
from netfw.plan import Operation, Stage, Update
from netfw_drivers.linux_router.plan.ended_connections import (
    find_ended,
    parse_ended,
    plan_removals,
    render_ended,
)
from netfw_drivers.linux_router.plan.floating_ip_rules import (
    DNAT,
    Translation,
    Translations,
    by_address,
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
    holders = {
        (router, each.floating): id for router, own in desired.items() for id, each in own.items()
    }
    for id, nat in put.items():
        own = desired.setdefault(nat.router, {})
        rival = holders.setdefault((nat.router, nat.floating_address), id)
        if rival != id:
            text = f"{nat.floating_address} belongs to floating IP {rival} of the same router"
            refused[FloatingIpKey(id)] = Conflict(text)
        else:
            own[id] = Translation(nat.floating_address, nat.fixed_address)
    return FloatingIpChanges(desired=desired, refused=refused)


def plan_floating_ips(
    router: RouterId, desired: Translations, found: FoundRouter
) -> Iterator[Stage]:
    """Plan the floating IPs of a router that is otherwise left as it is."""
    device = found.gateway_device
    if device is None:
        return
    netns, there = found.netns.netns, found.gateway_addresses
    before, floating = found.translated, by_address(desired)
    after = evolve(before, floating=floating, addresses=there | floating.keys())
    ended = {*parse_ended(found.mirror.chains), *find_ended(before, after)}
    restore = _restore(found, desired, render_ended(router, ended))
    if restore is not None:
        yield _stage(router, restore, _changed(found.translations, desired) or desired)
    for each in sorted(ended, key=str):
        if each.floating_ip is not None and each.address in there - after.translated:
            remove = DelAddress(_address(device, each.address))
            yield _stage(router, ChangeNetwork(netns=netns, operation=remove), [each.floating_ip])
    yield from plan_removals(router, netns, ended)
    for id, translation in desired.items():
        if translation.floating not in there:
            add = AddAddress(_address(device, translation.floating), replace=True)
            yield _stage(router, ChangeNetwork(netns=netns, operation=add), [id])


def served_families(found: FoundRouter) -> frozenset[Family]:
    """Return the families for which the router, as it is, has a gateway for floating IPs."""
    if found.gateway_device is None:
        return frozenset()
    return frozenset(each for each in Family if float_chain(DNAT, each) in found.mirror.chains)


def _restore(
    found: FoundRouter, translations: Translations, ended: Mapping[ChainKey, Chain]
) -> RestoreTables | None:
    """Plan the rules of *translations*, and the record of ended connections."""
    put: dict[ChainKey, Chain] = dict(ended)
    for family, name in present_float_chains(found.mirror.chains):
        put |= render_float_chains([name], family, translations)
    changes = plan_chains(Update(put=put), found.mirror, CHAIN_OWNER, found.netns.spelling)
    return RestoreTables(found.netns.netns, CHAIN_OWNER, changes) if changes else None


def _changed(before: Translations, after: Translations) -> list[FloatingIpId]:
    """Return the floating IPs that are not as they were."""
    return [id for id in {**before, **after} if before.get(id) != after.get(id)]


def _address(device: str, floating: IpAddress) -> Address:
    return Address(
        device=device, interface=floating_interface(floating), nodad=floating.version == 6
    )


def _stage(router: RouterId, step: Step, ids: Iterable[FloatingIpId]) -> Stage:
    keys: list[RouterDriverKey] = [FloatingIpKey(id) for id in ids]
    owners = frozenset(keys or [RouterKey(router)])
    return Stage((Operation(step.backend, step.text, owners, step),))
