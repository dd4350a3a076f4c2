"""Mutations of the fake firewall: which sources a port may send from."""

from ipaddress import IPv4Network, IPv6Network

from attrs import evolve

from netfw.drivers.firewall import FilteredPort, FirewallDriver, Rules
from netfw.drivers.values.allowed_source import AllowedSource
from netfw.drivers.values.keys import GroupKey
from netfw.testing.conformance.firewall.packets import Arp, Packet
from tests.conformance.common.mutations import Mutations, breaks

MUTATIONS = Mutations()


ALL = IPv4Network("0.0.0.0/0"), IPv6Network("::/0")


@MUTATIONS.override("allowed_sources", breaks(FirewallDriver, 2))
def allow_any_address_of_own_mac(cls, _, port):
    """Allow any source address with the port's MAC."""
    return port.sources | {AllowedSource(port.mac, prefix) for prefix in ALL}


@MUTATIONS.override("allowed_sources", breaks(FirewallDriver, 2))
def ignore_address_pairs(cls, _, port):
    """Allow the fixed addresses only."""
    return frozenset(
        s for s in port.sources if s.mac == port.mac and s.prefix.subnet_of(_HOME[s.prefix.version])
    )


_HOME = {4: IPv4Network("10.16.0.0/16"), 6: IPv6Network("f800::/5")}


@MUTATIONS.override("allowed_sources", breaks(FirewallDriver, 2))
def drop_link_local_sources(cls, _, port):
    """Drop packets from link-local addresses."""
    return frozenset(s for s in port.sources if not s.prefix.is_link_local)


@MUTATIONS.override("allowed_sources", breaks(FirewallDriver, 2))
def mix_macs_of_sources(cls, _, port):
    """Allow each MAC of a port with each of its addresses."""
    macs = {s.mac for s in port.sources}
    return frozenset(AllowedSource(mac, s.prefix) for mac in macs for s in port.sources)


@MUTATIONS.override("classify", breaks(FirewallDriver, 2))
def ignore_source_mac(cls, _, sent, port):
    """Ignore the source MAC of IP packets."""
    return evolve(sent, source_mac=port.mac) if isinstance(sent, Packet) else sent


@MUTATIONS.override("classify", breaks(FirewallDriver, 2))
def ignore_arp_sender(cls, _, sent, port):
    """Ignore the sender of ARP."""
    if not isinstance(sent, Arp):
        return sent
    return evolve(sent, sender=_own(port, 4), source_mac=port.mac, sender_mac=None)


def _own(port, version):
    """Return an address of the port's own."""
    prefixes = (s.prefix for s in port.sources if s.mac == port.mac and s.prefix.version == version)
    return min(prefix.network_address for prefix in prefixes)


@MUTATIONS.override("classify", breaks(FirewallDriver, 2))
def ignore_target_of_arp_probes(cls, _, sent, port):
    """Let a port probe any IPv4 address."""
    probe = isinstance(sent, Arp) and not int(sent.sender)
    return evolve(sent, target=_own(port, 4)) if probe else sent


@MUTATIONS.override("classify", breaks(FirewallDriver, 2))
def ignore_target_of_neighbour_probes(cls, _, sent, port):
    """Let a port solicit any IPv6 address from the unspecified one."""
    probe = isinstance(sent, Packet) and not int(sent.source) and sent.icmp[0] == 135
    return evolve(sent, claims=_own(port, 6)) if probe else sent


@MUTATIONS.override("classify", breaks(FirewallDriver, 2))
def ignore_advertised_neighbour(cls, _, sent, port):
    """Ignore the target of neighbour advertisements."""
    advertised = isinstance(sent, Packet) and sent.claims is not None and sent.icmp[0] == 136
    return evolve(sent, claims=sent.source) if advertised else sent


@MUTATIONS.override("passes", breaks(FirewallDriver, 2))
def ignore_advertised_neighbour_without_state(cls, original, policy, way, opened):
    """Ignore the target of neighbour advertisements of stateless groups."""
    port = policy.get(way.sender.key)
    filtered = isinstance(port, FilteredPort) and not port.trusted
    if filtered and not all(policy.get(GroupKey(g), Rules()).stateful for g in port.groups):
        classify = ignore_advertised_neighbour.overrides["classify"]
        way = evolve(way, sent=classify(cls, None, way.sent, port))
    return original(policy, way, opened)


@MUTATIONS.override("decide", breaks(FirewallDriver, 2))
def allow_any_source_in_replies(cls, original, backend, delivery):
    """Allow any source address in replies."""
    sent = delivery.sent
    if isinstance(sent, Packet):
        own = delivery.sender.own(sent.version)
        request = cls.connection(delivery, evolve(sent, source=sent.target, target=own,
            source_port=sent.target_port, target_port=sent.source_port))  # fmt: skip
        if request in backend.connections:
            return True
    return original(backend, delivery)
