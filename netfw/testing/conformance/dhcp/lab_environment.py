"""A `DhcpEnvironment` of the lab: a private Open vSwitch, instances on it, and real clients in
them.

The vendor adds the driver::

    class MyEnvironment(DhcpLabEnvironment):
        def make_dhcp(self, host, directory):
            return MyDhcpDriver.from_conf({"directory": str(directory)}, host)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, ClassVar, Self

from netfw.drivers.base import DriverInfo, HostResources
from netfw.drivers.dhcp import (
    DhcpCapability,
    DhcpDriver,
    DhcpKey,
    DhcpLocation,
    DhcpNetwork,
    DhcpValue,
    ServerPort,
)
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.interface import InterfaceDriver
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.values.events import Sink
from netfw.model.values.address import Mac
from netfw.model.values.device_names import device_name
from netfw.model.values.ids import NetworkId
from netfw.plan import Outcome, Update
from netfw.testing.conformance.dhcp.environment import DhcpClientVm, DhcpEnvironment, FoundServer
from netfw.testing.conformance.dhcp.lab_client import LabClientVm
from netfw.testing.conformance.dhcp.lab_host import (
    BRIDGE,
    DhcpLabHost,
    DriverHosts,
    make_ovs_interface,
    processes,
    start_lab_host,
    start_second_host,
)
from netfw.testing.lab import sandbox
from netfw.testing.lab.instance import Instance, Plug
from netfw.testing.lab.namespaces import NamespaceContext
from netfw.testing.lab.openvswitch import PrivateOvs
from netfw.testing.lab.wait import TIMEOUT

FIRST_VLAN = 101


class OtherHostDriver(DhcpDriver):
    """Calls a driver in the namespaces of another lab host."""

    def __init__(self, driver: DhcpDriver, namespaces: NamespaceContext) -> None:
        self._driver = driver
        self._namespaces = namespaces

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        raise NotImplementedError("construct it with a driver")

    def describe(self) -> DriverInfo[HostCapability | DhcpCapability]:
        return self._driver.describe()

    def converge(self, update: Update[DhcpKey, DhcpValue]) -> Outcome[DhcpKey]:
        return self._namespaces.call(self._driver.converge, update)

    def present(self) -> frozenset[DhcpKey]:
        return self._namespaces.call(self._driver.present)

    def watch(self, sink: Sink) -> None:
        self._namespaces.call(self._driver.watch, sink)

    def location(self, network: NetworkId, server: ServerPort) -> DhcpLocation | None:
        return self._driver.location(network, server)

    def close(self) -> None:
        self._namespaces.call(self._driver.close)


class DhcpLabEnvironment(DhcpEnvironment):
    """The sandbox itself is the host; the second one is created on first use.

    Networks are VLANs of one bridge, set by this environment in place of a switch driver.
    """

    timeout: ClassVar[float] = TIMEOUT
    use_veth: ClassVar[bool] = False
    """Servers are plugged by veth pairs, and not by internal ports of the switch."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._sites: list[DhcpLabHost] = []
        self._drivers: DriverHosts[DhcpDriver] = DriverHosts()
        self._vlans: dict[NetworkId, int] = {}
        self._servers: dict[str, int] = {}
        self._clients: dict[tuple[NetworkId, Mac], LabClientVm] = {}
        self._idle: list[Instance] = []
        self._numbers = itertools.count(1)
        self._foreign: list[str] = []

    def make_dhcp(self, host: HostResources, directory: Path) -> DhcpDriver:
        """Return the driver for a *host* with an ``InterfaceDriver``; it writes to *directory*."""
        raise NotImplementedError("override `make_dhcp` with what makes your driver")

    def make_interface(self, host: HostResources, ovs: PrivateOvs) -> InterfaceDriver:
        """Return the driver that plugs the server's port; by default that of Open vSwitch."""
        return make_ovs_interface(host, ovs, use_veth=self.use_veth)

    def __enter__(self) -> Self:
        """Start the switch.

        :raises BackendBroken: something is missing on this machine; the message says what to do.
        """
        sandbox.require()
        with ExitStack() as stack:
            self._sites.append(start_lab_host(stack, "dhcp-"))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.dismiss()
        self._drivers.close()
        self._stack.close()

    @property
    def used(self) -> tuple[bool, ...]:
        return (False, True)[: len(self._sites)]

    def make_driver(self, second: bool = False) -> DhcpDriver:
        site = self._second() if second else self._sites[0]
        host = LocalHostResources()
        host.add(self.make_interface(host, site.ovs))
        driver = self.make_dhcp(host, site.directory)
        if second:
            driver = OtherHostDriver(driver, site.namespaces)
        self._drivers.add(driver, host)
        return driver

    def killed(self, driver: DhcpDriver) -> None:
        self._drivers.kill(driver)

    def admit(self, network: NetworkId, server: ServerPort) -> None:
        self._servers[str(server.id)] = self._vlan(network)

    def client(self, network: NetworkId, mac: Mac) -> DhcpClientVm:
        known = self._clients.get((network, mac))
        if known is not None:
            return known
        instance = self._idle.pop() if self._idle else self._new_instance()
        instance.namespaces.ip(
            "link set eth0 down", f"link set eth0 address {mac}", "link set eth0 up"
        )
        self._sites[0].ovs.vsctl("set", "Port", instance.name, f"tag={self._vlan(network)}")
        client = LabClientVm(instance, self.timeout, self._settle)
        self._clients[network, mac] = client
        return client

    def dismiss(self) -> None:
        while self._clients:
            _, client = self._clients.popitem()
            client.close()
            self._idle.append(client.instance)
        while self._foreign:
            self._sites[0].namespaces.attempt(["ip", "link", "delete", self._foreign.pop()])

    def server(self, network: NetworkId, server: ServerPort) -> FoundServer | None:
        return self._sites[0].server(server.id)

    def is_at(self, location: DhcpLocation, server: ServerPort) -> bool:
        device = self._sites[0].find(server.id)
        return device is not None and (device[0], device[1]["ifname"]) == (
            location.netns,
            location.device,
        )

    def dump_state(self) -> frozenset[str]:
        seen = {line for site in self._sites for line in site.dump_state()}
        return frozenset({*seen, *(f"process {words}" for words in processes())})

    def contains(self, text: str) -> bool:
        return any(site.contains(text) for site in self._sites) or any(
            text in words for words in processes()
        )

    def kill_server(self, network: NetworkId, server: ServerPort) -> None:
        self._sites[0].kill_processes_in(self._namespace(server))

    def restart_host(self) -> None:
        site = self._sites[0]
        for netns in site.netns_names():
            site.kill_processes_in(netns)
            site.ip("netns", "delete", netns)
        site.ovs.stop_switch()
        site.ovs.start_switch()

    def vanish(self, network: NetworkId, value: DhcpNetwork) -> None:
        self._sites[0].forget(str(network), value.server.id)

    def make_foreign(self, value: DhcpNetwork) -> None:
        name = device_name("tap", value.server.id)
        peer = f"peer name foreign{next(self._numbers)}"
        self._sites[0].namespaces.ip(f"link add {name} type veth {peer}")
        self._foreign.append(name)

    def foreign_is_intact(self, value: DhcpNetwork) -> bool:
        name = device_name("tap", value.server.id)
        result = self._sites[0].namespaces.attempt(["ip", "-o", "link", "show", name])
        return (
            result.status == 0
            and value.server.mac not in result.output
            and ",UP" not in result.output
        )

    def outage(self) -> AbstractContextManager[None]:
        return self._drivers.outage(self._sites[0].ovs)

    def drifts(self) -> Mapping[str, Callable[[NetworkId, DhcpNetwork], None]]:
        def by(*change: str) -> Callable[[NetworkId, DhcpNetwork], None]:
            return lambda _, value: self._spoil(value, *change)

        return {
            "an address is missing": lambda _, value: self._spoil(
                value, "address", "delete", str(value.server.addresses[0]), "dev", "DEVICE"
            ),
            "an address too many": by("address", "add", "203.0.113.9/24", "dev", "DEVICE"),
            "no default route": by("route", "delete", "default"),
            "link down": by("link", "set", "DEVICE", "down"),
            "another MTU": by("link", "set", "DEVICE", "mtu", "1300"),
            "another MAC": by("link", "set", "DEVICE", "address", "fa:16:3e:00:de:ad"),
            "its device is gone": self._pull_out,
        }

    def _spoil(self, value: DhcpNetwork, *change: str) -> None:
        site = self._sites[0]
        device = site.find(value.server.id)
        assert device is not None
        words = [word.replace("DEVICE", device[1]["ifname"]) for word in change]
        site.ip("-n", self._namespace(value.server), *words)

    def _pull_out(self, network: NetworkId, value: DhcpNetwork) -> None:
        site = self._sites[0]
        row = site.rows()[str(value.server.id)]
        site.ovs.vsctl("del-port", row)
        site.namespaces.attempt(["ip", "link", "delete", row])  # a veth outlives its port

    def _namespace(self, server: ServerPort) -> str:
        device = self._sites[0].find(server.id)
        assert device is not None, f"port {server.id} has no device"
        assert device[0] is not None, f"the device of port {server.id} is in no namespace"
        return device[0]

    def _settle(self) -> None:
        for site in self._sites:
            site.admit(self._servers)

    def _vlan(self, network: NetworkId) -> int:
        return self._vlans.setdefault(network, FIRST_VLAN + len(self._vlans))

    def _new_instance(self) -> Instance:
        site = self._sites[0]
        name = f"guest{next(self._numbers)}"
        instance = Instance(name, site.namespaces, site.ovs)
        site.others.add(name)
        instance.open()
        self._stack.callback(site.ip, "netns", "delete", name)
        self._stack.callback(instance.close)
        instance.plug(Plug(bridge=BRIDGE, device=name))
        return instance

    def _second(self) -> DhcpLabHost:
        if len(self._sites) < 2:
            self._sites.append(start_second_host(self._stack, self._sites[0]))
        return self._sites[1]
