"""The hybrid plug: made, made again, taken away; and instances that speak through it."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path
from uuid import uuid4

import pytest

from netfw.drivers.firewall import FilteredPort, Rules
from netfw.drivers.values.allowed_source import AllowedSource
from netfw.drivers.values.keys import GroupKey, PortKey
from netfw.linux.bridge_firewall.hybrid_plug import HybridPlug, make_plug, plan_plug
from netfw.linux.ip.netlink_client import NetlinkClient
from netfw.model.security_group import Direction, SecurityGroupRule
from netfw.model.values.ids import NetworkId, PortId, SecurityGroupId, SecurityGroupRuleId
from netfw.plan import Update
from netfw.testing.lab.host import Host
from netfw.testing.lab.instance import Instance, InstanceDevice, Plug
from netfw.testing.lab.lab import Lab
from netfw.testing.lab.wait import TIMEOUT
from netfw.testing.plugin import MakeLab
from netfw_drivers.iptables.driver import IptablesHybridFirewallDriver

PORTS = [PortId(uuid4()), PortId(uuid4())]
MACS = ["fa:16:3e:00:00:01", "fa:16:3e:00:00:02"]


@pytest.fixture
def lab(make_lab: MakeLab) -> Lab:
    return make_lab(hosts=1, bridges=["br-int"])


@pytest.fixture
def host(lab: Lab) -> Host:
    (host,) = lab.hosts.values()
    return host


def a_guest(host: Host, number: int) -> Instance:
    port = PORTS[number - 1]
    plug = Plug(
        bridge="br-int",
        device=HybridPlug.of(port).switch_end,
        kind=InstanceDevice.HYBRID,
        mac=MACS[number - 1],
        addresses=[f"10.0.0.{number}/24"],
        external_ids={"iface-id": str(port)},
    )
    return host.instance(f"guest{number}", plug)


def answered(instance: Instance, address: str, timeout: float = TIMEOUT) -> bool:
    times = instance.ping(address, count=2, timeout=timeout).times
    return any(time is not None for time in times)


def test_the_plug_is_called_as_compute_services_call_it() -> None:
    port = PortId(uuid4())
    plug = HybridPlug.of(port)
    suffix = str(port)[:11]
    assert (plug.tap, plug.bridge) == (f"tap{suffix}", f"qbr{suffix}")
    assert (plug.bridge_end, plug.switch_end) == (f"qvb{suffix}", f"qvo{suffix}")
    assert HybridPlug.with_switch_end(plug.switch_end) == plug


def test_a_plug_is_made_once_and_mended(host: Host) -> None:
    plug = HybridPlug.of(PORTS[0])
    with NetlinkClient(Path(host.namespaces.space("net"))) as network:
        host.namespaces.ip(f"link add {plug.tap} type veth peer name far")
        make_plug(network, plug, mtu=1400)
        made = network.links()
        assert {name: made[name].master for name in (plug.tap, plug.bridge_end)} == {
            plug.tap: plug.bridge,
            plug.bridge_end: plug.bridge,
        }
        assert made[plug.switch_end].mtu == made[plug.bridge_end].mtu == 1400
        assert all(made[name].up for name in (plug.bridge, plug.bridge_end, plug.switch_end))
        assert not [*plan_plug(plug, 1400, dict(made))]
        host.namespaces.ip(f"link set {plug.bridge_end} nomaster")
        make_plug(network, plug, mtu=1400)
        assert network.links()[plug.bridge_end].master == plug.bridge


@pytest.mark.spec("FW-01")
def test_instances_behind_a_hybrid_plug_are_filtered(host: Host) -> None:
    one, two = a_guest(host, 1), a_guest(host, 2)
    assert answered(one, "10.0.0.2")
    id, network = SecurityGroupId(uuid4()), NetworkId(uuid4())
    ports = {
        PortKey(port): FilteredPort(
            network=network,
            device=HybridPlug.of(port).switch_end,
            mac=mac,
            sources=frozenset({AllowedSource(mac, ip_network(f"10.0.0.{number}/32"))}),
            groups=frozenset({id}),
        )
        for number, (port, mac) in enumerate(zip(PORTS, MACS, strict=True), 1)
    }
    driver = IptablesHybridFirewallDriver(namespace=Path(host.namespaces.space("net")))
    assert driver.converge(Update(put=ports)).ok
    assert not answered(one, "10.0.0.2", timeout=1)
    rules = frozenset(
        SecurityGroupRule(
            id=SecurityGroupRuleId(uuid4()), security_group_id=id, direction=direction, protocol=1
        )
        for direction in Direction
    )
    assert driver.converge(Update(put={GroupKey(id): Rules(rules)})).ok
    assert answered(one, "10.0.0.2")
    assert answered(two, "10.0.0.1")
    two.namespaces.ip("addr add 10.0.0.3/24 dev eth0")
    assert not answered(one, "10.0.0.3", timeout=1)


def test_a_port_without_a_hybrid_plug_is_refused_by_name(host: Host) -> None:
    driver = IptablesHybridFirewallDriver(namespace=Path(host.namespaces.space("net")))
    key = PortKey(PORTS[0])
    plain = FilteredPort(network=NetworkId(uuid4()), device="tap1", mac=MACS[0])
    outcome = driver.converge(Update(put={key: plain}))
    assert "hybrid plug" in str(outcome.failed[key])
