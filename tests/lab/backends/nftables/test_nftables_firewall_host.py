"""What an operator sees of the nftables firewall, also after manual changes."""

from __future__ import annotations

import socket
import struct

import pytest

from netfw.errors import BackendBroken
from netfw.linux.nftables import library
from netfw.model.security_group import SecurityGroupRule
from netfw.model.values.ids import SecurityGroupId
from netfw.plan import Update
from tests.lab.backends.nftables.environment import NftablesHost
from tests.lab.linux.bridge_firewall.environment import (
    IN,
    OUT,
    FirewallHost,
    Guest,
    State,
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

pytestmark = pytest.mark.spec("FW-15")

ETH_P_ALL = 3


class TestNftablesOnBridges(BridgeFirewallBehaviour):
    FILTERS_BY_SYSCTL = False
    MORE_MEMBERS = (
        "10.1.0.0/16", "10.1.2.3/32", "0.0.0.0/0", "fd00::1/128", "::ffff:192.0.2.1/128",
        "::192.0.2.1/128", "fd00:0:0:8000::/49",
    )  # fmt: skip

    def own_lines(self, firewall: FirewallHost) -> list[str]:
        return firewall.saved().get("netfw", [])

    def various_state(self, firewall: FirewallHost) -> State:
        return {**super().various_state(firewall), **group(a_group_id())}

    def more_rules(self, id: SecurityGroupId) -> list[SecurityGroupRule]:
        return [
            rule(id, IN, protocol=6, port_min=1, port_max=65535),
            rule(id, OUT, protocol=6, remote_prefix="192.0.2.4/31"),
            rule(id, OUT, 6, remote_prefix="2001:db8::/33", protocol=17),
            rule(id, OUT, 6, remote_prefix="::ffff:192.0.2.1/128"),
            rule(id, OUT, 6, remote_prefix="::192.0.2.1/128"),
            rule(id, OUT, 6, remote_prefix="::/0"),
        ]


def test_one_more_member_is_one_more_element(firewall: NftablesHost) -> None:
    one, two = firewall.guest(1), firewall.guest(2)
    id, friends = a_group_id(), a_group_id()
    allowed = group(id, rule(id, IN, protocol=1, remote_group_id=friends))
    firewall.put(two.value(id), one.value(trusted=True), allowed, member(friends, "192.0.2.1/32"))
    assert not one.reaches(two)
    new = member(friends, f"{one.address}/32")
    plan = firewall.driver.plan(Update(put=new), firewall.driver.observe(Update(put=new)))
    assert [operation.text for stage in plan.stages for operation in stage.operations] == [
        f"add 1 and remove 0 elements of bridge netfw group4-{friends}"
    ]
    firewall.put(new)
    assert one.reaches(two)
    firewall.drop(new)
    assert not one.reaches(two)


@pytest.mark.parametrize("version", [4, 6])
def test_fragments_of_two_networks_are_not_joined(firewall: NftablesHost, version: int) -> None:
    one, two = firewall.guest(1), firewall.guest(2)
    twin, peer = firewall.guest(51, "br2"), firewall.guest(52, "br2")
    id = a_group_id()
    firewall.put(*(guest.value(id) for guest in (one, two, twin, peer)), everything(id))
    head = bytes.fromhex("03e807d000280000") + b"head"
    head, tail = head.ljust(32, b"."), b"the tail"
    with opened(one) as attacker, opened(twin) as victim, opened(peer) as receiver:
        receiver.settimeout(5)
        victim.send(fragment(twin, peer, version, head))
        attacker.send(fragment(one, two, version, tail, offset=len(head)))
        victim.send(fragment(twin, peer, version, b"last one", offset=len(head)))
        seen = b""
        while b"last one" not in seen:
            seen += receiver.recv(2000)
    assert b"head" in seen
    assert tail not in seen


def opened(guest: Guest) -> socket.socket:
    """Open a socket for frames of *guest*."""
    found = guest.instance.call(
        socket.socket, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)
    )
    found.bind(("eth0", 0))
    return found


def fragment(sender: Guest, target: Guest, version: int, body: bytes, offset: int = 0) -> bytes:
    """Build a fragment of a UDP datagram; one with an *offset* is the last."""
    more = not offset
    ethernet = bytes.fromhex(f"{target.mac}{sender.mac}".replace(":", ""))
    if version == 6:
        extension = struct.pack("!BBHI", 17, 0, offset | more, 0x1234)
        addresses = (socket.inet_pton(socket.AF_INET6, g.address6) for g in (sender, target))
        header = struct.pack("!IHBB", 6 << 28, len(body) + 8, 44, 64)
        return ethernet + b"\x86\xdd" + header + b"".join(addresses) + extension + body
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 0x1234, 0, 64, 17, 0)
    header = header[:6] + struct.pack("!H", more << 13 | offset // 8) + header[8:]
    header += socket.inet_aton(sender.address) + socket.inet_aton(target.address)
    return ethernet + b"\x08\x00" + header[:10] + _checksum(header) + header[12:] + body


@pytest.mark.parametrize(
    "damage",
    [
        "flush chain bridge netfw frames-{port}",
        "insert rule bridge netfw in4-{port} accept",
        "flush chain bridge netfw sent",
        "flush chain bridge netfw ingress4-{group}",
        "flush chain bridge netfw sent; delete chain bridge netfw sent",
        "flush chain inet netfw states",
        "flush map inet netfw bridges",
        "flush map bridge netfw senders",
        "delete element bridge netfw guards {{ tap1 }}",
        "add element bridge netfw filtered {{ tap77 }}",
        "add element bridge netfw group4-{friends}/24 {{ 203.0.113.0 }}",
        "flush set bridge netfw group4-{friends}/24",
        "add chain bridge netfw theirs {{ type filter hook input priority 0; policy drop; }}",
        "add set bridge netfw theirs {{ type ipv4_addr; }}",
        "add chain bridge netfw sent {{ policy drop; }}",
        "delete table inet netfw",
        "delete table bridge netfw",
        'add element bridge netfw group4-{friends}/24 {{ 203.0.113.0 comment "x" }}',
        "delete element bridge netfw guards {{ tap1 }};"
        ' add element bridge netfw guards {{ tap1 comment "x" : accept }}',
        "add set bridge netfw theirs"
        " {{ type ipv4_addr; flags interval; elements = {{ 10.0.0.0/8 }}; }}",
        "add map bridge netfw theirs {{ type ipv4_addr : mark; elements = {{ 10.0.0.1 : 0x1 }}; }}",
        "add set bridge netfw group6-{friends} {{ type inet_service; elements = {{ 10 }}; }}",
        "add set bridge netfw group4-{friends}/40 {{ type ipv4_addr; elements = {{ 10.0.0.0 }}; }}",
        "add set bridge netfw macs4-{friends} {{ type ipv4_addr; elements = {{ 10.0.0.0 }}; }}",
        "flush chain bridge netfw from4-group-{friends};"
        " flush chain bridge netfw to4-group-{friends};"
        " delete set bridge netfw group4-{friends}/24; add set bridge netfw group4-{friends}/24"
        " {{ type ipv4_addr; flags timeout; elements = {{ 192.0.2.0 timeout 10m }}; }}",
        "insert rule bridge netfw sent ether type 0x0800-0x0806 accept",
        "insert rule bridge netfw sent ether type {{ 0x0800-0x0806, 0x86dd }} accept",
        "insert rule bridge netfw frames-{port} ether saddr 02:00:00:00:00:01"
        " ip saddr 10.0.0.0-10.0.0.9 return",
    ],
)
def test_manual_change_is_found_and_repaired(firewall: NftablesHost, damage: str) -> None:
    check_repair_of(firewall, damage)


@pytest.mark.parametrize("family", ["bridge", "inet"])
def test_table_that_is_switched_off_is_made_anew(firewall: NftablesHost, family: str) -> None:
    one, two = firewall.guest(1), firewall.guest(2)
    id = a_group_id()
    state = {**one.value(id), **two.value(id), **everything(id)}
    firewall.put(state)
    before = firewall.saved()
    for _ in range(20):  # libnftables 1.0.6 corrupts its memory when it lists such a table
        firewall.nft(f"add table {family} netfw {{ flags dormant; }}")
        update = Update(put=state, complete=True)
        assert firewall.driver.plan(update, firewall.driver.observe(None))
        firewall.converge(update)
    assert firewall.saved() == before
    assert one.reaches(two)
    firewall.nft(f"add table {family} netfw {{ flags dormant; }}")
    firewall.converge(Update(complete=True))
    assert "netfw" not in firewall.saved()


def test_the_last_port_leaves_and_its_group_stays(firewall: NftablesHost) -> None:
    one = firewall.guest(1)
    id = a_group_id()
    firewall.put(one.value(id), everything(id))
    firewall.drop(one.value())
    assert firewall.another_driver().present() == everything(id).keys()
    assert not any("tap1" in line for line in firewall.saved()["netfw"])


def test_what_is_present_is_read_from_the_host(firewall: NftablesHost) -> None:
    one = firewall.guest(1)
    id = a_group_id()
    state = {**one.value(id), **everything(id)}
    firewall.put(state)
    assert firewall.driver.present() == state.keys()
    firewall.nft("delete table bridge netfw; delete table inet netfw")
    assert not firewall.driver.present()
    firewall.put(state)
    assert firewall.driver.present() == state.keys()


def test_tables_of_others_stay_as_they_are(firewall: NftablesHost) -> None:
    firewall.host.run(["iptables-nft", "-A", "FORWARD", "-i", "eth9", "-j", "DROP"])
    firewall.nft(
        "table bridge theirs { chain c { type filter hook forward priority 0; counter; } ; }"
    )
    firewall.nft("table inet theirs { set s { type ipv4_addr; elements = { 192.0.2.1 } ; } ; }")
    before = firewall.saved()
    one = firewall.guest(1)
    id = a_group_id()
    state = {**one.value(id), **everything(id)}
    firewall.put(state)
    after = firewall.saved()
    assert after.pop("netfw")
    after[""] = [line for line in after[""] if '"netfw"' not in line]
    assert after == before
    firewall.drop(state)
    assert firewall.saved() == before


def test_the_state_of_connections_is_removed_from_marks(firewall: NftablesHost) -> None:
    one, two = firewall.guest(1), firewall.guest(2)
    id = a_group_id()
    firewall.put(one.value(id), two.value(id), everything(id))
    firewall.nft(
        "table netdev seen { chain c { type filter hook egress device tap1 priority 0;"
        " meta mark & 0x30000000 != 0 drop; } ; }"
    )
    assert one.reaches(two)
    assert two.reaches(one)


def test_frames_that_hide_their_contents_do_not_pass(firewall: NftablesHost) -> None:
    one, two = firewall.guest(1), firewall.guest(2)
    id = a_group_id()
    firewall.put(one.value(id), two.value(trusted=True), everything(id))
    mac, peer = (bytes.fromhex(guest.mac.replace(":", "")) for guest in (one, two))
    address = socket.inet_aton(one.address)
    header = bytes.fromhex("4500001c000000004011") + bytes(2) + address
    header += socket.inet_aton(two.address)
    packet = header[:10] + _checksum(header) + header[12:]
    arp = mac + address + bytes(6) + socket.inet_aton(two.address)
    frames = {  # the last two are plain ones, which pass
        "tagged": ("8100000a0800", packet + bytes.fromhex("1000100100080000")),
        "long addresses": ("0806", bytes.fromhex("0001080006100001") + arp + bytes(24)),
        "long hardware addresses": ("0806", bytes.fromhex("0001080008040001") + arp + bytes(4)),
        "other hardware": ("0806", bytes.fromhex("0006080006040001") + arp),
        "other protocol": ("0806", bytes.fromhex("000186dd06040001") + arp),
        "arp": ("0806", bytes.fromhex("0001080006040001") + arp),
        "ip": ("0800", packet + bytes.fromhex("1000100000080000")),
    }
    raw = (socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    sender = one.instance.call(socket.socket, *raw)
    receiver = two.instance.call(socket.socket, *raw)
    seen: list[str] = []
    with sender, receiver:
        sender.bind(("eth0", 0))
        receiver.bind(("eth0", 0))
        receiver.settimeout(5)
        for ethertype, body in frames.values():
            sender.send(peer + mac + bytes.fromhex(ethertype) + body)
        while "ip" not in seen:
            frame = receiver.recv(2000)
            seen += [name for name, (_, body) in frames.items() if body in frame]
    assert set(seen) == {"arp", "ip"}


def _checksum(header: bytes) -> bytes:
    total = sum(int.from_bytes(header[at : at + 2]) for at in range(0, len(header), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return (total ^ 0xFFFF).to_bytes(2)


def test_a_missing_library_is_named_with_its_package(firewall: NftablesHost) -> None:
    assert firewall.driver.problems() == ()
    with pytest.raises(BackendBroken, match=r"libnftables-none.*apt install libnftables1"):
        library.load_library("libnftables-none.so.1")
