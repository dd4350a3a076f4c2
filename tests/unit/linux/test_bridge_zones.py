"""Zones of the networks of Linux bridges."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from uuid import uuid4

import pytest
from attrs import field, frozen

from netfw.drivers.firewall import FilteredPort
from netfw.linux.bridge_firewall.values import IndexedPort, PortLocation, Zone, plan_zones
from netfw.model.values.address import IpNetwork, Mac
from netfw.model.values.ids import NetworkId, PortId

pytestmark = pytest.mark.spec("FW-08")
BLUE, GREEN = NetworkId(uuid4()), NetworkId(uuid4())


@frozen
class WantedPort:
    port: FilteredPort
    location: PortLocation


@frozen(kw_only=True)
class Host:
    """Bridges with zones, and no ports."""

    zones: Mapping[str, Zone]
    ports: Mapping[PortId, IndexedPort] = field(factory=dict)
    on_bridge: Mapping[str, Set[PortId]] = field(factory=dict)
    further_zones: Collection[Zone] = ()
    sources: Mapping[tuple[PortId, int], Collection[IpNetwork]] = field(factory=dict)

    def port_with(self, device: str) -> PortId | None:
        return None


def test_both_numbers_of_a_network_on_two_bridges_are_taken() -> None:
    host = Host(zones={"br1": Zone(4097, BLUE), "br2": Zone(4098, BLUE)})
    port = FilteredPort(network=GREEN, device="tap3", mac=Mac("fa:16:3e:00:00:03"))
    wanted = {PortId(uuid4()): WantedPort(port, PortLocation("tap3", "br3"))}
    change = plan_zones(wanted, (), host, private=False, thorough=False)
    assert change.zones == {"br3": Zone(4099, GREEN)}
    assert (change.new, change.gone) == ({4099}, frozenset())
