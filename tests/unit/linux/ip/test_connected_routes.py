"""Addresses whose connected routes are gone."""

import pytest
from attrs import evolve

from netfw.linux.ip.connected_routes import mark_unrouted
from netfw.linux.ip.values import PROTOCOL_KERNEL, Address, FoundAddress, Link, route

LINK = Link(name="qr-1", index=2, mtu=1500, up=True, carrier=True, state="up")
OTHER = Link(name="qr-2", index=3, mtu=1500, up=True, carrier=True, state="up")


def unrouted(interface, *destinations, link=LINK, device="qr-1", protocol=PROTOCOL_KERNEL, **more):
    """Return whether an address is marked, by the connected routes to *destinations*."""
    entry = FoundAddress(address=Address(device="qr-1", interface=interface, **more))
    routes = [route(each, device=device, protocol=protocol) for each in destinations]
    (marked,) = mark_unrouted([entry], {"qr-1": link, "qr-2": OTHER}, routes)
    return marked.unrouted


@pytest.mark.parametrize(
    ("interface", "network"),
    [
        ("10.0.0.1/24", "10.0.0.0/24"),
        ("169.254.64.1/31", "169.254.64.0/31"),
        ("fd00::1/64", "fd00::/64"),
        ("fe80::a9fe:a9fe/128", "fe80::a9fe:a9fe/128"),
    ],
)
def test_an_address_without_its_connected_route_is_marked(interface, network):
    assert unrouted(interface)
    assert unrouted(interface, "10.9.0.0/16")
    assert unrouted(interface, network, device="qr-2")
    assert not unrouted(interface, network)


@pytest.mark.parametrize("interface", ["10.0.0.1/32", "0.1.0.1/24"])
def test_an_address_for_which_the_kernel_adds_no_route_is_not_marked(interface):
    assert not unrouted(interface)


@pytest.mark.parametrize("state", [{"up": False}, {"carrier": False}])
def test_an_address_of_a_device_that_cannot_send_is_not_marked(state):
    assert not unrouted("10.0.0.1/24", link=evolve(LINK, **state))


def test_an_address_that_was_added_without_a_route_is_not_marked():
    assert not unrouted("10.0.0.1/24", noprefixroute=True)
