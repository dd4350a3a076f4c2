"""What operators choose, and what clients of a real dnsmasq see of it."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path

import pytest

from netfw.drivers.support.lease_options import INFINITE
from netfw.model.subnet import Ipv6Mode
from netfw.model.values.dhcp_option import DhcpOption
from netfw.testing.conformance.dhcp.factories import a_subnet, a_subnet6, make_network
from tests.lab.backends.dnsmasq.config.environment import Rig

FOR_EVER = 0xFFFFFFFF
T1, T2, WPAD = 58, 59, 252
ETH_P_IP = 0x0800


@pytest.mark.spec("DHCP-01", "DHCP-44", "DHCP-45")
def test_a_lease_lasts_as_long_as_the_operator_says_or_for_ever(tmp_path: Path) -> None:
    net = make_network(dns_domain="")
    tenant = net.tenant()
    for number, (given, seconds) in enumerate({INFINITE: FOR_EVER, 7200: 7200}.items()):
        with Rig(tmp_path / str(number), net, lease=given, domain="cloud.example") as rig:
            rig.put(tenant)
            lease = rig.lease(tenant.mac)
            assert lease is not None
            assert (lease.seconds, lease.domain) == (seconds, "cloud.example")
            (line,) = rig.files.leases.read_text().splitlines()
            assert (line.split()[0] == "0") == (given == INFINITE)


@pytest.mark.spec("DHCP-01", "DHCP-45")
def test_clients_renew_and_hear_of_further_options_as_the_operator_says(tmp_path: Path) -> None:
    further = tmp_path / "further.conf"
    further.write_text(f"dhcp-option={WPAD},http://wpad/\n")
    net = make_network()
    tenant = net.tenant()
    choices = {"renewal": 100, "rebinding": 200, "config_file": further}
    with Rig(tmp_path / "confs", net, **choices) as rig, overheard(rig) as heard:
        rig.put(tenant)
        lease = rig.lease(tenant.mac, requested=(WPAD, T1, T2))
        assert lease is not None
        assert lease.options[WPAD] == b"http://wpad/"
        _, given = next(answer for answer in answers(heard) if answer[1].get(T1))
    assert [int.from_bytes(given[each]) for each in (T1, T2)] == [100, 200]


@pytest.mark.spec("DHCP-01", "DHCP-45")
@pytest.mark.parametrize("chosen", [True, False])
def test_answers_are_broadcast_where_the_operator_wants_so(tmp_path: Path, chosen: bool) -> None:
    net = make_network()
    tenant = net.tenant()
    with Rig(tmp_path, net, broadcast_reply=chosen) as rig, overheard(rig) as heard:
        rig.put(tenant)
        assert rig.lease(tenant.mac) is not None
        to, _ = next(answers(heard))
    assert (to == "255.255.255.255") == chosen


@pytest.mark.spec("DHCP-01", "DHCP-45")
def test_a_network_has_no_more_leases_than_the_operator_allows(tmp_path: Path) -> None:
    net = make_network()
    one, two = net.tenant(20), net.tenant(30)
    with Rig(tmp_path, net, lease_max=1) as rig:
        rig.put(one, two)
        assert rig.lease(one.mac) is not None
        assert rig.lease(two.mac, expected=False) is None


@pytest.mark.spec("DHCP-01", "DHCP-45")
def test_names_that_it_does_not_know_are_asked_for_where_the_operator_says(tmp_path: Path) -> None:
    net = make_network()
    server = net.value.server.addresses[0].ip
    with (
        Rig(tmp_path, net, dns_servers=("127.0.0.1#5353",)) as rig,
        rig.server.call(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as upstream,
    ):
        upstream.bind(("127.0.0.1", 5353))
        upstream.settimeout(10)
        asking = rig.server.spawn(["busybox", "nslookup", "far.example.net", str(server)])
        assert b"\3far\7example\3net" in upstream.recv(1000)
        asking.kill()
        asking.wait()


@pytest.mark.spec("DHCP-41")
def test_a_port_is_known_by_the_identifier_that_it_has_beside_its_mac(tmp_path: Path) -> None:
    net = make_network()
    named = net.tenant(20, options=(DhcpOption(name="client-id", value="01:02:03:04:05"),))
    other = net.tenant(30)
    with Rig(tmp_path, net) as rig:
        rig.put(named)
        for mac in (named.mac, other.mac):
            lease = rig.lease(mac, called="0102030405")
            assert lease is not None, mac
            assert lease.ip == named.ip
        assert rig.lease(other.mac, called="0102030406", expected=False) is None


@pytest.mark.spec("DHCP-45")
@pytest.mark.parametrize(
    ("address_mode", "ra_mode", "given"),
    [
        (None, None, "addresses"),
        (Ipv6Mode.STATELESS, None, "options"),
        (Ipv6Mode.SLAAC, None, "nothing"),
        (None, Ipv6Mode.SLAAC, "nothing"),
    ],
    ids=lambda value: value if isinstance(value, str) and value != "slaac" else str(value),
)
def test_rows_of_ipv6_modes_that_the_suite_does_not_ask_about_are_as_documented(
    tmp_path: Path, address_mode: Ipv6Mode | None, ra_mode: Ipv6Mode | None, given: str
) -> None:
    # In ``docs/dhcp.md``: a router from outside announces, or there is no service.
    six = a_subnet6(Ipv6Mode.STATEFUL, ipv6_address_mode=address_mode, ipv6_ra_mode=ra_mode)
    net = make_network(a_subnet(), six)
    tenant = net.tenant(20, on=(0, 1))
    with Rig(tmp_path, net) as rig:
        rig.put(tenant)
        assert rig.announcement(tenant.mac, timeout=1.0) is None
        lease = rig.lease6(tenant.mac, stateless=given != "addresses", expected=given != "nothing")
        four = rig.lease(tenant.mac)
    assert four is not None
    assert four.ip == tenant.ip
    if given == "nothing":
        assert lease is None or not (lease.addresses or lease.dns)
        return
    assert lease is not None
    assert lease.addresses == ((tenant.ip6,) if given == "addresses" else ())
    assert lease.dns == six.dns_nameservers


@contextmanager
def overheard(rig: Rig) -> Iterator[socket.socket]:
    """Yield a socket that receives all frames at the server's device."""
    made = rig.server.call(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x0300))
    with made as wire:
        wire.bind(("tap0", 3))
        wire.settimeout(10)
        yield wire


def answers(wire: socket.socket) -> Iterator[tuple[str, dict[int, bytes]]]:
    """Yield the destinations of the server's answers, and the options in them."""
    while True:
        frame = wire.recv(2000)
        kind, protocol = struct.unpack("!H", frame[12:14])[0], frame[23]
        if kind == ETH_P_IP and protocol == socket.IPPROTO_UDP and frame[34:36] == b"\0\x43":
            yield str(ip_address(frame[30:34])), options(frame[282:])


def options(data: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    while data and data[0] != 255:
        length = data[1] if data[0] else -1
        found[data[0]] = data[2 : 2 + length] if data[0] else b""
        data = data[2 + length :]
    return found
