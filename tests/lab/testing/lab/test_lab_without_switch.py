"""A lab on a machine on which Open vSwitch is not installed."""

from __future__ import annotations

import pytest

from netfw.errors import BackendBroken, ConfigError
from netfw.testing.lab.instance import Plug
from netfw.testing.lab.lab import Lab
from tests.lab.testing.lab.hidden_openvswitch import hidden_openvswitch


def test_lab_with_switches_says_what_to_install() -> None:
    with (
        hidden_openvswitch(),
        pytest.raises(BackendBroken, match=r"ovs-vsctl.*apt install openvswitch-switch"),
    ):
        Lab(1).__enter__()


def test_hosts_without_a_switch_reach_each_other_where_it_is_not_installed() -> None:
    with hidden_openvswitch(), Lab(2, switch=False, provider=["physnet1"]) as lab:
        one, two = lab.hosts.values()
        one.run(["ping", "-c", "1", str(two.address.ip)])
        one.run(["ip", "link", "show", "physnet1"])
        one.crash()
        one.revive()
        two.run(["ping", "-c", "1", str(one.address.ip)])


def test_host_without_a_switch_says_so() -> None:
    with Lab(1, switch=False) as lab:
        (host,) = lab.hosts.values()
        with pytest.raises(ConfigError, match=r"host1 has no Open vSwitch: .*switch=False"):
            host.ovs.vsctl("show")
        instance = host.instance("vm1")
        with pytest.raises(ConfigError, match=r"vm1 .* has no Open vSwitch"):
            instance.plug(Plug(bridge="br-int", device="tap1"))
        assert "tap1" not in host.run(["ip", "-o", "link"])


def test_bridges_of_a_lab_need_its_switch() -> None:
    with pytest.raises(ConfigError, match="bridges of Open vSwitch"):
        Lab(1, bridges=["br-int"], switch=False)
