"""Rules that a driver cannot enforce: they are left out alone, and named."""

from __future__ import annotations

from collections.abc import Iterator

from netfw.drivers.firewall import FirewallCapability, FirewallDriver, FirewallKey
from netfw.drivers.reconciler import Reconciler
from netfw.drivers.support.firewall_capabilities import PORT_CAPABILITIES
from netfw.drivers.values.keys import GroupKey
from netfw.errors import PartlyInvalid
from netfw.model.security_group import SecurityGroupRule
from netfw.model.values.ids import SecurityGroupId
from netfw.model.values.protocol import TCP, UDP, UDPLITE
from netfw.plan import Outcome, Update
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.firewall.case import FirewallCase, MakeDriver
from netfw.testing.conformance.firewall.factories import (
    FAMILIES,
    IN,
    OUT,
    State,
    a_group,
    an_address_group,
    group,
    port,
    rule,
    trusted,
)

_OPEN, _REVOKED, _LATER = 80, 81, 82


class FirewallUnenforceableConformance(FirewallCase):
    """Each rule whose capability the driver does not declare, beside rules that it enforces."""

    @proves(FirewallDriver, 10)
    def test_a_rule_that_cannot_be_enforced_is_left_out_alone(self, driver: FirewallDriver) -> None:
        for refused in self._unenforceable(driver):
            one, outside = self.make_ports(2)
            id = refused.security_group_id
            around = {**port(one, id), **trusted(outside)}
            self._apply_partly(driver, {**around, **group(id, refused, _tcp(id, _OPEN))}, refused)
            assert GroupKey(id) in driver.present()
            self.assert_passes(outside, one, outside.tcp(one, _OPEN))
            self.assert_blocked(outside, one, outside.tcp(one, _LATER))
            for port_number in (refused.port_min or 0, _LATER):
                sent = outside.packet(one, refused.ip_protocol or TCP, port_number)
                self.assert_blocked(outside, one, sent)
            self._clear(driver)

    @proves(FirewallDriver, 4, 10)
    def test_changes_beside_a_rule_that_cannot_be_enforced(self, driver: FirewallDriver) -> None:
        for refused in self._unenforceable(driver):
            one, joining, outside = self.make_ports(3)
            id = refused.security_group_id
            around = {**port(one, id), **trusted(outside)}
            before = group(id, _tcp(id, _OPEN), _tcp(id, _REVOKED))
            self.apply(driver, {**around, **before})
            kept, revoked = (self.opened(outside, one, number) for number in (_OPEN, _REVOKED))
            later = [refused, _tcp(id, _OPEN), _tcp(id, _LATER), rule(id, OUT, UDP)]
            self._apply_partly(driver, {**around, **group(id, *later)}, refused)
            self.assert_lives(kept)
            self.assert_cut(revoked)
            self.assert_blocked(outside, one, outside.tcp(one, _REVOKED))
            self.assert_passes(outside, one, outside.tcp(one, _LATER))
            state = {**around, **port(joining, id), **group(id, *later)}
            self.apply(driver, state)
            self.assert_passes(joining, outside, joining.udp(outside, 9))
            self.assert_passes(outside, joining, outside.tcp(joining, _LATER))
            self.apply(driver, {**state, **group(id, *later[1:])})
            self._clear(driver)

    @proves(FirewallDriver, 10)
    @proves(Reconciler, 2)
    def test_a_new_driver_leaves_out_the_same_rule(self, make_driver: MakeDriver) -> None:
        driver = make_driver()
        for refused in self._unenforceable(driver):
            one, outside = self.make_ports(2)
            id = refused.security_group_id
            state = {
                **port(one, id),
                **trusted(outside),
                **group(id, refused, _tcp(id, _OPEN)),
            }
            self._apply_partly(driver, state, refused)
            former = self.environment.dump_state()
            driver = make_driver()
            outcome = driver.converge(Update(put=state, complete=True))
            self._assert_names(outcome, refused)
            assert self.environment.dump_state() == former
            if isinstance(driver, Reconciler):
                update = Update(put=state, complete=True)
                assert not driver.plan(update, driver.observe(None)).stages
            self.assert_passes(outside, one, outside.tcp(one, _OPEN))
            self._clear(driver)

    @proves(FirewallDriver, 1, 10)
    def test_ports_of_less_common_protocols_are_matched_if_declared(
        self, driver: FirewallDriver
    ) -> None:
        able = driver.describe().capabilities
        for protocol, capability in PORT_CAPABILITIES.items():
            if self.filtering and capability not in able:
                continue
            for stateful in (True, False):
                # Linux computes checksums of UDP-Lite as those of UDP, and tracks none of it
                if stateful and protocol == UDPLITE:
                    continue
                if stateful or not self.filtering or FirewallCapability.STATELESS_GROUPS in able:
                    self._assert_ports_matched(driver, protocol, stateful=stateful)

    def _assert_ports_matched(
        self, driver: FirewallDriver, protocol: int, *, stateful: bool
    ) -> None:
        one, outside = self.make_ports(2)
        id = a_group()
        rules = [rule(id, IN, protocol, (80, 90), version=version) for version in FAMILIES]
        allow = group(id, *rules, stateful=stateful)
        self.apply(driver, {**port(one, id), **trusted(outside), **allow})
        for version in FAMILIES:
            first, last, beyond = (
                outside.packet(one, protocol, each, version=version) for each in (80, 90, 91)
            )
            self.assert_passes(outside, one, first, last)
            self.assert_blocked(outside, one, beyond, outside.tcp(one, 80, version=version))
        self._clear(driver)

    def _unenforceable(self, driver: FirewallDriver) -> Iterator[SecurityGroupRule]:
        """Yield a rule of each capability that the driver does not declare."""
        id = a_group()
        rules = {
            capability: rule(id, IN, protocol, (_LATER, _LATER))
            for protocol, capability in PORT_CAPABILITIES.items()
        }
        rules[FirewallCapability.ADDRESS_GROUPS] = rule(id, IN, addresses=an_address_group())
        for capability, made in rules.items():
            if self.filtering and capability not in driver.describe().capabilities:
                yield made

    def _apply_partly(
        self, driver: FirewallDriver, state: State, refused: SecurityGroupRule
    ) -> None:
        update = self.update_to(state)
        self.wire(state)
        self._assert_names(driver.converge(update), refused)
        self.environment.settle()

    def _assert_names(self, outcome: Outcome[FirewallKey], refused: SecurityGroupRule) -> None:
        key = GroupKey(refused.security_group_id)
        assert outcome.failed.keys() == {key}, str(outcome)
        assert isinstance(outcome.failed[key], PartlyInvalid), repr(outcome.failed[key])
        assert str(refused.id) in str(outcome.failed[key])
        assert not outcome.waiting

    def _clear(self, driver: FirewallDriver) -> None:
        """Drop everything, and make the plug points free for other ports."""
        self.apply(driver, {})
        self._free = {0: [0, 1, 2, 3], 1: [4, 5]}


def _tcp(id: SecurityGroupId, number: int) -> SecurityGroupRule:
    return rule(id, IN, TCP, (number, number))
