"""Which switches have megaflows that can outlive their flows."""

import pytest

from netfw.ovs.openflow.megaflows import can_outlive_flows

DEBIAN_12 = "ovs-vswitchd (Open vSwitch) 3.1.0\n"


@pytest.mark.parametrize(
    ("version", "datapaths", "expected"),
    [
        (DEBIAN_12, "netdev@ovs-netdev\n", True),
        (DEBIAN_12, "system@ovs-system\nnetdev@ovs-netdev\n", True),
        (DEBIAN_12, "system@ovs-system\n", False),
        (DEBIAN_12, "", False),
        ("ovs-vswitchd (Open vSwitch) 2.17.9\n", "netdev@ovs-netdev\n", True),
        ("ovs-vswitchd (Open vSwitch) 3.3.0\n", "netdev@ovs-netdev\n", False),
        ("ovs-vswitchd (Open vSwitch) 3.10.1\n", "netdev@ovs-netdev\n", False),
        ("something else", "netdev@ovs-netdev\n", True),
    ],
)
def test_userspace_datapaths_of_older_releases(version, datapaths, expected) -> None:
    assert can_outlive_flows(version, datapaths) is expected
