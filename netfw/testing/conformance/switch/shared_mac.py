"""The switch suite: a MAC address that several hosts have at once."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from attrs import evolve, frozen

from netfw.drivers.switch import SwitchCapability, SwitchDriver
from netfw.drivers.values.switch_values import (
    Endpoint,
    Flood,
    FloodKey,
    Forwarding,
    ForwardingKey,
    SwitchKey,
    SwitchValue,
    Tunnel,
)
from netfw.model.segment import NetworkType
from netfw.plan import Update
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.switch.case import MakeDriver, SwitchCase
from netfw.testing.conformance.switch.environment import (
    UNUSED_ADDRESSES,
    SwitchNetwork,
    SwitchTestPort,
    a_network,
    wanted,
)

State = dict[SwitchKey, SwitchValue]
POPULATED, MESH = "populated", "mesh"


@frozen
class SharedMacPorts:
    """A sender on each host, and on each host a port with one MAC: ``shared``."""

    net: SwitchNetwork
    senders: tuple[SwitchTestPort, SwitchTestPort]
    shared: tuple[SwitchTestPort, SwitchTestPort]

    def state(self, host: int) -> State:
        """Return the values of one host, without tunnels."""
        shared = self.shared[host]
        value = evolve(shared.wiring(), shared_mac=True)
        return {**wanted(self.net, self.senders[host]), shared.key: value}


class SwitchSharedMacConformance(SwitchCase):
    """Promise 9."""

    def make_shared(self, net: SwitchNetwork) -> SharedMacPorts:
        """Make and plug the ports of a shared MAC."""
        senders = self.make_ports(net, 1)[0], self.make_ports(net, 1, host=1)[0]
        numbers = next(self.numbers), next(self.numbers)
        one, two = (
            SwitchTestPort(number=number, net=net, host=host, twin=numbers[0])
            for host, number in enumerate(numbers)
        )
        self.environment.plug(one, two)
        return SharedMacPorts(net, senders, (one, two))

    def tunnel_to_peer(self, host: int, mode: str = POPULATED) -> State:
        """Return the tunnel of *host* to the other one."""
        endpoint = self.environment.endpoint(NetworkType.VXLAN, 1 - host)
        return {endpoint: Tunnel(f"host{2 - host}", mesh=mode == MESH)}

    def shared_entries(self, ports: SharedMacPorts, host: int) -> State:
        """Return the entries of *host* for the ports of the other one."""
        endpoint = self.environment.endpoint(NetworkType.VXLAN, 1 - host)
        macs = ports.senders[1 - host].mac, ports.shared[0].mac
        found: State = {
            ForwardingKey(ports.net.id, mac): Forwarding(frozenset({endpoint})) for mac in macs
        }
        return {FloodKey(ports.net.id, endpoint): Flood(), **found}

    def unused_endpoint(self) -> Endpoint:
        own = self.environment.endpoint(NetworkType.VXLAN, 0)
        address = next(a for a in UNUSED_ADDRESSES if a.version == own.address.version)
        return Endpoint(NetworkType.VXLAN, address)

    def assert_copies(
        self, ports: SharedMacPorts, sender: SwitchTestPort, expected: Collection[SwitchTestPort]
    ) -> None:
        """Check that each *expected* port gets one copy of a frame for the MAC; others get none."""
        self.environment.settle()
        others = [port for port in (*ports.senders, *ports.shared) if port is not sender]
        copies = self.environment.copies(sender, ports.shared[0].mac, others, expected=expected)
        assert copies == dict.fromkeys(expected, 1), f"copies of a frame from {sender}: {copies}"

    @proves(SwitchDriver, 3, 9)
    @pytest.mark.parametrize("mode", [POPULATED, MESH])
    def test_frames_for_a_shared_mac_reach_its_ports_on_all_hosts_by_tunnels(
        self, driver: SwitchDriver, far: SwitchDriver, mode: str
    ) -> None:
        populated = mode == POPULATED
        self.require(driver, SwitchCapability.POPULATION if populated else SwitchCapability.TUNNELS)
        ports = self.make_shared(a_network(NetworkType.VXLAN, 7))
        for host, each in enumerate((driver, far)):
            entries = self.shared_entries(ports, host) if populated else {}
            put = {**ports.state(host), **self.tunnel_to_peer(host, mode), **entries}
            self.bring(each, Update(put=put))
        for sender in ports.senders:
            self.assert_copies(ports, sender, ports.shared)
        for active, standby in (ports.shared, ports.shared[::-1]):
            # Frames of the active port may be learned; those for it still reach it from both hosts.
            receiver = ports.senders[standby.host]
            self.assert_announcement(active, active.mac, active.address, receiver, True)
            for sender in ports.senders:
                self.assert_copies(ports, sender, ports.shared)

    @proves(SwitchDriver, 3, 9)
    @pytest.mark.parametrize("kind", [NetworkType.VLAN, NetworkType.FLAT])
    def test_frames_for_a_shared_mac_reach_the_port_that_announced_it_by_a_physical_network(
        self, driver: SwitchDriver, far: SwitchDriver, kind: NetworkType
    ) -> None:
        number = 100 if kind is NetworkType.VLAN else None
        ports = self.make_shared(a_network(kind, number, self.environment.physical[0]))
        for host, each in enumerate((driver, far)):
            self.bring(each, Update(put=ports.state(host)))
        for sender in ports.senders:
            self.assert_copies(ports, sender, ports.shared)
        for active, standby in (ports.shared, ports.shared[::-1]):
            receiver = ports.senders[standby.host]
            self.assert_announcement(active, active.mac, active.address, receiver, True)
            self.assert_copies(ports, receiver, ports.shared)
            # The physical network has learned on which host the MAC is: no copy leaves that host.
            self.assert_copies(ports, ports.senders[active.host], [active])

    @proves(SwitchDriver, 9)
    def test_a_mac_becomes_shared_and_stops_being_so_without_a_lost_frame(
        self, driver: SwitchDriver, far: SwitchDriver
    ) -> None:
        self.require(driver, SwitchCapability.POPULATION)
        ports = self.make_shared(a_network(NetworkType.VXLAN, 7))
        for host, each in enumerate((driver, far)):
            put = {
                **ports.state(host),
                **self.tunnel_to_peer(host),
                **self.shared_entries(ports, host),
            }
            self.bring(each, Update(put=put))
        sender, (local, _) = ports.senders[0], ports.shared
        self.assert_copies(ports, sender, ports.shared)
        with self.environment.probe_traffic(sender, local) as probe:
            for shared in (False, True):
                value = evolve(local.wiring(), shared_mac=shared)
                self.bring(driver, Update(put={local.key: value}))
                self.assert_copies(ports, sender, ports.shared if shared else [local])
            assert probe.lost((sender, local)) == 0

    @proves(SwitchDriver, 9)
    def test_the_endpoints_of_a_mac_change_without_a_lost_frame(
        self, driver: SwitchDriver, far: SwitchDriver
    ) -> None:
        self.require(driver, SwitchCapability.POPULATION)
        ports = self.make_shared(a_network(NetworkType.VXLAN, 7))
        nowhere, peer = self.unused_endpoint(), self.environment.endpoint(NetworkType.VXLAN, 1)
        near = {
            **wanted(ports.net, ports.senders[0]),
            **self.tunnel_to_peer(0),
            nowhere: Tunnel("nowhere"),
        }
        self.bring(driver, Update(put={**near, **self.shared_entries(ports, 0)}))
        self.bring(
            far,
            Update(
                put={**ports.state(1), **self.tunnel_to_peer(1), **self.shared_entries(ports, 1)}
            ),
        )
        sender, away = ports.senders[0], ports.shared[1]
        key = ForwardingKey(ports.net.id, away.mac)
        self.assert_copies(ports, sender, [away])
        with self.environment.probe_traffic(sender, away) as probe:
            for endpoints in ({peer, nowhere}, {peer}, {nowhere, peer}, {peer}):
                self.bring(driver, Update(put={key: Forwarding(frozenset(endpoints))}))
                self.assert_copies(ports, sender, [away])
            self.bring(driver, Update(drop=frozenset({nowhere})))
            assert probe.lost((sender, away)) == 0
        self.bring(driver, Update(put={nowhere: Tunnel("nowhere")}))
        self.bring(driver, Update(put={key: Forwarding(frozenset({nowhere}))}))
        self.assert_copies(ports, sender, [])

    @proves(SwitchDriver, 9)
    def test_a_port_with_a_shared_mac_reports_no_groups_without_an_address(
        self, driver: SwitchDriver
    ) -> None:
        """Drop what its kernel sends when it loses its addresses; others would learn the MAC."""
        port, receiver = self.make_ports(net := a_network(), 2)
        self.wire(driver, net, port, receiver)
        assert self.environment.reports_groups(port, receiver, expected=True)
        self.bring(driver, Update(put={port.key: evolve(port.wiring(), shared_mac=True)}))
        self.environment.settle()
        assert not self.environment.reports_groups(port, receiver, expected=False)
        self.assert_announcement(port, port.mac, port.address6, receiver, True)

    @proves(SwitchDriver, 5, 9)
    def test_a_mac_stays_shared_when_a_new_driver_changes_its_network(
        self, driver: SwitchDriver, far: SwitchDriver, make_driver: MakeDriver
    ) -> None:
        self.require(driver, SwitchCapability.POPULATION)
        ports = self.make_shared(a_network(NetworkType.VXLAN, 7))
        for host, each in enumerate((driver, far)):
            put = {
                **ports.state(host),
                **self.tunnel_to_peer(host),
                **self.shared_entries(ports, host),
            }
            self.bring(each, Update(put=put))
        successor = make_driver()
        changed = evolve(ports.net.value, mtu=ports.net.value.mtu - 8)
        self.bring(successor, Update(put={ports.net.key: changed}))
        self.assert_copies(ports, ports.senders[0], ports.shared)
