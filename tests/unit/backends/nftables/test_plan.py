"""From an update to one transaction."""

import pytest

from netfw.drivers.firewall import Member
from netfw.drivers.values.keys import GroupKey, PortKey
from netfw.errors import Conflict, NotSupported
from netfw.linux.nftables.values import NftRuleset
from netfw.plan import Update
from tests.unit.backends.iptables.samples import (
    FRIENDS,
    GROUP,
    IN,
    OTHER,
    a_group,
    a_member,
    a_port,
    a_rule,
    port_id,
)
from tests.unit.backends.nftables.samples import TABLES, MirroredHost, texts

pytestmark = pytest.mark.spec("FW-15")

STATE = {
    **a_port(1, GROUP),
    **a_port(2, GROUP),
    **a_group(a_rule(IN, protocol=6, remote_group_id=FRIENDS)),
    **a_member("10.0.0.9/32"),
}


@pytest.fixture
def host() -> MirroredHost:
    return MirroredHost({"tap1": "br1", "tap2": "br1", "tap3": "br2"})


def test_everything_is_one_stage_and_connections_are_the_next(host: MirroredHost) -> None:
    plan = host.put(STATE)
    assert [stage.backend for stage in plan.stages] == ["conntrack", "nftables", "conntrack"]
    assert not host.plan(Update(put=STATE, complete=True), fresh=True).stages


@pytest.mark.spec("FW-08")
def test_connections_of_a_zone_are_removed_before_a_network_gets_its_number(
    host: MirroredHost,
) -> None:
    plan = host.put(a_port(1), a_port(3, network=OTHER))
    assert plan.stages[0].operations[0].text == "end all connections in zones [4097, 4098]"
    host.flushes.clear()
    host.put(a_port(2, GROUP))
    assert not any(flush.zones for flush in host.flushes)
    host.ruleset = NftRuleset()
    plan = host.put(a_port(3, network=OTHER))
    assert [stage.backend for stage in plan.stages][:2] == ["conntrack", "nftables"]
    assert host.flushes[-2].zones == {4097}


def test_one_more_member_is_one_element_whatever_the_group_has(host: MirroredHost) -> None:
    host.put(STATE, *(a_member(f"10.1.{n}.{m}/32") for n in range(9) for m in range(9)))
    assert texts(host.put(a_member("192.0.2.1/32"))) == [
        f"add 1 and remove 0 elements of bridge netfw group4-{FRIENDS}"
    ]


def test_one_more_port_changes_its_own_chains_and_elements(host: MirroredHost) -> None:
    host.put(STATE)
    plan = texts(host.put(a_port(3, GROUP, network=OTHER)))
    chains = [text for text in plan if text.startswith("put chain bridge")]
    assert len(chains) == 5
    assert all(str(port_id(3)) in text for text in chains)
    elements = [text for text in plan if "elements of bridge" in text]
    assert elements == [
        "add 1 and remove 0 elements of bridge netfw filtered",
        "add 1 and remove 0 elements of bridge netfw guards",
        "add 2 and remove 0 elements of bridge netfw receivers",
        "add 2 and remove 0 elements of bridge netfw senders",
    ]


def test_overlapping_members_are_kept_apart(host: MirroredHost) -> None:
    host.put(STATE, a_member("10.0.0.0/8"), a_member("10.0.0.0/16"))
    prefixes = ("10.0.0.9/32", "10.0.0.0/8", "10.0.0.0/16")
    index = host.observe().index
    assert {member: member for member in index.members()} == {
        key: value for prefix in prefixes for key, value in a_member(prefix).items()
    }
    (chain,) = (c for k, c in host.ruleset.chains.items() if k.name.startswith("from4-group"))
    assert len(chain.rules) == 3


def test_the_last_member_takes_its_set_with_it_and_ends_connections(host: MirroredHost) -> None:
    host.put(STATE)
    host.converge(Update(drop=frozenset(a_member("10.0.0.9/32"))))
    assert TABLES.filter(f"group4-{FRIENDS}") not in host.ruleset.sets
    assert host.ruleset.chains[TABLES.filter(f"from4-group-{FRIENDS}")].rules == ()
    assert host.flushes[-1].ports == {port_id(1), port_id(2)}


def test_one_member_less_ends_connections_of_ports_whose_rules_name_its_group(
    host: MirroredHost,
) -> None:
    host.put(STATE, a_member("10.0.0.10/32"))
    plan = host.converge(Update(drop=frozenset(a_member("10.0.0.9/32"))))
    assert texts(plan) == [
        f"add 0 and remove 1 elements of bridge netfw group4-{FRIENDS}",
        "end connections of 2 ports that no rule allows any more",
    ]
    assert host.flushes[-1].ports == {port_id(1), port_id(2)}


def test_nothing_is_left_when_everything_is_gone(host: MirroredHost) -> None:
    host.put(STATE)
    host.converge(Update(drop=frozenset(STATE)))
    assert not host.ruleset.tables
    assert not host.ruleset.chains
    assert not host.ruleset.sets


def test_a_full_update_removes_what_it_neither_puts_nor_keeps(host: MirroredHost) -> None:
    host.put(STATE, a_port(3, GROUP, network=OTHER))
    update = Update(put=a_port(1, GROUP), complete=True, keep=frozenset({PortKey(port_id(2))}))
    host.converge(update)
    index = host.observe().index
    assert index.ports.keys() == {port_id(1), port_id(2)}
    assert index.groups == {GROUP: False}
    assert not list(index.members())
    assert {("tap1",), ("tap2",)} == host.ruleset.sets[TABLES.filter("filtered")].elements.keys()


def test_a_group_without_ports_and_members_is_kept(host: MirroredHost) -> None:
    host.put(a_group())
    index = host.observe().index
    assert index.groups == {GROUP: True}
    assert not any(chain.hook for chain in host.ruleset.chains.values())


def test_trusted_ports_are_known_and_their_packets_pass_no_chain(host: MirroredHost) -> None:
    host.put(a_port(1, trusted=True))
    assert host.observe().index.ports[port_id(1)].trusted
    assert not host.ruleset.sets[TABLES.filter("guards")].elements
    host.put(a_port(1, GROUP))
    assert host.ruleset.sets[TABLES.filter("guards")].elements == {
        ("tap1",): f"frames-{port_id(1)}"
    }


def test_private_bridges_of_trusted_ports_are_not_tracked() -> None:
    host = MirroredHost({"tap1": "qbr1"}, private=True)
    host.put(a_port(1, trusted=True))
    assert host.ruleset.sets[TABLES.track("bridges")].elements == {("qbr1",): "untracked"}
    host.put(a_port(1, GROUP))
    assert not host.plan(Update(put=a_port(1, GROUP)), fresh=True).stages
    assert host.ruleset.sets[TABLES.track("tracked")].elements == {("qbr1",): ""}


def test_refusals_are_by_key(host: MirroredHost) -> None:
    host.put(STATE)
    odd = Member(
        GroupKey(FRIENDS), next(iter(a_member("10.0.0.9/32"))).prefix, mac="fa:16:3e:00:00:01"
    )
    plan = host.plan(
        Update(
            put={**a_port(3, device="tap1"), **a_port(4, network=OTHER, device="tap4"), odd: odd}
        )
    )
    assert isinstance(plan.refused[PortKey(port_id(3))], Conflict)
    assert isinstance(plan.refused[odd], NotSupported)
    assert plan.waiting == {PortKey(port_id(4)): "there is no device tap4 yet"}


def test_foreign_and_missing_elements_are_repaired_by_a_full_plan(host: MirroredHost) -> None:
    host.put(STATE)
    elements = host.ruleset.sets[TABLES.filter("guards")].elements
    elements["tap9",] = "frames-of-nobody"
    del elements["tap2",]
    plan = texts(host.plan(Update(put=a_port(1, GROUP)), fresh=True))
    assert plan == ["add 1 and remove 1 elements of bridge netfw guards"]
