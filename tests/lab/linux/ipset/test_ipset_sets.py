"""IpSets against the kernel."""

from __future__ import annotations

import threading
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest

from netfw.errors import BackendBroken, Conflict, InvalidInput, NotFound
from netfw.linux import netns
from netfw.linux.ipset import IpSet, IpSets, PortMember, SetKind, SetType
from netfw.linux.process.command import run_command
from netfw.plan import Update
from netfw.testing.lab.wait import wait_until

V4 = SetKind()
V6 = SetKind(family=6)
NETS = frozenset(map(ip_network, ["10.0.0.0/8", "192.0.2.1/32", "198.51.100.0/24"]))
NETS6 = frozenset(map(ip_network, ["fd00::/8", "::ffff:1.2.3.4/128", "2001:db8::1/128"]))


@pytest.fixture
def sets(space: str) -> IpSets:
    return IpSets("nfw", namespace=space)


def members(shell, name: str) -> set[str]:
    lines = shell(f"ipset save {name}").splitlines()
    return {line.split()[2] for line in lines if line.startswith("add ")}


def restarted(sets: IpSets) -> IpSets:
    return IpSets(sets.owner, namespace=sets.namespace)


def test_sets_are_made_with_their_members(sets, shell):
    wanted = Update({"a": IpSet(V4, NETS), "b": IpSet(V6, NETS6)}, complete=True)
    sets.converge(wanted)
    assert members(shell, "nfw-a") == {"10.0.0.0/8", "192.0.2.1", "198.51.100.0/24"}
    assert members(shell, "nfw-b") == {"fd00::/8", "::ffff:1.2.3.4", "2001:db8::1"}
    assert sets.plan(wanted) == ()
    assert restarted(sets).plan(wanted) == ()


def test_everything_is_two_halves(sets, shell):
    everything = Update(
        {
            "a": IpSet(V4, frozenset({ip_network("0.0.0.0/0")})),
            "b": IpSet(V6, frozenset({ip_network("::/0")})),
        }
    )
    sets.converge(everything)
    assert members(shell, "nfw-a") == {"0.0.0.0/1", "128.0.0.0/1"}
    assert members(shell, "nfw-b") == {"::/1", "8000::/1"}
    assert restarted(sets).plan(everything) == ()
    sets.change("a", remove=[ip_network("0.0.0.0/0")], add=[ip_network("128.0.0.0/1")])
    assert members(shell, "nfw-a") == {"128.0.0.0/1"}


@pytest.mark.parametrize(
    ("kind", "member", "text"),
    [
        (SetType.ADDRESS, ip_address("10.0.0.1"), "10.0.0.1"),
        (SetType.ADDRESS, ip_network("10.0.0.1/32"), "10.0.0.1"),
        (SetType.ADDRESS_PORT, PortMember(ip_address("10.0.0.1"), "tcp", 80), "10.0.0.1,tcp:80"),
        (SetType.NETWORK_PORT, PortMember(ip_network("10.0.0.0/8"), "udp", 5), "10.0.0.0/8,udp:5"),
        (SetType.ADDRESS_PORT, PortMember(ip_address("10.0.0.1"), "sctp", 7), "10.0.0.1,sctp:7"),
        (SetType.ADDRESS_PORT, PortMember(ip_address("10.0.0.1"), "udplite", 0), None),
    ],
)
def test_each_type_of_set_knows_its_members_again(sets, shell, kind, member, text):
    wanted = Update({"a": IpSet(SetKind(type=kind), frozenset({member}))})
    sets.converge(wanted)
    assert members(shell, "nfw-a") == {text or f"{member}"}
    assert restarted(sets).plan(wanted) == ()


def test_members_change_by_what_differs(sets, shell):
    sets.converge(Update({"a": IpSet(V4, NETS)}))
    less = NETS - {ip_network("10.0.0.0/8")}
    assert [repr(op) for op in sets.plan(Update({"a": IpSet(V4, less)}))] == [
        "ChangeMembers(name='a', add=(), remove=('10.0.0.0/8',))"
    ]
    sets.converge(Update({"a": IpSet(V4, less)}))
    sets.change("a", add=[ip_network("172.16.0.0/12")], remove=[ip_network("192.0.2.1")])
    assert members(shell, "nfw-a") == {"172.16.0.0/12", "198.51.100.0/24"}
    sets.change("a", add=[ip_network("172.16.0.0/12")], remove=[ip_network("192.0.2.1")])
    assert members(shell, "nfw-a") == {"172.16.0.0/12", "198.51.100.0/24"}


def test_tampering_is_noticed_and_put_right(sets, shell):
    wanted = Update({"a": IpSet(V4, NETS)}, complete=True)
    sets.converge(wanted)
    shell("ipset del nfw-a 10.0.0.0/8")
    shell("ipset add nfw-a 6.6.6.6")
    shell("ipset create nfw-stray hash:net")
    sets.observe()
    sets.converge(wanted)
    assert members(shell, "nfw-a") == set(map(str, NETS - {ip_network("192.0.2.1")})) | {
        "192.0.2.1"
    }
    assert shell("ipset list -n").split() == ["nfw-a"]


def test_a_set_that_vanished_is_made_again(sets, shell):
    wanted = Update({"a": IpSet(V4, NETS)})
    sets.converge(wanted)
    shell("ipset destroy nfw-a")
    sets.converge(Update({"a": IpSet(V4, NETS - {ip_network("10.0.0.0/8")})}))
    assert len(members(shell, "nfw-a")) == 2


def test_the_sets_of_others_are_left_alone(sets, shell):
    shell("ipset create theirs hash:net")
    shell("ipset create nfwx-a hash:net")
    sets.converge(Update({"a": IpSet(V4, NETS)}, complete=True))
    sets.converge(Update(complete=True))
    assert set(shell("ipset list -n").split()) == {"theirs", "nfwx-a"}


def test_dropping_twice_is_dropping_once(sets, shell):
    sets.converge(Update({"a": IpSet(V4, NETS)}))
    sets.converge(Update(drop=frozenset({"a"})))
    sets.converge(Update(drop=frozenset({"a"})))
    restarted(sets).converge(Update(drop=frozenset({"a"})))
    assert shell("ipset list -n") == ""


def test_dropping_a_set_removed_meanwhile_succeeds(sets, shell):
    sets.converge(Update({"a": IpSet(V4, NETS)}))
    shell("ipset destroy nfw-a")
    sets.converge(Update(drop=frozenset({"a"})))
    assert sets.observe() == {}


def test_a_set_in_use_is_a_conflict(sets, shell):
    sets.converge(Update({"a": IpSet(V4, NETS)}))
    shell("iptables -A INPUT -m set --match-set nfw-a src -j DROP")
    with pytest.raises(Conflict, match=r"nfw-a.*in use"):
        sets.converge(Update(drop=frozenset({"a"})))
    shell("iptables -F INPUT")
    sets.converge(Update(drop=frozenset({"a"})))


def test_a_set_of_another_kind_is_a_conflict(sets, shell):
    shell("ipset create nfw-a hash:ip")
    with pytest.raises(Conflict, match="drop it first"):
        sets.converge(Update({"a": IpSet(V4, NETS)}))


def test_a_set_that_must_grow_is_replaced_in_its_place(sets, shell):
    shell("ipset create nfw-a hash:net maxelem 2")
    shell("ipset add nfw-a 10.0.0.0/8")
    shell("iptables -A INPUT -m set --match-set nfw-a src -j DROP")
    sets.converge(Update({"a": IpSet(V4, NETS)}))
    assert len(members(shell, "nfw-a")) == 3
    assert shell("ipset list -n").split() == ["nfw-a"]
    assert "References: 1" in shell("ipset list nfw-a")


def test_what_was_left_half_built_is_removed(sets, shell):
    sets.converge(Update({"a": IpSet(V4, NETS)}))
    shell("ipset create nfw~0123 hash:ip")
    restarted(sets).observe()
    assert shell("ipset list -n").split() == ["nfw-a"]


@pytest.mark.spec("FW-09")
def test_a_replaced_set_is_never_seen_half_full(sets):
    # Old and new have nothing in common: a listing of the set shows one or the other.
    old = frozenset(ip_address(f"10.0.{i}.1") for i in range(200))
    new = frozenset(ip_address(f"10.1.{i}.1") for i in range(200))
    sets.converge(Update({"a": IpSet(V4, old)}))
    seen, over = [], threading.Event()

    def look() -> None:
        while not over.is_set():
            lines = run_command(["ipset", "save", "nfw-a"]).output.splitlines()[1:]
            seen.append(frozenset(line.split()[2] for line in lines))

    thread = threading.Thread(target=netns.run_in, args=(sets.namespace, look))
    thread.start()
    allowed = {frozenset(map(str, old)), frozenset(map(str, new))}

    def was_replaced() -> bool:
        """Replace it twice, and return whether it was listed often, as the one and the other."""
        for turn in (new, old):
            sets.converge(Update({"a": IpSet(V4, turn)}))
        return len(seen) >= 20 and {*seen} >= allowed

    try:
        wait_until(was_replaced, pause=0)
    finally:
        over.set()
        thread.join()
    assert {*seen} == allowed


@pytest.mark.spec("FW-11")
def test_one_member_more_is_one_line_whatever_the_set_holds(sets, monkeypatch):
    many = frozenset(ip_network((0x0A000000 + i * 4, 31)) for i in range(10_000))
    sets.converge(Update({"few": IpSet(V4, NETS), "many": IpSet(V4, many)}))
    fed = []

    def spy(argv, *, feed="", namespace=None):
        fed.append((argv[-1], feed))
        return run_command(argv, feed=feed, namespace=namespace)

    monkeypatch.setattr("netfw.linux.ipset.sets.run_command", spy)
    for name in ("few", "many"):
        sets.change(name, add=[ip_network("203.0.113.0/24")])
    assert fed == [
        ("restore", "add nfw-few 203.0.113.0/24\n"),
        ("restore", "add nfw-many 203.0.113.0/24\n"),
    ]


def test_an_unknown_set_is_not_found(sets):
    with pytest.raises(NotFound, match="nfw-nope"):
        sets.change("nope", add=[ip_network("10.0.0.0/8")])


@pytest.mark.spec("FW-12")
@pytest.mark.parametrize("name", ["a b", "a\nadd x", "", "x" * 28, "-a", "a~b"])
def test_hostile_names_are_refused(sets, name):
    with pytest.raises(InvalidInput, match="nfw-"):
        sets.converge(Update({name: IpSet(V4)}))


def test_a_missing_command_says_what_to_install(sets, monkeypatch, tmp_path: Path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BackendBroken, match="apt install ipset"):
        sets.observe()
