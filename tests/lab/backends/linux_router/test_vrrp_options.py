"""Elections with other options of VRRP than the default ones."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from ipaddress import IPv4Address

import pytest
from attrs import evolve

from netfw.model.router import HaRole
from netfw.testing.conformance.router.factories import Site
from netfw.testing.lab.wait import wait_until
from tests.lab.backends.linux_router.environment import (
    LinuxRouterEnvironment,
    MakeDriver,
    bring,
)
from tests.lab.backends.linux_router.ha_instances import (
    Pair,
    ha_packets,
    ha_port,
    pids,
    role,
    wait_roles,
)

VRRP, AH = 112, socket.IPPROTO_AH
MULTICAST = IPv4Address("224.0.0.18")
ENOUGH = 6
"""Advertisements within which an instance that does not receive them would become active."""


@pytest.fixture(scope="module", params=["ah", "unicast"])
def environment(request: pytest.FixtureRequest) -> Iterator[LinuxRouterEnvironment]:
    options = {
        "ah": {"ha_vrrp_auth_type": "AH", "ha_vrrp_auth_password": "geheim.1"},
        "unicast": {"ha_vrrp_unicast": True},
    }
    with LinuxRouterEnvironment(**options[request.param]) as made:
        yield made


def with_peer(site: Site, peer: Site) -> Site:
    assert site.full.ha is not None
    address = ha_port(peer).addresses[0].ip
    return site.with_full(ha=evolve(site.full.ha, peers=(address,)))


def received(site: Site) -> set[tuple[int, IPv4Address]]:
    """Return protocols and destinations of the next packets of the other instance."""
    with ha_packets(site) as receive:
        packets = [receive() for _ in range(ENOUGH)]
    return {(each[9], IPv4Address(each[16:20])) for each in packets}


@pytest.mark.spec("L3-40")
def test_one_of_two_instances_is_active_and_the_other_one_takes_over(
    environment: LinuxRouterEnvironment,
    make_driver: MakeDriver,
    pair: Pair,
    request: pytest.FixtureRequest,
) -> None:
    driver, first, second = make_driver(), with_peer(*pair), with_peer(*reversed(pair))
    bring(driver, first)
    wait_until(lambda: role(driver, first) is HaRole.ACTIVE)
    bring(driver, second)
    unicast = (VRRP, ha_port(second).addresses[0].ip)
    expected = {"ah": (AH, MULTICAST), "unicast": unicast}
    option = request.node.callspec.params["environment"]
    assert received(second) == {expected[option]}
    assert wait_roles(driver, first, second) == (first, second)
    os.kill(pids(first)[0], signal.SIGTERM)
    wait_until(lambda: role(driver, second) is HaRole.ACTIVE)
    wait_until(lambda: role(driver, first) is HaRole.STANDBY)
    assert wait_roles(driver, first, second) == (second, first)
