"""The switch suite: distributed routers, whose interfaces have one MAC address on every host."""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import ip_interface
from uuid import uuid4

import pytest
from attrs import evolve, frozen

from netfw.drivers.switch import SwitchCapability, SwitchDriver
from netfw.drivers.values.keys import HostKey
from netfw.drivers.values.switch_values import (
    Endpoint,
    HostMac,
    RouterInterface,
    SwitchKey,
    SwitchValue,
    Tunnel,
)
from netfw.model.segment import NetworkType
from netfw.model.values.address import IpAddress, Mac
from netfw.model.values.ids import PortId
from netfw.plan import Update
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.switch.case import MakeDriver, SwitchCase
from netfw.testing.conformance.switch.environment import (
    RoutedPacket,
    SwitchNetwork,
    SwitchTestPort,
    a_network,
    replaced,
    wanted,
)

State = dict[SwitchKey, SwitchValue]
KINDS = (NetworkType.VXLAN, NetworkType.VLAN)
FAMILIES = (4, 6)


def host_mac(host: int) -> Mac:
    """Return the MAC address of a host for routed traffic."""
    return Mac(f"fa:16:3f:00:00:{host + 1:02x}")


@frozen
class RoutedPorts:
    """A network with a distributed router: an instance and the router's interface on each host."""

    net: SwitchNetwork
    instances: tuple[SwitchTestPort, SwitchTestPort]
    routers: tuple[SwitchTestPort, SwitchTestPort]
    """The interface on each host: one port with one MAC address."""
    endpoints: tuple[Endpoint, ...] = ()
    """The tunnel endpoints of the hosts, if the network is tunnelled."""

    @property
    def interface(self) -> RouterInterface:
        one = self.routers[0]
        faces = ip_interface((one.address, 16)), ip_interface((one.address6, 64))
        return RouterInterface(one.id, one.mac, frozenset(faces))

    def plain(self, host: int) -> State:
        """Return the values of one host without distributed routers."""
        state: State = dict(wanted(self.net, self.instances[host]))
        if self.endpoints:
            state[self.endpoints[1 - host]] = Tunnel(f"host{1 - host}", mesh=True)
        return state

    def distributed(self, host: int) -> State:
        """Return the values of one host with the router."""
        value = evolve(self.net.value, router_interfaces=frozenset({self.interface}))
        ends = frozenset(self.endpoints[1 - host :][:1])
        return {
            **self.plain(host),
            **wanted(self.routers[host]),
            self.net.key: value,
            HostKey(f"host{host}"): HostMac(host_mac(host), own=True),
            HostKey(f"host{1 - host}"): HostMac(host_mac(1 - host), endpoints=ends),
        }


class SwitchDistributedConformance(SwitchCase):
    """Promises 10 to 12."""

    def make_routed(self, kind: NetworkType) -> RoutedPorts:
        """Make and plug the ports of a network with a distributed router."""
        tunnelled = kind.is_tunnel
        net = a_network(kind, 7 if tunnelled else 100, None if tunnelled else self.physical)
        instances = self.make_ports(net, 1)[0], self.make_ports(net, 1, host=1)[0]
        port, numbers = PortId(uuid4()), (next(self.numbers), next(self.numbers))
        one, two = (
            SwitchTestPort(number=number, net=net, host=host, twin=numbers[0], id=port)
            for host, number in enumerate(numbers)
        )
        self.environment.plug(one, two)
        ends = tuple(self.environment.endpoint(kind, host) for host in (0, 1)) if tunnelled else ()
        return RoutedPorts(net, instances, (one, two), ends)

    @property
    def physical(self) -> str:
        return self.environment.physical[0]

    def bring_routed(
        self, drivers: Collection[SwitchDriver], kind: NetworkType, *, everywhere: bool = True
    ) -> RoutedPorts:
        """Wire the ports; without *everywhere*, the second host has no distributed routers, and
        receives what is on the wire."""
        for driver in drivers:
            self.require(driver, SwitchCapability.DISTRIBUTED)
        ports = self.make_routed(kind)
        for host, driver in enumerate(drivers):
            routed = everywhere or host == 0
            put = ports.distributed(host) if routed else ports.plain(host)
            self.bring(driver, Update(put=put))
        self.environment.settle()
        return ports

    def assert_sources(
        self,
        ports: RoutedPorts,
        packet: RoutedPacket,
        expected: dict[SwitchTestPort, Mac],
    ) -> None:
        """Check which ports get *packet*, and from which MAC address."""
        others = [each for each in (*ports.instances, *ports.routers) if each is not packet.sender]
        found = self.environment.sources(packet, others, expected=expected)
        wanted = {port: frozenset({mac}) for port, mac in expected.items()}
        assert found == wanted, f"{packet}: received by {found}"

    def packet(
        self, sender: SwitchTestPort, receiver: SwitchTestPort, version: int = 4, **values: Mac
    ) -> RoutedPacket:
        address: IpAddress = receiver.address if version == 4 else receiver.address6
        macs = {"source": sender.mac, "to": receiver.mac, **values}
        return RoutedPacket(sender=sender, target=address, **macs)

    @proves(SwitchDriver, 10)
    @pytest.mark.parametrize("kind", KINDS)
    def test_routed_frames_reach_instances_from_the_mac_of_the_router_interface(
        self, driver: SwitchDriver, far: SwitchDriver, kind: NetworkType
    ) -> None:
        ports = self.bring_routed((driver, far), kind)
        for version in FAMILIES:
            for router in ports.routers:
                for instance in ports.instances:
                    packet = self.packet(router, instance, version)
                    self.assert_sources(ports, packet, {instance: router.mac})

    @proves(SwitchDriver, 10, 11)
    @pytest.mark.parametrize("kind", KINDS)
    def test_the_mac_of_a_router_interface_never_leaves_its_host(
        self, driver: SwitchDriver, far: SwitchDriver, kind: NetworkType
    ) -> None:
        ports = self.bring_routed((driver, far), kind, everywhere=False)
        (router, _), (near, away) = ports.routers, ports.instances
        for version in FAMILIES:
            packet = self.packet(router, away, version)
            self.assert_sources(ports, packet, {away: host_mac(0)})
            own = router.address if version == 4 else router.address6
            self.assert_announcement(router, router.mac, own, near, True)
            self.assert_announcement(router, router.mac, own, away, False)

    @proves(SwitchDriver, 11)
    @pytest.mark.parametrize("kind", KINDS)
    def test_what_is_for_a_router_interface_stays_on_its_host(
        self, driver: SwitchDriver, far: SwitchDriver, kind: NetworkType
    ) -> None:
        ports = self.bring_routed((driver, far), kind, everywhere=False)
        (router, _), (near, away) = ports.routers, ports.instances
        for version in FAMILIES:
            self.assert_sources(ports, self.packet(near, away, version), {away: near.mac})
            own = router.address if version == 4 else router.address6
            assert self.environment.requests(near, own, router, expected=True) is not None
            assert self.environment.requests(near, own, away, expected=False) is None
            self.assert_sources(ports, self.packet(near, router, version), {router: near.mac})
            self.assert_sources(ports, self.packet(away, near, version), {near: away.mac})
            self.assert_sources(ports, self.packet(away, router, version), {})

    @proves(SwitchDriver, 11)
    @pytest.mark.parametrize("kind", KINDS)
    def test_a_router_interface_resolves_the_addresses_of_other_hosts(
        self, driver: SwitchDriver, far: SwitchDriver, kind: NetworkType
    ) -> None:
        ports = self.bring_routed((driver, far), kind)
        router, (near, away) = ports.routers[0], ports.instances
        for version in FAMILIES:
            for owner in (near, away):
                found = self.environment.resolve_by_owner(router, owner, version)
                assert found == owner.mac, f"{router} resolves {owner} to {found}"
            address = away.address if version == 4 else away.address6
            request = self.environment.requests(router, address, away, expected=True)
            assert request is not None
            assert (request.source, request.teaches) == (host_mac(0), False)

    @proves(SwitchDriver, 12)
    @pytest.mark.parametrize("kind", KINDS)
    def test_an_instance_cannot_send_as_a_host_or_a_router(
        self, driver: SwitchDriver, far: SwitchDriver, kind: NetworkType
    ) -> None:
        ports = self.bring_routed((driver, far), kind)
        router, (near, away) = ports.routers[0], ports.instances
        self.assert_sources(ports, self.packet(near, away), {away: near.mac})
        for forged in (router.mac, host_mac(0), host_mac(1)):
            self.assert_sources(ports, self.packet(near, away, source=forged), {})
        for forged in (host_mac(0), host_mac(1)):
            self.assert_sources(ports, self.packet(near, router, source=forged), {})

    @proves(SwitchDriver, 4, 10, 12)
    def test_distributed_routing_that_goes_leaves_nothing(
        self, driver: SwitchDriver, far: SwitchDriver
    ) -> None:
        self.require(driver, SwitchCapability.DISTRIBUTED)
        ports = self.make_routed(NetworkType.VLAN)
        self.bring(driver, Update(put=ports.plain(0)))
        self.bring(far, Update(put=ports.plain(1)))
        self.environment.unplug(ports.routers[0])
        before = self.environment.dump_state()
        self.environment.plug(ports.routers[0])
        routed = ports.distributed(0)
        self.bring(driver, Update(put=routed))
        gone = frozenset(routed.keys() - ports.plain(0).keys())
        self.bring(driver, Update(put=ports.plain(0), drop=gone))
        self.environment.unplug(ports.routers[0])
        assert self.environment.dump_state().keys() == before.keys()
        assert not driver.present() & gone
        self.environment.settle()
        near, away = ports.instances
        packet = self.packet(near, away, source=host_mac(0))
        found = self.environment.sources(packet, [away], expected=[away])
        assert found == {away: frozenset({host_mac(0)})}

    @proves(SwitchDriver, 5)
    def test_distributed_routing_is_left_alone_by_a_new_driver(
        self, driver: SwitchDriver, make_driver: MakeDriver
    ) -> None:
        self.require(driver, SwitchCapability.DISTRIBUTED)
        ports = self.make_routed(NetworkType.VLAN)
        self.bring(driver, Update(put=ports.distributed(0)))
        before = self.environment.dump_state()
        for complete in (True, False):
            successor = make_driver()
            self.bring(successor, Update(put=ports.distributed(0), complete=complete))
        assert not replaced(before, self.environment.dump_state())
        packet = self.packet(ports.routers[0], ports.instances[0])
        self.assert_sources(ports, packet, {ports.instances[0]: ports.routers[0].mac})
