"""Listing a few connections among thousands: what is decoded, and what is found."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from ipaddress import ip_network

import pytest

from netfw.linux import netns
from netfw.linux.conntrack import Conntrack, Filter, codec

FOREIGN = 3000
CONNECTIONS = {
    "out": "-s 10.0.0.5 -d 198.51.100.7 -r 198.51.100.7 -q 203.0.113.9",
    "in": "-s 198.51.100.8 -d 203.0.113.9 -r 10.0.0.5 -q 198.51.100.8",
    "other": "-s 10.0.0.6 -d 198.51.100.9 -r 198.51.100.9 -q 203.0.113.10",
    "out6": "-s fd00::5 -d 2001:db8::7 -r 2001:db8::7 -q 2001:db8:ff::9",
    "in6": "-s 2001:db8::8 -d 2001:db8:ff::9 -r fd00::5 -q 2001:db8::8",
}
PORTS = {name: number for number, name in enumerate(CONNECTIONS, start=700)}


@pytest.fixture
def table(shell, space) -> Iterator[Conntrack]:
    """Yield a table of translated connections among thousands of foreign ones."""
    shell("iptables -A INPUT -m conntrack --ctstate NEW -j ACCEPT")
    shell("sysctl -w net.netfilter.nf_conntrack_udp_timeout=600")
    netns.run_in(space, _send_to_many_ports)
    for name, ends in CONNECTIONS.items():
        shell(
            f"conntrack -I -p udp -t 600 {ends} --sport {PORTS[name]} --dport 9"
            f" --reply-port-src 9 --reply-port-dst {PORTS[name]}"
        )
    with Conntrack(space) as table:
        assert len(table.connections()) == FOREIGN + len(CONNECTIONS)
        yield table


def _send_to_many_ports() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for port in range(1, FOREIGN + 1):
            sender.sendto(b"x", ("127.0.0.1", port))


@pytest.fixture
def decoded(monkeypatch) -> list[object]:
    """Return the entries that were decoded."""
    entries: list[object] = []
    decode_entry = codec.decode_entry

    def decode(body: memoryview) -> object:
        entries.append(decode_entry(body))
        return entries[-1]

    monkeypatch.setattr(codec, "decode_entry", decode)
    return entries


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ([Filter(address=ip_network("203.0.113.9"))], {"out", "in"}),
        ([Filter(address=ip_network("198.51.100.7"))], {"out"}),
        ([Filter(address=ip_network("10.0.0.5"))], {"out", "in"}),
        ([Filter(source=ip_network("10.0.0.5"))], {"out"}),
        ([Filter(source=ip_network("203.0.113.9"))], set()),
        ([Filter(destination=ip_network("203.0.113.9"))], {"in"}),
        ([Filter(family=6, address=ip_network("2001:db8:ff::9"))], {"out6", "in6"}),
        ([Filter(source=ip_network("2001:db8::8"))], {"in6"}),
        ([Filter(destination=ip_network("2001:db8:ff::9"))], {"in6"}),
        (
            [
                Filter(family=4, address=ip_network("203.0.113.9")),
                Filter(family=4, address=ip_network("203.0.113.10")),
                Filter(family=6, destination=ip_network("2001:db8:ff::9")),
            ],
            {"out", "in", "other", "in6"},
        ),
    ],
)
def test_only_entries_with_the_address_are_decoded(table, decoded, wanted, found):
    assert table.remove(*wanted) == len(found)
    assert len(decoded) <= len(CONNECTIONS)
    assert _left(table) == CONNECTIONS.keys() - found


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ([Filter(address=ip_network("203.0.113.0/24"))], {"out", "in", "other"}),
        ([Filter(destination=ip_network("2001:db8::/32"))], {"out6", "in6"}),
        (
            [Filter(source=ip_network("fd00::/64")), Filter(source=ip_network("10.0.0.5"))],
            {"out", "out6"},
        ),
        ([Filter(address=ip_network("203.0.113.0/24"), source=ip_network("10.0.0.6"))], {"other"}),
    ],
)
def test_networks_of_many_addresses_are_found(table, wanted, found):
    assert table.remove(*wanted) == len(found)
    assert _left(table) == CONNECTIONS.keys() - found


def test_nothing_is_listed_for_no_filter(table, decoded):
    assert table.remove() == 0
    assert decoded == []


def test_everything_is_removed_while_it_is_listed(table):
    assert table.remove(Filter()) == FOREIGN + len(CONNECTIONS)
    assert table.connections() == ()


def _left(table: Conntrack) -> set[str]:
    names = {port: name for name, port in PORTS.items()}
    flows = [connection.original for connection in table.connections()]
    return {names[flow.source_port] for flow in flows if not flow.source.is_loopback}
