"""The switch suite: networks across hosts."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from netfw.drivers.host_driver import HostDriver
from netfw.drivers.switch import SwitchCapability, SwitchDriver
from netfw.drivers.values.switch_values import (
    Endpoint,
    Flood,
    FloodKey,
    Forwarding,
    ForwardingKey,
    LocalNetwork,
    SwitchKey,
    SwitchValue,
    Tunnel,
)
from netfw.errors import ConfigError
from netfw.model.segment import WELL_KNOWN_TYPES, NetworkType
from netfw.plan import Update
from netfw.testing.conformance.common.promises import proves, proves_raise
from netfw.testing.conformance.switch.case import MakeDriver, SwitchCase
from netfw.testing.conformance.switch.environment import (
    UNUSED_ADDRESSES,
    SwitchNetwork,
    SwitchTestPort,
    a_network,
    a_segment,
    among,
    wanted,
)

TUNNELS = [kind for kind in WELL_KNOWN_TYPES if kind.is_tunnel]
State = dict[SwitchKey, SwitchValue]


class SwitchTunnelsConformance(SwitchCase):
    """Promise 3 across hosts, by tunnels."""

    def peers(self, kind: NetworkType, mesh: bool) -> tuple[State, State]:
        """Return the tunnels that each of the two hosts has to the other."""
        near, far = (self.environment.endpoint(kind, host) for host in (0, 1))
        return {far: Tunnel("host2", mesh)}, {near: Tunnel("host1", mesh)}

    def populated(
        self, near: SwitchTestPort, far: SwitchTestPort, kind: NetworkType
    ) -> tuple[State, State]:
        """Return each host's forwarding entries for the other's test port."""
        return self.entries(far, kind), self.entries(near, kind)

    def entries(self, port: SwitchTestPort, kind: NetworkType) -> State:
        endpoint = self.environment.endpoint(kind, port.host)
        return {
            FloodKey(port.net.id, endpoint): Flood(),
            ForwardingKey(port.net.id, port.mac): Forwarding(frozenset({endpoint}), port.addresses),
        }

    def across(
        self, kind: NetworkType, number: int
    ) -> tuple[SwitchNetwork, SwitchTestPort, SwitchTestPort]:
        """Return a network with a plugged test port on each host."""
        net = a_network(kind, number)
        (near,), (far,) = self.make_ports(net, 1), self.make_ports(net, 1, host=1)
        return net, near, far

    @proves(SwitchDriver, 3)
    @pytest.mark.parametrize("kind", TUNNELS)
    def test_a_mesh_joins_the_hosts_and_not_the_networks(
        self, driver: SwitchDriver, far: SwitchDriver, kind: NetworkType
    ) -> None:
        self.require(driver, SwitchCapability.TUNNELS)
        red, red_near, red_far = self.across(kind, 7)
        blue, blue_near, blue_far = self.across(kind, 8)
        here, there = self.peers(kind, mesh=True)
        self.bring(driver, Update(put={**wanted(red, blue, red_near, blue_near), **here}))
        self.bring(far, Update(put={**wanted(red, blue, red_far, blue_far), **there}))
        expected = among(red_near, red_far) | among(blue_near, blue_far)
        with self.environment.probe_traffic(red_near, red_far, blue_near, blue_far) as probe:
            probe.until(expected)
            self.bring(driver, Update(drop=frozenset(here)))
            self.assert_exchange(probe)
            assert probe.ever_received == expected

    @proves(SwitchDriver, 3)
    @pytest.mark.parametrize("kind", TUNNELS)
    def test_entries_join_the_networks_that_have_them(
        self, driver: SwitchDriver, far: SwitchDriver, kind: NetworkType
    ) -> None:
        self.require(driver, SwitchCapability.POPULATION)
        red, red_near, red_far = self.across(kind, 7)
        blue, blue_near, blue_far = self.across(kind, 8)
        here, there = self.peers(kind, mesh=False)
        self.bring(driver, Update(put={**wanted(red, blue, red_near, blue_near), **here}))
        self.bring(far, Update(put={**wanted(red, blue, red_far, blue_far), **there}))
        near_entries, far_entries = self.populated(red_near, red_far, kind)
        with self.environment.probe_traffic(red_near, red_far, blue_near, blue_far) as probe:
            self.assert_exchange(probe)
            self.bring(driver, Update(put=near_entries))
            self.bring(far, Update(put=far_entries))
            assert driver.present() >= near_entries.keys()
            probe.until(among(red_near, red_far))
            self.bring(driver, Update(drop=frozenset(near_entries)))
            self.bring(far, Update(drop=frozenset(far_entries)))
            self.assert_exchange(probe)
            assert probe.ever_received == among(red_near, red_far)

    @proves(SwitchDriver, 3)
    @pytest.mark.parametrize("version", [4, 6])
    def test_an_address_elsewhere_is_answered_for_here(
        self, driver: SwitchDriver, version: int
    ) -> None:
        self.require(driver, SwitchCapability.POPULATION)
        kind = NetworkType.VXLAN
        red, blue = a_network(kind, 7), a_network(kind, 8)
        (sender,), (stranger,) = self.make_ports(red, 1), self.make_ports(blue, 1)
        away = SwitchTestPort(number=700, net=red, host=1)
        address = away.address if version == 4 else away.address6
        own = self.environment.endpoint(kind, 0).address
        nowhere = Endpoint(kind, next(a for a in UNUSED_ADDRESSES if a.version == own.version))
        put: State = {
            **wanted(red, blue, sender, stranger),
            nowhere: Tunnel("nowhere"),
            ForwardingKey(red.id, away.mac): Forwarding(frozenset({nowhere}), away.addresses),
        }
        self.bring(driver, Update(put=put))
        self.assert_answer(sender, address, away.mac)
        self.assert_answer(stranger, address, None)
        unknown = ip_address("10.7.9.9" if version == 4 else "fd00:7::999")
        self.assert_answer(sender, unknown, None)
        key, unanswered = ForwardingKey(red.id, away.mac), Forwarding(frozenset({nowhere}))
        self.bring(driver, Update(put={key: unanswered}))
        self.assert_answer(sender, address, None)
        self.bring(driver, Update(put={key: put[key]}))
        self.assert_answer(sender, address, away.mac)
        self.bring(driver, Update(drop=frozenset({key})))
        self.assert_answer(sender, address, None)

    @proves(SwitchDriver, 3, 4)
    def test_an_entry_waits_for_its_network_and_its_tunnel(self, driver: SwitchDriver) -> None:
        self.require(driver, SwitchCapability.POPULATION)
        kind = NetworkType.VXLAN
        net = a_network(kind, 7)
        away = SwitchTestPort(number=700, net=net, host=1)
        entries = self.entries(away, kind)
        tunnel, _ = self.peers(kind, mesh=False)
        assert driver.converge(Update(put=entries)).waiting.keys() == entries.keys()
        self.bring(driver, Update(put=wanted(net)))
        assert driver.converge(Update(put=entries)).waiting.keys() == entries.keys()
        self.bring(driver, Update(put=tunnel))
        self.bring(driver, Update(put=entries))
        assert driver.present() == {net.key, *tunnel, *entries}

    @proves(SwitchDriver, 4)
    def test_learned_flows_are_removed_with_network_and_tunnel(
        self, driver: SwitchDriver, far: SwitchDriver
    ) -> None:
        self.require(driver, SwitchCapability.POPULATION)
        kind = NetworkType.VXLAN
        net, near, away = self.across(kind, 7)
        here, there = self.peers(kind, mesh=True)
        self.bring(driver, Update(put={**wanted(net, near), **here}))
        self.bring(far, Update(put={**wanted(net, away), **there}))
        with self.environment.probe_traffic(near, away) as probe:
            probe.until(among(near, away))
        self.bring(driver, Update(drop=frozenset({net.key, near.key, *here})))
        here, _ = self.peers(kind, mesh=False)
        self.bring(driver, Update(put={**wanted(net, near), **here}))
        with self.environment.probe_traffic(near, away) as probe:
            self.environment.settle()
            received = probe.exchange([(away, near)])
            assert (near, away) not in received

    @proves(SwitchDriver, 5)
    def test_tunnels_lose_nothing_when_everything_is_converged_again(
        self, driver: SwitchDriver, far: SwitchDriver, make_driver: MakeDriver
    ) -> None:
        self.require(driver, SwitchCapability.TUNNELS)
        kind = NetworkType.VXLAN
        net, near, away = self.across(kind, 7)
        here, there = self.peers(kind, mesh=True)
        things = {**wanted(net, near), **here}
        self.bring(driver, Update(put=things))
        self.bring(far, Update(put={**wanted(net, away), **there}))
        with self.environment.probe_traffic(near, away) as probe:
            probe.until(among(near, away))
        with self.environment.probe_traffic(near, away) as probe:
            for _ in range(2):
                successor = make_driver()
                self.bring(successor, Update(put=things, complete=True))
            other = Endpoint(kind, next(a for a in UNUSED_ADDRESSES if a.version == self.version))
            self.bring(successor, Update(put={other: Tunnel("nowhere", mesh=True)}))
            self.bring(successor, Update(drop=frozenset({other})))
            self.assert_exchange(probe, among(near, away))
            assert probe.lost(*among(near, away)) == 0

    @property
    def version(self) -> int:
        """Of the underlay's addresses."""
        return self.environment.endpoint(NetworkType.VXLAN, 0).address.version


class SwitchProviderConformance(SwitchCase):
    """Promise 3 across hosts, by physical networks; and the facts of a host."""

    @proves(SwitchDriver, 3)
    def test_physical_networks_join_the_hosts_and_not_the_networks(
        self, driver: SwitchDriver, far: SwitchDriver
    ) -> None:
        physical = self.environment.physical[0]
        nets = [
            a_network(NetworkType.FLAT, None, physical),
            a_network(NetworkType.VLAN, 100, physical),
            a_network(NetworkType.VLAN, 200, physical),
            a_network(),
        ]
        near = [self.make_ports(net, 1)[0] for net in nets]
        away = [self.make_ports(net, 1, host=1)[0] for net in nets]
        self.wire(driver, *nets, *near)
        # In another order: local numbers of the two hosts have nothing to do with each other.
        self.wire(far, *reversed(nets))
        self.wire(far, *away)
        pairs = [among(one, two) for one, two in zip(near, away, strict=True)]
        expected = pairs[0] | pairs[1] | pairs[2]
        with self.environment.probe_traffic(*near, *away) as probe:
            probe.until(expected)
            self.assert_exchange(probe, expected)
            self.bring(far, Update(drop=frozenset({away[1].key, nets[1].key})))
            self.assert_exchange(probe, pairs[0] | pairs[2])
            assert probe.lost(*pairs[2]) == 0

    @proves(SwitchDriver, 3)
    def test_two_networks_swap_their_numbers(self, driver: SwitchDriver, far: SwitchDriver) -> None:
        physical = self.environment.physical[0]
        red, blue = (a_network(NetworkType.VLAN, n, physical) for n in (100, 200))
        near = self.make_ports(red, 1) + self.make_ports(blue, 1)
        away = self.make_ports(red, 1, host=1) + self.make_ports(blue, 1, host=1)
        self.wire(driver, red, blue, *near)
        self.wire(far, red, blue, *away)
        with self.environment.probe_traffic(*near, *away) as probe:
            probe.until(among(near[0], away[0]) | among(near[1], away[1]))
            swapped: State = {
                net.key: LocalNetwork(
                    segments=(a_segment(net.id, NetworkType.VLAN, number, physical),), mtu=1400
                )
                for net, number in ((red, 200), (blue, 100))
            }
            outcome = driver.converge(Update(put=swapped))
            assert outcome.ok, outcome
            self.assert_exchange(probe, among(near[0], away[1]) | among(near[1], away[0]))
            assert near[0] not in {two for one, two in probe.ever_received if one is near[1]}

    @proves(HostDriver, 1)
    def test_facts_are_what_was_configured(self, driver: SwitchDriver) -> None:
        facts = driver.host_facts()
        assert facts.physical_networks == frozenset(self.environment.physical)
        if SwitchCapability.TUNNELS in driver.describe().capabilities:
            assert facts.endpoints == {self.environment.endpoint(kind, 0) for kind in TUNNELS}
        assert facts == driver.host_facts()

    @proves_raise(SwitchDriver, "host_facts", ConfigError)
    def test_a_configuration_that_contradicts_the_machine_is_named(
        self, driver: SwitchDriver
    ) -> None:
        driver.host_facts()
        with pytest.raises(ConfigError):
            self.environment.misconfigured().host_facts()
