"""The suite that every mechanism driver passes.

In your own tests, with plain pytest::

    class TestMyDriver(MechanismDriverConformance):
        @contextmanager
        def make_environment(self) -> Iterator[MechanismEnvironment]:
            device = MyDevice()
            yield MechanismEnvironment(
                make=lambda: MyDriver(device), dump_state=device.dump, outage=device.gone
            )

        def bindable(self) -> BindingRequest | None:
            return request(port, my_agent, segments=my_segments)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import ClassVar

import pytest
from attrs import evolve, field, frozen

from netfw.drivers.base import Driver
from netfw.drivers.server.change import Change
from netfw.drivers.server.mechanism import (
    Binding,
    BindingRequest,
    Bound,
    MechanismCapability,
    MechanismDriver,
    Partial,
    Refused,
)
from netfw.errors import BackendUnavailable, NetfwError, RequestError
from netfw.model.binding import VifDetails, VifType, VnicType
from netfw.model.values.json_document import JsonDocument
from netfw.testing.conformance.common.call_counter import count_calls
from netfw.testing.conformance.common.driver_rules import DriverConformance
from netfw.testing.conformance.common.promises import proves, proves_raise
from netfw.testing.conformance.server import mechanism_samples as samples

UNBOUND = frozenset({"", VifType.UNBOUND, VifType.BINDING_FAILED})
"""VIF types of ports that are not bound."""
EFFORT = 50_000
"""Calls of functions that one answer within a transaction may take."""


def _empty() -> Hashable:
    return None


@frozen(kw_only=True)
class MechanismEnvironment:
    """An empty backend."""

    make: Callable[[], MechanismDriver]
    """Makes drivers for it, each as in its own server process."""
    dump_state: Callable[[], Hashable] = field(default=_empty)
    """Reads the backend's whole state without the driver; omitted if there is no backend."""
    outage: Callable[[], AbstractContextManager[None]] | None = None
    """A context in which the backend does not answer."""


class MechanismDriverConformance(DriverConformance):
    """One test or more per promise of :class:`MechanismDriver`."""

    HOOKS: ClassVar[tuple[str, ...]] = ("make_environment", "bindable")

    def make_environment(self) -> AbstractContextManager[MechanismEnvironment]:
        """Return a context with a separate backend, for one history."""
        raise NotImplementedError("override make_environment(); see the module's docstring")

    def bindable(self) -> BindingRequest | None:
        """Return a request that the driver accepts; ``None``: it refuses all."""
        raise NotImplementedError("override `bindable`")

    def unacceptable(self) -> Change | None:
        """Return a change that ``check`` refuses; ``None``: it accepts all."""
        return None

    def undeliverable(self) -> Change | None:
        """Return a change that the backend refuses permanently; ``None``: it accepts all."""
        return None

    def changes(self) -> Iterator[Change]:
        """Yield the creation, change and deletion of a network, a subnet and a port."""
        for first, second, third in samples.HISTORIES:
            yield samples.change(None, first)
            yield samples.change(first, second)
            yield samples.change(second, third)
        for *_, last in reversed(samples.HISTORIES):
            yield samples.change(last, None)

    def requests(self) -> Iterator[BindingRequest]:
        """Yield binding requests of many kinds, including some that no driver can fulfil."""
        dead = evolve(samples.AGENT, alive=False)
        other = evolve(samples.AGENT, agent_type="DHCP agent", configurations=JsonDocument())
        own = self.bindable()
        if own is not None:
            yield own
            yield evolve(own, agents=())
            yield evolve(own, segments=())
            yield evolve(own, agents=tuple(evolve(agent, alive=False) for agent in own.agents))
        for agents in ((), (dead,), (other,), (samples.AGENT,), (dead, other, samples.AGENT)):
            for segments in ((), samples.SEGMENTS, samples.EVERY_TYPE):
                yield samples.request(samples.PORT, *agents, segments=segments)
        for vnic in VnicType:
            port = evolve(samples.PORT, binding=evolve(samples.PORT.binding, vnic_type=vnic))
            yield samples.request(port, samples.AGENT, segments=samples.EVERY_TYPE)

    @contextmanager
    def maker(self) -> Iterator[Callable[[], MechanismDriver]]:
        with self.make_environment() as at:
            yield at.make

    def use(self, driver: Driver) -> None:
        assert isinstance(driver, MechanismDriver), f"{driver!r} is no mechanism driver"
        for change in self.changes():
            driver.validate(change)
            driver.deliver(change)
        for request in self.requests():
            driver.bind(request)

    @proves(MechanismDriver, 1)
    def test_checking_changes_nothing_and_can_be_repeated(self) -> None:
        with self.make_environment() as at:
            driver, before = at.make(), at.dump_state()
            for change in self.changes():
                for _ in range(2):
                    count_calls(partial(driver.validate, change), EFFORT)
            assert at.dump_state() == before, "`validate` changed the backend"

    @proves(MechanismDriver, 1)
    @proves_raise(MechanismDriver, "validate", RequestError)
    def test_what_cannot_be_is_refused_before_it_is_committed(self) -> None:
        change = self.unacceptable()
        if change is None:
            pytest.skip("the driver accepts every change")
        with self.make_environment() as at:
            driver, before = at.make(), at.dump_state()
            for _ in range(2):
                with pytest.raises(RequestError) as refusal:
                    driver.validate(change)
                assert str(refusal.value), "the refusal has no text"
            assert at.dump_state() == before, "a refused change is in the backend"

    @proves(MechanismDriver, 1)
    def test_checking_works_while_the_backend_does_not_answer(self) -> None:
        with self.make_environment() as at:
            driver = at.make()
            with self.outage(at):
                for change in self.changes():
                    driver.validate(change)

    @proves(MechanismDriver, 2)
    def test_binding_is_pure(self) -> None:
        with self.make_environment() as at:
            one, other, before = at.make(), at.make(), at.dump_state()
            for request in (*self.requests(), *self.requests()):
                assert one.bind(request) == one.bind(request) == other.bind(request), (
                    f"`bind` has another answer when it is called again: {request}"
                )
            assert at.dump_state() == before, "`bind` changed the backend"

    @proves(MechanismDriver, 2)
    def test_a_binding_is_to_a_segment_that_was_offered(self) -> None:
        with self.make_environment() as at:
            driver = at.make()
            for request in self.requests():
                answer = driver.bind(request)
                assert isinstance(answer, Bound | Partial | Refused), f"{answer!r} is no answer"
                if not isinstance(answer, Refused):
                    assert answer.segment in {segment.id for segment in request.segments}, (
                        f"promise 2 of MechanismDriver: {answer} is not of an offered segment"
                    )

    @proves(MechanismDriver, 7)
    def test_a_binding_names_its_vif(self) -> None:
        with self.make_environment() as at:
            driver = at.make()
            for request in self.requests():
                answer = driver.bind(request)
                if isinstance(answer, Bound):
                    assert answer.vif_type.strip() not in UNBOUND, (
                        f"promise 7 of MechanismDriver: {answer!r} names no VIF that can be plugged"
                    )
                    assert isinstance(answer.vif_details, VifDetails), (
                        f"promise 7 of MechanismDriver: {answer.vif_details!r} are no VifDetails"
                    )

    @proves(MechanismDriver, 7)
    def test_a_dead_agent_gets_no_ports(self) -> None:
        request = self.bindable()
        if request is None or not request.agents:
            pytest.skip("the driver binds nothing, or without an agent")
        dead = evolve(request, agents=tuple(evolve(a, alive=False) for a in request.agents))
        with self.make_environment() as at:
            driver = at.make()
            for missing in (dead, evolve(request, agents=())):
                answer = driver.bind(missing)
                assert isinstance(answer, Refused), (
                    f"promise 7 of MechanismDriver: a port is bound to an agent that is dead or "
                    f"missing: {answer}"
                )

    @proves(MechanismDriver, 2)
    def test_what_the_driver_is_for_is_bound(self) -> None:
        request = self.bindable()
        if request is None:
            pytest.skip("the driver binds nothing")
        with self.make_environment() as at:
            answer: Binding = at.make().bind(request)
            assert not isinstance(answer, Refused), answer.reason

    @proves(MechanismDriver, 3)
    def test_revisions_that_were_left_out_do_not_matter(self) -> None:
        for count in range(len(samples.HISTORIES)):
            others, (first, _, third) = samples.HISTORIES[:count], samples.HISTORIES[count]
            with self.make_environment() as at, self.make_environment() as straight:
                driver = self.prepared(at, others)
                driver.deliver(samples.change(None, first))
                driver.deliver(samples.change(first, third))
                self.prepared(straight, others).deliver(samples.change(None, third))
                assert at.dump_state() == straight.dump_state(), (
                    f"a delivery after a revision that was left out has another result: {third}"
                )

    @proves(MechanismDriver, 3)
    def test_an_unrecorded_delivery_is_repeated_without_harm(self) -> None:
        """Check a repeated delivery: the process died before it recorded the first one."""
        for count in range(len(samples.HISTORIES)):
            others, (first, _, third) = samples.HISTORIES[:count], samples.HISTORIES[count]
            with self.make_environment() as at, self.make_environment() as straight:
                driver = self.prepared(at, others)
                driver.deliver(samples.change(None, first))
                driver.deliver(samples.change(None, third))
                self.prepared(straight, others).deliver(samples.change(None, third))
                assert at.dump_state() == straight.dump_state(), (
                    f"a repeated delivery has another result: {third}"
                )

    @proves(MechanismDriver, 4)
    def test_delivering_twice_is_delivering_once(self) -> None:
        with self.make_environment() as at, self.make_environment() as once:
            driver, other = at.make(), once.make()
            for change in self.changes():
                other.deliver(change)
                for _ in range(2):
                    driver.deliver(change)
                    assert at.dump_state() == once.dump_state(), (
                        f"a repeated delivery has another result: {change}"
                    )

    @proves(MechanismDriver, 4)
    def test_what_is_gone_leaves_nothing_and_can_go_again(self) -> None:
        with self.make_environment() as at:
            driver, before = at.make(), at.dump_state()
            for first, *_ in samples.HISTORIES:
                driver.deliver(samples.change(None, first))
            for _ in range(2):
                for first, *_ in reversed(samples.HISTORIES):
                    driver.deliver(samples.change(first, None))
                assert at.dump_state() == before, "what was deleted is in the backend"
            for first, *_ in samples.HISTORIES:
                at.make().deliver(samples.change(first, None))
            assert at.dump_state() == before, "what was deleted is in the backend"

    @proves(MechanismDriver, 4)
    @proves_raise(MechanismDriver, "deliver", BackendUnavailable)
    def test_an_unreachable_backend_is_reported_and_served_later(self) -> None:
        """Accept success for a change that the driver does not carry: it has no effect later."""
        with self.make_environment() as at, self.make_environment() as straight:
            driver, other = at.make(), straight.make()
            reported = 0
            for change in self.changes():
                with self.outage(at):
                    is_reported = self.reports_outage(driver, change)
                before = straight.dump_state()
                other.deliver(change)
                assert is_reported or straight.dump_state() == before, (
                    f"BackendUnavailable of MechanismDriver.deliver: it did not raise while the "
                    f"backend was away, and it carries {change}"
                )
                reported += is_reported
                driver.deliver(change)
                assert at.dump_state() == straight.dump_state(), (
                    f"promise 4 of MechanismDriver: after an outage the backend lacks {change}"
                )
            assert reported, "no change raised BackendUnavailable while the backend was away"

    @proves(MechanismDriver, 4)
    @proves_raise(MechanismDriver, "deliver", NetfwError)
    def test_a_permanent_refusal_of_the_backend_is_reported(self) -> None:
        change = self.undeliverable()
        if change is None:
            pytest.skip("the backend takes every change")
        with self.make_environment() as at:
            driver, before = at.make(), at.dump_state()
            with pytest.raises(NetfwError) as refusal:
                driver.deliver(change)
            assert not refusal.value.retryable, "a permanent refusal is to be retried"
            assert at.dump_state() == before, "a refused change is in the backend"

    @proves(MechanismDriver, 5)
    def test_any_process_can_go_on(self) -> None:
        with self.make_environment() as at, self.make_environment() as straight:
            alone = straight.make()
            for change in self.changes():
                at.make().deliver(change)
                alone.deliver(change)
                assert at.dump_state() == straight.dump_state(), (
                    f"a delivery by another driver object has another result: {change}"
                )

    @proves(MechanismDriver, 6)
    def test_a_driver_with_a_backend_declares_that_it_delivers(self) -> None:
        with self.make_environment() as at:
            driver, before = at.make(), at.dump_state()
            for first, *_ in samples.HISTORIES:
                driver.deliver(samples.change(None, first))
            declared = MechanismCapability.DELIVERS in driver.describe().capabilities
            if declared:
                assert at.dump_state is _empty or at.dump_state() != before, (
                    "it declares `delivers` and delivers nothing"
                )
            else:
                assert at.dump_state() == before, "it delivers and does not declare `delivers`"

    def prepared(
        self, at: MechanismEnvironment, histories: tuple[tuple[samples.RecordedChange, ...], ...]
    ) -> MechanismDriver:
        """Return a driver that has delivered the newest of each history."""
        driver = at.make()
        for *_, last in histories:
            driver.deliver(samples.change(None, last))
        return driver

    def reports_outage(self, driver: MechanismDriver, change: Change) -> bool:
        """Return whether *driver* raises ``BackendUnavailable`` for *change*."""
        try:
            driver.deliver(change)
        except BackendUnavailable:
            return True
        return False

    def outage(self, at: MechanismEnvironment) -> AbstractContextManager[None]:
        """Return the backend's outage, if there is one."""
        if at.outage is None:
            pytest.skip("the driver has no backend that could be away")
        return at.outage()


CONTRACTS = (Driver, MechanismDriver)
"""The contracts that the suite tests."""
