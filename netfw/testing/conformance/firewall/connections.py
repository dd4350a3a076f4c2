"""Connections: which ones members and rules allow, which ones end, and which continue."""

from __future__ import annotations

from attrs import evolve

from netfw.drivers.firewall import FirewallCapability, FirewallDriver, Member, Rules
from netfw.drivers.values.keys import GroupKey
from netfw.model.values.protocol import ICMP, ICMPV6, TCP, UDP
from netfw.plan import Update
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.firewall.case import FirewallCase, MakeDriver
from netfw.testing.conformance.firewall.connection_script import ConnectionScript
from netfw.testing.conformance.firewall.environment import FirewallTestPort, answer
from netfw.testing.conformance.firewall.factories import (
    FAMILIES,
    IN,
    OUT,
    State,
    a_group,
    an_address_group,
    everything,
    group,
    listed,
    members,
    nothing,
    port,
    rule,
    trusted,
)
from netfw.testing.conformance.firewall.packets import ECHO_REPLY, Flags

_SENSELESS = Flags.SYN | Flags.ACK, Flags.SYN | Flags.FIN, Flags.SYN | Flags.RST, Flags(0)


class FirewallConnectionsConformance(FirewallCase):
    """Promises about established connections."""

    def talks(
        self, one: FirewallTestPort, two: FirewallTestPort, number: int = 80
    ) -> list[ConnectionScript]:
        """Open connections of several protocols and both families from *one*."""
        return [
            self.opened(one, two, number, protocol=protocol, version=version)
            for version in FAMILIES
            for protocol in (TCP, UDP, ICMP if version == 4 else ICMPV6)
        ]

    @proves(FirewallDriver, 3, 4)
    def test_members_come_and_go(self, driver: FirewallDriver) -> None:
        one, friend, other = self.make_ports(3)
        id, friends = a_group(), a_group()
        rules = [rule(id, IN, version=version, remote=friends) for version in FAMILIES]
        state = {**port(one, id), **trusted(friend, other), **group(id, *rules)}
        for newcomer, lone in ((friend, other), (other, friend)):
            self.apply(driver, {**state, **members(friends, newcomer)})
            talks = self.talks(newcomer, one)
            self.assert_blocked(lone, one, lone.tcp(one, 80), lone.udp(one, 9, version=6))
            self.apply(driver, {**state, **members(friends, newcomer, lone)})
            others = self.talks(lone, one)
            self.assert_lives(*talks)
            self.apply(driver, {**state, **members(friends, lone)})
            self.assert_cut(*talks)
            self.assert_blocked(newcomer, one, newcomer.tcp(one, 81))
            self.assert_lives(*others)

    @proves(FirewallDriver, 3, 4)
    def test_members_that_may_be_spoken_to_come_and_go(self, driver: FirewallDriver) -> None:
        one, friend = self.make_ports(2)
        id, friends = a_group(), a_group()
        rules = [rule(id, OUT, version=version, remote=friends) for version in FAMILIES]
        state = {**port(one, id), **trusted(friend), **group(id, *rules)}
        for _ in range(2):
            self.apply(driver, {**state, **members(friends, friend)})
            talks = self.talks(one, friend)
            self.apply(driver, state)
            self.assert_cut(*talks)
            self.assert_blocked(one, friend, one.tcp(friend, 81))

    @proves(FirewallDriver, 3, 4)
    def test_prefixes_of_an_address_group_come_and_go(self, driver: FirewallDriver) -> None:
        self.require(driver, FirewallCapability.ADDRESS_GROUPS)
        one, friend = self.make_ports(2)
        id, groups_by_name = a_group(), an_address_group()
        rules = [rule(id, IN, version=version, addresses=groups_by_name) for version in FAMILIES]
        state = {**port(one, id), **trusted(friend), **group(id, *rules)}
        for prefixes in ((str(friend.address), str(friend.address6)), ("10.0.0.0/8", "fd00::/8")):
            self.apply(driver, {**state, **listed(groups_by_name, *prefixes)})
            talks = self.talks(friend, one)
            self.apply(driver, {**state, **listed(groups_by_name, "192.0.2.0/24")})
            self.assert_cut(*talks)

    @proves(FirewallDriver, 4)
    def test_a_rule_that_goes_ends_what_only_it_allowed(self, driver: FirewallDriver) -> None:
        one, outside = self.make_ports(2)
        for way in (IN, OUT):
            a, b = (outside, one) if way is IN else (one, outside)
            id = a_group()
            shared = [rule(id, way, TCP, (443, 443), version=v) for v in FAMILIES]
            some = [rule(id, way, version=v, prefix=f"{outside.own(v)}") for v in FAMILIES]
            state = {**port(one, id), **trusted(outside)}
            self.apply(driver, {**state, **group(id, *shared, *some)})
            talks = self.talks(a, b)
            kept = [self.opened(a, b, 443, version=version) for version in FAMILIES]
            self.apply(driver, {**state, **group(id, *shared)})
            self.assert_cut(*talks)
            self.assert_lives(*kept)
            self.apply(driver, {**state, **nothing(id)})
            self.assert_cut(*kept)

    @proves(FirewallDriver, 4)
    def test_a_stream_of_replies_alone_ends_with_its_rule(self, driver: FirewallDriver) -> None:
        """Check that the end is noticed without a packet in the direction of the rule."""
        one, two = self.make_ports(2)
        id, other = a_group(), a_group()
        state = {**port(one, id), **port(two, other), **everything(other, OUT)}
        for version in FAMILIES:
            self.apply(driver, {**state, **everything(id)})
            talk = self.opened(two, one, 80, version=version)
            self.assert_passes(one, two, talk.back())
            talk.went_back()
            self.apply(driver, {**state, **everything(id, OUT)})
            for _ in range(3):
                self.assert_blocked(one, two, talk.back())

    @proves(FirewallDriver, 4)
    def test_a_range_that_shrinks_ends_what_is_outside_of_it(self, driver: FirewallDriver) -> None:
        one, outside = self.make_ports(2)
        id = a_group()
        state = {**port(one, id), **trusted(outside)}
        self.apply(driver, {**state, **group(id, rule(id, IN, TCP, (1000, 2000)))})
        inside, beyond = self.opened(outside, one, 1500), self.opened(outside, one, 1501)
        self.apply(driver, {**state, **group(id, rule(id, IN, TCP, (1000, 1500)))})
        self.assert_lives(inside)
        self.assert_cut(beyond)

    @proves(FirewallDriver, 4)
    def test_what_another_rule_allows_too_lives_on(self, driver: FirewallDriver) -> None:
        one, outside = self.make_ports(2)
        first, second = a_group(), a_group()
        whole = group(first, rule(first, IN), rule(first, IN, version=6))
        parts = [rule(second, IN, p, version=v) for v in FAMILIES for p in (TCP, UDP, ICMP)]
        state = {**trusted(outside), **whole, **group(second, *parts)}
        self.apply(driver, {**state, **port(one, first, second)})
        talks = self.talks(outside, one)
        self.apply(driver, {**state, **port(one, second)})
        self.assert_lives(*talks)
        self.apply(driver, {**state, **port(one, first)})  # one instead of the other
        self.assert_lives(*talks)

    @proves(FirewallDriver, 4)
    def test_a_port_that_leaves_its_group_is_cut_off(self, driver: FirewallDriver) -> None:
        one, two, outside = self.make_ports(3)
        id, other = a_group(), a_group()
        state = {**trusted(outside), **everything(id), **nothing(other)}
        self.apply(driver, {**state, **port(one, id), **port(two, id)})
        talks = [*self.talks(outside, one), *self.talks(one, outside, 90)]
        kept = [*self.talks(outside, two), *self.talks(two, outside, 90)]
        self.apply(driver, {**state, **port(one, other), **port(two, id)})
        self.assert_cut(*talks)
        self.assert_lives(*kept)

    @proves(FirewallDriver, 4)
    def test_a_group_that_is_dropped_allows_nothing_any_more(self, driver: FirewallDriver) -> None:
        one, outside = self.make_ports(2)
        id = a_group()
        state = {**trusted(outside), **port(one, id)}
        self.apply(driver, {**state, **everything(id)})
        talks = self.talks(outside, one)
        self.apply(driver, state)
        self.assert_cut(*talks)

    @proves(FirewallDriver, 4)
    def test_changes_of_other_ports_disturb_no_connection(self, driver: FirewallDriver) -> None:
        one, two, other, outside = self.make_ports(4)
        id, unrelated, friends = a_group(), a_group(), a_group()
        state = {**port(one, id), **port(two, id), **trusted(outside), **everything(id)}
        self.apply(driver, state)
        talks = [*self.talks(one, two), *self.talks(outside, one)]
        many = {**port(other, unrelated), **everything(unrelated), **members(friends, other)}
        for more in (many, {**port(other, unrelated), **nothing(unrelated)}, {}):
            self.apply(driver, {**state, **more})
            self.assert_lives(*talks)

    @proves(FirewallDriver, 1)
    def test_what_was_denied_opens_nothing_for_the_other_side(self, driver: FirewallDriver) -> None:
        """Check that after a denied packet the receiver's own packets do not count as replies."""
        one, two = self.make_ports(2)
        id, other = a_group(), a_group()
        self.apply(
            driver, {**port(one, id), **port(two, other), **everything(id, OUT), **nothing(other)}
        )
        sends = a_group()
        for version in FAMILIES:
            request = one.udp(two, 9, version=version)
            self.assert_blocked(one, two, request)
            self.assert_blocked(two, one, answer(request))
        self.apply(
            driver,
            {**port(one, id), **port(two, sends), **everything(id, OUT), **everything(sends, OUT)},
        )
        for version in FAMILIES:
            request = one.udp(two, 19, version=version)
            self.assert_blocked(one, two, request)
            self.assert_blocked(two, one, answer(request))

    @proves(FirewallDriver, 1)
    def test_what_belongs_to_no_connection_is_dropped(self, driver: FirewallDriver) -> None:
        """Though every rule there could be is there."""
        one, two, outside = self.make_ports(3)
        id = a_group()
        self.apply(driver, {**port(one, id), **port(two, id), **trusted(outside), **everything(id)})
        for version in FAMILIES:
            for a, b in ((one, two), (outside, one), (one, outside)):
                out_of_the_blue = [
                    a.tcp(b, 80, version=version, flags=flags, source_port=40000 + int(flags))
                    for flags in _SENSELESS
                ]
                self.assert_blocked(a, b, *out_of_the_blue)
                self.assert_blocked(a, b, a.ping(b, version=version, icmp=ECHO_REPLY[version]))
                talk = self.opened(a, b, 80, version=version)
                far = evolve(talk.forth(), sequence=talk.forth().sequence + (1 << 30))
                self.assert_blocked(a, b, far)
                self.assert_lives(talk)

    @proves(FirewallDriver, 4)
    def test_connections_outlive_the_driver(self, make_driver: MakeDriver) -> None:
        """Check that the next driver, which has only the host's state, changes nothing."""
        driver = make_driver()
        one, two, outside = self.make_ports(3)
        id, friends = a_group(), a_group()
        allow = [rule(id, way, version=v, remote=friends) for way in (IN, OUT) for v in FAMILIES]
        state: State = {
            **port(one, id), **port(two, id), **trusted(outside), **group(id, *allow),
            **members(friends, one, two, outside),
        }  # fmt: skip
        self.apply(driver, state)
        talks = [*self.talks(one, two), *self.talks(outside, one)]
        former = self.environment.dump_state()
        successor = make_driver()
        outcome = successor.converge(Update(put=state, complete=True))
        assert outcome.ok, str(outcome)
        assert self.environment.dump_state() == former
        self.environment.settle()
        self.assert_lives(*talks)
        self.apply(successor, {k: v for k, v in state.items() if not isinstance(v, Member)})
        self.assert_cut(*talks)

    @proves(FirewallDriver, 4)
    def test_connections_revoked_without_a_driver_end_with_the_next(
        self, make_driver: MakeDriver
    ) -> None:
        """Give the next driver a smaller desired state than the former one."""
        driver = make_driver()
        one, outside = self.make_ports(2)
        id = a_group()
        state = {**port(one, id), **trusted(outside), **everything(id)}
        self.apply(driver, state)
        talks = self.talks(outside, one)
        less = {**state, GroupKey(id): Rules(frozenset({rule(id, IN, TCP, (9, 9))}))}
        outcome = make_driver().converge(Update(put=less, complete=True))
        assert outcome.ok, str(outcome)
        self.environment.settle()
        self.assert_cut(*talks)
