"""Requested changes of an update, in chains and prefixes of sets.  Pure."""

from __future__ import annotations

from netfw.drivers.firewall import FirewallKey, FirewallValue, Member
from netfw.linux.bridge_firewall import requested_changes
from netfw.linux.bridge_firewall.requested_changes import Rendering
from netfw.linux.bridge_firewall.values import BridgePorts
from netfw.linux.nftables.values import NftChain
from netfw.model.values.address import IpNetwork
from netfw.plan import Update
from netfw_drivers.nftables.plan.group_chains import group_chains
from netfw_drivers.nftables.plan.port_chains import port_chains
from netfw_drivers.nftables.plan.ruleset_index import NftRulesetIndex

RequestedChanges = requested_changes.RequestedChanges[
    dict[str, NftChain], dict[str, NftChain], IpNetwork
]
MemberChange = requested_changes.MemberChange[IpNetwork]


def classify_update(
    update: Update[FirewallKey, FirewallValue], index: NftRulesetIndex, bridge_ports: BridgePorts
) -> RequestedChanges:
    """Sort and validate *update*."""
    rendering = Rendering(port=port_chains, group=group_chains, elements=_prefixes)
    return requested_changes.classify_update(
        update, index, bridge_ports, rendering, index.elements_by_remote
    )


def _prefixes(member: Member) -> tuple[IpNetwork]:
    return (member.prefix,)
