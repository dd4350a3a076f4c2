"""Sets and their difference, as values."""

from __future__ import annotations

from ipaddress import IPv4Network, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netfw.errors import Conflict, InvalidInput
from netfw.linux.ipset import IpSet, PortMember, SetKind, SetType
from netfw.linux.ipset.operations import (
    ChangeMembers,
    DropSet,
    MakeSet,
    ReplaceSet,
    render_restore,
)
from netfw.linux.ipset.plan import KernelSet, parse_save, plan_members, plan_sets, record
from netfw.linux.ipset.values import choose_max_elements, elements, full_name
from netfw.plan import Update

V4 = SetKind()
NET = ip_network("10.0.0.0/8")


def test_everything_is_its_two_halves():
    assert list(elements(V4, [ip_network("0.0.0.0/0")])) == ["0.0.0.0/1", "128.0.0.0/1"]


@pytest.mark.parametrize(
    ("kind", "member"),
    [
        (V4, ip_network("fd00::/8")),
        (SetKind(type=SetType.ADDRESS), NET),
        (V4, PortMember(ip_address("10.0.0.1"), "tcp", 80)),
        (SetKind(type=SetType.ADDRESS_PORT), ip_address("10.0.0.1")),
        (SetKind(type=SetType.ADDRESS_PORT), PortMember(NET, "tcp", 80)),
    ],
)
def test_a_member_that_the_set_cannot_have_is_refused_by_name(kind, member):
    with pytest.raises(InvalidInput, match="member"):
        list(elements(kind, [member]))


@pytest.mark.parametrize(
    ("protocol", "port"), [("gre", 0), ("tcp", -1), ("udp", 65536), ("t\n", 1)]
)
def test_a_port_that_is_none_is_refused(protocol, port):
    with pytest.raises(InvalidInput):
        PortMember(ip_address("10.0.0.1"), protocol, port)


def test_the_first_time_a_set_is_made():
    (made,) = plan_sets(Update({"a": IpSet(V4, frozenset({NET}))}), {}, "nfw")
    assert made == MakeSet("a", V4, 65536, frozenset({"10.0.0.0/8"}))
    assert render_restore(made, "nfw") == [
        "create nfw-a hash:net family inet hashsize 1024 maxelem 65536",
        "add nfw-a 10.0.0.0/8",
    ]


def test_members_are_added_before_others_are_removed():
    change = ChangeMembers("a", ("1.1.1.1",), ("2.2.2.2",))
    assert render_restore(change, "nfw") == ["add nfw-a 1.1.1.1", "del nfw-a 2.2.2.2"]


def test_a_set_that_is_mostly_another_is_swapped():
    have = {"a": KernelSet(V4, 65536, {"1.1.1.1", "2.2.2.2"})}
    (change,) = plan_sets(Update({"a": IpSet(V4, frozenset({NET}))}), have, "nfw")
    assert isinstance(change, ReplaceSet)
    lines = render_restore(change, "nfw")
    beside = lines[0].split()[1]
    assert lines[2:] == [
        f"add {beside} 10.0.0.0/8",
        f"swap nfw-a {beside}",
        f"destroy {beside}",
    ]
    assert len(beside) <= 31


def test_a_set_without_room_is_swapped_for_a_larger_one():
    have = KernelSet(V4, 2, {"1.1.1.1", "2.2.2.2"})
    assert plan_members("a", have, ["3.3.3.3"], ["1.1.1.1"]) == ReplaceSet(
        "a", V4, 65536, frozenset({"2.2.2.2", "3.3.3.3"})
    )


@pytest.mark.parametrize("count", [0, 1, 65536, 100_000])
def test_there_is_room_to_grow(count):
    assert choose_max_elements(count) >= max(65536, count * 5 // 4)


def test_what_is_gone_or_kept_is_not_dropped():
    have = {"a": KernelSet(V4, 65536), "b": KernelSet(V4, 65536)}
    assert plan_sets(Update(drop=frozenset({"x"})), have, "nfw") == ()
    update = Update({}, complete=True, keep=frozenset({"b"}))
    assert plan_sets(update, have, "nfw") == (DropSet("a"),)


def test_another_kind_is_a_conflict():
    have = {"a": KernelSet(SetKind(family=6), 65536)}
    with pytest.raises(Conflict, match="hash:net for IPv6"):
        plan_sets(Update({"a": IpSet(V4)}), have, "nfw")


def test_names_have_31_characters_at_most():
    assert full_name("nfw", "x" * 27) == "nfw-" + "x" * 27
    with pytest.raises(InvalidInput):
        full_name("nfw", "x" * 28)


SAVED = """\
create nfw-a hash:net family inet hashsize 1024 maxelem 65536 bucketsize 12 initval 0x6d
add nfw-a 10.0.0.0/8
create nfw-b hash:net family inet6 hashsize 1024 maxelem 131072 bucketsize 12 initval 0xc8
add nfw-b ::ffff:1.2.3.4
add nfw-b fd00::/8
create nfw-odd list:set size 8
create nfw~00ff hash:net family inet hashsize 1024 maxelem 65536
add nfw~00ff 1.1.1.1
create theirs hash:net family inet hashsize 1024 maxelem 65536
add theirs 2.2.2.2
"""


def test_the_sets_of_an_owner_are_found_in_what_ipset_saves():
    sets, leftovers = parse_save(SAVED, "nfw")
    assert sets == {
        "a": KernelSet(V4, 65536, {"10.0.0.0/8"}),
        "b": KernelSet(SetKind(family=6), 131072, {str(ip_address("::ffff:1.2.3.4")), "fd00::/8"}),
    }
    assert leftovers == {"nfw~00ff"}


networks = st.frozensets(
    st.builds(
        lambda number, length: IPv4Network((number, length), strict=False),
        st.integers(0, 2**32 - 1),
        st.integers(0, 32),
    )
)


@given(networks, networks)
def test_a_planned_change_ends_in_what_is_wanted(before, after):
    sets: dict[str, KernelSet] = {}
    for members in (before, after):
        for operation in plan_sets(Update({"a": IpSet(V4, members)}), sets, "nfw"):
            record(operation, sets)
        assert sets["a"].elements == set(elements(V4, members))
        assert plan_sets(Update({"a": IpSet(V4, members)}), sets, "nfw") == ()
