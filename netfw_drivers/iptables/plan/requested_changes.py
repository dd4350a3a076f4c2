"""Requested changes of an update, in chains, frame rules and elements of ipset.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from functools import partial

from attrs import frozen

from netfw.drivers.firewall import FilteredPort, FirewallKey, FirewallValue, Member
from netfw.linux.bridge_firewall import requested_changes
from netfw.linux.bridge_firewall.remote_groups import Remote, remote_of
from netfw.linux.bridge_firewall.requested_changes import Rendering
from netfw.linux.bridge_firewall.values import BridgePorts, PortLocation
from netfw.linux.ebtables.chains import FrameChain
from netfw.linux.ipset.plan import KernelSet
from netfw.linux.ipset.values import SetKind, elements, full_name
from netfw.model.values.address import Mac
from netfw.model.values.ids import PortId
from netfw.plan import Update
from netfw_drivers.iptables.plan.group_chains import Chains, group_chains
from netfw_drivers.iptables.plan.names import OWNER, read_set_name, set_name
from netfw_drivers.iptables.plan.port_chains import frames_chain, port_chains
from netfw_drivers.iptables.plan.ruleset_index import IptablesRulesetIndex


@frozen(kw_only=True)
class PortRules:
    """Chains and frame rules of a port."""

    packets: Chains
    frames: FrameChain


RequestedChanges = requested_changes.RequestedChanges[PortRules, Chains, str]


def classify_update(
    update: Update[FirewallKey, FirewallValue],
    index: IptablesRulesetIndex,
    sets: Mapping[str, KernelSet],
    bridge_ports: BridgePorts,
) -> RequestedChanges:
    """Sort and validate *update*."""
    rendering = Rendering(
        port=_port_rules, group=partial(group_chains, owner=bridge_ports.owner), elements=_words
    )
    present = partial(_present_members, index, sets)
    return requested_changes.classify_update(update, index, bridge_ports, rendering, present)


def _port_rules(id: PortId, port: FilteredPort, location: PortLocation) -> PortRules:
    return PortRules(packets=port_chains(id, port, location), frames=frames_chain(port))


def _words(member: Member) -> list[str]:
    """Return the elements of a member in ipset.

    :raises InvalidInput: ipset cannot have the member.
    """
    full_name(OWNER, set_name(*remote_of(member)))
    return list(elements(SetKind(family=member.prefix.version), [member.prefix]))


def _present_members(
    index: IptablesRulesetIndex, sets: Mapping[str, KernelSet]
) -> Iterator[tuple[Remote, Set[str], Set[Mac]]]:
    for name, present in sets.items():
        if (remote := read_set_name(name)) is not None:
            yield remote, present.elements, frozenset()
    for with_macs, macs in index.macs.items():
        yield with_macs, frozenset(), macs
