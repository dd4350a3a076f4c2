"""Groups that keep no state: each packet needs a rule of its own."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

from attrs import evolve

from netfw.drivers.firewall import FirewallCapability, FirewallDriver
from netfw.drivers.values.keys import GroupKey
from netfw.errors import NotSupported
from netfw.model.values.protocol import TCP, UDP
from netfw.plan import Update
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.firewall.case import FirewallCase
from netfw.testing.conformance.firewall.environment import answer
from netfw.testing.conformance.firewall.factories import (
    FAMILIES,
    IN,
    OUT,
    a_group,
    everything,
    group,
    members,
    port,
    rule,
    trusted,
)
from netfw.testing.conformance.firewall.packets import Flags
from netfw.testing.conformance.firewall.reference_model import passes


class FirewallStatelessConformance(FirewallCase):
    """Tests of stateless groups; a driver without the capability reports that it has none."""

    @proves(FirewallDriver, 1)
    def test_without_state_a_reply_needs_a_rule(self, driver: FirewallDriver) -> None:
        self.require(driver, FirewallCapability.STATELESS_GROUPS)
        one, outside = self.make_ports(2)
        id = a_group()
        requests = [rule(id, IN, UDP, (9, 9), version=version) for version in FAMILIES]
        replies = [rule(id, OUT, UDP, (20000, 65535), version=version) for version in FAMILIES]
        state = {**port(one, id), **trusted(outside)}
        self.apply(driver, {**state, **group(id, *requests, stateful=False)})
        for version in FAMILIES:
            sent = outside.udp(one, 9, version=version)
            self.assert_passes(outside, one, sent)
            self.assert_blocked(one, outside, answer(sent))
        self.apply(driver, {**state, **group(id, *requests, *replies, stateful=False)})
        for version in FAMILIES:
            sent = outside.udp(one, 9, version=version)
            self.assert_passes(outside, one, sent)
            self.assert_passes(one, outside, answer(sent))

    @proves(FirewallDriver, 1)
    def test_without_state_nothing_is_invalid(self, driver: FirewallDriver) -> None:
        self.require(driver, FirewallCapability.STATELESS_GROUPS)
        one, two = self.make_ports(2)
        id = a_group()
        self.apply(driver, {**port(one, id), **port(two, id), **everything(id, stateful=False)})
        for version in FAMILIES:
            for flags in (Flags.ACK, Flags.SYN | Flags.ACK):
                sent = one.tcp(two, 80, version=version, flags=flags)
                self.assert_passes(one, two, sent, sent)
            self.opened(one, two, 81, version=version)

    @proves(FirewallDriver, 1, 3)
    def test_without_state_rules_mean_the_same(self, driver: FirewallDriver) -> None:
        self.require(driver, FirewallCapability.STATELESS_GROUPS)
        one, friend, outsider = self.make_ports(3)
        id, friends = a_group(), a_group()
        rules = [rule(id, way, TCP, (80, 89), remote=friends) for way in (IN, OUT)]
        state = {**port(one, id), **trusted(friend, outsider), **members(friends, friend)}
        self.apply(driver, {**state, **group(id, *rules, stateful=False)})
        for a, b in ((friend, one), (one, friend)):
            self.assert_passes(a, b, a.tcp(b, 80), a.tcp(b, 89))
            self.assert_blocked(a, b, a.tcp(b, 90), a.udp(b, 80), a.tcp(b, 80, version=6))
        self.assert_blocked(outsider, one, outsider.tcp(one, 80))
        self.assert_blocked(one, outsider, one.tcp(outsider, 80))

    @proves(FirewallDriver, 2)
    def test_without_state_one_is_still_only_oneself(self, driver: FirewallDriver) -> None:
        """Stateless rules come first, but after anti-spoofing."""
        self.require(driver, FirewallCapability.STATELESS_GROUPS)
        self.require(driver, FirewallCapability.SPOOF_GUARD)
        one, outside = self.make_ports(2)
        id = a_group()
        self.apply(driver, {**port(one, id), **trusted(outside), **everything(id, stateful=False)})
        for own in (one.address6, one.link_local):
            self.assert_passes(one, outside, one.advertisement(outside, own, source=own))
        for other in (outside.address6, outside.link_local, IPv6Address("fd00:99::1")):
            forged = one.advertisement(outside, other)
            self.assert_blocked(one, outside, forged, evolve(forged, source=other))
            self.assert_blocked(one, outside, evolve(forged, source=IPv6Address(0)))
            self.assert_blocked(one, outside, one.udp(outside, 9, version=6, source=other))
        self.assert_passes(one, outside, one.arp(outside), one.udp(outside, 9))
        for other4 in (outside.address, IPv4Address("10.99.0.1")):
            frame = one.arp(outside, answer=True, target_mac=outside.mac, sender=other4)
            self.assert_blocked(one, outside, frame, one.udp(outside, 9, source=other4))

    @proves(FirewallDriver, 1)
    def test_a_port_may_be_in_groups_of_both_kinds(self, driver: FirewallDriver) -> None:
        """Either group may allow it; state on one side does not depend on the other side."""
        self.require(driver, FirewallCapability.STATELESS_GROUPS)
        one, two, outside = self.make_ports(3)
        stateful, stateless = a_group(), a_group()
        state = {
            **port(one, stateful, stateless), **port(two, stateless), **trusted(outside),
            **group(stateful, *(rule(stateful, way, TCP, (80, 80)) for way in (IN, OUT))),
            **group(stateless, *(rule(stateless, way, UDP) for way in (IN, OUT)), stateful=False),
        }  # fmt: skip
        self.apply(driver, state)
        self.opened(outside, one, 80)
        self.opened(one, outside, 80)
        self.opened(outside, one, 53, protocol=UDP)
        self.opened(one, two, 53, protocol=UDP)
        self.assert_blocked(outside, one, outside.tcp(one, 81))
        self.assert_blocked(outside, two, outside.tcp(two, 80))

    @proves(FirewallDriver, 1)
    def test_a_sender_with_state_has_replies_from_a_port_without(
        self, driver: FirewallDriver
    ) -> None:
        self.require(driver, FirewallCapability.STATELESS_GROUPS)
        one, two = self.make_ports(2)
        stateful, stateless = a_group(), a_group()
        state = {
            **port(one, stateful), **everything(stateful, OUT),
            **port(two, stateless), **everything(stateless, stateful=False),
        }  # fmt: skip
        self.apply(driver, state)
        for version in FAMILIES:
            self.opened(one, two, 80, version=version)
            self.opened(one, two, 53, protocol=UDP, version=version)
            self.assert_blocked(two, one, two.udp(one, 53, version=version))

    @proves(FirewallDriver, 1)
    def test_state_that_comes_and_goes(self, driver: FirewallDriver) -> None:
        self.require(driver, FirewallCapability.STATELESS_GROUPS)
        one, outside = self.make_ports(2)
        id = a_group()
        rules = [rule(id, IN, version=version) for version in FAMILIES]
        state = {**port(one, id), **trusted(outside)}
        for _ in range(2):
            self.apply(driver, {**state, **group(id, *rules)})
            self.opened(outside, one, 80)
            self.apply(driver, {**state, **group(id, *rules, stateful=False)})
            sent = outside.udp(one, 9)
            self.assert_passes(outside, one, sent)
            self.assert_blocked(one, outside, answer(sent))

    @proves(FirewallDriver, 1, 3)
    def test_state_rules_and_members_change_together(self, driver: FirewallDriver) -> None:
        self.require(driver, FirewallCapability.STATELESS_GROUPS)
        one, friend, other = self.make_ports(3)
        id, friends = a_group(), a_group()
        around = {**port(one, id), **trusted(friend, other)}
        udp, tcp = (rule(id, IN, protocol, remote=friends) for protocol in (UDP, TCP))
        states = [
            {**around, **group(id, udp), **members(friends, friend)},
            {**around, **group(id, udp, tcp, stateful=False), **members(friends, other)},
            {**around, **group(id, tcp, stateful=False), **members(friends, friend)},
        ]
        for state in (*states, *reversed(states)):
            self.apply(driver, state)
            for sender in (friend, other):
                for sent in (sender.udp(one, 9), sender.tcp(one, 9)):
                    allowed = passes(state, sent, sender.key, one.key)
                    check = self.assert_passes if allowed else self.assert_blocked
                    check(sender, one, sent)

    @proves(FirewallDriver, 9)
    def test_stateless_groups_are_refused_by_name_if_not_declared(
        self, driver: FirewallDriver
    ) -> None:
        one, _ = self.make_ports(2)
        id, able = a_group(), driver.describe().capabilities
        self.wire(port(one, id))
        outcome = driver.converge(Update(put={**port(one, id), **everything(id, stateful=False)}))
        if FirewallCapability.STATELESS_GROUPS in able or not self.filtering:
            assert outcome.ok, str(outcome)
        else:
            assert outcome.failed.keys() == {GroupKey(id)}, str(outcome)
            assert isinstance(outcome.failed[GroupKey(id)], NotSupported)
