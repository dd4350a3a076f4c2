"""The suite of `InterfaceDriver`: subclass it, override the hooks, run pytest."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import ClassVar
from uuid import uuid4

import pytest
from attrs import evolve

from netfw.drivers.base import Driver
from netfw.drivers.host_driver import HostCapability, HostDriver
from netfw.drivers.interface import MTU, Attachment, InterfaceCapability, InterfaceDriver
from netfw.drivers.values.events import Event, KeysChanged
from netfw.drivers.values.subscription import Service
from netfw.errors import BackendUnavailable, Conflict, NotFound, NotSupported
from netfw.model.values.address import Mac
from netfw.model.values.device_names import check_device_name, device_name
from netfw.model.values.ids import PortId
from netfw.plan import Update
from netfw.testing.conformance.common.promises import proves, proves_raise
from netfw.testing.conformance.common.reconciler import ReconcilerConformance
from netfw.testing.conformance.common.side_effects import tells
from netfw.testing.lab.wait import wait_until

OTHER_MTU = 1400
EXAMPLE_PREFIX = "nic"
"""Of the names of examples.  Not ``if``: for ``ip`` and ``tc``, ``if3b5faaea-612`` is the device of
index 3 if none has that name."""


class InterfaceDriverConformance(ReconcilerConformance[PortId, Attachment]):
    """Tests of :class:`InterfaceDriver` and of the contracts that it extends.

    ``actual`` returns the attachment as the host has it: device, MAC, MTU, namespace, up.
    """

    NAMESPACE: ClassVar[str] = "netfw-test"
    HOOKS: ClassVar[tuple[str, ...]] = ("admit", "is_admitted")

    def make_namespace(self, name: str) -> None:
        """Create a network namespace, for drivers that declare the capability ``NAMESPACES``."""
        raise NotImplementedError("override `make_namespace`: the driver declares namespaces")

    def admit(self, port_id: PortId, attachment: Attachment) -> None:
        """Admit the port's traffic, as a switch driver does."""
        raise NotImplementedError("override `admit`")

    def is_admitted(self, port_id: PortId, attachment: Attachment) -> bool:
        """Return whether the port's traffic can pass the switch."""
        raise NotImplementedError("override `is_admitted`")

    def initialized_services(self) -> Collection[Service] | None:
        """Return the services whose mark the host carries; ``None``: it has no marks."""
        return None

    def examples(self, count: int) -> dict[PortId, Attachment]:
        ports = {PortId(uuid4()): Mac(f"fa:16:3e:00:00:{n:02x}") for n in range(1, count + 1)}
        return {
            port: Attachment(device=device_name(EXAMPLE_PREFIX, port), mac=mac)
            for port, mac in ports.items()
        }

    def edge_cases(self, value: Attachment) -> Mapping[str, Attachment]:
        variants = {f"MTU {mtu}": evolve(value, mtu=mtu) for mtu in (*MTU, 1279, 9000)}
        for mac in ("02:00:00:00:00:00", "fe:ff:ff:ff:ff:ff", "00:00:00:00:00:01"):
            variants[f"MAC {mac}"] = evolve(value, mac=Mac(mac))
        if value.netns is not None:
            without_netns = {
                f"{what} here": evolve(odd, netns=None) for what, odd in variants.items()
            }
            variants |= without_netns
        return variants

    def changed(self, value: Attachment) -> Attachment:
        return evolve(value, mac=Mac("fa:16:3e:ff" + value.mac[11:]), up=not value.up)

    @proves(InterfaceDriver, 1)
    @pytest.mark.parametrize("up", [True, False])
    def test_a_device_is_as_desired(self, driver: InterfaceDriver, up: bool) -> None:
        things = {key: evolve(value, up=up) for key, value in self.examples(1).items()}
        self.assert_done(driver.converge(Update(put=things)))
        self.assert_so(things)

    @proves(InterfaceDriver, 1)
    def test_mac_and_state_change_in_place(self, driver: InterfaceDriver) -> None:
        ((key, value),) = self.examples(1).items()
        for wanted in (value, evolve(value, mac=Mac("fa:16:3e:aa:aa:aa")), evolve(value, up=False)):
            self.assert_done(driver.converge(Update(put={key: wanted})))
            self.assert_so({key: wanted})

    @proves(InterfaceDriver, 1)
    def test_the_mtu_changes(self, driver: InterfaceDriver) -> None:
        self.require(driver, InterfaceCapability.MTU_CHANGE)
        ((key, value),) = self.examples(1).items()
        for wanted in (evolve(value, mtu=OTHER_MTU), value, evolve(value, mtu=OTHER_MTU)):
            self.assert_done(driver.converge(Update(put={key: wanted})))
            self.assert_so({key: wanted})

    @proves(InterfaceDriver, 1)
    def test_a_device_appears_in_its_namespace_and_moves(self, driver: InterfaceDriver) -> None:
        self.require(driver, InterfaceCapability.NAMESPACES)
        namespaces = [self.NAMESPACE, f"{self.NAMESPACE}-2"]
        for name in namespaces:
            self.make_namespace(name)
        ((key, value),) = self.examples(1).items()
        for namespace in [*namespaces, None, namespaces[0], None]:
            wanted = evolve(value, netns=namespace, mtu=OTHER_MTU)
            self.assert_done(driver.converge(Update(put={key: wanted})))
            self.assert_so({key: wanted})
            assert driver.devices()[key].name == wanted.device, "`devices` has another name"
        driver.converge(Update(drop=frozenset({key})))
        for namespace in (*namespaces, None):
            self.assert_gone({key: evolve(value, netns=namespace)})

    @proves(InterfaceDriver, 1)
    def test_a_device_can_be_called_otherwise(self, driver: InterfaceDriver) -> None:
        ((key, value),) = self.examples(1).items()
        driver.converge(Update(put={key: value}))
        renamed = evolve(value, device=f"o{value.device[1:]}")
        self.assert_done(driver.converge(Update(put={key: renamed})))
        self.assert_so({key: renamed})
        assert driver.devices()[key].name == renamed.device, "`devices` has the former name"
        assert self.actual(key, value) != value, "the device has its former name as well"

    @proves(InterfaceDriver, 1)
    @pytest.mark.parametrize("name", ["x", "fifteen-letters", "-dash", "dot.ted", "a_b@c", "%d"])
    def test_an_unusual_name_is_applied_or_refused(
        self, driver: InterfaceDriver, name: str
    ) -> None:
        """Check that a name of the model is taken literally or refused for its port alone."""
        (key, value), (other, plain) = self.examples(2).items()
        try:
            strange = evolve(value, device=name)
        except ValueError:
            return  # the model refuses it
        outcome = driver.converge(Update(put={key: strange, other: plain}))
        assert other in outcome.done, f"another port fails with it: {outcome}"
        assert (key in outcome.done) == (self.actual(key, strange) == strange), (
            f"the outcome is not what the host has: {outcome}"
        )

    @proves(InterfaceDriver, 1)
    def test_an_edge_case_is_applied_or_refused_as_a_whole(
        self, driver: HostDriver[PortId, Attachment]
    ) -> None:
        super().test_an_edge_case_is_applied_or_refused_as_a_whole(driver)

    @proves(InterfaceDriver, 2)
    def test_a_new_port_carries_no_traffic(self, driver: InterfaceDriver) -> None:
        things = self.examples(2)
        driver.converge(Update(put=things))
        assert not any(self.is_admitted(key, value) for key, value in things.items()), (
            "a new port carries traffic"
        )

    @proves(InterfaceDriver, 2)
    def test_a_port_that_was_admitted_stays_so(self, driver: InterfaceDriver) -> None:
        ((key, value),) = self.examples(1).items()
        driver.converge(Update(put={key: value}))
        self.admit(key, value)
        before = self.is_admitted(key, value)
        for wanted in (value, self.changed(value)):
            driver.converge(Update(put={key: wanted}))
            assert self.is_admitted(key, wanted) == before, (
                "a change of the port changed its admission"
            )

    @proves(InterfaceDriver, 3)
    def test_a_name_that_another_port_has_is_a_conflict(self, driver: InterfaceDriver) -> None:
        (one, value), (two, other) = self.examples(2).items()
        driver.converge(Update(put={one: value}))
        taken = evolve(other, device=value.device)
        outcome = driver.converge(Update(put={two: taken}))
        assert isinstance(outcome.failed.get(two), Conflict), (
            f"a name of another port is a Conflict, not {outcome}"
        )
        self.assert_so({one: value})
        self.assert_held(driver, {one})

    @proves(InterfaceDriver, 3)
    def test_of_two_ports_with_one_name_one_gets_it(self, driver: InterfaceDriver) -> None:
        (one, value), (two, other) = self.examples(2).items()
        both = {one: value, two: evolve(other, device=value.device)}
        outcome = driver.converge(Update(put=both))
        assert [type(error) for error in outcome.failed.values()] == [Conflict], (
            f"one of the two meets a conflict: {outcome}"
        )
        assert len(outcome.done) == 1, f"one of the two is done: {outcome}"
        self.assert_held(driver, outcome.done)
        self.assert_so({key: both[key] for key in outcome.done})

    @proves(InterfaceDriver, 3)
    def test_a_name_moves_from_port_to_port_in_one_update(self, driver: InterfaceDriver) -> None:
        (one, value), (two, other) = self.examples(2).items()
        driver.converge(Update(put={one: value}))
        successor = evolve(other, device=value.device)
        self.assert_done(driver.converge(Update(put={two: successor}, drop=frozenset({one}))))
        self.assert_so({two: successor})
        self.assert_held(driver, {two})

    @proves(InterfaceDriver, 3)
    def test_two_ports_swap_their_names(self, driver: InterfaceDriver) -> None:
        (one, value), (two, other) = self.examples(2).items()
        driver.converge(Update(put={one: value, two: other}))
        swapped = {
            one: evolve(value, device=other.device),
            two: evolve(other, device=value.device),
        }
        self.assert_done(driver.converge(Update(put=swapped)))
        self.assert_so(swapped)

    @proves(InterfaceDriver, 4)
    def test_a_missing_namespace_concerns_its_port_alone(self, driver: InterfaceDriver) -> None:
        knows = InterfaceCapability.NAMESPACES in driver.describe().capabilities
        (one, value), (two, other) = self.examples(2).items()
        lost = evolve(value, netns=f"{self.NAMESPACE}-no")
        outcome = driver.converge(Update(put={one: lost, two: other}))
        assert isinstance(outcome.failed.get(one), NotFound if knows else NotSupported), outcome
        assert outcome.done == {two}, f"the other port is done: {outcome}"
        self.assert_so({two: other})
        self.assert_held(driver, {two})

    @proves(InterfaceDriver, 5)
    def test_devices_are_what_is_present_on_the_host(self, driver: InterfaceDriver) -> None:
        things = self.examples(3)
        driver.converge(Update(put=things))
        devices = driver.devices()
        assert devices.keys() == driver.present() == things.keys(), (
            "`devices`, `present` and the update name different ports"
        )
        assert {key: device.name for key, device in devices.items()} == {
            key: value.device for key, value in things.items()
        }
        assert {key: driver.device(key) for key in things} == devices, (
            "`device` differs from `devices`"
        )
        assert driver.device(PortId(uuid4())) is None, "an unknown port has a device"
        assert {key: device.mac for key, device in devices.items()} == {
            key: value.mac for key, value in things.items()
        }

    @proves(InterfaceDriver, 5)
    def test_a_wired_device_is_one_that_was_admitted(self, driver: InterfaceDriver) -> None:
        ((key, value),) = self.examples(1).items()
        driver.converge(Update(put={key: value}))
        assert driver.devices()[key].wired in (False, None), (
            "a device is wired before its port is admitted"
        )
        self.admit(key, value)
        wanted = self.is_admitted(key, value)
        assert driver.devices()[key].wired in (wanted, None), "`wired` is not what the switch does"

    @proves(InterfaceDriver, 5)
    def test_a_change_of_wired_is_announced(self, driver: InterfaceDriver) -> None:
        self.require(driver, HostCapability.WATCH)
        ((key, value),) = self.examples(1).items()
        driver.converge(Update(put={key: value}))
        if driver.devices()[key].wired is None:
            pytest.skip("the dataplane does not tell which ports are wired")
        events: list[Event] = []
        driver.watch(events.append)
        self.admit(key, value)
        wait_until(
            lambda: any(isinstance(e, KeysChanged) and key in e.keys for e in events),
            f"promise 5 of InterfaceDriver: {key} was admitted, and `watch` announced nothing",
            seconds=self.REMOVAL_TIMEOUT,
        )

    @proves(HostDriver, 9)
    def test_a_driver_that_watches_announces_what_vanishes(self, driver: InterfaceDriver) -> None:
        self.require(driver, HostCapability.WATCH)
        events: list[Event] = []
        driver.watch(events.append)
        ((key, value),) = self.examples(1).items()
        self.assert_done(driver.converge(Update(put={key: value})))
        events.clear()
        self.vanish(key, value)
        wait_until(
            lambda: any(tells(event, key) for event in events),
            f"promise 9 of HostDriver: {key} vanished from the host, and `watch` announced nothing",
            seconds=self.REMOVAL_TIMEOUT,
        )

    @proves(InterfaceDriver, 7)
    def test_names_of_devices_tell_ports_and_uses_apart(
        self, driver: InterfaceDriver, make_driver: Callable[[], InterfaceDriver]
    ) -> None:
        uses = [(port, prefix) for port in self.examples(2) for prefix in ("tap", "qr-", "qg-")]
        names = [driver.device_name(port, prefix) for port, prefix in uses]
        assert len(set(names)) == len(uses), f"two uses have one name: {names}"
        for each in (driver, make_driver()):
            again = [each.device_name(port, prefix) for port, prefix in uses]
            assert again == names, (
                f"promise 7 of InterfaceDriver: the same ports were named {names} and are {again}"
            )
        for (port, prefix), name in zip(uses, names, strict=True):
            try:
                check_device_name(name)
            except ValueError as error:
                raise AssertionError(f"promise 7 of InterfaceDriver: {error}") from error
            assert str(port)[:11] in name, f"{name} does not tell its port"
            assert prefix == "tap" or name.startswith(prefix), f"{name} does not tell its use"

    @proves(InterfaceDriver, 6)
    def test_a_mark_changes_no_port_and_can_be_repeated(
        self, driver: InterfaceDriver, make_driver: Callable[[], InterfaceDriver]
    ) -> None:
        things = self.examples(2)
        driver.converge(Update(put=things))
        before = driver.devices()
        for each in (driver, driver, make_driver()):
            each.mark_initialized(Service.L3)
            marked = self.initialized_services()
            assert marked is None or Service.L3 in marked, "the mark is not on the host"
        assert driver.devices() == before, "the mark changed a port"
        self.assert_so(things)
        marked = self.initialized_services()
        assert not marked or Service.DHCP not in marked, "a service that did not ask is marked"

    @proves_raise(InterfaceDriver, "mark_initialized", BackendUnavailable)
    def test_mark_initialized_raises_when_the_backend_is_unreachable(
        self, driver: InterfaceDriver
    ) -> None:
        if type(driver).mark_initialized is InterfaceDriver.mark_initialized:
            pytest.skip("the driver has no mark")
        with self.outage(), pytest.raises(BackendUnavailable):
            driver.mark_initialized(Service.L3)

    @proves_raise(InterfaceDriver, "devices", BackendUnavailable)
    def test_devices_raises_when_the_backend_is_unreachable(self, driver: InterfaceDriver) -> None:
        driver.devices()
        with self.outage(), pytest.raises(BackendUnavailable):
            driver.devices()

    @proves_raise(InterfaceDriver, "device", BackendUnavailable)
    def test_device_raises_when_the_backend_is_unreachable(self, driver: InterfaceDriver) -> None:
        (key,) = things = self.examples(1)
        driver.converge(Update(put=things))
        with self.outage(), pytest.raises(BackendUnavailable):
            driver.device(key)


CONTRACTS = (Driver, HostDriver, InterfaceDriver)
"""The contracts that the suite tests, besides `Reconciler` where the driver is one."""
