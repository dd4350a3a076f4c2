"""Device owners: which predicate holds for which owner."""

from __future__ import annotations

import pytest

from netfw.model.values.device_owner import (
    DeviceOwner,
    is_compute,
    is_dhcp,
    is_distributed,
    is_l3_agent_port,
    is_l3_reserved,
    is_router_attachment,
    is_router_interface,
    is_router_port,
    is_trusted,
)

PREDICATES = (
    is_trusted,
    is_compute,
    is_dhcp,
    is_distributed,
    is_router_interface,
    is_router_attachment,
    is_router_port,
    is_l3_agent_port,
    is_l3_reserved,
)
ROUTER_PORT = {is_trusted, is_router_port, is_l3_agent_port, is_l3_reserved}
ATTACHMENT = {*ROUTER_PORT, is_router_attachment}
INTERFACE = {*ATTACHMENT, is_router_interface}
HOLDS = {
    "network:dhcp": {is_trusted, is_dhcp},
    "network:router_interface": INTERFACE,
    "network:router_interface_distributed": {*INTERFACE, is_distributed},
    "network:ha_router_replicated_interface": INTERFACE,
    "network:router_ha_interface": ROUTER_PORT,
    "network:router_gateway": ATTACHMENT,
    "network:router_centralized_snat": ROUTER_PORT,
    "network:floatingip": {is_trusted, is_l3_reserved},
    "network:floatingip_agent_gateway": {is_trusted, is_l3_agent_port, is_l3_reserved},
    "network:local_ip": {is_trusted},
    "trunk:subport": set(),
    "network:router_unheard_of": ROUTER_PORT,
    "network:unheard_of": {is_trusted},
    "compute:nova": {is_compute},
    "compute": set(),
    "baremetal:none": set(),
    "": set(),
}


@pytest.mark.parametrize("owner", HOLDS)
def test_predicates_hold_for_exactly_these_owners(owner):
    assert {predicate for predicate in PREDICATES if predicate(owner)} == HOLDS[owner]


def test_every_known_owner_is_in_the_table_of_predicates():
    assert {owner.value for owner in DeviceOwner} <= set(HOLDS)


def test_the_gateway_of_an_agent_is_no_router_port_but_may_have_any_address():
    # Its ``device_id`` is no router's id: state sources must not follow it as one.
    owner = DeviceOwner.FLOATING_IP_AGENT_GATEWAY
    assert (is_router_port(owner), is_l3_agent_port(owner)) == (False, True)
