"""Firewall drivers that take rules for something else."""

from attrs import evolve

from netfw.drivers.firewall import FilteredPort, FirewallCapability, FirewallDriver, Member, Rules
from netfw.drivers.keys import GroupKey
from netfw.model.protocol import ICMPV6, PORTED, UDP
from netfw.testing.conformance.common.promises import proves as breaks
from netfw.testing.conformance.firewall.packets import Arp, Other, Packet
from tests.conformance.firewall.fake_firewall import GoodFirewall
from tests.conformance.firewall.fake_suites import broken_among

NEIGHBOURS = {130, 131, 132, 133, 134, 135, 136, 143}


class RewritesRules(GoodFirewall):
    """Not broken itself: rules are put as `rewrite` makes them."""

    @staticmethod
    def rewrite(rule):
        return [rule]

    @classmethod
    def in_force(cls, policy):
        return {
            key: evolve(v, rules=frozenset(r for rule in v.rules for r in cls.rewrite(rule)))
            if isinstance(v, Rules)
            else v
            for key, v in policy.items()
        }


@breaks(FirewallDriver, 1)
class ForgetsLastPorts(RewritesRules):
    """A range ends before its end."""

    @staticmethod
    def rewrite(rule):
        if rule.ports is None or rule.port_min == rule.port_max:
            return [rule]
        return [evolve(rule, port_max=rule.port_max - 1)]


@breaks(FirewallDriver, 1)
class RoundsRanges(RewritesRules):
    """A range is as wide as one mask can make it."""

    @staticmethod
    def rewrite(rule):
        if rule.ports is None:
            return [rule]
        span = 1
        while rule.port_min // span != rule.port_max // span:
            span *= 2
        low = rule.port_min // span * span
        return [evolve(rule, port_min=max(low, 1), port_max=low + span - 1)]


@breaks(FirewallDriver, 1)
class IgnoresFamilies(RewritesRules):
    """What is allowed for one is allowed for the other."""

    @staticmethod
    def rewrite(rule):
        if rule.protocol == ICMPV6 or rule.remote_prefix is not None:
            return [rule]
        return [evolve(rule, ethertype=family) for family in type(rule.ethertype)]


@breaks(FirewallDriver, 1)
class IgnoresDirections(RewritesRules):
    """What may come may go."""

    @staticmethod
    def rewrite(rule):
        return [evolve(rule, direction=direction) for direction in type(rule.direction)]


@breaks(FirewallDriver, 1)
class IgnoresIcmpTypes(RewritesRules):
    """Pings are pings."""

    @staticmethod
    def rewrite(rule):
        plain = rule.ip_protocol not in PORTED
        return [evolve(rule, port_min=None, port_max=None)] if plain else [rule]


@breaks(FirewallDriver, 1)
class IgnoresProtocols(RewritesRules):
    """A number that has no name is any."""

    @staticmethod
    def rewrite(rule):
        known = rule.protocol in (None, 1, 6, 17, 58, 132)
        return [rule] if known else [evolve(rule, protocol=None)]


@breaks(FirewallDriver, 1)
class TakesIcmpForItsNumber(RewritesRules):
    """ICMP in a rule for IPv6 is the protocol 1."""

    @staticmethod
    def rewrite(rule):
        odd = rule.protocol == 1 and rule.ip_protocol != 1
        return [] if odd else [rule]


@breaks(FirewallDriver, 1)
class IgnoresPrefixes(RewritesRules):
    """From wherever it comes."""

    @staticmethod
    def rewrite(rule):
        return [evolve(rule, remote_prefix=None)]


@breaks(FirewallDriver, 1, 3)
class LetsAllMembersIn(RewritesRules):
    """A remote group is everybody."""

    @staticmethod
    def rewrite(rule):
        return [evolve(rule, remote_group_id=None)]


@breaks(FirewallDriver, 1)
class IgnoresAddressGroups(RewritesRules):
    """An address group is nobody."""

    @staticmethod
    def rewrite(rule):
        return [] if rule.remote_address_group_id is not None else [rule]


@breaks(FirewallDriver, 1)
class MergesGroups(GoodFirewall):
    """A port has the rules of all groups."""

    @classmethod
    def in_force(cls, policy):
        groups = frozenset(key.group for key in policy if isinstance(key, GroupKey))
        return {
            key: evolve(v, groups=groups) if isinstance(v, FilteredPort) and v.groups else v
            for key, v in policy.items()
        }


@breaks(FirewallDriver, 1)
class MergesMembers(GoodFirewall):
    """Who is a member of one group is a member of all."""

    @classmethod
    def in_force(cls, policy):
        groups = {m.group for m in policy if isinstance(m, Member)}
        members = {
            evolve(m, group=group) for m in policy if isinstance(m, Member) for group in groups
        }
        return {**policy, **dict(zip(members, members, strict=True))}


@breaks(FirewallDriver, 1)
class IgnoresMacsOfMembers(GoodFirewall):
    """An address is enough."""

    @classmethod
    def in_force(cls, policy):
        return {
            key: evolve(v, mac=None) if isinstance(v, Member) else v for key, v in policy.items()
        }


@breaks(FirewallDriver, 1)
class OpensWhatIsInNoGroup(GoodFirewall):
    """Who has no rules has no limits."""

    @classmethod
    def in_force(cls, policy):
        return {
            key: evolve(v, trusted=True) if isinstance(v, FilteredPort) and not v.groups else v
            for key, v in policy.items()
        }


@breaks(FirewallDriver, 1)
class OpensWhatNobodyPut(GoodFirewall):
    """Who waits for rules has no limits."""

    @classmethod
    def in_force(cls, policy):
        return {
            key: evolve(v, trusted=True)
            if isinstance(v, FilteredPort) and any(GroupKey(g) not in policy for g in v.groups)
            else v
            for key, v in policy.items()
        }


@breaks(FirewallDriver, 1)
class KnowsNoState(GoodFirewall):
    """Replies need rules."""

    @classmethod
    def passes(cls, policy, sent, way, opened):
        return super().passes(policy, sent, way, None)


@breaks(FirewallDriver, 1)
class KeepsStateForAll(GoodFirewall):
    """Groups without state have it."""

    @classmethod
    def in_force(cls, policy):
        return {
            key: evolve(v, stateful=True) if isinstance(v, Rules) else v
            for key, v in policy.items()
        }


class Excepts(GoodFirewall):
    """Not broken itself: for some packets something else is so."""

    @classmethod
    def excepted(cls, sent, opened):
        """Whether it passes anyhow, or never; ``None``: it is as it should be."""

    @classmethod
    def passes(cls, policy, sent, way, opened):
        found = cls.excepted(sent, opened)
        trusted = [policy[s.key].trusted for s in (way.sender, way.receiver) if s.key in policy]
        if found is None or all(trusted):
            return super().passes(policy, sent, way, opened)
        return found


@breaks(FirewallDriver, 1)
class LetsFragmentsPass(Excepts):
    """Who knows what is in there."""

    @classmethod
    def excepted(cls, sent, opened):
        return True if isinstance(sent, Packet) and sent.pieces > 1 else None


@breaks(FirewallDriver, 1)
class DropsFragments(Excepts):
    """Who knows what is in there."""

    @classmethod
    def excepted(cls, sent, opened):
        return False if isinstance(sent, Packet) and sent.pieces > 1 else None


@breaks(FirewallDriver, 1)
class DropsErrors(Excepts):
    """Errors are no replies."""

    @classmethod
    def excepted(cls, sent, opened):
        return False if isinstance(sent, Packet) and sent.about is not None else None


@breaks(FirewallDriver, 1)
class LetsErrorsPass(Excepts):
    """Errors are harmless."""

    @classmethod
    def excepted(cls, sent, opened):
        return True if isinstance(sent, Packet) and sent.about is not None else None


@breaks(FirewallDriver, 1)
class LetsCrowdsHearEverything(Excepts):
    """What is for many is for all."""

    @classmethod
    def excepted(cls, sent, opened):
        many = isinstance(sent, Packet) and int(sent.target_mac[:2], 16) & 1
        return True if many and sent.protocol == UDP and sent.target_port > 999 else None


@breaks(FirewallDriver, 1)
class SeesOnlyWhatItKnows(Excepts):
    """Frames that are neither ARP nor IP are nobody's business, and tags hide anything."""

    @classmethod
    def excepted(cls, sent, opened):
        return True if isinstance(sent, Other) or getattr(sent, "vlan", None) is not None else None


@breaks(FirewallDriver, 1)
class AllowsServers(Excepts):
    """Everybody may offer addresses."""

    @classmethod
    def excepted(cls, sent, opened):
        udp = isinstance(sent, Packet) and sent.protocol == UDP
        return True if udp and sent.source_port in (67, 547) and sent.target_port != 67 else None


@breaks(FirewallDriver, 1)
class AllowsRouters(Excepts):
    """Everybody may offer routes."""

    @classmethod
    def excepted(cls, sent, opened):
        icmp = isinstance(sent, Packet) and sent.protocol == ICMPV6
        return True if icmp and sent.icmp[0] == 134 else None


@breaks(FirewallDriver, 1)
class AllowsNoClients(Excepts):
    """Who wants an address needs a rule."""

    @classmethod
    def excepted(cls, sent, opened):
        udp = isinstance(sent, Packet) and sent.protocol == UDP
        return False if udp and sent.source_port in (68, 546) else None


@breaks(FirewallDriver, 1)
class KnowsNoNeighbours(Excepts):
    """Neighbour discovery and multicast membership need rules."""

    @classmethod
    def excepted(cls, sent, opened):
        icmp = isinstance(sent, Packet) and sent.protocol == ICMPV6
        return False if icmp and sent.icmp[0] in NEIGHBOURS else None


@breaks(FirewallDriver, 1)
class TakesTheInvalid(GoodFirewall):
    """What makes no sense is allowed by a rule."""

    @classmethod
    def is_invalid(cls, machine, packet, here, opened):
        return False


@breaks(FirewallDriver, 1)
class RemembersTheDenied(GoodFirewall):
    """What was sent opens the way back, whether it arrived or not."""

    @classmethod
    def fate(cls, machine, delivery):
        sent = delivery.sent
        if isinstance(sent, Packet) and cls.passes(
            {k: v for k, v in machine.policy.items() if k != delivery.receiver.key},
            sent, delivery, None,
        ):  # fmt: skip
            machine.connections.setdefault(cls.connection(delivery, sent), sent)
        return super().fate(machine, delivery)

    @classmethod
    def passes(cls, policy, sent, way, opened):
        """And the way back needs no more than that."""
        if opened is None or sent.__class__ is not Packet:
            return super().passes(policy, sent, way, opened)
        first = {k: v for k, v in policy.items() if k != way.sender.key}
        return super().passes(first, sent, way, opened)


@breaks(FirewallDriver, 1)
class TakesEitherPort(GoodFirewall):
    """A range is about whichever port fits."""

    @classmethod
    def passes(cls, policy, sent, way, opened):
        other = evolve(sent, target_port=sent.source_port) if isinstance(sent, Packet) else sent
        return any(
            super(TakesEitherPort, cls).passes(policy, each, way, opened) for each in (sent, other)
        )


@breaks(FirewallDriver, 1)
class TakesNoRulesForNoLimits(GoodFirewall):
    """A group that allows nothing does not filter."""

    @classmethod
    def in_force(cls, policy):
        empty = {k.group for k, v in policy.items() if isinstance(v, Rules) and not v.rules}
        return {
            key: evolve(v, trusted=v.trusted or (v.groups and v.groups <= empty))
            if isinstance(v, FilteredPort)
            else v
            for key, v in policy.items()
        }


@breaks(FirewallDriver, 2)
class IsDeafToArp(GoodFirewall):
    """What a port may not say it may not hear."""

    @classmethod
    def passes(cls, policy, sent, way, opened):
        here = policy.get(way.receiver.key)
        deaf = isinstance(here, FilteredPort) and not here.trusted and isinstance(sent, Arp)
        return not deaf and super().passes(policy, sent, way, opened)


@breaks(FirewallDriver, 9)
class TakesWhatItCanNotDo(GoodFirewall):
    """Groups without state are taken, and have it."""

    CAPABILITIES = GoodFirewall.CAPABILITIES - {FirewallCapability.STATELESS_GROUPS}


BROKEN = broken_among(globals())
