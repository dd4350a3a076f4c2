"""A host that serves networks with dnsmasq, for the tests beside."""

from __future__ import annotations

import itertools
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from attrs import evolve

from netfw.drivers.dhcp import DhcpKey
from netfw.drivers.values.events import Event
from netfw.linux import netns
from netfw.linux.process import OnDeath
from netfw.model.values.address import Mac
from netfw.model.values.device_names import device_name
from netfw.model.values.ids import NetworkId
from netfw.ovs.ovsdb.client import Ovsdb
from netfw.plan import Outcome, Plan, Update
from netfw.testing.conformance.dhcp.factories import ServedNetwork, Tenant, wanted
from netfw.testing.lab.dhcp_client import Dhclient6, Udhcpc
from netfw.testing.lab.dhcp_lease import ClientLease, Lease6
from netfw.testing.lab.instance import Instance, Plug
from netfw.testing.lab.namespaces import KINDS, NamespaceContext
from netfw.testing.lab.openvswitch import PrivateOvs
from netfw_drivers.dnsmasq.config.paths import NetworkPaths
from netfw_drivers.dnsmasq.config.settings import Settings
from netfw_drivers.dnsmasq.driver import DnsmasqDhcpDriver
from netfw_drivers.dnsmasq.runtime.lease_file import read_consistent
from netfw_drivers.ovs.interface.driver import OvsInterfaceDriver

BRIDGE = "br-int"


class DnsmasqHost:
    """A switch whose networks are VLANs, and a driver that can be killed and started again."""

    def __init__(self, ovs: PrivateOvs, directory: Path, *, use_veth: bool = False) -> None:
        self.ovs = ovs
        self._use_veth = use_veth
        self.settings = Settings(confs=directory / "dhcp", user="root")
        self.events: list[Event] = []
        self._stack = ExitStack()
        self._vlans: dict[NetworkId, int] = {}
        self._numbers = itertools.count(1)
        self._clients: dict[Mac, Udhcpc] = {}

    def __enter__(self) -> Self:
        flags = os.O_RDONLY | os.O_CLOEXEC
        self._namespaces = NamespaceContext(
            {kind: os.open(f"/proc/self/ns/{kind}", flags) for kind in KINDS}
        )
        self._stack.callback(self._namespaces.close)
        self.ovs.add_bridge(BRIDGE)
        self.ovs.ofctl("add-flow", BRIDGE, "actions=normal")
        self.ovsdb = self._stack.enter_context(Ovsdb(self.ovs.remote, timeout=5))
        self.interface = OvsInterfaceDriver(self.ovsdb, BRIDGE, use_veth=self._use_veth)
        self.driver = self.make_driver()
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients.values():
            client.close()
        self.driver.gc(())
        self.driver.close()
        self._stack.close()

    def make_driver(self, **options: Any) -> DnsmasqDhcpDriver:
        driver = DnsmasqDhcpDriver(self.interface, self.settings, **options)
        driver.watch(self.events.append)
        return driver

    def make_driver_at(self, confs: Path, settings: Settings | None = None) -> DnsmasqDhcpDriver:
        """Make another driver, which has its files elsewhere."""
        return DnsmasqDhcpDriver(self.interface, settings or evolve(self.settings, confs=confs))

    def restart(self, on_death: OnDeath = OnDeath.RESPAWN) -> None:
        """Replace the driver, as after a restart of the agent; running processes go on."""
        self.driver.close()
        self.driver = self.make_driver(on_death=on_death)

    def put(self, *things: ServedNetwork | Tenant) -> Outcome[DhcpKey]:
        """Serve *things*; the switch lets the servers' traffic pass."""
        outcome = self.driver.converge(Update(put=wanted(*things)))
        for thing in things:
            if isinstance(thing, ServedNetwork) and thing.key in outcome.done:
                self.admit(thing)
        return outcome

    def drop(self, *things: ServedNetwork | Tenant) -> Outcome[DhcpKey]:
        return self.driver.converge(Update(drop=frozenset(thing.key for thing in things)))

    def plan(self, *things: ServedNetwork | Tenant) -> Plan:
        update = Update(put=wanted(*things))
        return self.driver.plan(update, self.driver.observe(update))

    def lease(self, tenant: Tenant, timeout: float | None = None) -> ClientLease | None:
        """Return the lease that the client in the instance gets now."""
        return self.client(tenant).lease(timeout)

    def lease6(self, tenant: Tenant) -> Lease6 | None:
        """Return the lease of IPv6 addresses that a new client in the instance gets."""
        client = Dhclient6(self.instance(tenant))
        self._stack.callback(client.close)
        return client.lease()

    def client(self, tenant: Tenant) -> Udhcpc:
        if tenant.mac not in self._clients:
            self._clients[tenant.mac] = Udhcpc(self.instance(tenant))
        return self._clients[tenant.mac]

    def instance(self, tenant: Tenant) -> Instance:
        """Make a new instance that is plugged into the port's network."""
        number = next(self._numbers)
        instance = Instance(f"vm{number}", self._namespaces, self.ovs)
        instance.open()
        self._stack.callback(netns.delete, instance.name)
        self._stack.callback(instance.close)
        tag = self._vlan(tenant.value.network)
        instance.plug(
            Plug(bridge=BRIDGE, device=f"vm{number}", mac=str(tenant.mac), tag=tag, mtu=1450)
        )
        return instance

    def files(self, net: ServedNetwork) -> NetworkPaths:
        return NetworkPaths(self.settings.confs, net.id)

    def pid(self, net: ServedNetwork) -> int:
        return int(self.files(net).pid.read_text())

    def is_restarted(self, net: ServedNetwork, pid: int) -> bool:
        """Return whether another process than *pid* has written its pid file."""
        try:
            return self.pid(net) != pid
        except (OSError, ValueError):  # it is just written
            return False

    def leases(self, net: ServedNetwork) -> str:
        """Return the lease file, when dnsmasq is not just writing it."""
        return read_consistent(self.files(net).leases, self.pid(net))

    def stamps(self, net: ServedNetwork) -> dict[str, tuple[int, int]]:
        """Return inode and time of change of each file, except the one that dnsmasq writes."""
        found = {}
        for where, _, names in os.walk(self.files(net).directory):
            for name in names:
                status = os.stat(os.path.join(where, name))
                found[os.path.join(where, name)] = (status.st_ino, status.st_mtime_ns)
        return {path: stamp for path, stamp in found.items() if not path.endswith("/leases")}

    def admit(self, net: ServedNetwork) -> None:
        """Do the switch's part: let the server's traffic pass."""
        device = device_name("tap", net.value.server.id)
        self.ovs.vsctl("set", "port", device, f"tag={self._vlan(net.id)}")

    def _vlan(self, network: NetworkId) -> int:
        return self._vlans.setdefault(network, len(self._vlans) + 1)
