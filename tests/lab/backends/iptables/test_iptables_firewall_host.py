"""What an operator sees of the firewall on iptables, also after manual changes."""

from __future__ import annotations

import pytest

from netfw_drivers.iptables.plan.names import short
from tests.lab.backends.iptables.environment import IptablesHost
from tests.lab.linux.bridge_firewall.environment import (
    IN,
    FirewallHost,
    a_group_id,
    everything,
    group,
    member,
    rule,
)
from tests.lab.linux.bridge_firewall.firewall_behaviour import (
    BridgeFirewallBehaviour,
    check_repair_of,
)


class TestIptablesOnBridges(BridgeFirewallBehaviour):
    FILTERS_BY_SYSCTL = True

    def own_lines(self, firewall: FirewallHost) -> list[str]:
        return [line for lines in firewall.saved().values() for line in lines if "nfw-" in line]


@pytest.mark.spec("FW-03", "FW-11")
def test_members_come_and_go_without_a_change_of_rules(firewall: IptablesHost) -> None:
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
def test_manual_change_is_found_and_repaired(firewall: IptablesHost, damage: str) -> None:
    check_repair_of(firewall, damage)


def test_the_hosts_own_rules_stay_as_and_where_they_are(firewall: IptablesHost) -> None:
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
