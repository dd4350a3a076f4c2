"""Prefixes that highly available routers need for themselves."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from netfw.model.router import HA_MARKERS, find_ha_overlap, find_ha_override

HA_PREFIX = ip_network("169.254.192.0/18")
LARGE = ip_network("169.254.0.0/16")


@pytest.mark.parametrize(
    ("cidr", "prefix", "overlap", "override"),
    [
        ("10.0.0.0/8", HA_PREFIX, None, None),
        ("0.0.0.0/0", HA_PREFIX, HA_MARKERS, None),
        ("169.254.0.7/32", HA_PREFIX, HA_MARKERS, HA_MARKERS),
        ("169.254.192.0/18", HA_PREFIX, HA_PREFIX, HA_PREFIX),
        ("169.254.128.0/17", HA_PREFIX, HA_PREFIX, None),
        ("169.254.0.0/20", LARGE, HA_MARKERS, LARGE),
        ("fe80::/10", HA_PREFIX, None, None),
    ],
)
def test_subnets_overlap_and_routes_override(cidr, prefix, overlap, override):
    network = ip_network(cidr)
    assert find_ha_overlap(network, [prefix]) == overlap
    assert find_ha_override(network, [prefix]) == override
