"""Stations on a real switch, with ports of both kinds."""

from __future__ import annotations

import pytest
from station_samples import converge, plan, remove, station


@pytest.mark.spec("DHCP-22", "DHCP-24")
def test_a_station_is_made_and_then_left_alone(interface, stations):
    wanted = station(interface)
    converge(stations, wanted)
    assert plan(stations, wanted) == ()
    remove(stations, wanted)
    assert not stations.observe(wanted.netns).exists
    assert remove(stations, wanted) == []
    assert interface.held() == frozenset()


@pytest.mark.spec("DHCP-25")
def test_checksums(interface, stations):
    wanted = station(interface, fill_checksums=True)
    converge(stations, wanted)
    assert plan(stations, wanted) == ()
    remove(stations, wanted)
