"""The Open vSwitch driver keeps the contract, on a real switch and a real kernel."""

import json
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from netfw.drivers.interface import Attachment
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.values.subscription import Service
from netfw.model.values.device_names import device_name
from netfw.model.values.ids import PortId
from netfw.ovs.ovsdb.client import share_ovsdb
from netfw.testing.conformance.interface import InterfaceDriverConformance
from netfw.testing.lab.openvswitch import PrivateOvs, bridge_setup
from netfw_drivers.ovs.interface.driver import OvsInterfaceDriver


def ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout


def link(name: str, netns: str | None) -> dict[str, Any] | None:
    there = ["-n", netns] if netns else []
    found = [entry for entry in json.loads(ip(*there, "-j", "link")) if entry["ifname"] == name]
    return found[0] if found else None


@pytest.fixture(scope="module")
def bridge() -> Iterator[PrivateOvs]:
    """Yield one switch for all tests, each of which has to leave it as it was."""
    switch = PrivateOvs(Path(tempfile.mkdtemp(prefix="ovs-", dir="/run")))
    try:
        yield switch.start(*bridge_setup("br-int"))
    finally:
        switch.stop()


def left_on(switch: PrivateOvs) -> set[str]:
    """Return the ports and devices in any namespace, without that of the switch itself."""
    places = [[], *(["-n", entry["name"]] for entry in json.loads(ip("-j", "netns") or "[]"))]
    devices = (json.loads(ip(*place, "-j", "link")) for place in places)
    names = {entry["ifname"] for found in devices for entry in found}
    return (names | set(switch.vsctl("list-ports", "br-int").split())) - {"ovs-netdev"}


class OvsInterfaceDriverConformance(InterfaceDriverConformance):
    """What both ways to plug have in common."""

    USE_VETH: bool
    PLACE: str | None
    """Namespace of the ports: where the switch keeps up its MAC and MTU by itself, or not."""
    TIMEOUT = 5.0
    HALF = 1234
    """An MTU that stands for a partial device."""

    DRIVER: type[OvsInterfaceDriver] = OvsInterfaceDriver

    @pytest.fixture
    def make_driver(self, bridge: PrivateOvs) -> Iterator[Callable[[], OvsInterfaceDriver]]:
        with self.drivers(bridge) as make:
            yield make

    @contextmanager
    def drivers(self, bridge: PrivateOvs) -> Iterator[Callable[[], OvsInterfaceDriver]]:
        """Yield a factory of drivers on the switch; check at the end that nothing is left."""
        self.ovs = bridge
        before = left_on(bridge)
        assert "br-int" in before, "an earlier test deleted the bridge's device"
        options = {
            "integration_bridge": "br-int",
            "ovsdb_connection": bridge.remote,
            "ovsdb_timeout": self.TIMEOUT,
            "ovs_use_veth": self.USE_VETH,
        }
        self.hosts: list[LocalHostResources] = []

        def make() -> OvsInterfaceDriver:
            self.hosts.append(LocalHostResources())
            return self.DRIVER.from_conf(options, self.hosts[-1])

        self.namespaces: set[str] = set()
        self.foreign: list[Attachment] = []
        if self.PLACE:
            self.make_namespace(self.PLACE)
        yield make
        make().gc(())
        bridge.vsctl("clear", "Bridge", "br-int", "external_ids")
        for host in self.hosts:
            host.close()
        for value in self.foreign:
            self.ip_at(value, "link", "delete", value.device)
        left = left_on(bridge) - before
        for name in self.namespaces:
            ip("netns", "delete", name)
        assert not left, "a driver that was told to remove everything left this"

    def row(self, key: PortId) -> str | None:
        """Return the OVS port whose ``iface-id`` is *key*."""
        where = f"external_ids:iface-id={key}"
        return (
            self.ovs.vsctl("--bare", "--columns=name", "find", "Interface", where).strip() or None
        )

    def actual(self, key: PortId, value: Attachment) -> Attachment | None:
        found, row = link(value.device, value.netns), self.row(key)
        if found is None and row is None and link(device_name("tap", key), None) is None:
            return None
        if found is None or row is None:
            return evolve(value, mtu=self.HALF)
        ofport = self.ovs.vsctl("get", "Interface", row, "ofport").strip()
        whole = ofport not in {"[]", "-1"}
        return Attachment(
            device=found["ifname"],
            mac=found["address"],
            mtu=found["mtu"] if whole else self.HALF,
            netns=value.netns,
            up="UP" in found["flags"],
        )

    def examples(self, count: int) -> dict[PortId, Attachment]:
        return {
            key: evolve(value, netns=self.PLACE) for key, value in super().examples(count).items()
        }

    def make_foreign(self, value: Attachment) -> None:
        self.ip_at(value, "link", "add", value.device, "type", "veth", "peer", "name", "foreign")
        self.foreign.append(value)

    def ip_at(self, value: Attachment, *arguments: str) -> None:
        ip(*(("-n", value.netns) if value.netns else ()), *arguments)

    def foreign_is_intact(self, value: Attachment) -> bool:
        found = link(value.device, value.netns)
        return found is not None and found["address"] != value.mac and "UP" not in found["flags"]

    def vanish(self, key: PortId, value: Attachment) -> None:
        row = self.row(key)
        assert row is not None
        self.ovs.vsctl("del-port", row)
        subprocess.run(["ip", "link", "del", row], check=False, capture_output=True)

    @contextmanager
    def outage(self) -> Iterator[None]:
        # The switch goes too, which would else ask for the database's return in its own time.
        self.ovs.stop_switch()
        self.ovs.stop_database()
        self.wait_at_most(0.2)
        yield
        self.wait_at_most(self.TIMEOUT)
        self.ovs.start_database()
        self.ovs.start_switch()

    def wait_at_most(self, seconds: float) -> None:
        for host in self.hosts:
            share_ovsdb(host, self.ovs.remote, self.TIMEOUT).timeout = seconds

    def make_namespace(self, name: str) -> None:
        ip("netns", "add", name)
        self.namespaces.add(name)

    def admit(self, port_id: PortId, attachment: Attachment) -> None:
        self.ovs.vsctl("set", "Port", self.row(port_id), "tag=5")

    def is_admitted(self, port_id: PortId, attachment: Attachment) -> bool:
        return self.ovs.vsctl("get", "Port", self.row(port_id), "tag").strip() != "4095"

    def initialized_services(self) -> Collection[Service]:
        ids = self.ovs.vsctl("get", "Bridge", "br-int", "external_ids")
        return [service for service in Service if f"{service}-initialized=" in ids]

    def drifts(self) -> Mapping[str, Callable[[PortId, Attachment], None]]:
        return {
            "another MAC": self.set_mac,
            "another MTU": lambda _, value: self.set_link(value, "mtu", "1300"),
            "link down": lambda _, value: self.set_link(value, "down"),
            "an id is missing": self.forget("attached-mac"),
            "it does not say who it is": self.forget("iface-id"),
            "it is not active": self.forget("iface-status"),
            "it is in another namespace": self.move_away,
            "its device is gone": lambda _, value: self.ip_at(value, "link", "del", value.device),
            "its namespace was made anew": self.renew_namespace,
            "the switch was restarted": self.restart,
        }

    def set_mac(self, key: PortId, value: Attachment) -> None:
        self.set_link(value, "address", "fa:16:3e:00:de:ad")

    def set_link(self, value: Attachment, *change: str) -> None:
        self.ip_at(value, "link", "set", value.device, *change)

    def renew_namespace(self, key: PortId, value: Attachment) -> None:
        """Make the namespace anew, or remove the device, without a notice to the switch."""
        if value.netns:
            ip("netns", "delete", value.netns)
            ip("netns", "add", value.netns)
        else:
            self.ip_at(value, "link", "del", value.device)

    def forget(self, name: str) -> Callable[[PortId, Attachment], None]:
        def spoil(key: PortId, value: Attachment) -> None:
            self.ovs.vsctl("remove", "Interface", self.row(key), "external_ids", name)

        return spoil

    def move_away(self, key: PortId, value: Attachment) -> None:
        self.make_namespace("elsewhere")
        self.set_link(value, "netns", "elsewhere")

    def restart(self, key: PortId, value: Attachment) -> None:
        """Restart the switch, which makes new devices for internal ports and finds veths again."""
        self.ovs.stop_switch()
        if self.USE_VETH:
            self.set_link(value, "down")
        self.ovs.start_switch()


@pytest.mark.spec("DRV-03", "DHCP-23", "L3-12")
class TestInternalPorts(OvsInterfaceDriverConformance):
    USE_VETH = False
    PLACE = "plugged"


@pytest.mark.nightly
@pytest.mark.spec("DRV-03", "DHCP-23", "L3-12")
class TestVethPairs(OvsInterfaceDriverConformance):
    USE_VETH = True
    PLACE = None
