"""The switch suite: admission of ports to their networks."""

from __future__ import annotations

from ipaddress import ip_network

from attrs import evolve

from netfw.drivers.host_driver import HostCapability, HostDriver
from netfw.drivers.reconciler import Reconciler
from netfw.drivers.switch import SwitchCapability, SwitchDriver
from netfw.drivers.values.allowed_source import AllowedSource
from netfw.drivers.values.switch_values import Admission
from netfw.plan import Update
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.switch.case import MakeDriver, SwitchCase
from netfw.testing.conformance.switch.environment import a_network, among, wanted

DEAD, HOLD, LIVE = Admission.DEAD, Admission.HOLD, Admission.LIVE
EVERY_TAG = range(4096)


class SwitchAdmissionConformance(SwitchCase):
    """Promises 1 and 2: dead, on hold, live."""

    @proves(SwitchDriver, 1)
    def test_a_dead_port_neither_sends_nor_receives(self, driver: SwitchDriver) -> None:
        net = a_network()
        one, two, dead = self.make_ports(net, 3)
        self.wire(driver, net, one, two)
        self.wire(driver, dead, admission=DEAD)
        with self.environment.probe_traffic(one, two, dead) as probe:
            self.assert_exchange(probe, among(one, two))

    @proves(SwitchDriver, 1)
    def test_an_unwired_port_neither_sends_nor_receives(self, driver: SwitchDriver) -> None:
        net = a_network()
        early, one, two = self.make_ports(net, 3)
        self.wire(driver, net, one, two)
        with self.environment.probe_traffic(early, one, two) as probe:
            self.assert_exchange(probe, among(one, two))
            assert probe.ever_received == among(one, two)

    @proves(SwitchDriver, 1)
    def test_a_port_that_was_plugged_while_others_live_is_silent(
        self, driver: SwitchDriver
    ) -> None:
        events = self.events(driver)
        net = a_network()
        one, two = self.make_ports(net, 2)
        self.wire(driver, net, one, two)
        (late,) = self.make_ports(net, 1)
        with self.environment.probe_traffic(late, one, two) as probe:
            events.await_keys(late.key)
            self.assert_exchange(probe, among(one, two))
            self.wire(driver, one)
            self.assert_exchange(probe, among(one, two))
            assert probe.ever_received == among(one, two)

    @proves(SwitchDriver, 1)
    def test_a_port_that_dies_falls_silent_and_can_live_again(self, driver: SwitchDriver) -> None:
        net = a_network()
        one, two, three = self.make_ports(net, 3)
        self.wire(driver, net, one, two, three)
        with self.environment.probe_traffic(one, two, three) as probe:
            for admission in (LIVE, DEAD, LIVE, DEAD):
                self.wire(driver, three, admission=admission)
                expected = among(one, two, three) if admission is LIVE else among(one, two)
                self.assert_exchange(probe, expected)
            assert probe.lost(*among(one, two)) == 0

    @proves(SwitchDriver, 1)
    def test_a_dropped_port_falls_silent_though_it_is_plugged(self, driver: SwitchDriver) -> None:
        net = a_network()
        one, two, gone = self.make_ports(net, 3)
        self.wire(driver, net, one, two, gone)
        with self.environment.probe_traffic(one, two, gone) as probe:
            self.bring(driver, Update(drop=frozenset({gone.key})))
            self.assert_exchange(probe, among(one, two))
            assert driver.present() == {net.key, one.key, two.key}
            assert gone.id in driver.devices()

    @proves(SwitchDriver, 1)
    def test_no_tag_leads_out_of_a_port_that_does_not_live(self, driver: SwitchDriver) -> None:
        net = a_network()
        one, two, dead, unwired = self.make_ports(net, 4)
        self.wire(driver, net, one, two)
        self.wire(driver, dead, admission=DEAD)
        with self.environment.probe_traffic(one, two, dead, unwired) as probe:
            for sender in (dead, unwired):
                probe.forge(sender, vlans=EVERY_TAG)
            self.assert_exchange(probe, among(one, two))
            assert probe.ever_received == among(one, two)

    @proves(SwitchDriver, 1)
    def test_a_dead_port_draws_no_traffic_to_itself(self, driver: SwitchDriver) -> None:
        net = a_network()
        one, two, thief = self.make_ports(net, 3)
        self.wire(driver, net, one, two)
        self.wire(driver, thief, admission=DEAD)
        with self.environment.probe_traffic(one, two, thief) as probe:
            for _ in range(10):
                probe.forge(thief, source=one.mac)
                self.assert_exchange(probe, among(one, two))
            assert probe.ever_received == among(one, two)
            assert probe.lost(*among(one, two)) == 0

    @proves(SwitchDriver, 1)
    def test_a_filtered_port_neither_sends_nor_receives_without_a_firewall(
        self, driver: SwitchDriver
    ) -> None:
        self.require(driver, SwitchCapability.IN_SWITCH)
        net = a_network()
        one, two, *filtered = self.make_ports(net, 4)
        self.wire(driver, net, one, two)
        all_pairs = (one, two, *filtered)
        with self.environment.probe_traffic(*all_pairs) as probe:
            for closed in (True, False, True):
                for port in filtered:
                    wiring = evolve(port.wiring(), filtered=closed)
                    self.bring(driver, Update(put={port.key: wiring}))
                self.assert_exchange(probe, among(*((one, two) if closed else all_pairs)))
                for sender, receiver in ((filtered[0], one), (one, filtered[0]), filtered):
                    self.assert_announcement(
                        sender, sender.mac, sender.address, receiver, not closed
                    )
            assert probe.lost(*among(one, two)) == 0

    @proves(SwitchDriver, 2)
    def test_a_port_on_hold_stays_filtered_or_not(
        self, driver: SwitchDriver, make_driver: MakeDriver
    ) -> None:
        self.require(driver, SwitchCapability.IN_SWITCH)
        net = a_network()
        one, closed, open = self.make_ports(net, 3)
        self.wire(driver, net, one, open)
        self.bring(driver, Update(put={closed.key: evolve(closed.wiring(), filtered=True)}))
        held = wanted(net, one, closed, open, admission=HOLD)
        held[open.key] = evolve(open.wiring(HOLD), filtered=True)
        with self.environment.probe_traffic(one, closed, open) as probe:
            self.bring(driver, Update(put=held, complete=True))
            self.assert_exchange(probe, among(one, open))
            successor = make_driver()
            self.bring(successor, Update(put=held, complete=True))
            self.assert_exchange(probe, among(one, open))
            self.bring(successor, Update(put=wanted(one, closed)))
            self.assert_exchange(probe, among(one, closed, open))
            assert probe.lost(*among(one, open)) == 0
            self.bring(successor, Update(put={open.key: evolve(open.wiring(), filtered=True)}))
            self.assert_exchange(probe, among(one, closed))

    @proves(HostDriver, 1)
    def test_a_guarded_port_sends_as_itself_alone(self, driver: SwitchDriver) -> None:
        net = a_network()
        guarded, receiver = self.make_ports(net, 2)
        self.wire(driver, net, receiver)
        guard = frozenset(AllowedSource(guarded.mac, ip_network(a)) for a in guarded.addresses)
        for sources in (guard, None, guard):
            wiring = evolve(guarded.wiring(), guard=sources)
            self.bring(driver, Update(put={guarded.key: wiring}))
            stranger = evolve(guarded, number=900)
            for own, foreign in zip(
                sorted(guarded.addresses, key=str), sorted(stranger.addresses, key=str), strict=True
            ):
                self.assert_announcement(guarded, guarded.mac, own, receiver, True)
                unguarded = sources is None
                self.assert_announcement(guarded, guarded.mac, foreign, receiver, unguarded)
                self.assert_announcement(guarded, stranger.mac, own, receiver, unguarded)

    @proves(SwitchDriver, 2)
    def test_a_new_port_on_hold_is_silent_until_it_is_let_live(self, driver: SwitchDriver) -> None:
        net = a_network()
        one, two, new = self.make_ports(net, 3)
        self.wire(driver, net, one, two)
        with self.environment.probe_traffic(one, two, new) as probe:
            self.wire(driver, new, admission=HOLD)
            self.assert_exchange(probe, among(one, two))
            assert probe.ever_received == among(one, two)
            self.wire(driver, new)
            self.assert_exchange(probe, among(one, two, new))

    @proves(SwitchDriver, 2)
    def test_a_dead_port_on_hold_stays_dead(self, driver: SwitchDriver) -> None:
        net = a_network()
        one, dead = self.make_ports(net, 2)
        self.wire(driver, net, one, dead)
        with self.environment.probe_traffic(one, dead) as probe:
            for admission in (DEAD, HOLD, HOLD):
                self.wire(driver, dead, admission=admission)
                self.assert_exchange(probe)

    @proves(SwitchDriver, 2)
    def test_a_live_port_on_hold_loses_nothing(self, driver: SwitchDriver) -> None:
        net = a_network()
        one, two = self.make_ports(net, 2)
        self.wire(driver, net, one, two)
        with self.environment.probe_traffic(one, two) as probe:
            for admission in (HOLD, LIVE, HOLD, HOLD, LIVE):
                self.wire(driver, net, one, two, admission=admission)
                fewer = evolve(one.wiring(admission), addresses=frozenset({one.address}))
                self.bring(driver, Update(put={one.key: fewer}))
                self.assert_exchange(probe, among(one, two))
            assert probe.lost(*among(one, two)) == 0

    @proves(SwitchDriver, 2, 5)
    def test_a_new_driver_holds_what_lives_and_what_is_dead(
        self, driver: SwitchDriver, make_driver: MakeDriver
    ) -> None:
        net = a_network()
        one, two, dead = self.make_ports(net, 3)
        self.wire(driver, net, one, two, dead)
        self.wire(driver, dead, admission=DEAD)
        with self.environment.probe_traffic(one, two, dead) as probe:
            successor = make_driver()
            things = wanted(net, one, two, dead, admission=HOLD)
            self.bring(successor, Update(put=things, complete=True))
            self.assert_exchange(probe, among(one, two))
            assert probe.ever_received == among(one, two)
            self.wire(successor, one, two, dead)
            self.assert_exchange(probe, among(one, two, dead))
            assert probe.lost(*among(one, two)) == 0

    @proves(SwitchDriver, 2)
    def test_letting_live_takes_one_step(self, driver: SwitchDriver) -> None:
        self.require(driver, HostCapability.PLAN)
        assert isinstance(driver, Reconciler)
        net = a_network()
        ports = self.make_ports(net, 3)
        self.wire(driver, net, *ports, admission=HOLD)
        update = Update(put=wanted(*ports))
        plan = driver.plan(update, driver.observe(update))
        assert len(plan.stages) == 1, f"{plan}"
        self.bring(driver, update)
