"""Floating IPs of routers: which ones each router should have, and the stages of a change.  Pure.

The address of a floating IP is added after its rules, and removed after them.  The connections of
one that is removed, or gets another port, end as
:mod:`netfw_drivers.linux_router.plan.ended_connections` says.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping

from attrs import evolve, field, frozen

from netfw.drivers.values.keys import FloatingIpKey
from netfw.drivers.values.router_values import FloatingIpNat, RouterDriverKey, RouterDriverValue
from netfw.errors import Conflict, NetfwError
from netfw.linux.ip.operations import AddAddress, DelAddress
from netfw.linux.ip.plan import plan_rules
from netfw.linux.ip.values import Address
from netfw.linux.iptables.chain import Chain, ChainKey
from netfw.linux.iptables.plan import ChainEdit, plan_chains
from netfw.linux.iptables.rule import Family, render_rule
from netfw.linux.service_netns.steps import ChangeNetwork, RestoreTables, Step
from netfw.model.values.address import IpAddress
from netfw.model.values.ids import FloatingIpId
from netfw.plan import Operation, Stage, Update
from netfw_drivers.linux_router.config.settings import RouterSettings
from netfw_drivers.linux_router.distributed.local_routing import FLOATING_PRIORITY, floating_rules
from netfw_drivers.linux_router.distributed.router_parts import nat_part
from netfw_drivers.linux_router.plan.daemons.daemon_steps import RunDaemon
from netfw_drivers.linux_router.plan.daemons.keepalived_plan import plan_virtual_addresses
from netfw_drivers.linux_router.plan.ended_connections import (
    EndedConnections,
    TranslatedAddresses,
    find_ended,
    find_gained,
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
    parse_comment,
    present_float_chains,
    render_float_chains,
)
from netfw_drivers.linux_router.plan.names import CHAIN_OWNER, PartId, part_key
from netfw_drivers.linux_router.plan.observed import FoundRouter, ObservedRouters

RouterUpdate = Update[RouterDriverKey, RouterDriverValue]


@frozen(kw_only=True)
class FloatingIpChanges:
    """The floating IPs that each router of an update should have."""

    desired: Mapping[PartId, Translations] = field(factory=dict)
    concerned: Mapping[PartId, Collection[FloatingIpId]] = field(factory=dict)
    """Those of each router that the update names or removes."""
    refused: Mapping[RouterDriverKey, NetfwError] = field(factory=dict)


def sort_floating_ips(update: RouterUpdate, observed: ObservedRouters) -> FloatingIpChanges:
    """Return the floating IPs of the routers after *update*; those not named stay.

    What does not change keeps its position among the rules; the others follow.
    """
    put = {
        key.floating_ip: value
        for key, value in update.put.items()
        if isinstance(key, FloatingIpKey) and isinstance(value, FloatingIpNat)
    }
    named = {key.floating_ip for key in update if isinstance(key, FloatingIpKey)}
    kept = {key.floating_ip for key in update.keep if isinstance(key, FloatingIpKey)}
    desired: dict[PartId, dict[FloatingIpId, Translation]] = {}
    concerned: dict[PartId, set[FloatingIpId]] = {}
    holders: dict[tuple[PartId, IpAddress], FloatingIpId] = {}
    for router, found in observed.routers.items():
        there, own = found.translations, dict(found.translations)
        concerned[router] = {id for id in named if id in there}
        if update.complete:
            concerned[router] |= there.keys() - kept
        for id in concerned[router]:
            if id not in put or there[id] != _translation(put[id], router):
                del own[id]
        desired[router] = own
    refused: dict[RouterDriverKey, NetfwError] = {}
    for id, nat in put.items():
        part = nat_part(nat)
        own = desired.setdefault(part, {})
        concerned.setdefault(part, set()).add(id)
        address = nat.floating_address
        former = observed.holder(part, address)
        stays = former is not None and former in own and own[former].floating == address
        holder = holders.setdefault((part, address), former if former and stays else id)
        if holder != id:
            text = f"{address} belongs to floating IP {holder} of the same router"
            refused[FloatingIpKey(id)] = Conflict(text)
        else:
            own[id] = Translation(address, nat.fixed_address)
    return FloatingIpChanges(desired=desired, concerned=concerned, refused=refused)


def _translation(nat: FloatingIpNat, router: PartId) -> Translation | None:
    """Return the translation that a router should have of a floating IP, if any."""
    translation = Translation(nat.floating_address, nat.fixed_address)
    return translation if nat_part(nat) == router else None


def plan_floating_ips(
    router: PartId,
    desired: Translations,
    concerned: Collection[FloatingIpId],
    found: FoundRouter,
    settings: RouterSettings,
) -> Iterator[Stage]:
    """Plan the *concerned* floating IPs of a router that is otherwise left as it is."""
    if (device := found.gateway_device) is None:
        return
    former = {id: found.translations[id] for id in concerned if id in found.translations}
    own = {id: desired[id] for id in concerned if id in desired}
    left = tuple(parse_ended(found.mirror.chains))
    before, after = _translated(former, own, left, found)
    there, namespace = frozenset(before.addresses), found.netns.netns
    ended = {*left, *find_ended(before, after)}
    restore = _restore(found, own, concerned, render_ended(router, ended))
    if restore is not None:
        yield _stage(router, restore, _changed(former, own) or own)
    removed = {
        each.address: each.floating_ip
        for each in sorted(ended, key=str)
        if each.floating_ip is not None and each.address in there - after.translated
    }
    added = {each.floating: id for id, each in own.items() if each.floating not in there}
    if found.is_ha:
        yield from _change_virtual_addresses(router, added, removed, found, settings)
        yield from plan_removals(router, namespace, ended)
        return
    for address, id in removed.items():
        remove = DelAddress(_address(device, address))
        yield _stage(router, ChangeNetwork(netns=namespace, operation=remove), [id])
    yield from plan_removals(router, namespace, ended)
    for address, id in added.items():
        add = AddAddress(_address(device, address), replace=True)
        yield _stage(router, ChangeNetwork(netns=namespace, operation=add), [id])


def _translated(
    former: Translations,
    own: Translations,
    left: Iterable[EndedConnections],
    found: FoundRouter,
) -> tuple[TranslatedAddresses, TranslatedAddresses]:
    """Return what is translated before and after a change from *former* to *own*."""
    addresses = {each.floating for each in (*former.values(), *own.values())}
    before = found.translated_among(addresses.union(each.address for each in left))
    stay = {key: held for key, held in before.floating.items() if held[0] not in former}
    floating = stay | by_address(own)
    there = frozenset(before.addresses)
    return before, evolve(before, floating=floating, addresses=there | floating.keys())


def plan_local_floating_ips(
    router: PartId,
    desired: Translations,
    concerned: Collection[FloatingIpId],
    found: FoundRouter,
    prepared: Container[FloatingIpId],
) -> Iterator[Stage]:
    """Plan the *concerned* floating IPs of a local part that is otherwise left as it is.

    Its link to the agent gateway is there if any is desired.  Those that are only *prepared* have
    no route in the agent gateway.
    """
    former = {id: found.translations[id] for id in concerned if id in found.translations}
    own = {id: desired[id] for id in concerned if id in desired}
    left = tuple(parse_ended(found.mirror.chains))
    before, after = _translated(former, own, left, found)
    ended = {*left, *find_ended(before, after), *find_gained(former, own)}
    if found.link is not None:
        yield from found.link.plan_withdrawals(desired, prepared)
    restore = _restore(found, own, concerned, render_ended(router, ended))
    if restore is not None:
        yield _stage(router, restore, _changed(former, own) or own)
    rules = floating_rules(each.fixed for each in desired.values())
    present = [each for each in found.netns.policy_rules if each.priority == FLOATING_PRIORITY]
    for operation in plan_rules(rules, present):
        step = ChangeNetwork(netns=found.netns.netns, operation=operation)
        yield _stage(router, step, own or former)
    yield from plan_removals(router, found.netns.netns, ended)
    if found.link is not None:
        yield from found.link.plan_gateway_end(desired, prepared)


def _change_virtual_addresses(
    router: PartId,
    added: Mapping[IpAddress, FloatingIpId],
    removed: Mapping[IpAddress, FloatingIpId],
    found: FoundRouter,
    settings: RouterSettings,
) -> Iterator[Stage]:
    new, old = map(floating_interface, added), map(floating_interface, removed)
    step = plan_virtual_addresses(router, new, old, found, settings)
    if step is not None:
        yield _stage(router, step, {*added.values(), *removed.values()})


def served_families(found: FoundRouter) -> frozenset[Family]:
    """Return the families for which the router, as it is, has a gateway for floating IPs."""
    if found.link is not None:
        complete = found.link.is_complete and float_chain(DNAT, Family.IPV4) in found.mirror.chains
        return frozenset({Family.IPV4} if complete else ())
    if found.gateway_device is None:
        return frozenset()
    return frozenset(each for each in Family if float_chain(DNAT, each) in found.mirror.chains)


def _restore(
    found: FoundRouter,
    own: Translations,
    concerned: Iterable[FloatingIpId],
    ended: Mapping[ChainKey, Chain],
) -> RestoreTables | None:
    """Plan the rules of *concerned* floating IPs, and the record of ended connections."""
    names = frozenset(map(str, concerned))
    edits: dict[ChainKey, ChainEdit] = {}
    for family, name in present_float_chains(found.mirror.chains):
        for key, chain in render_float_chains([name], family, own).items():
            edit = _edit(key, chain, names, found)
            if edit.added or edit.removed:
                edits[key] = edit
    update = Update(put=ended)
    changes = plan_chains(update, found.mirror, CHAIN_OWNER, found.netns.spelling, edits)
    return RestoreTables(found.netns.netns, CHAIN_OWNER, changes) if changes else None


def _edit(key: ChainKey, chain: Chain, names: Container[str], found: FoundRouter) -> ChainEdit:
    """Make the rules of the floating IPs *names* those of *chain*."""
    have = found.mirror.chains[key]
    there = [line for line in have if parse_comment(line) in names]
    known = found.netns.spelling.get((key.family, key.table), {})
    rules = {render_rule(rule, CHAIN_OWNER): rule for rule in chain.rules}
    wanted = {*rules, *(known[line] for line in rules if line in known)}
    added = (rule for line, rule in rules.items() if {line, known.get(line)}.isdisjoint(there))
    return ChainEdit(tuple(added), tuple(line for line in there if line not in wanted))


def _changed(before: Translations, after: Translations) -> list[FloatingIpId]:
    """Return the floating IPs that are not as they were."""
    return [id for id in {**before, **after} if before.get(id) != after.get(id)]


def _address(device: str, floating: IpAddress) -> Address:
    return Address(
        device=device, interface=floating_interface(floating), nodad=floating.version == 6
    )


def _stage(router: PartId, step: Step | RunDaemon, ids: Iterable[FloatingIpId]) -> Stage:
    keys: list[RouterDriverKey] = [FloatingIpKey(id) for id in ids]
    owners = frozenset(keys or [part_key(router)])
    return Stage((Operation(step.backend, step.text, owners, step),))
