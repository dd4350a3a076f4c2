"""Reference model: which packets pass, written from docs/spec/firewall.md alone.

Drivers are compared with it, so it shares no code with any of them.  Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv6Address

from netfw.drivers.firewall import FilteredPort, FirewallKey, FirewallValue, Member, Rules
from netfw.drivers.values.keys import AddressGroupKey, GroupKey, PortKey
from netfw.model.security_group import Direction, SecurityGroupRule
from netfw.model.values.address import IpNetwork
from netfw.model.values.protocol import ICMPV6, PORTED, UDP
from netfw.testing.conformance.firewall.packets import Arp, Packet, Sent

Policy = Mapping[FirewallKey, FirewallValue]
_CLIENT, _SERVER = {(68, 67), (546, 547)}, {(67, 68), (547, 546)}
_SENT, _RECEIVED = {131, 132, 133, 135, 143}, {130, 131, 132, 134, 135, 136, 143}
_SOLICITED, _ADVERTISED, _ROUTER = 135, 136, 134
_CLIENT_PORT = {4: 68, 6: 546}


def passes(
    policy: Policy, sent: Sent, sender: PortKey, receiver: PortKey, opened: Packet | None = None
) -> bool:
    """Return whether *sent* gets from one port to another; *opened* is what it replies to."""
    there, here = _filtered(policy, sender), _filtered(policy, receiver)
    leaves = there is None or _may_leave(policy, there, sent, opened)
    return leaves and (here is None or _may_enter(policy, here, sent, opened))


def _filtered(policy: Policy, key: PortKey) -> FilteredPort | None:
    port = policy.get(key)
    return port if isinstance(port, FilteredPort) and not port.trusted else None


def _may_leave(policy: Policy, port: FilteredPort, sent: Sent, opened: Packet | None) -> bool:
    own = [source.prefix for source in port.sources if source.mac == sent.source_mac]
    known = sent.source_mac in {port.mac, *(source.mac for source in port.sources)}
    if not isinstance(sent, Packet):
        return isinstance(sent, Arp) and known and _is_honest(sent, own)
    nd, dhcp = _kind(sent), _dhcp(sent)
    if _is_server(sent) or sent.vlan is not None or not _may_claim(sent, own):
        return False
    if int(sent.source) == 0:  # it has no address yet
        return known and (dhcp in _CLIENT or nd in _SENT)
    if not any(sent.source in prefix for prefix in own):
        return False
    free = dhcp in _CLIENT or nd in _SENT or nd == _ADVERTISED
    return free or _allowed(policy, port, _OUT, sent, opened)


def _is_server(packet: Packet) -> bool:
    to_client = packet.protocol == UDP and packet.target_port == _CLIENT_PORT[packet.version]
    return to_client or _kind(packet) == _ROUTER


def _may_claim(packet: Packet, own: list[IpNetwork]) -> bool:
    """Return whether neighbour discovery claims nothing, or an address of the sender's own."""
    probes = _kind(packet) == _SOLICITED and int(packet.source) == 0
    if not probes and _kind(packet) != _ADVERTISED:
        return True
    return any((packet.claims or IPv6Address(0)) in prefix for prefix in own)


def _is_honest(arp: Arp, own: list[IpNetwork]) -> bool:
    about = arp.sender if int(arp.sender) else arp.target  # without a sender it is a probe
    about_itself = arp.sender_mac in (None, arp.source_mac)
    return about_itself and any(about in prefix for prefix in own)


def _may_enter(policy: Policy, port: FilteredPort, sent: Sent, opened: Packet | None) -> bool:
    if not isinstance(sent, Packet):
        return isinstance(sent, Arp)
    always = _dhcp(sent) in _SERVER or _kind(sent) in _RECEIVED
    return always or _allowed(policy, port, _IN, sent, opened)


def _kind(packet: Packet) -> int | None:
    return packet.icmp[0] if packet.protocol == ICMPV6 and packet.version == 6 else None


def _dhcp(packet: Packet) -> tuple[int, int] | None:
    return (packet.source_port, packet.target_port) if packet.protocol == UDP else None


_IN, _OUT = Direction.INGRESS, Direction.EGRESS


def _allowed(
    policy: Policy, port: FilteredPort, way: Direction, packet: Packet, opened: Packet | None
) -> bool:
    """Match the opening packet of the connection or, in a stateless group, the packet itself."""
    for id in port.groups:
        group = policy.get(GroupKey(id), Rules())
        assert isinstance(group, Rules)
        if opened is not None and group.stateful:
            matched, direction = opened, _IN if way is _OUT else _OUT
        else:
            matched, direction = packet, way
        if any(_matches(policy, rule, direction, matched) for rule in group.rules):
            return True
    return False


def _matches(policy: Policy, rule: SecurityGroupRule, way: Direction, packet: Packet) -> bool:
    mac, remote = packet.target_mac, packet.target
    if way is _IN:
        mac, remote = packet.source_mac, packet.source
    ported = packet.protocol in PORTED and rule.ports is not None
    limits = (rule.icmp_type, rule.icmp_code) if packet.is_icmp else (None, None)
    return (
        rule.direction is way
        and rule.ethertype.ip_version == packet.version
        and rule.ip_protocol in (None, packet.protocol)
        and not (ported and rule.ports is not None and packet.target_port not in rule.ports)
        and all(want in (None, has) for want, has in zip(limits, packet.icmp, strict=True))
        and (rule.remote_prefix is None or remote in rule.remote_prefix)
        and _is_member(policy, rule, remote, mac)
    )


def _is_member(policy: Policy, rule: SecurityGroupRule, remote: object, mac: str) -> bool:
    group: GroupKey | AddressGroupKey
    if rule.remote_group_id is not None:
        group = GroupKey(rule.remote_group_id)
    elif rule.remote_address_group_id is not None:
        group = AddressGroupKey(rule.remote_address_group_id)
    else:
        return True
    members = [m for m in policy.values() if isinstance(m, Member) and m.group == group]
    return any(remote in m.prefix and m.mac in (None, mac) for m in members)
