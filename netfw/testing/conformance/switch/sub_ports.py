"""The switch suite: sub-ports, which are VLANs inside the device of another port."""

from __future__ import annotations

from attrs import evolve, frozen

from netfw.drivers.switch import SwitchCapability, SwitchDriver
from netfw.drivers.values.allowed_source import AllowedSource
from netfw.drivers.values.switch_values import Admission, Subport, Wiring
from netfw.errors import InvalidInput
from netfw.model.segment import NetworkType
from netfw.model.values.address import as_network
from netfw.plan import Update
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.switch.case import MakeDriver, SwitchCase
from netfw.testing.conformance.switch.environment import (
    SwitchNetwork,
    SwitchTestPort,
    TrafficProbe,
    a_network,
    among,
    replaced,
    wanted,
)

TAGS = (5, 6, 4094)


@frozen
class TestTrunk:
    """A parent port with sub-ports on other networks, and a neighbour on each network."""

    __test__ = False

    nets: tuple[SwitchNetwork, ...]
    """That of the parent first."""
    members: tuple[SwitchTestPort, ...]
    """The parent, then the sub-ports."""
    neighbours: tuple[SwitchTestPort, ...]

    @property
    def ports(self) -> tuple[SwitchTestPort, ...]:
        return (*self.members, *self.neighbours)

    @property
    def parent(self) -> SwitchTestPort:
        return self.members[0]

    def pairs(self, *positions: int) -> frozenset[tuple[SwitchTestPort, SwitchTestPort]]:
        """Return the pairs that exchange frames on the networks at *positions*."""
        chosen = positions or range(len(self.nets))
        return frozenset(
            pair for at in chosen for pair in among(self.members[at], self.neighbours[at])
        )


class SwitchSubPortsConformance(SwitchCase):
    """Promise 14."""

    def sub_port(self, parent: SwitchTestPort, net: SwitchNetwork, tag: int) -> SwitchTestPort:
        return SwitchTestPort(number=next(self.numbers), net=net, parent=parent, tag=tag)

    def make_trunk(self, driver: SwitchDriver) -> TestTrunk:
        """Make and plug the ports of a trunk; nothing is wired."""
        self.require(driver, SwitchCapability.SUB_PORTS)
        nets = (
            a_network(),
            a_network(NetworkType.VXLAN, 71),
            a_network(NetworkType.VLAN, 72, self.environment.physical[0]),
            a_network(NetworkType.FLAT, None, self.environment.physical[0]),
        )
        (parent,) = self.make_ports(nets[0], 1)
        subs = tuple(
            self.sub_port(parent, net, tag) for net, tag in zip(nets[1:], TAGS, strict=True)
        )
        neighbours = tuple(self.make_ports(net, 1)[0] for net in nets)
        return TestTrunk(nets, (parent, *subs), neighbours)

    def wire_trunk(self, driver: SwitchDriver) -> TestTrunk:
        trunk = self.make_trunk(driver)
        self.wire(driver, *trunk.nets, *trunk.ports)
        return trunk

    @proves(SwitchDriver, 3, 14)
    def test_sub_ports_exchange_frames_under_their_tags_only(self, driver: SwitchDriver) -> None:
        trunk = self.wire_trunk(driver)
        with self.environment.probe_traffic(*trunk.ports) as probe:
            self.assert_exchange(probe, trunk.pairs())
            assert probe.ever_received == trunk.pairs()

    @proves(SwitchDriver, 3, 14)
    def test_two_sub_ports_of_one_network_and_their_parent_reach_each_other(
        self, driver: SwitchDriver
    ) -> None:
        self.require(driver, SwitchCapability.SUB_PORTS)
        net = a_network()
        parent, other = self.make_ports(net, 2)
        subs = [self.sub_port(parent, net, tag) for tag in TAGS]
        self.wire(driver, net, parent, other, *subs)
        with self.environment.probe_traffic(parent, other, *subs) as probe:
            self.assert_exchange(probe, among(parent, other, *subs))

    @proves(SwitchDriver, 14)
    def test_adding_and_removing_a_sub_port_loses_no_frame_of_the_others(
        self, driver: SwitchDriver
    ) -> None:
        trunk = self.make_trunk(driver)
        _, first, second, _ = trunk.members
        self.wire(driver, *trunk.nets, *trunk.neighbours, trunk.parent, first)
        with self.environment.probe_traffic(*trunk.ports) as probe:
            self.assert_exchange(probe, trunk.pairs(0, 1))
            self.wire(driver, second)
            self.assert_exchange(probe, trunk.pairs(0, 1, 2))
            self.bring(driver, Update(drop=frozenset({second.key})))
            self.assert_exchange(probe, trunk.pairs(0, 1))
            self.wire(driver, second)
            self.assert_exchange(probe, trunk.pairs(0, 1, 2))
            assert probe.lost(*trunk.pairs(0, 1)) == 0

    @proves(SwitchDriver, 14)
    def test_a_sub_port_gets_another_tag_and_another_parent(self, driver: SwitchDriver) -> None:
        trunk = self.wire_trunk(driver)
        sub, neighbour = trunk.members[1], trunk.neighbours[1]
        (other,) = self.make_ports(trunk.nets[0], 1)
        moved = evolve(sub, parent=other, tag=77)
        former = self.sub_port(trunk.parent, sub.net, sub.tag)
        self.wire(driver, other, moved)
        with self.environment.probe_traffic(trunk.parent, other, moved, former, neighbour) as probe:
            self.assert_exchange(probe, among(moved, neighbour) | among(trunk.parent, other))

    @proves(SwitchDriver, 14)
    def test_other_tags_and_tags_behind_the_tag_are_dropped(self, driver: SwitchDriver) -> None:
        trunk = self.wire_trunk(driver)
        with self.environment.probe_traffic(*trunk.ports) as probe:
            self.assert_exchange(probe, trunk.pairs())
            probe.forge(trunk.parent, vlans=[tag for tag in range(1, 4096) if tag not in TAGS])
            for sub in trunk.members[1:]:
                probe.forge(sub, vlans=[*TAGS, 1, 71, 72])
            self.assert_exchange(probe, trunk.pairs())
            assert probe.ever_received == trunk.pairs()

    @proves(SwitchDriver, 1, 14)
    def test_a_dead_sub_port_is_silent_and_its_device_may_go(self, driver: SwitchDriver) -> None:
        trunk = self.wire_trunk(driver)
        self.wire(driver, trunk.members[1], admission=Admission.DEAD)
        with self.environment.probe_traffic(*trunk.ports) as probe:
            self.assert_exchange(probe, trunk.pairs(0, 2, 3))
            assert probe.ever_received == trunk.pairs(0, 2, 3)
            self.wire(driver, trunk.members[1], admission=Admission.HOLD)
            self.assert_exchange(probe, trunk.pairs(0, 2, 3))
            self.wire(driver, trunk.members[1])
            self.assert_exchange(probe, trunk.pairs())

    @proves(SwitchDriver, 6, 14)
    def test_the_device_of_a_sub_port_comes_and_goes_with_it(self, driver: SwitchDriver) -> None:
        trunk = self.make_trunk(driver)
        events, sub = self.events(driver), trunk.members[1]
        self.wire(driver, *trunk.nets, *trunk.neighbours, trunk.parent, sub)
        events.await_keys(sub.key)
        self.await_devices(driver, trunk.parent, sub, *trunk.neighbours)
        events.forget()
        self.bring(driver, Update(drop=frozenset({sub.key})))
        events.await_keys(sub.key)
        self.await_devices(driver, trunk.parent, *trunk.neighbours)

    @proves(SwitchDriver, 6, 14)
    def test_a_sub_port_waits_for_the_device_of_its_parent(self, driver: SwitchDriver) -> None:
        trunk = self.wire_trunk(driver)
        update = Update(put=wanted(*trunk.members))
        self.environment.unplug(trunk.parent)
        events = self.events(driver)
        self.await_devices(driver, *trunk.members[1:], *trunk.neighbours)
        outcome = driver.converge(update)
        assert outcome.waiting.keys() == {port.key for port in trunk.members}, outcome
        events.forget()
        self.environment.plug(trunk.parent)
        events.await_keys(trunk.parent.key)
        self.bring(driver, update)
        with self.environment.probe_traffic(*trunk.ports) as probe:
            self.assert_exchange(probe, trunk.pairs())

    @proves(SwitchDriver, 14)
    def test_a_parent_that_is_plugged_anew_takes_its_sub_ports_along(
        self, driver: SwitchDriver
    ) -> None:
        trunk = self.wire_trunk(driver)
        self.environment.unplug(trunk.parent)
        self.environment.plug(trunk.parent)
        self.await_devices(driver, *trunk.ports)
        self.wire(driver, trunk.parent)
        with self.environment.probe_traffic(*trunk.ports) as probe:
            self.assert_exchange(probe, trunk.pairs())

    @proves(SwitchDriver, 5, 14)
    def test_a_restarted_driver_changes_nothing(
        self, driver: SwitchDriver, make_driver: MakeDriver
    ) -> None:
        trunk = self.wire_trunk(driver)
        things = wanted(*trunk.nets, *trunk.ports)
        self.bring(driver, Update(put=things, complete=True))
        with self.environment.probe_traffic(*trunk.ports) as probe:
            self.assert_exchange(probe, trunk.pairs())
            before = self.environment.dump_state()
            successor = make_driver()
            held = {
                key: evolve(value, admission=Admission.HOLD) if isinstance(value, Wiring) else value
                for key, value in things.items()
            }
            self.bring(successor, Update(put=held, complete=True))
            self.bring(successor, Update(put=things, complete=True))
            assert not replaced(before, self.environment.dump_state())
            self._change_one(successor, trunk, probe)
            assert probe.lost(*trunk.pairs(0, 2, 3)) == 0

    def _change_one(self, driver: SwitchDriver, trunk: TestTrunk, probe: TrafficProbe) -> None:
        sub = trunk.members[1]
        self.bring(driver, Update(drop=frozenset({sub.key})))
        self.assert_exchange(probe, trunk.pairs(0, 2, 3))
        self.wire(driver, sub)
        self.assert_exchange(probe, trunk.pairs())

    @proves(SwitchDriver, 5, 14)
    def test_a_restarted_driver_that_does_not_know_everything_leaves_sub_ports_alone(
        self, driver: SwitchDriver, make_driver: MakeDriver
    ) -> None:
        trunk = self.wire_trunk(driver)
        with self.environment.probe_traffic(*trunk.ports) as probe:
            self.assert_exchange(probe, trunk.pairs())
            successor = make_driver()
            self.wire(successor, trunk.neighbours[1], admission=Admission.DEAD)
            self.wire(successor, trunk.neighbours[1])
            self.assert_exchange(probe, trunk.pairs())
            self._change_one(successor, trunk, probe)
            assert probe.lost(*trunk.pairs(0, 2, 3)) == 0

    @proves(SwitchDriver, 7, 14)
    def test_sub_ports_are_there_again_after_the_switch_lost_its_state(
        self, driver: SwitchDriver
    ) -> None:
        trunk = self.wire_trunk(driver)
        events = self.events(driver)
        self.environment.lose_state()
        events.await_loss()
        self.bring(driver, Update(put=wanted(*trunk.nets, *trunk.ports), complete=True))
        with self.environment.probe_traffic(*trunk.ports) as probe:
            probe.until(trunk.pairs())

    @proves(SwitchDriver, 4, 14)
    def test_sub_ports_that_are_gone_leave_no_trace(
        self, driver: SwitchDriver, make_driver: MakeDriver
    ) -> None:
        trunk = self.make_trunk(driver)
        self.wire(driver, *trunk.nets, *trunk.neighbours, trunk.parent)
        before = self.environment.dump_state()
        self.wire(driver, *trunk.members[1:])
        successor = make_driver()
        things = wanted(*trunk.nets, *trunk.neighbours, trunk.parent)
        self.bring(successor, Update(put=things, complete=True))
        assert self.environment.dump_state().keys() == before.keys()

    @proves(SwitchDriver, 14)
    def test_a_sub_port_is_guarded_like_a_port(self, driver: SwitchDriver) -> None:
        trunk = self.wire_trunk(driver)
        sub, neighbour = trunk.members[1], trunk.neighbours[1]
        own = frozenset({AllowedSource(sub.mac, as_network(f"{sub.address}/32"))})
        self.bring(driver, Update(put={sub.key: evolve(sub.wiring(), guard=own)}))
        self.assert_announcement(sub, sub.mac, sub.address, neighbour, True)
        self.assert_announcement(sub, sub.mac, neighbour.address + 1000, neighbour, False)
        self.assert_announcement(sub, trunk.parent.mac, sub.address, neighbour, False)

    @proves(SwitchDriver, 14)
    def test_impossible_sub_ports_are_refused(self, driver: SwitchDriver) -> None:
        trunk = self.wire_trunk(driver)
        sub = trunk.members[1]
        for subport in (Subport(trunk.parent.id, 4095), Subport(sub.id, 5)):
            value = evolve(sub.wiring(), subport=subport)
            outcome = driver.converge(Update(put={sub.key: value}))
            assert isinstance(outcome.failed[sub.key], InvalidInput), outcome
        with self.environment.probe_traffic(*trunk.ports) as probe:
            self.assert_exchange(probe, trunk.pairs())
