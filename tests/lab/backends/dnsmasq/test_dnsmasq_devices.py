"""The devices that networks are served from, when somebody else changes them."""

from __future__ import annotations

import time

import pytest

from netfw.drivers.values.events import KeysChanged
from netfw.testing.conformance.dhcp.factories import make_network
from tests.lab.backends.dnsmasq.environment import BRIDGE, DnsmasqHost

TIMEOUT = 60.0


def await_call(host: DnsmasqHost, key: object) -> None:
    """Wait until the driver asks for *key* to be put again."""
    deadline = time.monotonic() + TIMEOUT
    while not any(isinstance(each, KeysChanged) and key in each.keys for each in host.events):
        assert time.monotonic() < deadline, f"nobody asked for it: {host.events}"
        time.sleep(0.01)


@pytest.mark.spec("DHCP-28")
def test_a_network_whose_device_the_switch_made_anew_is_called_for(host: DnsmasqHost) -> None:
    net, other = make_network(), make_network()
    port = net.tenant(20)
    assert host.put(net, port, other).ok
    assert host.drop(other).ok
    host.events.clear()
    host.ovs.kill_switch()
    host.ovs.start_switch()
    await_call(host, net.key)
    assert not any(other.key in each.keys for each in host.events if isinstance(each, KeysChanged))
    assert host.put(net).ok
    host.ovs.ofctl("add-flow", BRIDGE, "actions=normal")
    lease = host.lease(port)
    assert lease is not None
    assert lease.ip == port.ip


def test_a_network_whose_device_was_removed_is_called_for(host: DnsmasqHost) -> None:
    net = make_network()
    port = net.tenant(20)
    assert host.put(net, port).ok
    host.events.clear()
    host.ovs.vsctl("del-port", BRIDGE, host.driver.location(net.id, net.value.server).device)
    await_call(host, net.key)
    assert host.put(net).ok
    lease = host.lease(port)
    assert lease is not None
    assert lease.ip == port.ip
