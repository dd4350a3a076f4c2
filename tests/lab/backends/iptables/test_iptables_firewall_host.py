"""What an operator sees of the firewall on iptables, and what becomes of it in rough hands."""

from __future__ import annotations

import pytest

from netfw.plan import Update
from netfw_drivers.iptables.plan.names import short
from tests.lab.backends.iptables.environment import (
    IN,
    OUT,
    FirewallHost,
    a_group_id,
    connect,
    echoing,
    everything,
    group,
    member,
    rule,
    talks,
)


@pytest.mark.spec("FW-04")
def test_a_revoked_connection_is_forgotten_and_others_live_on(firewall: FirewallHost) -> None:
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
        assert not talks(revoked)
        assert talks(kept)
        (living,) = firewall.connections(destination_port=81)
        assert living.zone == 4097
        revoked.close()
        kept.close()


@pytest.mark.spec("FW-03", "FW-11")
def test_members_come_and_go_without_a_change_of_rules(firewall: FirewallHost) -> None:
    one, two = firewall.guest(1), firewall.guest(2)
    id, friends = a_group_id(), a_group_id()
    allowed = group(id, rule(id, IN, protocol=1, remote_group_id=friends))
    firewall.put(two.value(id), one.value(trusted=True), allowed)
    assert not one.reaches(two)
    before = firewall.saved()
    firewall.put(member(friends, f"{one.address}/32"))
    assert one.reaches(two)
    after = firewall.saved()
    assert set(after.pop("ipset")) - set(before.pop("ipset")) == {
        f"add nfw-G4{short(friends)} {one.address}"
    }
    assert after == before
    firewall.drop(member(friends, f"{one.address}/32"))
    assert not one.reaches(two)


@pytest.mark.spec("FW-08")
def test_equal_addresses_in_two_networks_have_connections_of_their_own(
    firewall: FirewallHost,
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


@pytest.mark.spec("FW-10")
def test_a_driver_that_starts_finds_everything_as_it_is(firewall: FirewallHost) -> None:
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
    ]
    parts = (
        one.value(id, other), two.value(other), three.value(trusted=True),
        group(id, *rules), group(other, rule(other, OUT), stateful=False),
        member(friends, "10.0.0.0/8"), member(friends, "fd00::/64"), member(friends, "::/0"),
    )  # fmt: skip
    state = {key: value for part in parts for key, value in part.items()}
    firewall.put(state)
    before = firewall.saved()
    successor = firewall.another_driver()
    assert successor.present() == state.keys()
    update = Update(put=state, complete=True)
    plan = successor.plan(update, successor.observe(None))
    assert not plan, str(plan)
    assert successor.converge(update).ok
    assert firewall.saved() == before


@pytest.mark.parametrize(
    "damage",
    [
        "{ip} -t mangle -F nfw-s{port}",
        "{ip} -t mangle -D nfw-o{port} 1",
        "{ip} -t mangle -I nfw-i{port} -j ACCEPT",
        "{ip} -t mangle -F nfw-sent",
        "{ip} -t mangle -D PREROUTING -j nfw-sent",
        "{ip} -t raw -F nfw-zones.br1",
        "{ip} -t filter -F nfw-bridge",
        "ebtables-nft -t nat -F nfw-p{port}",
        "ebtables-nft -t nat -D PREROUTING -j nfw-guard",
        "ipset flush nfw-G4{friends}",
        "ipset add nfw-G4{friends} 203.0.113.0/24",
    ],
)
def test_manual_change_is_found_and_repaired(firewall: FirewallHost, damage: str) -> None:
    one = firewall.guest(1)
    id, friends = a_group_id(), a_group_id()
    state = {
        **one.value(id),
        **group(id, rule(id, IN, remote_group_id=friends)),
        **member(friends, "192.0.2.0/24"),
    }
    firewall.put(state)
    before = firewall.saved()
    command = damage.format(
        ip=f"iptables{firewall.backend.value}", port=short(one.port), friends=short(friends)
    )
    firewall.host.run(command.split())
    assert firewall.saved() != before
    update = Update(put=state, complete=True)
    plan = firewall.driver.plan(update, firewall.driver.observe(None))
    assert plan
    firewall.converge(update)
    assert firewall.saved() == before


def test_the_hosts_own_rules_stay_as_and_where_they_are(firewall: FirewallHost) -> None:
    suffix = firewall.backend.value
    for line in (
        "-t filter -A FORWARD -i eth9 -j DROP",
        "-t filter -N theirs",
        "-t filter -A INPUT -p tcp --dport 22 -j theirs",
        "-t mangle -A PREROUTING -i eth9 -j MARK --set-mark 7",
        "-t raw -A PREROUTING -i eth9 -j CT --notrack",
    ):
        firewall.host.run([f"iptables{suffix}", *line.split()])
    firewall.host.run(["ebtables-nft", "-t", "nat", "-A", "PREROUTING", "-i", "eth9", "-j", "DROP"])
    firewall.host.run(["ipset", "create", "theirs", "hash:net"])
    before = firewall.saved()
    one = firewall.guest(1)
    id = a_group_id()
    state = {**one.value(id), **everything(id)}
    firewall.put(state)
    theirs = {
        command: [line for line in lines if "nfw-" not in line]
        for command, lines in firewall.saved().items()
    }
    ours_only = {"*mangle", "*raw", "*filter", "*nat", "COMMIT"}
    for command, lines in before.items():
        kept = [line for line in theirs[command] if line in lines]
        assert [line for line in kept if line not in ours_only] == [
            line for line in lines if line not in ours_only
        ]
    firewall.drop(state)
    left = [line for lines in firewall.saved().values() for line in lines if "nfw-" in line]
    assert not left


def test_bridges_are_shown_to_iptables_where_they_were_not(firewall: FirewallHost) -> None:
    switch = "net.bridge.bridge-nf-call-iptables"
    one, two = firewall.guest(1), firewall.guest(2)
    state = {**one.value(), **two.value(trusted=True)}
    for _ in range(2):
        firewall.host.run(["sysctl", "-w", f"{switch}=0"])
        assert two.reaches(one)
        update = Update(put=state, complete=True)
        plan = firewall.driver.plan(update, firewall.driver.observe(None))
        assert f"sysctl: {switch}=1" in str(plan)
        firewall.converge(update)
        assert not two.reaches(one)


def test_a_port_finds_its_neighbours_and_is_found(firewall: FirewallHost) -> None:
    """Nothing of what the kernel says by itself to get a connection going needs a rule."""
    one, two = firewall.guest(1), firewall.guest(2)
    id = a_group_id()
    firewall.put(one.value(id), two.value(id), everything(id))
    for version in (4, 6):
        assert one.reaches(two, version=version)
        assert two.reaches(one, version=version)
