"""What firewalls of Linux bridges do alike, whichever tables of the kernel they use.

A subclass has a fixture ``firewall``.
"""

from __future__ import annotations

from typing import ClassVar

import pytest

from netfw.model.security_group import SecurityGroupRule
from netfw.model.values.ids import SecurityGroupId
from netfw.plan import Plan, Update
from tests.lab.linux.bridge_firewall.environment import (
    IN,
    OUT,
    FirewallHost,
    Guest,
    State,
    a_group_id,
    connect,
    echoing,
    everything,
    group,
    member,
    rule,
    talks,
)
from tests.server.security_groups.rule_combinations import accepted_rules

SYSCTL = "net.bridge.bridge-nf-call-iptables"


def connected_guests(firewall: FirewallHost) -> tuple[list[Guest], SecurityGroupId, State]:
    """Return two guests, the first of which has sent a datagram to the second one, and two with
    the same addresses on another network; the group of those that may send, and its rules."""
    guests = [firewall.guest(1), firewall.guest(2)]
    guests += [firewall.guest(51, "br2"), firewall.guest(52, "br2")]
    asks = a_group_id()
    rules = group(asks, rule(asks, OUT, protocol=17))
    firewall.put(guests[0].value(asks), guests[1].value(trusted=True), rules)
    assert guests[0].sends(guests[1], 1000, 2000)
    return guests, asks, rules


class BridgeFirewallBehaviour:
    """Tests of a firewall of Linux bridges with real packets."""

    FILTERS_BY_SYSCTL: ClassVar[bool]
    """Nothing is filtered where bridges are not passed to iptables."""
    MORE_MEMBERS: ClassVar[tuple[str, ...]] = ()
    """Members that the backend could list otherwise than they were written."""

    def more_rules(self, id: SecurityGroupId) -> list[SecurityGroupRule]:
        """Return rules that the backend could list otherwise than they were written."""
        return []

    def own_lines(self, firewall: FirewallHost) -> list[str]:
        """Return the rules of the driver."""
        raise NotImplementedError

    @pytest.mark.spec("FW-04")
    def test_a_revoked_connection_is_removed_and_others_stay(self, firewall: FirewallHost) -> None:
        one, two = firewall.guest(1), firewall.guest(2)
        id, other = a_group_id(), a_group_id()
        rules = [rule(id, IN, protocol=6, port_min=port, port_max=port) for port in (80, 81)]
        firewall.put(two.value(id), one.value(other), group(id, *rules), everything(other, OUT))
        with echoing(two, 80), echoing(two, 81):
            revoked, kept = connect(one, two, 80), connect(one, two, 81)
            assert talks(revoked)
            assert talks(kept)
            assert len(firewall.connections(destination_port=80)) == 1
            firewall.put(group(id, rules[1]))
            assert not firewall.connections(destination_port=80)
            assert not talks(revoked, timeout=0.7)
            assert talks(kept)
            (living,) = firewall.connections(destination_port=81)
            assert living.zone == 4097
            revoked.close()
            kept.close()

    @pytest.mark.spec("FW-08")
    def test_equal_addresses_in_two_networks_have_connections_of_their_own(
        self, firewall: FirewallHost
    ) -> None:
        one, two = firewall.guest(1), firewall.guest(2)
        twin, peer = firewall.guest(51, "br2"), firewall.guest(52, "br2")
        assert (twin.address, peer.address) == (one.address, two.address)
        id = a_group_id()
        ports = [guest.value(id) for guest in (one, two, twin, peer)]
        firewall.put(*ports, everything(id))
        assert one.reaches(two)
        assert twin.reaches(peer)
        assert {connection.zone for connection in firewall.connections(protocol=1)} == {4097, 4098}
        firewall.drop(twin.value(), peer.value())
        assert {connection.zone for connection in firewall.connections(protocol=1)} == {4097}

    @pytest.mark.spec("FW-08")
    def test_no_network_inherits_connections_of_another_after_the_rules_were_lost(
        self, firewall: FirewallHost
    ) -> None:
        (one, two, twin, peer), asks, rules = connected_guests(firewall)
        assert two.sends(one, 2000, 1000)
        assert {connection.zone for connection in firewall.connections(protocol=17)} == {4097}
        firewall.lose_rules()
        firewall.driver = firewall.another_driver()
        firewall.put(twin.value(asks), peer.value(trusted=True), rules)
        assert not peer.sends(twin, 2000, 1000, timeout=1)
        assert twin.sends(peer, 1000, 2000)
        assert {connection.zone for connection in firewall.connections(protocol=17)} == {4097}

    @pytest.mark.spec("FW-08")
    def test_no_network_inherits_connections_that_a_killed_driver_left(
        self, firewall: FirewallHost
    ) -> None:
        (one, two, twin, peer), asks, _ = connected_guests(firewall)
        update = Update(drop=frozenset({**one.value(), **two.value()}))
        plan = firewall.driver.plan(update, firewall.driver.observe(update))
        assert plan.stages[-1].backend == "conntrack"
        firewall.driver.apply(Plan(plan.stages[:-1]), lambda _: None)
        assert {connection.zone for connection in firewall.connections(protocol=17)} == {4097}
        firewall.driver = firewall.another_driver()
        firewall.put(twin.value(asks), peer.value(trusted=True))
        assert not peer.sends(twin, 2000, 1000, timeout=1)

    @pytest.mark.spec("FW-10")
    def test_a_driver_that_starts_finds_everything_as_it_is(self, firewall: FirewallHost) -> None:
        state = self.various_state(firewall)
        firewall.put(state)
        before = firewall.saved()
        successor = firewall.another_driver()
        assert successor.present() == state.keys()
        update = Update(put=state, complete=True)
        plan = successor.plan(update, successor.observe(None))
        assert not plan, str(plan)
        assert successor.converge(update).ok
        assert firewall.saved() == before
        firewall.drop(state)
        assert self.own_lines(firewall) == []

    def various_state(self, firewall: FirewallHost) -> State:
        """Return a state with rules and members of all kinds."""
        one, two, three = (firewall.guest(number) for number in (1, 2, 3))
        id, friends, other = a_group_id(), a_group_id(), a_group_id()
        rules = [
            rule(id, IN, protocol=6, port_min=80, port_max=90),
            rule(id, IN, protocol=1, port_min=255),
            rule(id, IN, protocol=1, port_min=8, port_max=0),
            rule(id, IN, 6, protocol=58, port_min=128, port_max=0),
            rule(id, OUT, protocol=132, port_min=1, port_max=9),
            rule(id, OUT, protocol=136, port_min=1, port_max=9),
            rule(id, OUT, 6, protocol=33, port_min=7, port_max=7),
            rule(id, OUT, protocol=89, remote_prefix="192.0.2.0/24"),
            rule(id, OUT, 6, remote_prefix="2001:db8::/32"),
            rule(id, IN, remote_group_id=friends),
            rule(id, OUT, 6, protocol=17, remote_group_id=friends),
            *self.more_rules(id),
        ]
        members = ("10.0.0.0/8", "fd00::/64", "::/0", *self.MORE_MEMBERS)
        parts = (
            one.value(id, other), two.value(other), three.value(trusted=True),
            group(id, *rules), group(other, rule(other, OUT), stateful=False),
            *(member(friends, prefix) for prefix in members),
        )  # fmt: skip
        return {key: value for part in parts for key, value in part.items()}

    def test_bridges_are_filtered_where_they_were_not(self, firewall: FirewallHost) -> None:
        one, two = firewall.guest(1), firewall.guest(2)
        state = {**one.value(), **two.value(trusted=True)}
        for _ in range(2):
            firewall.host.run(["sysctl", "-w", f"{SYSCTL}=0"])
            if self.FILTERS_BY_SYSCTL:
                assert two.reaches(one)
            update = Update(put=state, complete=True)
            plan = firewall.driver.plan(update, firewall.driver.observe(None))
            assert f"sysctl: {SYSCTL}=1" in str(plan)
            firewall.converge(update)
            assert "=1" in firewall.host.run(["sysctl", SYSCTL]).replace(" ", "")
            assert not two.reaches(one)

    def test_a_port_finds_its_neighbours_and_is_found(self, firewall: FirewallHost) -> None:
        # Packets that the kernel itself sends to establish a connection need no rule.
        one, two = firewall.guest(1), firewall.guest(2)
        id = a_group_id()
        firewall.put(one.value(id), two.value(id), everything(id))
        for version in (4, 6):
            assert one.reaches(two, version=version)
            assert two.reaches(one, version=version)

    @pytest.mark.spec("FW-01", "API-06")
    @pytest.mark.parametrize("stateful", [True, False])
    def test_every_rule_of_the_api_is_enforced(
        self, firewall: FirewallHost, stateful: bool
    ) -> None:
        one, id = firewall.guest(1), a_group_id()
        state = {**one.value(id), **group(id, *accepted_rules(), stateful=stateful)}
        outcome = firewall.driver.converge(Update(put=state))
        assert outcome.ok, str(outcome)
        again = firewall.driver.plan(Update(put=state), firewall.driver.observe(None))
        assert not again.stages, f"the kernel lists what was meant: {again}"


def check_repair_of(firewall: FirewallHost, damage: str) -> None:
    """Check that a change by hand is detected and repaired.

    :param damage: a command with the words ``{port}``, ``{group}`` and ``{friends}``.
    """
    one = firewall.guest(1)
    id, friends = a_group_id(), a_group_id()
    state = {
        **one.value(id),
        **group(id, rule(id, IN, remote_group_id=friends)),
        **member(friends, "192.0.2.0/24"),
    }
    firewall.put(state)
    before = firewall.saved()
    firewall.run_as_operator(damage, port=one.port, group=id, friends=friends)
    assert firewall.saved() != before
    update = Update(put=state, complete=True)
    plan = firewall.driver.plan(update, firewall.driver.observe(None))
    assert plan
    firewall.converge(update)
    assert firewall.saved() == before
