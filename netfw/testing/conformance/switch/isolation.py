"""The switch suite: networks that do not mix, and leave no trace."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import pytest
from attrs import evolve

from netfw.drivers.switch import SwitchCapability, SwitchDriver
from netfw.drivers.values.keys import PortKey
from netfw.drivers.values.switch_values import (
    Admission,
    Flood,
    FloodKey,
    Forwarding,
    ForwardingKey,
    SwitchKey,
    SwitchValue,
    Tunnel,
    Wiring,
)
from netfw.errors import Conflict, InvalidInput
from netfw.model.segment import WELL_KNOWN_TYPES, NetworkType
from netfw.plan import Update
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.switch.case import MakeDriver, SwitchCase
from netfw.testing.conformance.switch.environment import (
    Pair,
    SwitchNetwork,
    SwitchTestPort,
    a_network,
    a_segment,
    among,
    wanted,
)

State = dict[SwitchKey, SwitchValue]


def reachable_pairs(
    state: Mapping[SwitchKey, SwitchValue], ports: Sequence[SwitchTestPort]
) -> frozenset[Pair]:
    """Return the pairs that reach each other in *state*: live ports of one present network."""
    of: dict[object, list[SwitchTestPort]] = {}
    for port in ports:
        value = state.get(port.key)
        if isinstance(value, Wiring) and value.admission is Admission.LIVE:
            of.setdefault(value.network, []).append(port)
    return frozenset(pair for members in of.values() for pair in among(*members))


class SwitchIsolationConformance(SwitchCase):
    """Promises 3 and 4."""

    @proves(SwitchDriver, 3)
    def test_ports_of_a_network_receive_from_each_other_only(self, driver: SwitchDriver) -> None:
        red, blue = a_network(), a_network()
        reds, blues = self.make_ports(red, 2), self.make_ports(blue, 2)
        self.wire(driver, red, blue, *reds, *blues)
        with self.environment.probe_traffic(*reds, *blues) as probe:
            self.assert_exchange(probe, among(*reds) | among(*blues))
            assert probe.ever_received == among(*reds) | among(*blues)

    @proves(SwitchDriver, 3)
    def test_two_networks_can_have_the_same_addresses(self, driver: SwitchDriver) -> None:
        red, blue = a_network(), a_network()
        reds = self.make_ports(red, 2)
        blues = tuple(
            SwitchTestPort(number=next(self.numbers), net=blue, twin=r.number) for r in reds
        )
        self.environment.plug(*blues)
        self.wire(driver, red, blue, *reds, *blues)
        with self.environment.probe_traffic(*reds, *blues) as probe:
            for _ in range(3):
                self.assert_exchange(probe, among(*reds) | among(*blues))
            assert probe.lost(*among(*reds)) == 0

    @proves(SwitchDriver, 3)
    def test_no_tag_leads_into_another_network(self, driver: SwitchDriver) -> None:
        red, blue = a_network(), a_network()
        reds, blues = self.make_ports(red, 2), self.make_ports(blue, 2)
        self.wire(driver, red, blue, *reds, *blues)
        with self.environment.probe_traffic(*reds, *blues) as probe:
            probe.forge(reds[0], vlans=range(4096))
            self.assert_exchange(probe, among(*reds) | among(*blues))
            assert probe.ever_received == among(*reds) | among(*blues)

    @proves(SwitchDriver, 3)
    @pytest.mark.parametrize("order", ["forwards", "backwards", "shuffled"])
    def test_networks_do_not_mix_at_any_moment(self, driver: SwitchDriver, order: str) -> None:
        red, blue, green = a_network(), a_network(), a_network()
        reds, blues = self.make_ports(red, 2), self.make_ports(blue, 2)
        (rover,) = self.make_ports(green, 1)
        states = self._states((red, blue, green), *reds, *blues, rover)
        if order == "backwards":
            states.reverse()
        elif order == "shuffled":
            states = random.Random(3).sample(states * 2, 2 * len(states))
        all_pairs = (*reds, *blues, rover)
        allowed: set[Pair] = set()
        with self.environment.probe_traffic(*all_pairs) as probe:
            for state in states:
                self.bring(driver, Update(put=state, complete=True))
                allowed |= reachable_pairs(state, all_pairs)
                self.assert_exchange(probe, reachable_pairs(state, all_pairs))
                assert driver.present() == state.keys()
            assert probe.ever_received == allowed

    def _states(
        self, nets: tuple[SwitchNetwork, SwitchNetwork, SwitchNetwork], *ports: SwitchTestPort
    ) -> list[Mapping[SwitchKey, SwitchValue]]:
        red, blue, green = nets
        *couples, rover = ports
        reds, blues = couples[:2], couples[2:]
        both = wanted(red, blue, *couples)
        return [
            both,
            {**both, rover.key: rover.wiring(net=red)},
            {**both, rover.key: rover.wiring(net=blue)},
            {**both, **wanted(green, rover)},
            wanted(red, *reds),
            wanted(blue, *blues),
            {**wanted(blue, *blues), rover.key: rover.wiring(net=blue)},
            {**both, rover.key: rover.wiring(Admission.DEAD, net=red)},
            wanted(green, rover),
            wanted(red, blue, reds[0], blues[0]),
            both,
        ]

    @proves(SwitchDriver, 3)
    def test_two_networks_cannot_have_one_segment(self, driver: SwitchDriver) -> None:
        physical = self.environment.physical[0]
        one, two = (a_network(NetworkType.VLAN, 100, physical) for _ in range(2))
        outcome = driver.converge(Update(put=wanted(one, two)))
        assert [type(error) for error in outcome.failed.values()] == [Conflict]
        assert len(outcome.done) == 1
        assert driver.present() == outcome.done
        successor = two if one.key in outcome.done else one
        outcome = driver.converge(Update(put=wanted(successor), complete=True))
        assert outcome.ok, outcome
        assert driver.present() == {successor.key}

    @proves(SwitchDriver, 3)
    def test_a_refused_port_of_the_next_driver_keeps_no_other_live(
        self, driver: SwitchDriver, make_driver: MakeDriver
    ) -> None:
        """Check that the refused port stays live, and ports of a removed network do not."""
        net, gone, new = a_network(), a_network(), a_network()
        one, two = self.make_ports(net, 2)
        three, four = self.make_ports(gone, 2)
        (five,) = self.make_ports(new, 1)
        self.wire(driver, net, gone, one, two, three, four)
        following = make_driver()
        put: State = {**wanted(net, one), two.key: net.value}
        outcome = following.converge(Update(put=put, complete=True))
        assert outcome.failed.keys() == {two.key}
        assert following.present() == put.keys()
        self.wire(following, new, five)
        with self.environment.probe_traffic(one, two, three, four, five) as probe:
            self.assert_exchange(probe, among(one, two))

    @proves(SwitchDriver, 4)
    @pytest.mark.parametrize("kind", WELL_KNOWN_TYPES)
    def test_a_dropped_network_leaves_no_trace(
        self, driver: SwitchDriver, kind: NetworkType
    ) -> None:
        self._leaves_no_trace(driver, lambda: driver, kind)

    @proves(SwitchDriver, 4)
    @pytest.mark.parametrize("kind", [NetworkType.VLAN, NetworkType.VXLAN])
    def test_the_next_driver_drops_what_the_former_one_made(
        self, driver: SwitchDriver, make_driver: MakeDriver, kind: NetworkType
    ) -> None:
        """Check that a number keeps no flows of another network, even before a complete update."""
        self._leaves_no_trace(driver, make_driver, kind)

    def _leaves_no_trace(
        self, driver: SwitchDriver, following: Callable[[], SwitchDriver], kind: NetworkType
    ) -> None:
        net, entries = self._full_network(driver, kind)
        driver.converge(Update(complete=True))
        before = self.environment.dump_state()
        ports = self.make_ports(net, 2)
        things = {**wanted(net, *ports), **entries}
        self.bring(driver, Update(put=things))
        assert driver.present() == things.keys()
        assert self.environment.local_number(net) is not None
        dropping = following()
        assert dropping.converge(Update(drop=frozenset(things))).ok
        self.environment.unplug(*ports)
        assert dropping.present() == frozenset()
        assert self.environment.local_number(net) is None
        assert self.environment.dump_state().keys() ^ before.keys() == frozenset()

    def _full_network(self, driver: SwitchDriver, kind: NetworkType) -> tuple[SwitchNetwork, State]:
        """Return a network of this kind with everything that can be attached to it."""
        if not kind.is_tunnel:
            physical = None if kind is NetworkType.LOCAL else self.environment.physical[0]
            return a_network(kind, 77 if kind is NetworkType.VLAN else None, physical), {}
        self.require(driver, SwitchCapability.TUNNELS)
        net, peer = a_network(kind, 77), self.environment.endpoint(kind, 1)
        entries: State = {peer: Tunnel("host2")}
        if SwitchCapability.POPULATION in driver.describe().capabilities:
            away = SwitchTestPort(number=800, net=net, host=1)
            entries[FloodKey(net.id, peer)] = Flood()
            entries[ForwardingKey(net.id, away.mac)] = Forwarding(frozenset({peer}), away.addresses)
        return net, entries

    @proves(SwitchDriver, 4)
    def test_a_port_waits_for_its_network(self, driver: SwitchDriver) -> None:
        net, other = a_network(), a_network()
        one, two = self.make_ports(net, 2)
        (third,) = self.make_ports(other, 1)
        self.wire(driver, other, third)
        outcome = driver.converge(Update(put=wanted(one, two, third)))
        assert outcome.waiting.keys() == {one.key, two.key}
        assert outcome.done == {third.key}
        assert not outcome.failed
        with self.environment.probe_traffic(one, two, third) as probe:
            self.assert_exchange(probe)
            self.wire(driver, net)
            self.wire(driver, one, two)
            self.assert_exchange(probe, among(one, two))

    @proves(SwitchDriver, 4)
    def test_a_dead_port_needs_no_network(self, driver: SwitchDriver) -> None:
        (port,) = self.make_ports(a_network(), 1)
        self.wire(driver, port, admission=Admission.DEAD)
        assert driver.present() == {port.key}

    @proves(SwitchDriver, 4)
    def test_a_port_whose_network_goes_falls_silent_and_waits(self, driver: SwitchDriver) -> None:
        net, other = a_network(), a_network()
        one, two = self.make_ports(net, 2)
        three, four = self.make_ports(other, 2)
        self.wire(driver, net, other, one, two, three, four)
        with self.environment.probe_traffic(one, two, three, four) as probe:
            self.bring(driver, Update(drop=frozenset({net.key})))
            self.assert_exchange(probe, among(three, four))
            outcome = driver.converge(Update(put=wanted(one, two)))
            assert outcome.waiting.keys() == {one.key, two.key}
            self.wire(driver, net, one, two)
            self.assert_exchange(probe, among(one, two) | among(three, four))
            assert probe.lost(*among(three, four)) == 0

    @proves(SwitchDriver, 4)
    def test_a_port_takes_the_segment_it_is_bound_to(self, driver: SwitchDriver) -> None:
        physical = self.environment.physical[0]
        net = a_network(NetworkType.VLAN, 101, physical)
        second = a_segment(net.id, NetworkType.VLAN, 102, physical)
        net = evolve(net, value=evolve(net.value, segments=(*net.value.segments, second)))
        first = net.value.segments[0]
        ports = self.make_ports(net, 4)
        bound: State = {
            port.key: evolve(port.wiring(), segment=segment.id)
            for port, segment in zip(ports, (first, first, second, second), strict=True)
        }
        self.bring(driver, Update(put={**wanted(net), **bound}))
        with self.environment.probe_traffic(*ports) as probe:
            self.assert_exchange(probe, among(*ports[:2]) | among(*ports[2:]))

    def test_a_value_that_does_not_fit_its_key_concerns_that_key_alone(
        self, driver: SwitchDriver
    ) -> None:
        net = a_network()
        one, two, three = self.make_ports(net, 3)
        self.wire(driver, net, one)
        wrong: State = {three.key: net.value, a_network().key: three.wiring()}
        for key, value in wrong.items():
            outcome = driver.converge(Update(put={**wanted(two), key: value}))
            assert isinstance(outcome.failed.get(key), InvalidInput), (
                f"a value of another kind of key is an InvalidInput, not {outcome}"
            )
            assert outcome.failed.keys() == {key}
            assert isinstance(key, PortKey) or key not in driver.present()
        with self.environment.probe_traffic(one, two, three) as probe:
            self.assert_exchange(probe, among(one, two))
