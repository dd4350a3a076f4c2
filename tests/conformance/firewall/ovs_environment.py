"""A ground for firewalls inside Open vSwitch: br-int of a lab's host, with its switch driver."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar

from netfw.drivers.base import Driver
from netfw.drivers.firewall import FilteredPort, FirewallDriver
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.values.keys import NetworkKey
from netfw.drivers.values.switch_values import (
    Admission,
    LocalNetwork,
    SwitchKey,
    SwitchValue,
    Wiring,
)
from netfw.model.segment import NetworkType
from netfw.ovs.ovsdb.client import share_ovsdb
from netfw.plan import Update
from netfw.testing.conformance.firewall.environment import FirewallTestPort, PlugPoint
from netfw.testing.conformance.firewall.lab_environment import FirewallLabEnvironment
from netfw.testing.conformance.switch.environment import a_segment
from netfw.testing.lab.host import Host
from netfw.testing.lab.instance import Instance, InstanceDevice, Plug
from netfw_drivers.ovs.firewall.driver import OvsFirewallDriver
from netfw_drivers.ovs.pipeline.tables import FIREWALL_SPACE, SPACE_MASK
from netfw_drivers.ovs.switch.driver import OvsSwitchDriver

OPENFLOW = "-OOpenFlow14"
TIMEOUT, SHORT_TIMEOUT = 5.0, 0.5
_ADMISSION_TIMEOUT = 60.0
_FOREIGN = "cookie=0x77,table=72,priority=3,ipv6,ipv6_src=2001:db8:77::/64,actions=drop"


class OvsEnvironment(FirewallLabEnvironment):
    """One who makes drivers makes a switch driver too, of the same process."""

    in_switch: ClassVar[bool] = True

    def __init__(self, host: Host) -> None:
        self._resources = LocalHostResources()
        self._switch: OvsSwitchDriver | None = None
        self._wired: dict[SwitchKey, SwitchValue] = {}
        host.ovs.add_bridge("br-int")
        super().__init__(host)
        networks = {plug_point.network for plug_point in self.plug_points}
        self._networks: dict[SwitchKey, SwitchValue] = {
            NetworkKey(network): LocalNetwork(
                segments=(a_segment(network, NetworkType.LOCAL),), mtu=1400
            )
            for network in networks
        }

    kind: ClassVar[InstanceDevice] = InstanceDevice.VETH

    def plug_in(self, plug_point: PlugPoint, instance: Instance) -> None:
        ids = {"iface-id": str(plug_point.port), "iface-status": "active"}
        plug = Plug(bridge="br-int", device=plug_point.device, kind=self.kind, external_ids=ids)
        instance.plug(plug)

    def make_driver(self) -> FirewallDriver:
        self.end()
        self._resources = LocalHostResources()
        self._switch = OvsSwitchDriver.from_conf(self.options(OvsSwitchDriver), self._resources)
        self._converge(Update(put={**self._networks, **self._wired}, complete=True))
        return self.firewall(self._resources)

    def firewall(self, location: LocalHostResources) -> FirewallDriver:
        return OvsFirewallDriver.from_conf(self.options(OvsFirewallDriver), location)

    def options(self, kind: type[Driver]) -> dict[str, object]:
        values = {option.dest: option.default for option in kind.OPTIONS}
        ours = {
            "ovsdb_connection": self.host.ovs.remote,
            "ovsdb_timeout": TIMEOUT,
            "datapath_type": "netdev",
        }
        return {**values, **{name: value for name, value in ours.items() if name in values}}

    def killed(self, driver: FirewallDriver) -> None:
        self.end()

    def end(self) -> None:
        if self._switch is not None:
            self._switch.close()
            self._switch = None
        self._resources.close()

    def wire(self, ports: Mapping[FirewallTestPort, FilteredPort]) -> None:
        wired: dict[SwitchKey, SwitchValue] = {
            test_port.key: self.wiring(test_port, value) for test_port, value in ports.items()
        }
        gone = self._wired.keys() - wired.keys()
        changed = {key: value for key, value in wired.items() if self._wired.get(key) != value}
        if changed or gone:
            self._converge(Update(put=changed, drop=frozenset(gone)))
        self._wired = wired

    def wiring(self, test_port: FirewallTestPort, port: FilteredPort) -> Wiring:
        macs = {port.mac, *(source.mac for source in port.sources)}
        return Wiring(
            network=test_port.plug_point.network,
            mac=port.mac,
            addresses=frozenset({test_port.address, test_port.address6}),
            admission=Admission.LIVE,
            filtered=self.in_switch and not port.trusted,
            open=port.trusted or len(macs) > 1,
        )

    def _converge(self, update: Update[SwitchKey, SwitchValue]) -> None:
        assert self._switch is not None
        until = time.monotonic() + _ADMISSION_TIMEOUT
        outcome = self._switch.converge(update)
        while outcome.waiting and not outcome.failed and time.monotonic() < until:
            time.sleep(0.01)
            outcome = self._switch.converge(update)
        assert outcome.ok, str(outcome)

    def settle(self) -> None:
        """Purge the datapath flows, so that the switch uses its tables again for every packet."""
        self.host.ovs.appctl("revalidator/purge")

    def dump_state(self) -> frozenset[str]:
        ours = f"cookie={FIREWALL_SPACE:#x}/{SPACE_MASK:#x}"
        dumped = self.host.ovs.ofctl(OPENFLOW, "--no-stats", "dump-flows", "br-int", ours)
        return frozenset(line.strip() for line in dumped.splitlines() if "table=" in line)

    def lose_state(self) -> None:
        self.host.restart_switch()
        self._converge(Update(put={**self._networks, **self._wired}, complete=True))

    def make_foreign(self) -> None:
        self.host.ovs.ofctl(OPENFLOW, "add-flow", "br-int", _FOREIGN)

    def foreign_is_intact(self) -> bool:
        there = self.host.ovs.ofctl(OPENFLOW, "dump-flows", "br-int", "cookie=0x77/-1")
        self.host.ovs.ofctl(OPENFLOW, "del-flows", "br-int", "cookie=0x77/-1")
        return bool(re.search("2001:db8:77::/64", there))

    @contextmanager
    def outage(self) -> Iterator[None]:
        # The switch goes too, which would else ask for the database's return in its own time.
        self.host.ovs.stop_switch()
        self.host.ovs.stop_database()
        database = share_ovsdb(self._resources, self.host.ovs.remote, TIMEOUT)
        database.timeout = SHORT_TIMEOUT
        try:
            yield
        finally:  # the tests that follow need the switch
            database.timeout = TIMEOUT
            self.host.ovs.start_database()
            self.host.ovs.start_switch()
            self.host.address_underlay()
            self._converge(Update(put={**self._networks, **self._wired}, complete=True))
