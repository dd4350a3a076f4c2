"""Two hosts with Open vSwitch for the switch suite, and hooks that read it by its own tools.

For switch drivers that configure Open vSwitch with the options of netfw's own driver.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.switch import SwitchDriver
from netfw.drivers.values.pipeline_grant import GrantRequest, RegisterRequest
from netfw.drivers.values.switch_values import Endpoint, SwitchKey, SwitchValue, Tunnel
from netfw.model.segment import NetworkType
from netfw.ovs.ovsdb.client import Ovsdb, share_ovsdb
from netfw.testing.conformance.switch.environment import (
    Stamp,
    StateDump,
    SwitchNetwork,
    SwitchTestPort,
)
from netfw.testing.conformance.switch.lab_environment import SwitchLabEnvironment
from netfw.testing.conformance.switch.suite import SwitchDriverConformance
from netfw.testing.lab.instance import Instance, Plug
from netfw.testing.lab.lab import Lab
from netfw.testing.lab.openvswitch import PrivateOvs

BRIDGES = "br-int", "br-tun", "br-ex"
OPENFLOW = "-OOpenFlow14"
COLUMNS = {
    "Bridge": ("name", "external_ids", "other_config", "fail_mode", "datapath_type"),
    "Port": ("name", "tag", "trunks", "vlan_mode", "other_config", "external_ids"),
    "Interface": ("name", "type", "options", "external_ids"),
}
TIMEOUT, SHORT_TIMEOUT = 5.0, 0.5
_LEARNT = "_timeout="


class OvsSwitchEnvironment(SwitchLabEnvironment):
    """Two hosts with a private Open vSwitch each, joined by an underlay and a physical network."""

    def __init__(self, lab: Lab, driver_class: type[SwitchDriver], version: int = 4) -> None:
        super().__init__(lab)
        self.driver_class, self._version = driver_class, version
        self._resources: dict[SwitchDriver, LocalHostResources] = {}
        self._databases: list[tuple[int, Ovsdb]] = []
        self.foreign: set[str] = set()
        for host in range(len(self.hosts)):
            self._add_physical(host)

    def make_driver(self, host: int = 0) -> SwitchDriver:
        return self._driver(host, {})

    def misconfigured(self) -> SwitchDriver:
        return self._driver(0, {"bridge_mappings": {"physnet1": "br-none"}})

    def _driver(self, host: int, options: Mapping[str, Any]) -> SwitchDriver:
        ovs = self.hosts[host].ovs
        resources = LocalHostResources()
        values = {opt.dest: opt.default for opt in self.driver_class.OPTIONS}
        values |= {
            "ovsdb_connection": ovs.remote,
            "ovsdb_timeout": TIMEOUT,
            "datapath_type": "netdev",
            "bridge_mappings": {"physnet1": "br-ex"},
            "tunnel_types": ["gre", "vxlan", "geneve"],
            "local_ip": str(self.endpoint(NetworkType.VXLAN, host).address),
            "arp_responder": True,
            "l2_population": True,
            **options,
        }
        known = {opt.dest for opt in self.driver_class.OPTIONS}
        options = {name: value for name, value in values.items() if name in known}
        driver = self.driver_class.from_conf(options, resources)
        self._resources[driver] = resources
        self._databases.append((host, share_ovsdb(resources, ovs.remote, TIMEOUT)))
        return driver

    def killed(self, driver: SwitchDriver) -> None:
        self._resources[driver].close()

    def clear(self) -> None:
        super().clear()
        while self.foreign:
            self.hosts[0].ovs.vsctl("--if-exists", "del-port", "br-phy", self.foreign.pop())
        while self._resources:
            self._resources.popitem()[1].close()
        self._databases.clear()

    def scrub(self, host: int) -> None:
        ovs = self.hosts[host].ovs
        bridges = ("br-int", "br-tun", "br-ex")
        ovs.vsctl(*[word for one in bridges for word in ("--", "--if-exists", "del-br", one)][1:])
        self._add_physical(host)

    def _add_physical(self, host: int) -> None:
        there = self.hosts[host]
        there.ovs.add_bridge("br-ex")
        there.ovs.vsctl("add-port", "br-ex", "physnet1")
        there.namespaces.ip("link set physnet1 up")

    def endpoint(self, kind: NetworkType, host: int) -> Endpoint:
        there = self.hosts[host]
        return Endpoint(kind, there.address.ip if self._version == 4 else there.address6.ip)

    def plug_in(self, port: SwitchTestPort, instance: Instance) -> None:
        plug = Plug(bridge="br-int", device=tap(port), mac=port.mac, external_ids=ids_of(port))
        instance.plug(plug)

    def plug_mute(self, *ports: SwitchTestPort) -> None:
        lines: list[str] = []
        for port in ports:
            ids = [f'external_ids:{key}="{value}"' for key, value in ids_of(port).items()]
            device = tap(port)
            lines += ["--", "add-port", "br-int", device]
            lines += ["--", "set", "Interface", device, "type=internal", *ids]
            self.plugged[port] = None
        self.hosts[ports[0].host].ovs.vsctl(*lines[1:])

    def plug_unfinished(self, port: SwitchTestPort) -> Callable[[], None]:
        host, device = self.hosts[port.host], tap(port)
        instance = host.instance(f"late{port.number}-{device}")
        ids = [f'external_ids:{key}="{value}"' for key, value in ids_of(port).items()]
        add = "--no-wait", "add-port", "br-int", device
        host.ovs.vsctl(*add, "--", "set", "Interface", device, *ids)
        self.plugged[port] = instance

        def finish() -> None:
            peer = f"peer name eth0 address {port.mac} netns {instance.name}"
            host.namespaces.ip(f"link add {device} type veth {peer}")
            # A switch that opens a device reads its flags and writes them later: what is set up
            # between is down again, for good.
            host.ovs.vsctl("wait-until", "Interface", device, "ofport>0")
            host.namespaces.ip(f"link set {device} up")
            instance.device = "eth0"
            instance.configure(())

        return finish

    def take_out(self, *ports: SwitchTestPort) -> None:
        for number, host in enumerate(self.hosts):
            here = [port for port in ports if port.host == number]
            lines = [word for one in here for word in ("--", "--if-exists", "del-port", tap(one))]
            if here:
                host.ovs.vsctl(*lines[1:])
            for port in here:
                if self.plugged[port] is not None:
                    host.attempt(["ip", "link", "del", tap(port)])

    def settle(self) -> None:
        """Have the switch look at its tables again for every packet that it knew."""
        for number in {port.host for port in self.plugged}:
            self.hosts[number].ovs.appctl("revalidator/purge")

    def dump_state(self, host: int = 0) -> StateDump:
        return {**self._flows(host), **self._rows(host)}

    def _flows(self, host: int) -> dict[str, Stamp]:
        ovs = self.hosts[host].ovs
        found: dict[str, Stamp] = {}
        for bridge in set(BRIDGES) & set(ovs.vsctl("list-br").split()):
            begin = time.monotonic()
            dumped = ovs.ofctl(OPENFLOW, "--names", "dump-flows", bridge)
            end = time.monotonic()
            for line in dumped.splitlines():
                if "table=" in line and _LEARNT not in line.partition("actions=")[0]:
                    text = re.sub(
                        r" (duration|n_packets|n_bytes|idle_age|hard_age)=[^,]*,", "", line
                    )
                    (duration,) = re.findall(r" duration=([\d.]+)s", line)
                    age = float(duration)
                    found[f"{bridge}:{text.strip()}"] = Stamp("", begin - age - 0.002, end - age)
        return found

    def _rows(self, host: int) -> dict[str, Stamp]:
        selects = [
            {"op": "select", "table": table, "where": [], "columns": ["_version", *columns]}
            for table, columns in COLUMNS.items()
        ]
        ovs = self.hosts[host].ovs
        request = json.dumps(["Open_vSwitch", *selects])
        answers = json.loads(ovs.run("ovsdb-client", "transact", ovs.remote, request))
        found: dict[str, Stamp] = {}
        for table, answer in zip(COLUMNS, answers, strict=True):
            for row in answer["rows"]:
                # The switch itself writes statistics into the rows of interfaces.
                version = row.pop("_version")[1]
                stamp = Stamp("" if table == "Interface" else version)
                found[f"{table} {json.dumps(row, sort_keys=True)}"] = stamp
        return found

    def local_number(self, net: SwitchNetwork, host: int = 0) -> int | None:
        ids = self.hosts[host].ovs.vsctl("get", "Bridge", "br-int", "external_ids")
        known = re.search(rf'netfw-vlan-(\d+)"?="?{net.id}', ids)
        return int(known[1]) if known else None

    def drifts(self) -> Mapping[str, Callable[[SwitchTestPort], None]]:
        return {
            "another tag": lambda one: self._vsctl("set", "Port", tap(one), "tag=4000"),
            "no tag": lambda one: self._vsctl("clear", "Port", tap(one), "tag"),
            "a trunk": lambda one: self._vsctl("set", "Port", tap(one), "vlan_mode=trunk"),
            "its flows are gone": self._delete_flows,
            "its record is gone": lambda one: self._vsctl(
                "clear", "Port", tap(one), "other_config"
            ),
        }

    def _vsctl(self, *words: str) -> None:
        self.hosts[0].ovs.vsctl(*words)

    def _delete_flows(self, port: SwitchTestPort) -> None:
        flows = f"in_port={tap(port)}"
        self.hosts[0].ovs.ofctl(OPENFLOW, "--names", "del-flows", "br-int", flows)

    def lose_state(self, host: int = 0) -> None:
        self.hosts[host].restart_switch()

    @contextmanager
    def outage(self, host: int = 0) -> Iterator[None]:
        there = self.hosts[host]
        # The switch goes too, which would else ask for the database's return in its own time.
        there.ovs.stop_switch()
        there.ovs.stop_database()
        self._wait_at_most(SHORT_TIMEOUT, host)
        try:
            yield
        finally:
            self._wait_at_most(TIMEOUT, host)
            there.ovs.start_database()
            there.ovs.start_switch()
            there.address_underlay()

    def _wait_at_most(self, seconds: float, host: int) -> None:
        for number, database in self._databases:
            if number == host:
                database.timeout = seconds

    def unsupported_request(self) -> GrantRequest:
        return GrantRequest(owner="marks", marks=(RegisterRequest("a-mark", 1),))


def tap(port: SwitchTestPort) -> str:
    """Return the name of the device of a port."""
    return f"tap{port.id}"[:14]


def ids_of(port: SwitchTestPort) -> dict[str, str]:
    """Return the ids by which a driver recognises the device of a port."""
    return {
        "iface-id": str(port.id),
        "attached-mac": port.mac,
        "iface-status": "active",
    }


@contextmanager
def ovs_environment(
    driver_class: type[SwitchDriver], version: int = 4
) -> Iterator[OvsSwitchEnvironment]:
    """Yield hosts for drivers of *driver_class*, on an underlay of this IP version."""
    with Lab(2, provider=["physnet1"]) as lab:
        environment = OvsSwitchEnvironment(lab, driver_class, version)
        yield environment
        environment.clear()


class OvsSwitchConformance(SwitchDriverConformance):
    """The whole suite for a driver of Open vSwitch: `shared_environment` and `tunnel_name` remain.

    The driver's keys in the common tests are tunnels.
    """

    environment: OvsSwitchEnvironment

    def tunnel_name(self, endpoint: Endpoint) -> str:
        """Return the name of the port on br-tun that the driver makes for a tunnel."""
        raise NotImplementedError("override `tunnel_name`")

    def _name(self, key: SwitchKey) -> str:
        assert isinstance(key, Endpoint), f"{key} is no tunnel"
        return self.tunnel_name(key)

    @property
    def ovs(self) -> PrivateOvs:
        """The switch of the first host."""
        return self.environment.hosts[0].ovs

    def actual(self, key: SwitchKey, value: SwitchValue) -> SwitchValue | None:
        """Read the host that a tunnel leads to from its record, the mesh from its flows."""
        assert isinstance(key, Endpoint), f"{key} is no tunnel"
        name = self.tunnel_name(key)
        if name not in self.ovs.vsctl("list-ports", "br-tun").split():
            return None
        host = self.ovs.vsctl("get", "Port", name, "external_ids:netfw-tunnel").strip().strip('"')
        remote = self.ovs.vsctl("get", "Interface", name, "options:remote_ip").strip().strip('"')
        flows = self.ovs.ofctl(
            OPENFLOW, "--names", "dump-flows", "br-tun", f"table=0,in_port={name}"
        )
        if remote != str(key.address) or flows.count("actions=") != 1:
            return Tunnel("half of it", mesh=False)
        return Tunnel(host, mesh="load:0x1->NXM_NX_REG" in flows)

    def make_foreign(self, value: SwitchValue) -> None:
        name = self.name_of(value)
        self.ovs.vsctl("add-port", "br-phy", name, "--", "set", "Interface", name, "type=internal")
        self.environment.foreign.add(name)

    def name_of(self, value: SwitchValue) -> str:
        """Return the name that the tunnel *value* of the examples needs."""
        return next(self._name(key) for key, one in self.examples(9).items() if one == value)

    def foreign_is_intact(self, value: SwitchValue) -> bool:
        return self.name_of(value) in self.ovs.vsctl("list-ports", "br-phy").split()

    def vanish(self, key: SwitchKey, value: SwitchValue) -> None:
        self.ovs.vsctl("del-port", self._name(key))

    def drifts(self) -> Mapping[str, Callable[[SwitchKey, SwitchValue], None]]:
        return {
            "it leads elsewhere": self._set_option("remote_ip=198.18.0.99"),
            "another key": self._set_option("out_key=7"),
            "its flow is gone": self._delete_flow,
            "it is gone": self.vanish,
        }

    def _set_option(self, option: str) -> Callable[[SwitchKey, SwitchValue], None]:
        def change(key: SwitchKey, _: SwitchValue) -> None:
            self.ovs.vsctl("set", "Interface", self._name(key), f"options:{option}")

        return change

    def _delete_flow(self, key: SwitchKey, _: SwitchValue) -> None:
        flow = f"table=0,in_port={self._name(key)}"
        self.ovs.ofctl(OPENFLOW, "--names", "del-flows", "br-tun", flow)
