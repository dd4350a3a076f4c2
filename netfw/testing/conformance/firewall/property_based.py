"""Property-based tests of the firewall suite: random policies and packets.

:mod:`netfw.testing.conformance.firewall.reference_model` decides which packets should pass.  The
module needs hypothesis; the other suites do not.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from attrs import evolve, frozen
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from netfw.drivers.firewall import (
    FilteredPort,
    FirewallCapability,
    FirewallDriver,
    FirewallKey,
    FirewallValue,
    Member,
    Rules,
)
from netfw.drivers.values.keys import GroupKey
from netfw.model.security_group import SecurityGroupRule
from netfw.model.values.protocol import TCP
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.firewall.atomic_updates import LONG
from netfw.testing.conformance.firewall.case import FirewallCase
from netfw.testing.conformance.firewall.command_injection import (
    SENTINEL,
    InjectionCase,
    invalid_groups,
    invalid_members,
    invalid_ports,
)
from netfw.testing.conformance.firewall.environment import Delivery, FirewallTestPort, answer
from netfw.testing.conformance.firewall.factories import State
from netfw.testing.conformance.firewall.packets import Flags, Packet
from netfw.testing.conformance.firewall.reference_model import passes
from netfw.testing.conformance.firewall.strategies import Trip, invalid_texts, policies, trips
from netfw.testing.conformance.firewall.targeted_cases import targeted_cases


@frozen
class Opened:
    """A connection that was allowed by every policy since it began."""

    sender: FirewallTestPort
    receiver: FirewallTestPort
    opening: Packet
    reply: Packet
    state: State


class FirewallPropertyConformance(InjectionCase):
    """Each example follows the one before it: connections of one meet the policy of the next.

    Targeted examples come first, one for each known kind of mistake, so that each run finds these.
    """

    examples: ClassVar[int] = 800 if os.environ.get(LONG) else 60
    """Number of random examples, after the targeted ones."""

    def draw_cases(
        self,
        drawn: SearchStrategy[Any],
        check: Callable[[Any], None],
        targeted: Iterable[Any] = (),
    ) -> None:
        """Run *check* on the examples of *targeted*, and then on random ones.

        The random ones of the short form are the same in every run of the same tests.  They
        change with the modules that are loaded, whose constants hypothesis draws too: a mistake
        that only they find may be missed.
        """
        for example in targeted:
            check(example)
        configured = settings(
            max_examples=self.examples,
            deadline=None,
            database=None,
            derandomize=not os.environ.get(LONG),
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate,),
            report_multiple_bugs=False,
        )
        first: list[BaseException] = []

        def remembered(example: Any) -> None:
            try:
                check(example)
            except BaseException as error:
                first.append(error)
                raise

        try:
            configured(given(drawn)(remembered))()
        finally:
            if first:  # what came later began with what the first left behind
                raise first[0]

    @proves(FirewallDriver, 1, 2, 3, 4)
    def test_every_packet_passes_or_not_as_the_reference_model(
        self, driver: FirewallDriver
    ) -> None:
        ports = self.make_ports(4)
        able = driver.describe().capabilities
        kinds = {
            "stateless": FirewallCapability.STATELESS_GROUPS in able,
            "address_groups": FirewallCapability.ADDRESS_GROUPS in able,
        }
        former: list[Opened] = []

        def check(drawn: tuple[State, list[Trip]]) -> None:
            state, sent = drawn
            self.apply(driver, state)
            self.check_former(state, former)
            former[:] = [opened for trip in sent for opened in self.check_trip(state, trip)]

        def with_trips(state: State) -> SearchStrategy[tuple[State, list[Trip]]]:
            packets = st.lists(trips(ports, state), min_size=6, max_size=12)
            return st.tuples(st.just(state), packets)

        states = policies(ports, **kinds)
        self.draw_cases(states.flatmap(with_trips), check, targeted_cases(ports, **kinds))

    def check_trip(self, state: State, trip: Trip) -> list[Opened]:
        """Check the packet of a new connection, and its reply; return an established connection."""
        number = next(FirewallCase.numbers)
        one, two = trip.sender, trip.receiver
        sent = evolve(trip.packet, source_port=2000 + number % 60000, identifier=number & 0xFFFF)
        allowed = passes(state, sent, one.key, two.key)
        self.assert_delivery(state, one, two, sent, allowed)
        reply = answer(sent)
        if sent.protocol == TCP:
            reply = evolve(
                reply, flags=Flags.SYN | Flags.ACK, sequence=5000, acknowledged=sent.sequence + 1
            )
        if not allowed:
            return []
        answered = passes(state, reply, two.key, one.key, sent)
        self.assert_delivery(state, two, one, reply, answered)
        known = answered and sent.protocol != TCP and _is_tracked(state, one, two)
        return [Opened(one, two, sent, reply, state)] if known else []

    def check_former(self, state: State, former: list[Opened]) -> None:
        """Check that connections of an earlier policy live or are cut as *state* demands."""
        for old in former:
            ends = old.receiver, old.sender
            lives = passes(state, old.reply, ends[0].key, ends[1].key, old.opening)
            opens = passes(state, old.reply, ends[0].key, ends[1].key)
            if lives or not opens:  # else it may be taken for the beginning of another one
                try:
                    self.assert_delivery(state, *ends, old.reply, lives)
                except AssertionError as error:
                    raise AssertionError(
                        f"{error}\nand did with\n{_describe_all(old.state)}"
                    ) from None

    def assert_delivery(
        self,
        state: State,
        one: FirewallTestPort,
        two: FirewallTestPort,
        sent: Packet,
        allowed: bool,
    ) -> None:
        expected = allowed or not self.filtering
        (arrived,) = self.environment.carry([Delivery(one, two, sent, expected)])
        should = "should pass" if expected else "should not pass"
        frame = f"{sent} from {one} to {two} {should} with\n{_describe_all(state)}"
        assert arrived is expected, frame

    @proves(FirewallDriver, 9)
    def test_invalid_values_are_refused_by_name(self, driver: FirewallDriver) -> None:
        one, outside = self.make_ports(2)
        sender = self.may_speak(driver, one, outside)
        id, good = sender.group, sender.good

        def check(drawn: tuple[str, int]) -> None:
            text, location = drawn
            invalid = [
                *invalid_ports(one, good, [text]),
                *invalid_groups(id, [text]),
                *invalid_members(id, [text]),
            ]
            self.refuses(driver, iter([invalid[location % len(invalid)]]))

        self.draw_cases(st.tuples(invalid_texts(SENTINEL), st.integers(0, 99)), check)
        self.assert_passes(one, outside, one.udp(outside, 9))
        self.assert_blocked(outside, one, outside.udp(one, 9))


def _is_tracked(state: State, *ends: FirewallTestPort) -> bool:
    """Return whether a connection between *ends* has to be tracked."""
    ports = [value for end in ends if isinstance(value := state[end.key], FilteredPort)]
    kinds = {
        rules.stateful
        for port in ports
        for id in port.groups
        if isinstance(rules := state.get(GroupKey(id)), Rules)
    }
    return kinds == {True}


def _describe_all(state: State) -> str:
    return "\n".join(f"  {_describe(key, value)}" for key, value in state.items())


def _describe(key: FirewallKey, value: FirewallValue) -> str:
    """Describe a value in a failure message, as briefly as its rules allow."""
    match value:
        case FilteredPort(trusted=True):
            return f"{key}: trusted"
        case FilteredPort():
            groups = ", ".join(map(str, value.groups))
            return f"{key}: in {groups}; sends as {sorted(str(s.prefix) for s in value.sources)}"
        case Rules():
            rules = "".join(f"\n    {_describe_rule(rule)}" for rule in value.rules)
            return f"{key}{'' if value.stateful else ' without state'}:{rules}"
        case Member():
            return f"{value.prefix} {value.mac or ''} is in {value.group}"


def _describe_rule(rule: SecurityGroupRule) -> str:
    remote = rule.remote_prefix or rule.remote_group_id or rule.remote_address_group_id
    ends = f"{rule.port_min}:{rule.port_max}"
    return f"{rule.direction} {rule.ethertype} {rule.protocol} {ends} {remote or 'any'}"
