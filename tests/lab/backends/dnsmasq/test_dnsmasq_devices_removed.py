"""Devices that somebody takes away from a network that is served, however they are plugged."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from netfw.drivers.dhcp import DhcpKey, DhcpValue
from netfw.drivers.values.events import Event, KeysChanged
from netfw.linux.ip.multi_netns_monitor import MultiNetnsMonitor
from netfw.model.subnet import Ipv6Mode
from netfw.model.values.device_names import device_name, dhcp_namespace
from netfw.plan import Plan, Update
from netfw.testing.conformance.dhcp.factories import (
    ServedNetwork,
    Tenant,
    a_subnet,
    a_subnet6,
    make_network,
)
from netfw.testing.lab.namespaces import NamespaceContext
from netfw.testing.lab.openvswitch import PrivateOvs
from netfw_drivers.dnsmasq.driver import DnsmasqDhcpDriver
from netfw_drivers.dnsmasq.plan.observed import Observed
from tests.lab.backends.dnsmasq.environment import BRIDGE, DnsmasqHost

TIMEOUT = 60.0
QUIET = 0.5
"""Within which whoever has something to say has said it."""
Harm = Callable[[DnsmasqHost, ServedNetwork], None]


def restart_switch(host: DnsmasqHost, net: ServedNetwork) -> None:
    host.ovs.kill_switch()
    host.ovs.start_switch()
    host.ovs.ofctl("add-flow", BRIDGE, "actions=normal")


def remove_port(host: DnsmasqHost, net: ServedNetwork) -> None:
    host.ovs.vsctl("del-port", device_name("tap", net.value.server.id))


def delete_device(host: DnsmasqHost, net: ServedNetwork) -> None:
    device = host.interface.device_name(net.value.server.id)
    NamespaceContext().run(["ip", "-n", dhcp_namespace(net.id), "link", "delete", device])


def take_down(host: DnsmasqHost, net: ServedNetwork) -> None:
    device = host.interface.device_name(net.value.server.id)
    NamespaceContext().run(["ip", "-n", dhcp_namespace(net.id), "link", "set", device, "down"])


def take_address(host: DnsmasqHost, net: ServedNetwork) -> None:
    device = host.interface.device_name(net.value.server.id)
    address = str(net.value.server.addresses[0])
    NamespaceContext().run(
        ["ip", "-n", dhcp_namespace(net.id), "address", "del", address, "dev", device]
    )


def add_address(host: DnsmasqHost, net: ServedNetwork) -> None:
    device = host.interface.device_name(net.value.server.id)
    NamespaceContext().run(
        ["ip", "-n", dhcp_namespace(net.id), "address", "add", "192.0.2.9/24", "dev", device]
    )


def take_route(host: DnsmasqHost, net: ServedNetwork) -> None:
    NamespaceContext().run(["ip", "-n", dhcp_namespace(net.id), "route", "del", "default"])


def delete_namespace(host: DnsmasqHost, net: ServedNetwork) -> None:
    NamespaceContext().run(["ip", "netns", "delete", dhcp_namespace(net.id)])


@pytest.fixture(params=[False, True], ids=["internal", "veth"])
def host(ovs: PrivateOvs, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[DnsmasqHost]:
    with DnsmasqHost(ovs, tmp_path, use_veth=request.param) as made:
        yield made


def await_call(host: DnsmasqHost, net: ServedNetwork, since: int) -> None:
    """Wait until somebody asks for *net* to be put again."""
    deadline = time.monotonic() + TIMEOUT
    while not any(_is_about(event, net) for event in host.events[since:]):
        assert time.monotonic() < deadline, f"nobody asked for it: {host.events}"
        time.sleep(0.01)


def await_silence(host: DnsmasqHost) -> int:
    """Wait until nobody asks for anything; how often somebody did."""
    deadline = time.monotonic() + TIMEOUT
    since = -1
    while since != len(host.events):
        assert time.monotonic() < deadline, f"there is no end of it: {host.events}"
        since = len(host.events)
        time.sleep(QUIET)
    return since


def _is_about(event: Event, net: ServedNetwork) -> bool:
    return isinstance(event, KeysChanged) and net.key in event.keys


def assert_leased(host: DnsmasqHost, *tenants: Tenant) -> None:
    for tenant in tenants:
        lease = host.lease(tenant)
        assert lease is not None
        assert lease.ip == tenant.ip


@pytest.mark.spec("DHCP-23")
@pytest.mark.parametrize(
    ("host", "harm"),
    [(False, restart_switch), (False, remove_port), (True, remove_port)],
    indirect=["host"],
    ids=["internal-restart", "internal-remove", "veth-remove"],
)
def test_what_the_switch_lost_is_called_for_and_made_again(host: DnsmasqHost, harm: Harm) -> None:
    net = make_network(a_subnet(), a_subnet6(Ipv6Mode.STATEFUL))
    port, more = net.tenant(20), net.tenant(21)
    assert host.put(net, port).ok
    assert host.put(net).ok
    assert_leased(host, port)
    pid, since = host.pid(net), len(host.events)
    harm(host, net)
    await_call(host, net, since)
    assert host.put(net, more).ok
    assert_leased(host, port, more)
    assert host.put(net, port, more).ok
    assert str(host.plan(net, port, more)) == "nothing to do"
    assert host.pid(net) == pid, "dnsmasq follows its device"


@pytest.mark.spec("DHCP-23")
def test_a_device_that_was_deleted_comes_back_with_the_next_port(host: DnsmasqHost) -> None:
    net = make_network()
    port, more = net.tenant(20), net.tenant(21)
    assert host.put(net, port).ok
    delete_device(host, net)
    assert host.put(more).ok
    host.admit(net)
    assert_leased(host, port, more)


@pytest.mark.spec("DHCP-28")
@pytest.mark.parametrize(
    "harm",
    [delete_device, take_down, take_address, add_address, take_route, delete_namespace],
)
def test_manual_change_is_reported_and_repaired(host: DnsmasqHost, harm: Harm) -> None:
    net = make_network()
    port = net.tenant(20)
    assert host.put(net, port).ok
    since = await_silence(host)
    harm(host, net)
    await_call(host, net, since)
    assert host.put(net).ok
    assert_leased(host, port)
    assert str(host.plan(net, port)) == "nothing to do"
    await_silence(host)


class ChangedInBetween(DnsmasqDhcpDriver):
    """A driver that calls *harm* between the observation of the machine and the plan."""

    harm: Callable[[], None] | None = None

    def plan(self, update: Update[DhcpKey, DhcpValue], observed: Observed) -> Plan:
        harm, self.harm = self.harm, None
        if harm is not None:
            harm()
        return super().plan(update, observed)


@pytest.mark.spec("DHCP-28")
def test_manual_change_after_the_observation_of_a_converge_is_reported(host: DnsmasqHost) -> None:
    host.driver.close()
    host.driver = driver = ChangedInBetween(host.interface, host.settings)
    driver.watch(host.events.append)
    net = make_network()
    assert host.put(net).ok
    since = await_silence(host)
    announced = threading.Event()

    def harm() -> None:
        take_route(host, net)
        assert announced.wait(60)

    monitor = MultiNetnsMonitor(lambda changed: announced.set(), debounce=0)
    monitor.watch(dhcp_namespace(net.id))
    driver.harm = harm
    assert host.put(net).ok
    monitor.close()
    await_call(host, net, since)
    assert host.put(net).ok
    assert str(host.plan(net)) == "nothing to do"
