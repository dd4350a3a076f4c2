"""dnsmasq takes what is beyond the 1,023rd character of a line for another line: nothing is."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from netfw.drivers.dhcp import DhcpNetwork, DhcpPort
from netfw.drivers.support.unsupported_dhcp import MAX_OPTIONS
from netfw.errors import InvalidInput
from netfw_drivers.dnsmasq.config.dhcp_hosts import LINE_LENGTH
from netfw_drivers.dnsmasq.config.render import render_network, render_port
from netfw_drivers.dnsmasq.config.unsupported_port_fields import restrict_port
from tests.unit.backends.dnsmasq.config.cases import (
    NETWORK,
    PLACE,
    PLAIN,
    PORT,
    SETTINGS,
    V4,
    a_network,
    a_port,
    a_subnet6,
    option,
)

NUMBERS = [n for n in range(60, 250) if n not in (61, 81, 82, 118)]
"""Of options that a port may be without."""


def faults_of(port: DhcpPort, network: DhcpNetwork = PLAIN) -> set[str]:
    with pytest.raises(InvalidInput) as caught:
        render_port(PORT, port, network, SETTINGS)
    return set(caught.value.problems)


def fits(port: DhcpPort) -> bool:
    try:
        return bool(render_port(PORT, port, PLAIN, SETTINGS).host)
    except InvalidInput:
        return False


def without(count: int, **more: Any) -> DhcpPort:
    """Return a port that suppresses *count* options."""
    return a_port((V4, 9), options=[option(str(n), "") for n in NUMBERS[:count]], **more)


@pytest.mark.spec("DHCP-48")
def test_a_port_leaves_out_as_many_options_as_a_line_has_room_for() -> None:
    def length(count: int) -> int:
        text = render_port(PORT, without(count), PLAIN, SETTINGS)
        return max(map(len, text.host.splitlines()))

    refused = next(count for count in range(len(NUMBERS)) if not fits(without(count)))
    assert LINE_LENGTH - 20 < length(refused - 1) <= LINE_LENGTH
    assert faults_of(without(refused)) == {"options"}


@pytest.mark.spec("DHCP-48")
def test_options_without_room_are_named_by_their_position_as_all_others_are() -> None:
    refused, *others = without(100).options
    port = a_port((V4, 9), options=[evolve(refused, name="no-such-name"), *others])
    served, unsupported = restrict_port(port, PLAIN, SETTINGS)
    names = [name for name, _, _ in (each.partition(".") for each in unsupported.problems)]
    kept = 1 + len(served.options)
    assert names == ["options[0]", *(f"options[{at}]" for at in range(kept, 100))]
    assert fits(served)


@pytest.mark.spec("DHCP-48")
def test_a_port_has_as_many_ipv6_addresses_as_a_line_has_room_for() -> None:
    subnet = a_subnet6()
    network = a_network(subnet)
    places = [0x1234_5678_1234_5000 + at for at in range(60)]
    fits = render_port(PORT, a_port(*((subnet, at) for at in places[:20])), network, SETTINGS)
    assert all(len(line) <= LINE_LENGTH for line in fits.host.splitlines())
    assert faults_of(a_port(*((subnet, at) for at in places)), network) == {"fixed_ips"}


@pytest.mark.spec("DHCP-48")
def test_options_are_counted() -> None:
    many = tuple(option("42", "10.0.0.9") for _ in range(MAX_OPTIONS + 1))
    assert faults_of(a_port((V4, 9), options=many)) == {"options"}
    with pytest.raises(InvalidInput, match="options: are 257"):
        render_network(NETWORK, evolve(PLAIN, options=many), PLACE, SETTINGS)


@pytest.mark.spec("DHCP-48")
def test_the_longest_option_is_one_line() -> None:
    value = ",".join(["::"] * 50)
    longest = option(f"tag:{'x' * 57},23", value, 6)
    network = a_network(a_subnet6(), options=(longest,))
    text = render_network(NETWORK, network, PLACE, SETTINGS).opts
    assert 350 < max(map(len, text.splitlines())) <= LINE_LENGTH


def test_a_port_that_can_have_no_address_is_refused_and_one_that_can_is_not() -> None:
    short = a_subnet6(cidr="2001:db8::/48")
    network = a_network(V4, short)
    assert faults_of(a_port((short, 9)), network) == {"fixed_ips[0]"}
    assert "10.4.0.9" in render_port(PORT, a_port((short, 9), (V4, 9)), network, SETTINGS).host
    outside = evolve(short, enable_dhcp=False)
    assert not render_port(PORT, a_port((outside, 9)), a_network(V4, outside), SETTINGS).host
