"""Which ports of a Linux bridge a connection belongs to."""

from __future__ import annotations

from collections import Counter
from ipaddress import ip_address, ip_network
from uuid import UUID

import pytest

from netfw.linux.bridge_firewall.denied_connections import DenialFinder
from netfw.linux.bridge_firewall.policy_index import PolicyIndex
from netfw.linux.bridge_firewall.values import IndexedPort, PortLocation, Zone
from netfw.linux.conntrack.entry import ConntrackTuple, TrackedConnection
from netfw.model.values.address import IpNetwork
from netfw.model.values.ids import NetworkId, PortId

NETWORK, ZONE = NetworkId(UUID(int=7)), 4097


class CountedSources(dict[tuple[PortId, int], frozenset[IpNetwork]]):
    """Source prefixes that count how often those of each port are read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: Counter[tuple[PortId, int]] = Counter()

    def get(self, key, default=None):
        self.reads[key] += 1
        return super().get(key, default)


def port_id(number: int) -> PortId:
    return PortId(UUID(int=number))


def an_index(*prefixes: tuple[str, ...]) -> tuple[PolicyIndex[str], CountedSources]:
    """Return filtered ports on one bridge, each with its prefixes."""
    index, sources = PolicyIndex[str](zones={"br1": Zone(ZONE, NETWORK)}), CountedSources()
    for number, own in enumerate(prefixes):
        location = PortLocation(f"tap{number}", "br1")
        port = IndexedPort(location=location, network=NETWORK, trusted=False)
        index.set_port(port_id(number), port)
        networks = [ip_network(prefix) for prefix in own]
        for version in (4, 6):
            found = frozenset(each for each in networks if each.version == version)
            sources[port_id(number), version] = found
    index.sources = sources
    return index, sources


def a_connection(source: str, destination: str = "192.0.2.1") -> TrackedConnection:
    ends = ip_address(source), ip_address(destination)
    there = ConntrackTuple(protocol=6, source=ends[0], destination=ends[1])
    back = ConntrackTuple(protocol=6, source=ends[1], destination=ends[0])
    return TrackedConnection(original=there, reply=back, zone=ZONE, status=0)


@pytest.mark.spec("FW-04")
def test_connections_do_not_cost_more_with_more_ports() -> None:
    index, sources = an_index(*((f"10.0.0.{number}/32",) for number in range(1, 51)))
    is_denied = DenialFinder(index=index, group_allows=lambda *_: True).denied([port_id(0)])
    for number in range(1, 100):
        is_denied(a_connection(f"10.0.0.{number}"))
    assert max(sources.reads.values()) == 1


@pytest.mark.parametrize(
    ("source", "denied"),
    [
        ("10.0.0.1", True),
        ("10.0.0.2", False),
        ("10.0.1.9", True),
        ("10.0.1.8", False),
        ("10.9.9.9", False),
        ("fd00::1", True),
        ("fd00::2", False),
    ],
)
def test_a_connection_belongs_to_the_ports_with_the_longest_prefix_of_its_address(
    source: str, denied: bool
) -> None:
    index, _ = an_index(
        ("10.0.0.1/32", "10.0.1.0/24", "fd00::1/128"),
        ("10.0.0.2/32", "10.0.0.0/16", "10.0.1.8/32", "fd00::/64"),
    )
    is_denied = DenialFinder(index=index, group_allows=lambda *_: False).denied([port_id(0)])
    assert is_denied(a_connection(source)) is denied
    shared, _ = an_index(("0.0.0.0/0",), ("0.0.0.0/0",))
    of_one = DenialFinder(index=shared, group_allows=lambda *_: False).denied([port_id(0)])
    assert not of_one(a_connection("10.0.0.1")), "the other port may have it, too"
