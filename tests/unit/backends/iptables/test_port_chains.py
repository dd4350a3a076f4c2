"""The chains of a port, and of the frames it may send."""

from ipaddress import ip_network

import pytest
from attrs import evolve

from netfw.drivers.values.allowed_source import AllowedSource
from netfw.drivers.values.keys import PortKey
from netfw.linux.bridge_firewall.values import PortLocation
from netfw.linux.iptables.rule import Family, render_rule
from netfw.plan import Update
from netfw_drivers.iptables.plan.names import OWNER, short
from netfw_drivers.iptables.plan.port_chains import (
    basics,
    frames_chain,
    port_chains,
    read_note,
    read_source,
)
from tests.unit.backends.iptables.samples import GROUP, NETWORK, Kernel, a_group, a_port, port_id

ID = port_id(1)
PORT = a_port(1, GROUP)[PortKey(ID)]
PLACE = PortLocation("tap1", "br1")
NOTE = f'-m comment --comment "port {ID} is tap1 on br1 in network {NETWORK}"'


def shown(port=PORT, family: int = 4) -> dict[str, list[str]]:
    return {
        key.name[0]: [render_rule(rule, OWNER) for rule in chain.rules]
        for key, chain in port_chains(ID, port, PLACE).items()
        if key.family == family
    }


@pytest.mark.spec("FW-05", "FW-06")
def test_what_a_port_may_send_in_ipv4() -> None:
    assert shown() == {
        "o": [
            "-s 0.0.0.0/32 -p udp -m mac --mac-source fa:16:3e:00:00:01"
            " -m udp --sport 68 --dport 67 -j ACCEPT",
            f"-j nfw-s{short(ID)}",
            "-j nfw-basics-out",
            f"-j nfw-e{short(GROUP)}",
            f"{NOTE} -j DROP",
        ],
        "s": [
            "-s 10.0.0.1/32 -m mac --mac-source fa:16:3e:00:00:01 -j RETURN",
            "-j DROP",
        ],
        "i": ["-j nfw-basics-in", f"-j nfw-g{short(GROUP)}", f"{NOTE} -j DROP"],
    }


@pytest.mark.spec("FW-05")
def test_a_port_advertises_only_its_own_neighbour_addresses() -> None:
    wide = evolve(
        PORT, sources=PORT.sources | {AllowedSource(PORT.mac, ip_network("2001:db8:4000::/34"))}
    )
    head = '-p ipv6-icmp -m icmp6 --icmpv6-type 136 -m u32 --u32 "0x4&0xffff=0x3aff&&'
    assert [line for line in shown(wide, 6)["o"] if "type 136" in line] == [
        f'{head}0x30=0x20010db8&&0x34&0xc0000000=0x40000000" -j ACCEPT',
        f'{head}0x30=0xfd000000&&0x34=0x0&&0x38=0x0&&0x3c=0x1" -j ACCEPT',
    ]


@pytest.mark.spec("FW-05")
def test_a_port_probes_only_its_own_neighbour_addresses() -> None:
    lines = shown(PORT, 6)["o"]
    probe = (
        f"-s ::/128 -p ipv6-icmp -m mac --mac-source {PORT.mac} -m icmp6 --icmpv6-type 135 "
        '-m u32 --u32 "0x4&0xffff=0x3aff&&0x30=0xfd000000&&0x34=0x0&&0x38=0x0&&0x3c=0x1" -j ACCEPT'
    )
    assert lines.index(probe) < next(n for n, line in enumerate(lines) if "unaddressed" in line)
    assert not [line for line in rendered_basics("unaddressed") if "135" in line]


@pytest.mark.spec("FW-06")
def test_packets_to_dhcp_clients_are_dropped_from_any_source_port() -> None:
    assert rendered_basics("basics-out", 4)[0] == "-p udp -m udp --dport 68 -j DROP"
    assert "-p udp -m udp --dport 546 -j DROP" in rendered_basics("basics-out")


def rendered_basics(name: str, family: int = 6) -> list[str]:
    chains = {key.name: chain for key, chain in basics(Family(family)).items()}
    return [render_rule(rule, OWNER) for rule in chains[name].rules]


def test_a_port_that_may_have_every_address_is_known_by_its_mac() -> None:
    free = evolve(PORT, sources=frozenset({AllowedSource(PORT.mac, ip_network("0.0.0.0/0"))}))
    line = shown(free)["s"][0]
    assert line == "-m mac --mac-source fa:16:3e:00:00:01 -j RETURN"
    assert read_source(line, 4) == ip_network("0.0.0.0/0")


@pytest.mark.spec("FW-07")
def test_a_trusted_port_passes_everything() -> None:
    trusted = evolve(PORT, trusted=True)
    assert shown(trusted) == {"o": [f"{NOTE} -j ACCEPT"], "i": [f"{NOTE} -j ACCEPT"]}


def test_the_note_of_a_port_is_read_back() -> None:
    note = read_note(f"{NOTE} -j DROP")
    assert note is not None
    assert (note.port, note.location, note.network, note.trusted) == (ID, PLACE, NETWORK, False)
    for joke in ("-j DROP", f"{NOTE} -j RETURN", NOTE.replace(str(ID), "x") + " -j DROP"):
        assert read_note(joke) is None


@pytest.mark.spec("FW-05")
def test_a_port_sends_frames_of_ip_and_arp_from_its_own_macs() -> None:
    pair = AllowedSource("fa:16:3e:00:00:99", ip_network("10.9.0.0/16"))
    chain = frames_chain(evolve(PORT, sources=PORT.sources | {pair}))
    lines = [rule.render(OWNER) for rule in chain.rules]
    one, two = "fa:16:3e:00:00:01", "fa:16:3e:00:00:99"
    assert chain.policy == "DROP"
    assert lines == [
        f"-p IPv4 -s {one} -j RETURN",
        f"-p IPv6 -s {one} -j RETURN",
        f"-p ARP -s {one} --arp-ip-src 0.0.0.0 --arp-ip-dst 10.0.0.1 --arp-mac-src {one} -j RETURN",
        f"-p ARP -s {one} --arp-ip-src 0.0.0.0 --arp-mac-src {one} -j DROP",
        f"-p ARP -s {one} --arp-ip-src 10.0.0.1 --arp-mac-src {one} -j RETURN",
        f"-p IPv4 -s {two} -j RETURN",
        f"-p IPv6 -s {two} -j RETURN",
        f"-p ARP -s {two} --arp-ip-src 0.0.0.0 --arp-ip-dst 10.9.0.0/16 --arp-mac-src {two}"
        " -j RETURN",
        f"-p ARP -s {two} --arp-ip-src 0.0.0.0 --arp-mac-src {two} -j DROP",
        f"-p ARP -s {two} --arp-ip-src 10.9.0.0/16 --arp-mac-src {two} -j RETURN",
    ]


def test_packets_find_their_port_by_the_beginning_of_its_device_first() -> None:
    kernel = Kernel({"tap1": "br1", "tap10": "br1", "vif2": "br1"})
    ports = {**a_port(1), **a_port(2, device="tap10"), **a_port(3, device="vif2")}
    kernel.converge(Update(put={**ports, **a_group()}))
    assert kernel.lines("sent") == (
        "-m physdev --physdev-in tap1+ -j nfw-sent.tap1",
        "-m physdev --physdev-in vif2+ -j nfw-sent.vif2",
    )
    assert kernel.lines("taken.tap1") == (
        f"-m physdev --physdev-out tap1 --physdev-is-bridged -j nfw-i{short(port_id(1))}",
        f"-m physdev --physdev-out tap10 --physdev-is-bridged -j nfw-i{short(port_id(2))}",
    )
    assert kernel.frames["guard.vif2"].lines == (f"-i vif2 -j nfw-p{short(port_id(3))}",)
    assert {name: kernel.frames[name].hook for name in ("guard", "caster")} == {
        "guard": "PREROUTING",
        "caster": "POSTROUTING",
    }
    for family in (4, 6):
        assert {
            (point.table, point.builtin): lines
            for point, lines in kernel.mirror.hooks.items()
            if point.family == family
        } == {
            ("raw", "PREROUTING"): ("-j nfw-zones",),
            ("raw", "OUTPUT"): ("-j nfw-zoned",),
            ("mangle", "PREROUTING"): ("-j nfw-sent",),
            ("mangle", "FORWARD"): ("-j nfw-taken",),
            ("filter", "FORWARD"): ("-j nfw-bridge",),
        }
    assert kernel.lines("bridge.br1") == ("-i br1 -m physdev --physdev-is-bridged -j ACCEPT",)


def test_source_that_is_no_network_belongs_to_another_program():
    line = "-s 10.0.0.0/255.0.255.0 -m mac --mac-source fa:16:3e:00:00:01 -j RETURN"
    assert read_source(line, 4) is None
