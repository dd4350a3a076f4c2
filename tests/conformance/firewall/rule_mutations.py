"""Mutations of the fake firewall: rules, connections and packets that no rule is about."""

from attrs import evolve

from netfw.drivers.firewall import FilteredPort, FirewallCapability, FirewallDriver, Member, Rules
from netfw.drivers.values.keys import GroupKey
from netfw.errors import PartlyInvalid
from netfw.model.values.protocol import ICMPV6, PORTED, UDP, UDPLITE
from netfw.testing.conformance.firewall.packets import Arp, Other, Packet
from tests.conformance.common.mutations import Mutations, breaks
from tests.conformance.firewall.fake_firewall import FakeFirewallDriver

MUTATIONS = Mutations()


NEIGHBOURS = {130, 131, 132, 133, 134, 135, 136, 143}


@MUTATIONS.override("rewrite_rule", breaks(FirewallDriver, 1))
def end_port_range_early(_, rule):
    """Leave the last port of a range out."""
    if rule.ports is None or rule.port_min == rule.port_max:
        return [rule]
    return [evolve(rule, port_max=rule.port_max - 1)]


@MUTATIONS.override("rewrite_rule", breaks(FirewallDriver, 1))
def round_port_range_to_mask(_, rule):
    """Widen a range to what one mask can express."""
    if rule.ports is None:
        return [rule]
    span = 1
    while rule.port_min // span != rule.port_max // span:
        span *= 2
    low = rule.port_min // span * span
    return [evolve(rule, port_min=max(low, 1), port_max=low + span - 1)]


@MUTATIONS.override("rewrite_rule", breaks(FirewallDriver, 1))
def ignore_ethertype(_, rule):
    """Apply a rule to both address families."""
    if rule.protocol == ICMPV6 or rule.remote_prefix is not None:
        return [rule]
    return [evolve(rule, ethertype=family) for family in type(rule.ethertype)]


@MUTATIONS.override("rewrite_rule", breaks(FirewallDriver, 1))
def ignore_direction(_, rule):
    """Apply a rule to both directions."""
    return [evolve(rule, direction=direction) for direction in type(rule.direction)]


@MUTATIONS.override("rewrite_rule", breaks(FirewallDriver, 1))
def ignore_icmp_type(_, rule):
    """Apply an ICMP rule to all types."""
    plain = rule.ip_protocol not in PORTED
    return [evolve(rule, port_min=None, port_max=None)] if plain else [rule]


@MUTATIONS.override("rewrite_rule", breaks(FirewallDriver, 1))
def ignore_unnamed_protocol(_, rule):
    """Take a protocol number without a name for any protocol."""
    known = rule.protocol in (None, 1, 6, 17, 58, 132)
    return [rule] if known else [evolve(rule, protocol=None)]


@MUTATIONS.override("rewrite_rule", breaks(FirewallDriver, 1))
def match_icmp_literally_in_ipv6(_, rule):
    """Take ICMP in an IPv6 rule for protocol 1."""
    odd = rule.protocol == 1 and rule.ip_protocol != 1
    return [] if odd else [rule]


@MUTATIONS.override("rewrite_rule", breaks(FirewallDriver, 1))
def ignore_remote_prefix(_, rule):
    """Ignore the remote prefix of a rule."""
    return [evolve(rule, remote_prefix=None)]


@MUTATIONS.override("rewrite_rule", breaks(FirewallDriver, 1, 3))
def ignore_remote_group(_, rule):
    """Ignore the remote group of a rule."""
    return [evolve(rule, remote_group_id=None)]


@MUTATIONS.override("rewrite_rule", breaks(FirewallDriver, 1))
def drop_address_group_rules(_, rule):
    """Drop the rules that refer to an address group."""
    return [] if rule.remote_address_group_id is not None else [rule]


@MUTATIONS.override("in_force", breaks(FirewallDriver, 1))
def apply_all_groups_to_each_port(cls, _, policy):
    """Give each port the rules of all groups."""
    groups = frozenset(key.group for key in policy if isinstance(key, GroupKey))
    return {
        key: evolve(v, groups=groups) if isinstance(v, FilteredPort) and v.groups else v
        for key, v in policy.items()
    }


@MUTATIONS.override("in_force", breaks(FirewallDriver, 1))
def merge_group_members(cls, _, policy):
    """Make the members of one group members of all."""
    groups = {m.group for m in policy if isinstance(m, Member)}
    members = {evolve(m, group=group) for m in policy if isinstance(m, Member) for group in groups}
    return {**policy, **dict(zip(members, members, strict=True))}


@MUTATIONS.override("in_force", breaks(FirewallDriver, 1))
def ignore_member_mac(cls, _, policy):
    """Ignore the MAC of a member."""
    return {key: evolve(v, mac=None) if isinstance(v, Member) else v for key, v in policy.items()}


@MUTATIONS.override("in_force", breaks(FirewallDriver, 1))
def trust_port_without_groups(cls, _, policy):
    """Trust a port that is in no group."""
    return {
        key: evolve(v, trusted=True) if isinstance(v, FilteredPort) and not v.groups else v
        for key, v in policy.items()
    }


@MUTATIONS.override("in_force", breaks(FirewallDriver, 1))
def trust_port_awaiting_rules(cls, _, policy):
    """Trust a port whose group has no rules yet."""
    return {
        key: evolve(v, trusted=True)
        if isinstance(v, FilteredPort) and any(GroupKey(g) not in policy for g in v.groups)
        else v
        for key, v in policy.items()
    }


@MUTATIONS.override("passes", breaks(FirewallDriver, 1))
def ignore_connection_state(cls, original, policy, way, opened):
    """Require rules for replies."""
    return original(policy, way, None)


@MUTATIONS.override("in_force", breaks(FirewallDriver, 1))
def make_stateless_groups_stateful(cls, _, policy):
    """Track connections of stateless groups."""
    return {
        key: evolve(v, stateful=True) if isinstance(v, Rules) else v for key, v in policy.items()
    }


@MUTATIONS.override("fixed_decision", breaks(FirewallDriver, 1))
def pass_all_fragments(cls, _, sent, opened):
    """Let every fragmented packet pass."""
    return True if isinstance(sent, Packet) and sent.pieces > 1 else None


@MUTATIONS.override("fixed_decision", breaks(FirewallDriver, 1))
def drop_all_fragments(cls, _, sent, opened):
    """Drop every fragmented packet."""
    return False if isinstance(sent, Packet) and sent.pieces > 1 else None


@MUTATIONS.override("fixed_decision", breaks(FirewallDriver, 1))
def drop_icmp_errors(cls, _, sent, opened):
    """Drop ICMP errors of allowed connections."""
    return False if isinstance(sent, Packet) and sent.about is not None else None


@MUTATIONS.override("fixed_decision", breaks(FirewallDriver, 1))
def pass_all_icmp_errors(cls, _, sent, opened):
    """Let every ICMP error pass."""
    return True if isinstance(sent, Packet) and sent.about is not None else None


@MUTATIONS.override("fixed_decision", breaks(FirewallDriver, 1))
def pass_multicast_udp(cls, _, sent, opened):
    """Let multicast UDP pass."""
    many = isinstance(sent, Packet) and int(sent.target_mac[:2], 16) & 1
    return True if many and sent.protocol == UDP and sent.target_port > 999 else None


@MUTATIONS.override("fixed_decision", breaks(FirewallDriver, 1))
def pass_other_ethertypes(cls, _, sent, opened):
    """Let tagged frames and frames that are neither ARP nor IP pass."""
    return True if isinstance(sent, Other) or getattr(sent, "vlan", None) is not None else None


@MUTATIONS.override("fixed_decision", breaks(FirewallDriver, 1))
def pass_dhcp_server_replies(cls, _, sent, opened):
    """Let every port send replies of a DHCP server."""
    udp = isinstance(sent, Packet) and sent.protocol == UDP
    return True if udp and sent.source_port in (67, 547) and sent.target_port != 67 else None


@MUTATIONS.override("fixed_decision", breaks(FirewallDriver, 1))
def match_dhcp_servers_by_source_port(cls, _, sent, opened):
    """Drop replies of a DHCP server only if they come from its port."""
    udp = isinstance(sent, Packet) and sent.protocol == UDP and sent.target_port in (68, 546)
    return True if udp and sent.source_port not in (67, 547) else None


@MUTATIONS.override("fixed_decision", breaks(FirewallDriver, 1))
def pass_router_advertisements(cls, _, sent, opened):
    """Let every port send router advertisements."""
    icmp = isinstance(sent, Packet) and sent.protocol == ICMPV6
    return True if icmp and sent.icmp[0] == 134 else None


@MUTATIONS.override("fixed_decision", breaks(FirewallDriver, 1))
def drop_dhcp_client_requests(cls, _, sent, opened):
    """Drop the requests of DHCP clients."""
    udp = isinstance(sent, Packet) and sent.protocol == UDP
    return False if udp and sent.source_port in (68, 546) else None


@MUTATIONS.override("fixed_decision", breaks(FirewallDriver, 1))
def drop_neighbour_discovery(cls, _, sent, opened):
    """Drop neighbour discovery and multicast listener messages."""
    icmp = isinstance(sent, Packet) and sent.protocol == ICMPV6
    return False if icmp and sent.icmp[0] in NEIGHBOURS else None


@MUTATIONS.override("is_invalid", breaks(FirewallDriver, 1))
def accept_invalid_packets(cls, _, backend, packet, here, opened):
    """Accept packets that no connection can have."""
    return False


@MUTATIONS.override("decide", breaks(FirewallDriver, 1))
def track_denied_packets(cls, original, backend, delivery):
    """Open the way back for a packet that was denied."""
    sent = delivery.sent
    if isinstance(sent, Packet) and cls.passes(
        {k: v for k, v in backend.policy.items() if k != delivery.receiver.key}, delivery, None
    ):
        backend.connections.setdefault(cls.connection(delivery, sent), sent)
    return original(backend, delivery)


@track_denied_packets.also("passes")
def _(cls, original, policy, way, opened):
    if opened is None or way.sent.__class__ is not Packet:
        return original(policy, way, opened)
    first = {k: v for k, v in policy.items() if k != way.sender.key}
    return original(first, way, opened)


@MUTATIONS.override("passes", breaks(FirewallDriver, 1))
def match_source_port_too(cls, original, policy, way, opened):
    """Match a port range against the source port as well."""
    if original(policy, way, opened):
        return True
    if not isinstance(way.sent, Packet):
        return False
    swapped = evolve(way.sent, target_port=way.sent.source_port)
    return original(policy, evolve(way, sent=swapped), opened)


@MUTATIONS.override("in_force", breaks(FirewallDriver, 1))
def trust_empty_groups(cls, _, policy):
    """Trust a port whose groups have no rules."""
    empty = {k.group for k, v in policy.items() if isinstance(v, Rules) and not v.rules}
    return {
        key: evolve(v, trusted=v.trusted or (v.groups and v.groups <= empty))
        if isinstance(v, FilteredPort)
        else v
        for key, v in policy.items()
    }


@MUTATIONS.override("passes", breaks(FirewallDriver, 2))
def drop_arp_to_filtered_ports(cls, original, policy, way, opened):
    """Drop ARP for filtered ports."""
    port = policy.get(way.receiver.key)
    filtered = isinstance(port, FilteredPort) and not port.trusted
    if filtered and isinstance(way.sent, Arp):
        return False
    return original(policy, way, opened)


@MUTATIONS.override("refusals", breaks(FirewallDriver, 10))
def freeze_group_with_unenforceable_rule(driver, original, update):
    """Refuse a whole group for one rule."""
    groups = {key: value for key, value in update.put.items() if isinstance(value, Rules)}
    found = {key: driver.enforced(group)[1] for key, group in groups.items()}
    frozen = {key: PartlyInvalid(left_out) for key, left_out in found.items() if left_out}
    return {**frozen, **original(update)}


@MUTATIONS.override("enforced", breaks(FirewallDriver, 10))
def widen_unenforceable_rule(driver, original, group):
    """Apply a rule without the ports that cannot be matched."""
    supported, left_out = original(group)
    wide = {evolve(rule, port_min=None, port_max=None) for rule in group.rules - supported.rules}
    return evolve(supported, rules=supported.rules | wide), left_out


@MUTATIONS.override("enforced", breaks(FirewallDriver, 10))
def leave_rules_out_without_a_name(driver, original, group):
    """Report a rule that is left out, and not which."""
    supported, left_out = original(group)
    return supported, dict.fromkeys(["a rule"] if left_out else [], "left out")


@MUTATIONS.override("enforced", breaks(FirewallDriver, 10))
def leave_rules_out_silently(driver, original, group):
    """Report a group as done that lacks a rule."""
    return original(group)[0], {}


@MUTATIONS.override("enforced", breaks(FirewallDriver, 10))
def empty_group_with_unenforceable_rule(driver, original, group):
    """Leave out all rules of a group for one."""
    supported, left_out = original(group)
    return (evolve(group, rules=frozenset()) if left_out else supported), left_out


@MUTATIONS.override("rewrite_rule", breaks(FirewallDriver, 1, 10))
def ignore_declared_ports_of_udplite(_, rule):
    """Apply a rule with ports of UDP-Lite to all of them."""
    known = rule.protocol != UDPLITE
    return [rule] if known else [evolve(rule, port_min=None, port_max=None)]


MUTATIONS.replace(
    "accept_undeclared_stateless_group",
    breaks(FirewallDriver, 9),
    CAPABILITIES=FakeFirewallDriver.CAPABILITIES - {FirewallCapability.STATELESS_GROUPS},
)
