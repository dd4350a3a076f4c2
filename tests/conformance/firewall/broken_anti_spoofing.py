"""Firewall drivers that believe too much or too little of who sends."""

from ipaddress import IPv4Network, IPv6Network

from attrs import evolve

from netfw.drivers.allowed_source import AllowedSource
from netfw.drivers.firewall import FilteredPort, FirewallDriver, Rules
from netfw.drivers.keys import GroupKey
from netfw.testing.conformance.common.promises import proves as breaks
from netfw.testing.conformance.firewall.packets import Arp, Packet
from tests.conformance.firewall.fake_firewall import GoodFirewall
from tests.conformance.firewall.fake_suites import broken_among

ALL = IPv4Network("0.0.0.0/0"), IPv6Network("::/0")


class Guards(GoodFirewall):
    """Not broken itself: sources are as `sources` makes them."""

    @classmethod
    def sources(cls, port):
        return port.sources

    @classmethod
    def in_force(cls, policy):
        return {
            key: evolve(v, sources=cls.sources(v))
            if isinstance(v, FilteredPort) and not v.trusted
            else v
            for key, v in policy.items()
        }


@breaks(FirewallDriver, 2)
class GuardsNothing(Guards):
    """Everybody may be anybody, behind the own MAC."""

    @classmethod
    def sources(cls, port):
        return port.sources | {AllowedSource(port.mac, prefix) for prefix in ALL}


@breaks(FirewallDriver, 2)
class ForgetsPairs(Guards):
    """Only the own addresses."""

    @classmethod
    def sources(cls, port):
        return frozenset(
            s
            for s in port.sources
            if s.mac == port.mac and s.prefix.subnet_of(_HOME[s.prefix.version])
        )


_HOME = {4: IPv4Network("10.16.0.0/16"), 6: IPv6Network("f800::/5")}


@breaks(FirewallDriver, 2)
class ForgetsLinkLocal(Guards):
    """A link-local address is nobody's."""

    @classmethod
    def sources(cls, port):
        return frozenset(s for s in port.sources if not s.prefix.is_link_local)


@breaks(FirewallDriver, 2)
class MixesMacs(Guards):
    """Any of the MACs with any of the addresses."""

    @classmethod
    def sources(cls, port):
        macs = {s.mac for s in port.sources}
        return frozenset(AllowedSource(mac, s.prefix) for mac in macs for s in port.sources)


class Believes(GoodFirewall):
    """Not broken itself: some packets are taken for others before they are judged."""

    @classmethod
    def taken_for(cls, sent, port):
        return sent

    @classmethod
    def passes(cls, policy, sent, way, opened):
        port = policy.get(way.sender.key)
        if isinstance(port, FilteredPort) and not port.trusted:
            sent = cls.taken_for(sent, port)
        return super().passes(policy, sent, way, opened)


@breaks(FirewallDriver, 2)
class IgnoresMacs(Believes):
    """Whoever sends it."""

    @classmethod
    def taken_for(cls, sent, port):
        return evolve(sent, source_mac=port.mac) if isinstance(sent, Packet) else sent


@breaks(FirewallDriver, 2)
class IgnoresArp(Believes):
    """Whoever is said to be there."""

    @classmethod
    def taken_for(cls, sent, port):
        own = isinstance(sent, Arp)
        nobody = type(sent.sender)(0) if own else None
        return evolve(sent, sender=nobody, source_mac=port.mac, sender_mac=None) if own else sent


@breaks(FirewallDriver, 2)
class IgnoresClaims(Believes):
    """Whoever is advertised."""

    @classmethod
    def taken_for(cls, sent, port):
        told = isinstance(sent, Packet) and sent.claims is not None and sent.icmp[0] == 136
        return evolve(sent, claims=sent.source) if told else sent


@breaks(FirewallDriver, 2)
class IgnoresClaimsWithoutState(IgnoresClaims):
    """Rules that keep no state are asked before who somebody is."""

    @classmethod
    def passes(cls, policy, sent, way, opened):
        groups = getattr(policy.get(way.sender.key), "groups", ())
        if all(policy.get(GroupKey(group), Rules()).stateful for group in groups):
            return GoodFirewall.passes(policy, sent, way, opened)
        return super().passes(policy, sent, way, opened)


@breaks(FirewallDriver, 2)
class BelievesReplies(GoodFirewall):
    """Who was asked may answer as anybody."""

    @classmethod
    def fate(cls, machine, delivery):
        sent = delivery.sent
        if isinstance(sent, Packet):
            honest = delivery.sender.own(sent.version)
            asked = cls.connection(delivery, evolve(sent, source=sent.target, target=honest,
                source_port=sent.target_port, target_port=sent.source_port))  # fmt: skip
            if asked in machine.connections:
                return True
        return super().fate(machine, delivery)


BROKEN = broken_among(globals())
