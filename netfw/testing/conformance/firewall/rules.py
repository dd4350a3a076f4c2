"""Rules: they admit the traffic that they match, and no other."""

from __future__ import annotations

from attrs import evolve

from netfw.drivers.firewall import FirewallCapability, FirewallDriver
from netfw.model.values.protocol import ICMP, ICMPV6, SCTP, TCP, UDP
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.firewall.case import FirewallCase, pings
from netfw.testing.conformance.firewall.environment import FirewallTestPort, answer
from netfw.testing.conformance.firewall.factories import (
    FAMILIES,
    IN,
    OUT,
    a_group,
    an_address_group,
    everything,
    group,
    listed,
    member,
    members,
    nothing,
    port,
    rule,
    trusted,
)
from netfw.testing.conformance.firewall.packets import DESTINATION_UNREACHABLE, ECHO, Other, Packet

_GRE, _UNASSIGNED = 47, 201
_LLDP, _EXPERIMENTAL = 0x88CC, 0x88B5


def of_all_kinds(one: FirewallTestPort, two: FirewallTestPort) -> list[Packet]:
    """Return packets that open connections of several protocols, in both families."""
    made: list[Packet] = []
    for version in FAMILIES:
        made += [one.tcp(two, 80, version=version), one.udp(two, 53, version=version)]
        made += [one.packet(two, _UNASSIGNED, version=version), one.packet(two, SCTP, 7)]
    return [*made, *pings(one, two)]


class FirewallRulesConformance(FirewallCase):
    """The fields of a rule, one by one."""

    @proves(FirewallDriver, 1)
    def test_what_no_rule_allows_does_not_pass(self, driver: FirewallDriver) -> None:
        one, two, outside = self.make_ports(3)
        id = a_group()
        self.apply(driver, {**port(one, id), **port(two, id), **nothing(id), **trusted(outside)})
        self.assert_blocked(one, two, *of_all_kinds(one, two))
        self.assert_blocked(outside, one, *of_all_kinds(outside, one))
        self.assert_blocked(one, outside, *of_all_kinds(one, outside))

    @proves(FirewallDriver, 1)
    def test_a_port_in_no_group_lets_nothing_through(self, driver: FirewallDriver) -> None:
        one, outside = self.make_ports(2)
        self.apply(driver, {**port(one), **trusted(outside)})
        self.assert_blocked(outside, one, *of_all_kinds(outside, one))
        self.assert_blocked(one, outside, *of_all_kinds(one, outside))

    @proves(FirewallDriver, 1)
    def test_a_group_without_rules_yet_allows_nothing(self, driver: FirewallDriver) -> None:
        one, outside = self.make_ports(2)
        id = a_group()
        self.apply(driver, {**port(one, id), **trusted(outside)})
        self.assert_blocked(outside, one, *of_all_kinds(outside, one))
        self.apply(driver, {**port(one, id), **trusted(outside), **everything(id)})
        self.assert_passes(outside, one, *of_all_kinds(outside, one))

    @proves(FirewallDriver, 1)
    def test_what_has_no_family_that_rules_know_does_not_pass(self, driver: FirewallDriver) -> None:
        """Neither other frames than those of IP, nor IP that hides behind a tag."""
        self.require(driver, FirewallCapability.FILTERING)
        one, outside = self.make_ports(2)
        id = a_group()
        allow = group(id, rule(id, OUT, TCP, (80, 80)), rule(id, IN, TCP, (80, 80)))
        self.apply(driver, {**port(one, id), **trusted(outside), **allow})
        for a, b in ((one, outside), (outside, one)):
            strange = [
                Other(source_mac=a.mac, target_mac=b.mac, ethertype=ethertype)
                for ethertype in (_LLDP, _EXPERIMENTAL)
            ]
            self.assert_blocked(a, b, *strange)
            self.assert_blocked(a, b, a.udp(b, 53, vlan=7), a.udp(b, 53, version=6, vlan=0))
            self.assert_passes(a, b, a.tcp(b, 80))

    @proves(FirewallDriver, 1)
    def test_a_rule_is_about_one_direction(self, driver: FirewallDriver) -> None:
        one, two, outside = self.make_ports(3)
        incoming, outgoing = a_group(), a_group()
        state = {
            **port(one, incoming), **port(two, outgoing), **trusted(outside),
            **everything(incoming, IN), **everything(outgoing, OUT),
        }  # fmt: skip
        self.apply(driver, state)
        self.assert_blocked(outside, two, *of_all_kinds(outside, two))
        self.assert_blocked(one, outside, *of_all_kinds(one, outside))
        self.assert_passes(two, one, *of_all_kinds(two, one))
        self.assert_passes(outside, one, *of_all_kinds(outside, one))
        self.assert_passes(two, outside, *of_all_kinds(two, outside))

    @proves(FirewallDriver, 1)
    def test_both_ends_must_allow_it(self, driver: FirewallDriver) -> None:
        one, two = self.make_ports(2)
        wide, narrow = a_group(), a_group()
        some = group(narrow, rule(narrow, IN, TCP, (80, 90)), rule(narrow, OUT, UDP, (53, 53)))
        self.apply(driver, {**port(one, wide), **port(two, narrow), **everything(wide), **some})
        self.assert_passes(one, two, one.tcp(two, 80), one.tcp(two, 90))
        self.assert_blocked(one, two, one.tcp(two, 91), one.udp(two, 80))
        self.assert_passes(two, one, two.udp(one, 53))
        self.assert_blocked(two, one, two.udp(one, 54), two.tcp(one, 53))

    @proves(FirewallDriver, 1)
    def test_a_rule_is_about_one_family(self, driver: FirewallDriver) -> None:
        one, outside = self.make_ports(2)
        for version, other in (FAMILIES, FAMILIES[::-1]):
            id = a_group()
            allow = group(id, rule(id, IN, version=version))
            self.apply(driver, {**port(one, id), **trusted(outside), **allow})
            self.assert_passes(outside, one, outside.udp(one, 99, version=version))
            self.assert_blocked(outside, one, outside.udp(one, 99, version=other))

    @proves(FirewallDriver, 1)
    def test_protocols_by_number(self, driver: FirewallDriver) -> None:
        one, outside = self.make_ports(2)
        for version in FAMILIES:
            icmp = ICMP if version == 4 else ICMPV6
            for protocol in (TCP, UDP, SCTP, icmp, _GRE, _UNASSIGNED):
                id = a_group()
                allow = group(id, rule(id, IN, protocol, version=version))
                self.apply(driver, {**port(one, id), **trusted(outside), **allow})
                for other in (TCP, UDP, SCTP, icmp, _GRE, _UNASSIGNED):
                    sent = outside.packet(one, other, 99, version=version, icmp=ECHO[version])
                    check = self.assert_passes if other == protocol else self.assert_blocked
                    check(outside, one, sent)

    @proves(FirewallDriver, 1)
    def test_icmp_in_a_rule_for_ipv6_is_that_of_ipv6(self, driver: FirewallDriver) -> None:
        one, outside = self.make_ports(2)
        id = a_group()
        allow = group(id, rule(id, IN, ICMP, version=6))
        self.apply(driver, {**port(one, id), **trusted(outside), **allow})
        self.assert_passes(outside, one, outside.ping(one, version=6))
        self.assert_blocked(outside, one, outside.ping(one), outside.udp(one, 9, version=6))

    @proves(FirewallDriver, 1)
    def test_port_ranges_include_their_ends_and_nothing_else(self, driver: FirewallDriver) -> None:
        one, outside = self.make_ports(2)
        ranges = [(80, 80), (1000, 1999), (1, 7), (4095, 4097), (32767, 65535)]
        for protocol, version in ((TCP, 4), (UDP, 6), (SCTP, 4)):
            id = a_group()
            rules = [rule(id, IN, protocol, ends, version=version) for ends in ranges]
            self.apply(driver, {**port(one, id), **trusted(outside), **group(id, *rules)})
            inside = {end for ends in ranges for end in ends} | {1500, 4096, 50000}
            around = {end + by for ends in ranges for end in ends for by in (-1, 1)}
            beyond = {p for p in around if not any(a <= p <= b for a, b in ranges)} - {0, 65536}
            for ports, check in ((inside, self.assert_passes), (beyond, self.assert_blocked)):
                sent = [outside.packet(one, protocol, p, version=version) for p in sorted(ports)]
                check(outside, one, *sent)

    @proves(FirewallDriver, 1)
    def test_a_range_matches_the_destination_port(self, driver: FirewallDriver) -> None:
        one, outside = self.make_ports(2)
        id = a_group()
        allow = group(id, rule(id, IN, UDP, (80, 80)), rule(id, OUT, UDP, (80, 80)))
        self.apply(driver, {**port(one, id), **trusted(outside), **allow})
        for a, b in ((one, outside), (outside, one)):
            self.assert_blocked(a, b, a.udp(b, 81, source_port=80))
            self.assert_passes(a, b, a.udp(b, 80, source_port=82))

    @proves(FirewallDriver, 1)
    def test_icmp_by_type_and_code(self, driver: FirewallDriver) -> None:
        one, outside = self.make_ports(2)
        asks = {4: (8, 13), 6: (128, 139)}
        for version, (echo, other) in asks.items():
            icmp = ICMP if version == 4 else ICMPV6
            any_code, one_code = a_group(), a_group()
            states = [
                group(any_code, rule(any_code, IN, icmp, (echo, None), version=version)),
                group(one_code, rule(one_code, IN, icmp, (echo, 1), version=version)),
            ]
            self.apply(driver, {**port(one, any_code), **trusted(outside), **states[0]})
            self.assert_passes(outside, one, outside.icmp(one, (echo, 0), version=version))
            self.assert_blocked(outside, one, outside.icmp(one, (other, 0), version=version))
            self.apply(driver, {**port(one, one_code), **trusted(outside), **states[1]})
            self.assert_blocked(outside, one, outside.icmp(one, (echo, 0), version=version))

    @proves(FirewallDriver, 1)
    def test_prefixes(self, driver: FirewallDriver) -> None:
        one, near, far = self.make_ports(3)
        for version in FAMILIES:
            id = a_group()
            there = f"{near.own(version)}/{32 if version == 4 else 128}"
            rules = [rule(id, way, version=version, prefix=there) for way in (IN, OUT)]
            self.apply(driver, {**port(one, id), **trusted(near, far), **group(id, *rules)})
            self.assert_passes(near, one, near.udp(one, 9, version=version))
            self.assert_blocked(far, one, far.udp(one, 9, version=version))
            self.assert_passes(one, near, one.tcp(near, 9, version=version))
            self.assert_blocked(one, far, one.tcp(far, 9, version=version))

    @proves(FirewallDriver, 1)
    def test_a_wide_prefix(self, driver: FirewallDriver) -> None:
        one, outside = self.make_ports(2)
        for version, wide, wrong in (
            (4, "10.16.0.0/12", "10.32.0.0/12"),
            (6, "fd00::/8", "fe00::/8"),
        ):
            id = a_group()
            rules = [rule(id, IN, UDP, (9, 9), version=version, prefix=wide)]
            rules += [rule(id, IN, UDP, (10, 10), version=version, prefix=wrong)]
            rules += [
                rule(
                    id,
                    IN,
                    UDP,
                    (11, 11),
                    version=version,
                    prefix="0.0.0.0/0" if version == 4 else "::/0",
                )
            ]
            self.apply(driver, {**port(one, id), **trusted(outside), **group(id, *rules)})
            self.assert_passes(outside, one, outside.udp(one, 9, version=version))
            self.assert_blocked(outside, one, outside.udp(one, 10, version=version))
            self.assert_passes(outside, one, outside.udp(one, 11, version=version))

    @proves(FirewallDriver, 1, 3)
    def test_remote_groups(self, driver: FirewallDriver) -> None:
        one, friend, outsider = self.make_ports(3)
        id, friends = a_group(), a_group()
        rules = [
            rule(id, way, protocol, ports, version=version, remote=friends)
            for version in FAMILIES
            for way, protocol, ports in ((IN, TCP, (80, 80)), (OUT, None, (None, None)))
        ]
        state = {**port(one, id), **trusted(friend, outsider), **group(id, *rules)}
        self.apply(driver, state)
        self.assert_blocked(friend, one, friend.tcp(one, 80))  # it has no members
        self.apply(driver, {**state, **members(friends, friend)})
        for version in FAMILIES:
            self.assert_passes(friend, one, friend.tcp(one, 80, version=version))
            self.assert_blocked(friend, one, friend.tcp(one, 81, version=version))
            self.assert_blocked(outsider, one, outsider.tcp(one, 80, version=version))
            self.assert_passes(one, friend, one.udp(friend, 5, version=version))
            self.assert_blocked(one, outsider, one.udp(outsider, 5, version=version))

    @proves(FirewallDriver, 1)
    def test_a_group_may_refer_to_itself(self, driver: FirewallDriver) -> None:
        one, two, outside = self.make_ports(3)
        id = a_group()
        rules = [rule(id, way, version=v, remote=id) for way in (IN, OUT) for v in FAMILIES]
        state = {
            **port(one, id), **port(two, id), **trusted(outside),
            **group(id, *rules), **members(id, one, two),
        }  # fmt: skip
        self.apply(driver, state)
        self.assert_passes(one, two, *of_all_kinds(one, two))
        self.assert_passes(two, one, *of_all_kinds(two, one))
        self.assert_blocked(outside, one, *of_all_kinds(outside, one))
        self.assert_blocked(one, outside, *of_all_kinds(one, outside))

    @proves(FirewallDriver, 1)
    def test_a_member_may_be_a_prefix_or_need_its_mac(self, driver: FirewallDriver) -> None:
        one, friend, outsider = self.make_ports(3)
        id, wide, masked = a_group(), a_group(), a_group()
        allow = group(
            id,
            *(rule(id, way, UDP, (9, 9), remote=wide) for way in (IN, OUT)),
            *(rule(id, way, UDP, (10, 10), remote=masked) for way in (IN, OUT)),
        )
        whom = {**member(wide, "10.16.0.0/12"), **member(masked, "0.0.0.0/0", friend)}
        self.apply(driver, {**port(one, id), **trusted(friend, outsider), **allow, **whom})
        for other in (friend, outsider):
            self.assert_passes(other, one, other.udp(one, 9))
            self.assert_passes(one, other, one.udp(other, 9))
        self.assert_passes(friend, one, friend.udp(one, 10))
        self.assert_passes(one, friend, one.udp(friend, 10))
        self.assert_blocked(outsider, one, outsider.udp(one, 10))
        self.assert_blocked(one, outsider, one.udp(outsider, 10))

    @proves(FirewallDriver, 1)
    def test_remote_address_groups(self, driver: FirewallDriver) -> None:
        self.require(driver, FirewallCapability.ADDRESS_GROUPS)
        one, friend, outsider = self.make_ports(3)
        id, groups_by_name = a_group(), an_address_group()
        allow = group(
            id,
            *(
                rule(id, way, version=v, addresses=groups_by_name)
                for way in (IN, OUT)
                for v in FAMILIES
            ),
        )
        state = {**port(one, id), **trusted(friend, outsider), **allow}
        self.apply(
            driver,
            {**state, **listed(groups_by_name, f"{friend.address}/32", f"{friend.address6}")},
        )
        for version in FAMILIES:
            self.assert_passes(friend, one, friend.udp(one, 9, version=version))
            self.assert_passes(one, friend, one.udp(friend, 9, version=version))
            self.assert_blocked(outsider, one, outsider.udp(one, 9, version=version))
            self.assert_blocked(one, outsider, one.udp(outsider, 9, version=version))

    @proves(FirewallDriver, 1)
    def test_rules_and_groups_add_up(self, driver: FirewallDriver) -> None:
        one, outside = self.make_ports(2)
        first, second = a_group(), a_group()
        state = {
            **port(one, first, second), **trusted(outside),
            **group(first, rule(first, IN, TCP, (80, 80)), rule(first, IN, TCP, (80, 85))),
            **group(second, rule(second, IN, UDP), rule(second, IN, TCP, (84, 90))),
        }  # fmt: skip
        self.apply(driver, state)
        sent = [outside.tcp(one, p) for p in (80, 83, 84, 85, 86, 90)]
        self.assert_passes(outside, one, *sent, outside.udp(one, 9))
        self.assert_blocked(outside, one, outside.tcp(one, 79), outside.tcp(one, 91))

    @proves(FirewallDriver, 1)
    def test_groups_are_not_merged(self, driver: FirewallDriver) -> None:
        """Neither their rules, nor their members, nor their remote groups."""
        one, two, friend, outsider = self.make_ports(4)
        first, second, friends, outsiders = (a_group() for _ in range(4))
        state = {
            **port(one, first), **port(two, second), **trusted(friend, outsider),
            **group(first, rule(first, IN, TCP, (80, 80), remote=friends)),
            **group(second, rule(second, IN, TCP, (90, 90), remote=outsiders)),
            **members(friends, friend), **members(outsiders, outsider),
        }  # fmt: skip
        self.apply(driver, state)
        for sender, receiver, number in ((friend, one, 80), (outsider, two, 90)):
            self.assert_passes(sender, receiver, sender.tcp(receiver, number))
        for sender, receiver, number in (
            (friend, one, 90), (outsider, one, 80), (outsider, one, 90),
            (friend, two, 80), (friend, two, 90), (outsider, two, 80),
        ):  # fmt: skip
            self.assert_blocked(sender, receiver, sender.tcp(receiver, number))

    @proves(FirewallDriver, 1)
    def test_replies_need_no_rule(self, driver: FirewallDriver) -> None:
        one, two, outside = self.make_ports(3)
        incoming, outgoing = a_group(), a_group()
        state = {
            **port(one, incoming), **port(two, outgoing), **trusted(outside),
            **everything(incoming, IN), **everything(outgoing, OUT),
        }  # fmt: skip
        self.apply(driver, state)
        for version in FAMILIES:
            icmp = ICMP if version == 4 else ICMPV6
            for protocol in (TCP, UDP, icmp):
                for a, b in ((two, one), (outside, one), (two, outside)):
                    self.opened(a, b, 443, protocol=protocol, version=version)

    @proves(FirewallDriver, 1)
    def test_errors_about_what_was_allowed_pass(self, driver: FirewallDriver) -> None:
        one, outside = self.make_ports(2)
        id = a_group()
        self.apply(driver, {**port(one, id), **trusted(outside), **everything(id, OUT)})
        for version in FAMILIES:
            sent = one.udp(outside, 9, version=version)
            kind = DESTINATION_UNREACHABLE[version]
            icmp = ICMP if version == 4 else ICMPV6
            error = evolve(answer(sent), protocol=icmp, icmp=kind, about=sent)
            self.assert_blocked(outside, one, error)  # nothing was asked yet
            self.assert_passes(one, outside, sent)
            self.assert_passes(outside, one, error)

    @proves(FirewallDriver, 1)
    def test_fragments_pass_or_not_as_the_whole(self, driver: FirewallDriver) -> None:
        one, outside = self.make_ports(2)
        id = a_group()
        rules = [rule(id, way, UDP, (9, 9), version=v) for way in (IN, OUT) for v in FAMILIES]
        pinged = [rule(id, IN, ICMP, ECHO[4]), rule(id, IN, ICMPV6, ECHO[6], version=6)]
        self.apply(driver, {**port(one, id), **trusted(outside), **group(id, *rules, *pinged)})
        for version in FAMILIES:
            for a, b in ((one, outside), (outside, one)):
                self.assert_passes(a, b, a.udp(b, 9, version=version, pieces=3))
                self.assert_blocked(a, b, a.udp(b, 10, version=version, pieces=3))
            self.assert_passes(outside, one, outside.ping(one, version=version, pieces=2))
            self.assert_blocked(one, outside, one.ping(outside, version=version, pieces=2))

    @proves(FirewallDriver, 1)
    def test_multicast_and_broadcast_need_rules_as_well(self, driver: FirewallDriver) -> None:
        one, two, outside = self.make_ports(3)
        id = a_group()
        rules = [rule(id, way, UDP, (5353, 5353), version=v) for way in (IN, OUT) for v in FAMILIES]
        state = {**port(one, id), **port(two, id), **trusted(outside), **group(id, *rules)}
        self.apply(driver, state)
        for to in ("224.0.0.251", "255.255.255.255", "ff02::fb"):
            for sender, receiver in ((one, two), (outside, one), (one, outside)):
                self.assert_passes(sender, receiver, sender.to_group(to, UDP, 5353))
                self.assert_blocked(sender, receiver, sender.to_group(to, UDP, 5354))
