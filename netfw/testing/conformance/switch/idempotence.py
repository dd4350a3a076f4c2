"""The switch suite: correct state stays untouched, drift is repaired."""

from __future__ import annotations

import pytest
from attrs import evolve

from netfw.drivers.host_driver import HostCapability
from netfw.drivers.reconciler import Reconciler
from netfw.drivers.switch import SwitchDriver
from netfw.drivers.values.switch_values import Admission, SwitchKey, SwitchValue
from netfw.errors import BackendUnavailable
from netfw.model.segment import NetworkType
from netfw.plan import Update
from netfw.testing.conformance.common.promises import proves, proves_raise
from netfw.testing.conformance.common.reconciler import dies_at
from netfw.testing.conformance.switch.case import MakeDriver, SwitchCase
from netfw.testing.conformance.switch.environment import (
    SwitchNetwork,
    SwitchTestPort,
    a_network,
    among,
    replaced,
    wanted,
)

MANY_PORTS = 50


class SwitchIdempotenceConformance(SwitchCase):
    """Promises 5, 6 and 7."""

    def couples(self) -> tuple[list[SwitchNetwork], list[SwitchTestPort]]:
        """Return two networks with two plugged test ports each."""
        nets = [a_network(), a_network(NetworkType.VLAN, 55, self.environment.physical[0])]
        return nets, [port for net in nets for port in self.make_ports(net, 2)]

    @proves(SwitchDriver, 5)
    def test_converging_again_touches_nothing(self, driver: SwitchDriver) -> None:
        nets, ports = self.couples()
        things = wanted(*nets, *ports)
        self.bring(driver, Update(put=things, complete=True))
        expected = among(*ports[:2]) | among(*ports[2:])
        with self.environment.probe_traffic(*ports) as probe:
            self.assert_exchange(probe, expected)
            before = self.environment.dump_state()
            for complete in (True, False, True):
                assert driver.converge(Update(put=things, complete=complete)).ok
            self.assert_exchange(probe, expected)
            assert replaced(before, self.environment.dump_state()) == frozenset()
            assert probe.lost(*expected) == 0

    @proves(SwitchDriver, 5)
    @pytest.mark.parametrize("ended", ["closed", "killed"])
    def test_a_new_driver_touches_nothing(
        self, driver: SwitchDriver, make_driver: MakeDriver, ended: str
    ) -> None:
        nets, ports = self.couples()
        things = wanted(*nets, *ports)
        self.bring(driver, Update(put=things, complete=True))
        numbers = [self.environment.local_number(net) for net in nets]
        assert None not in numbers
        expected = among(*ports[:2]) | among(*ports[2:])
        with self.environment.probe_traffic(*ports) as probe:
            self.assert_exchange(probe, expected)
            before = self.environment.dump_state()
            if ended == "closed":
                driver.close()
            successor = make_driver()
            backwards = dict(reversed(things.items()))
            assert successor.present() == things.keys()
            self.bring(successor, Update(put=backwards, complete=True))
            self.assert_exchange(probe, expected)
            assert replaced(before, self.environment.dump_state()) == frozenset()
            assert probe.lost(*expected) == 0
        assert [self.environment.local_number(net) for net in nets] == numbers

    @proves(SwitchDriver, 5)
    def test_many_ports_come_and_go_without_loss_for_others(self, driver: SwitchDriver) -> None:
        nets, ports = self.couples()
        self.wire(driver, *nets, *ports)
        many = [SwitchTestPort(number=1000 + n, net=nets[n % 2]) for n in range(MANY_PORTS)]
        expected = among(*ports[:2]) | among(*ports[2:])
        with self.environment.probe_traffic(*ports) as probe:
            self.environment.plug_mute(*many)
            self.wire(driver, *many)
            assert driver.present() >= {member.key for member in many}
            self.bring(driver, Update(drop=frozenset(member.key for member in many)))
            self.assert_exchange(probe, expected)
            assert probe.lost(*expected) == 0

    @proves(SwitchDriver, 5)
    def test_dying_at_any_stage_loses_nothing_of_the_others(
        self, driver: SwitchDriver, make_driver: MakeDriver
    ) -> None:
        self.require(driver, HostCapability.PLAN)
        nets, ports = self.couples()
        things = wanted(*nets, *ports)
        fresh = a_network(NetworkType.VLAN, 56, self.environment.physical[0])
        comers = self.make_ports(fresh, 2)
        more = {**things, **wanted(fresh, *comers)}
        self.bring(driver, Update(put=things))
        expected = among(*ports[:2]) | among(*ports[2:])
        with self.environment.probe_traffic(*ports, *comers) as probe:
            for target, then in ((more, among(*comers)), (things, frozenset())):
                start = things if target is more else more
                self._die_everywhere(make_driver, start, target)
                self.assert_exchange(probe, expected | then)
            assert probe.ever_received == expected | among(*comers)
            assert probe.lost(*expected) == 0

    def _die_everywhere(
        self,
        make_driver: MakeDriver,
        start: dict[SwitchKey, SwitchValue],
        target: dict[SwitchKey, SwitchValue],
    ) -> None:
        """Die after each stage on the way from *start* to *target*; the next driver ends it."""
        stage, died = 0, True
        while died:
            killed = make_driver()
            self.bring(killed, Update(put=start, complete=True))
            assert isinstance(killed, Reconciler), "it declares the capability 'plan'"
            died = dies_at(killed, Update(put=target, complete=True), stage)
            successor = make_driver()
            self.bring(successor, Update(put=target, complete=True))
            assert successor.present() == target.keys()
            killed.close()
            successor.close()
            stage += 1
        assert stage > 1, "there was something to do"

    @proves(SwitchDriver, 6)
    def test_a_port_waits_for_its_device(self, driver: SwitchDriver) -> None:
        events = self.events(driver)
        net = a_network()
        (one,) = self.make_ports(net, 1)
        late = SwitchTestPort(number=next(self.numbers), net=net)
        self.wire(driver, net, one)
        outcome = driver.converge(Update(put=wanted(net, one, late)))
        assert outcome.waiting.keys() == {late.key}
        assert outcome.done == {net.key, one.key}
        assert late.key not in driver.present()
        events.forget()
        self.environment.plug(late)
        events.await_keys(late.key)
        self.wire(driver, late)
        with self.environment.probe_traffic(one, late) as probe:
            self.assert_exchange(probe, among(one, late))

    @proves(SwitchDriver, 6)
    def test_a_port_without_a_number_waits(self, driver: SwitchDriver) -> None:
        events = self.events(driver)
        net = a_network()
        (one,) = self.make_ports(net, 1)
        late = SwitchTestPort(number=next(self.numbers), net=net)
        self.wire(driver, net, one)
        finish = self.environment.plug_unfinished(late)
        outcome = driver.converge(Update(put=wanted(one, late)))
        assert outcome.waiting.keys() == {late.key}
        assert outcome.done == {one.key}
        self.await_devices(driver, one, late)
        assert driver.devices()[late.id].ofport is None
        events.forget()
        finish()
        events.await_keys(late.key)
        self.wire(driver, late)
        with self.environment.probe_traffic(one, late) as probe:
            self.assert_exchange(probe, among(one, late))

    @proves(SwitchDriver, 6)
    def test_a_device_that_goes_or_moves_is_announced(self, driver: SwitchDriver) -> None:
        events = self.events(driver)
        net = a_network()
        one, two = self.make_ports(net, 2)
        self.wire(driver, net, one, two)
        for _ in range(2):
            events.forget()
            self.environment.unplug(two)
            events.await_keys(two.key)
            outcome = driver.converge(Update(put=wanted(one, two)))
            assert outcome.waiting.keys() == {two.key}
            assert outcome.done == {one.key}
            assert two.id not in driver.devices()
            events.forget()
            self.environment.plug(two)
            events.await_keys(two.key)
            self.wire(driver, two)
            with self.environment.probe_traffic(one, two) as probe:
                self.assert_exchange(probe, among(one, two))

    @proves(SwitchDriver, 6)
    def test_foreign_changes_are_reported_and_repaired(self, driver: SwitchDriver) -> None:
        events = self.events(driver)
        nets, ports = self.couples()
        things = wanted(*nets, *ports)
        self.bring(driver, Update(put=things))
        before = self.environment.dump_state().keys()
        for name, spoil in self.environment.drifts().items():
            events.forget()
            spoil(ports[0])
            assert self.environment.dump_state().keys() != before, name
            events.await_keys(ports[0].key)
            self.bring(driver, Update(put=things))
            left = self.environment.dump_state().keys() ^ before
            assert not left, f"{name}: {sorted(left)}"
        with self.environment.probe_traffic(*ports) as probe:
            self.assert_exchange(probe, among(*ports[:2]) | among(*ports[2:]))

    @proves(SwitchDriver, 6)
    def test_devices_are_those_that_are_plugged(self, driver: SwitchDriver) -> None:
        net = a_network()
        wired, unwired = self.make_ports(net, 2)
        self.wire(driver, net, wired)
        self.await_devices(driver, wired, unwired)
        devices = driver.devices()
        assert {device.mac for device in devices.values()} == {wired.mac, unwired.mac}
        numbers = {device.ofport for device in devices.values()}
        assert len(numbers) == len(devices)
        assert None not in numbers
        self.environment.unplug(unwired)
        self.await_devices(driver, wired)

    @proves(SwitchDriver, 7)
    def test_a_switch_that_lost_its_state_is_announced_and_rebuilt(
        self, driver: SwitchDriver
    ) -> None:
        events = self.events(driver)
        nets, ports = self.couples()
        (dead,) = self.make_ports(nets[0], 1)
        things = {**wanted(*nets, *ports), **wanted(dead, admission=Admission.DEAD)}
        self.bring(driver, Update(put=things, complete=True))
        numbers = [self.environment.local_number(net) for net in nets]
        expected = among(*ports[:2]) | among(*ports[2:])
        for _ in range(2):
            events.forget()
            self.environment.lose_state()
            events.await_loss()
            with self.environment.probe_traffic(*ports, dead) as probe:
                self.bring(driver, Update(put=things, complete=True))
                self.assert_exchange(probe, expected)
                assert probe.ever_received <= expected
            assert driver.present() == things.keys()
            assert [self.environment.local_number(net) for net in nets] == numbers

    @proves(SwitchDriver, 7)
    def test_a_switch_that_lost_its_state_lets_nothing_mix(self, driver: SwitchDriver) -> None:
        """Until it is rebuilt, the switch may drop allowed traffic, but passes no other."""
        nets, ports = self.couples()
        self.wire(driver, *nets, *ports)
        self.wire(driver, ports[1], admission=Admission.DEAD)
        self.environment.lose_state()
        with self.environment.probe_traffic(*ports) as probe:
            probe.exchange()
            assert probe.ever_received <= among(*ports[2:])

    @proves_raise(SwitchDriver, "devices", BackendUnavailable)
    @proves_raise(SwitchDriver, "host_facts", BackendUnavailable)
    def test_devices_and_host_facts_raise_when_the_switch_is_unreachable(
        self, driver: SwitchDriver
    ) -> None:
        driver.devices()
        driver.host_facts()
        with self.environment.outage():
            with pytest.raises(BackendUnavailable):
                driver.devices()
            with pytest.raises(BackendUnavailable):
                driver.host_facts()
        driver.devices()
        driver.host_facts()

    @proves(SwitchDriver, 13)
    def test_a_switch_in_doubt_forwards(self, driver: SwitchDriver) -> None:
        nets, ports = self.couples()
        self.wire(driver, *nets, *ports)
        assert driver.forwards()
        with self.environment.outage():
            assert driver.forwards(), "an unreachable switch is said to forward nothing"

    def test_a_changed_mtu_and_changed_addresses_lose_nothing(self, driver: SwitchDriver) -> None:
        nets, ports = self.couples()
        self.wire(driver, *nets, *ports)
        expected = among(*ports[:2]) | among(*ports[2:])
        with self.environment.probe_traffic(*ports) as probe:
            for net in nets:
                put: dict[SwitchKey, SwitchValue] = {net.key: evolve(net.value, mtu=1300)}
                self.bring(driver, Update(put=put))
            for port in ports:
                bare = evolve(port.wiring(), addresses=frozenset())
                self.bring(driver, Update(put={port.key: bare}))
            self.assert_exchange(probe, expected)
            assert probe.lost(*expected) == 0
