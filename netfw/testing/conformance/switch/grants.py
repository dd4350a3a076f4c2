"""The switch suite: grants of extensions, and their limits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from attrs import evolve

from netfw import flows as of
from netfw.drivers.switch import SwitchCapability, SwitchDriver
from netfw.drivers.values.keys import ExtensionKey
from netfw.drivers.values.pipeline_grant import (
    Grant,
    GrantRequest,
    PipelineHook,
    RegisterRequest,
    TableRequest,
)
from netfw.drivers.values.switch_contribution import SwitchContribution
from netfw.drivers.values.switch_values import SwitchKey, Wiring
from netfw.errors import ConfigError, NetfwError, NotSupported
from netfw.plan import Update
from netfw.testing.conformance.common.promises import proves, proves_raise
from netfw.testing.conformance.switch.case import MakeDriver, SwitchCase
from netfw.testing.conformance.switch.environment import SwitchTestPort, a_network, among, wanted

FIRST = GrantRequest(
    owner="ears",
    tables=(TableRequest(name="hear", hook=PipelineHook.FROM_PORT), TableRequest(name="more")),
    registers=(RegisterRequest("ear", 4),),
)
LONG = bytes(65_536)
"""Longer than any message of OpenFlow."""
SECOND = GrantRequest(
    owner="eyes",
    tables=(TableRequest(name="see", hook=PipelineHook.FROM_PORT), TableRequest(name="look")),
    registers=(RegisterRequest("eye", 12), RegisterRequest("lid", 1)),
)


def bits(grant: Grant) -> Iterator[tuple[int | None, int]]:
    for given in grant.registers.values():
        yield from ((given.register, given.first + n) for n in range(given.bits))


class SwitchGrantsConformance(SwitchCase):
    """Promise 8, and the errors of `grant`."""

    @proves(SwitchDriver, 8)
    def test_grants_do_not_overlap(self, driver: SwitchDriver) -> None:
        self.require(driver, SwitchCapability.FLOWS)
        first, second = driver.grant(FIRST), driver.grant(SECOND)
        numbers = [table.number for grant in (first, second) for table in grant.tables.values()]
        assert len(set(numbers)) == 4
        every = [*bits(first), *bits(second)]
        assert len(every) == len(set(every)) == 17
        mask = first.cookie_mask & second.cookie_mask
        assert first.cookie & mask != second.cookie & mask
        assert first.prefix != second.prefix

    @proves(SwitchDriver, 8)
    def test_grants_are_the_same_again(self, driver: SwitchDriver, make_driver: MakeDriver) -> None:
        self.require(driver, SwitchCapability.FLOWS)
        before = [driver.grant(request) for request in (FIRST, SECOND)]
        assert [driver.grant(request) for request in (FIRST, SECOND)] == before
        assert [driver.grant(request) for request in (SECOND, FIRST)] == before[::-1]
        successor = make_driver()
        assert [successor.grant(request) for request in (FIRST, SECOND)] == before

    @proves(SwitchDriver, 8)
    def test_granting_touches_nothing(self, driver: SwitchDriver) -> None:
        self.require(driver, SwitchCapability.FLOWS)
        before = self.environment.dump_state().keys()
        driver.grant(FIRST)
        assert self.environment.dump_state().keys() == before

    @proves_raise(SwitchDriver, "grant", NotSupported)
    def test_an_unsupported_grant_request_is_refused(self, driver: SwitchDriver) -> None:
        with pytest.raises(NotSupported):
            driver.grant(self.environment.unsupported_request())

    @proves_raise(SwitchDriver, "grant", ConfigError)
    def test_exhaustion_names_the_owners_of_grants(self, driver: SwitchDriver) -> None:
        self.require(driver, SwitchCapability.FLOWS)
        tables = tuple(TableRequest(name=f"t{n}") for n in range(4))

        def request_all() -> None:
            for number in range(300):
                driver.grant(GrantRequest(owner=f"greedy{number}", tables=tables))

        with pytest.raises(ConfigError, match="greedy0"):
            request_all()

    def granted(self, driver: SwitchDriver) -> tuple[Grant, tuple[SwitchTestPort, SwitchTestPort]]:
        """Grant two extensions, without flows yet; return the first grant and two live ports."""
        self.require(driver, SwitchCapability.FLOWS)
        grant = driver.grant(FIRST)
        driver.grant(SECOND)
        net = a_network()
        one, two = self.make_ports(net, 2)
        self.wire(driver, net, one, two)
        return grant, (one, two)

    def added(self, port: SwitchTestPort, *flows: of.Flow, owner: str = "ears") -> Wiring:
        return evolve(port.wiring(), contributions=(SwitchContribution(owner=owner, flows=flows),))

    def flow(
        self, driver: SwitchDriver, grant: Grant, port: SwitchTestPort, *actions: of.Action
    ) -> of.Flow:
        """Return the flow for packets that *port* sends."""
        number = driver.devices()[port.id].ofport
        assert number is not None
        return of.Flow(
            table=grant.tables["hear"].number,
            priority=10,
            match=of.in_port(number),
            actions=actions,
            cookie=grant.cookie,
        )

    @proves(SwitchDriver, 8)
    def test_what_an_extension_is_silent_about_goes_on(self, driver: SwitchDriver) -> None:
        _, (one, two) = self.granted(driver)
        with self.environment.probe_traffic(one, two) as probe:
            self.assert_exchange(probe, among(one, two))

    @proves(SwitchDriver, 8)
    def test_an_addition_is_in_force_and_gone_with_its_port(self, driver: SwitchDriver) -> None:
        grant, (one, two) = self.granted(driver)
        drop = self.flow(driver, grant, one)
        before = self.environment.dump_state().keys()
        with self.environment.probe_traffic(one, two) as probe:
            self.bring(driver, Update(put={one.key: self.added(one, drop)}))
            self.assert_exchange(probe, {(two, one)})
            self.wire(driver, one)
            self.assert_exchange(probe, among(one, two))
            assert self.environment.dump_state().keys() ^ before == frozenset()
            self.bring(driver, Update(put={one.key: self.added(one, drop)}))
            self.bring(driver, Update(drop=frozenset({one.key})))
            self.wire(driver, one)
            self.assert_exchange(probe, among(one, two))

    @proves(SwitchDriver, 8)
    def test_an_addition_for_a_network_concerns_all_its_ports_and_no_others(
        self, driver: SwitchDriver
    ) -> None:
        grant, (one, two) = self.granted(driver)
        net = a_network()
        others = self.make_ports(net, 2)
        self.wire(driver, net, *others)
        drop = evolve(self.flow(driver, grant, one), match=of.ANYTHING)
        silent = SwitchContribution(owner="ears", network_flows=(drop,))
        with self.environment.probe_traffic(one, two, *others) as probe:
            self.bring(driver, Update(put={one.key: evolve(one.wiring(), contributions=(silent,))}))
            self.assert_exchange(probe, among(*others))
            self.wire(driver, one)
            self.assert_exchange(probe, among(one, two) | among(*others))

    @proves(SwitchDriver, 8)
    def test_an_addition_can_use_what_it_was_granted(self, driver: SwitchDriver) -> None:
        grant, (one, two) = self.granted(driver)
        hear, more, ear = grant.tables["hear"], grant.tables["more"], grant.registers["ear"]
        assert hear.then is not None
        assert ear.register is not None
        mark = of.RegisterField(ear.register, ear.first, ear.first + ear.bits - 1, "heard")
        first = self.flow(driver, grant, one, of.load(mark, 5), of.Resubmit(table=more.number))
        then = evolve(
            first,
            table=more.number,
            match=first.match & mark.is_(5),
            actions=(of.Resubmit(table=hear.then),),
        )
        with self.environment.probe_traffic(one, two) as probe:
            self.bring(driver, Update(put={one.key: self.added(one, first)}))
            self.assert_exchange(probe, {(two, one)})
            self.bring(driver, Update(put={one.key: self.added(one, first, then)}))
            self.assert_exchange(probe, among(one, two))

    @proves(SwitchDriver, 8)
    def test_an_addition_outside_its_grant_is_refused_for_its_port_alone(
        self, driver: SwitchDriver
    ) -> None:
        grant, (one, two) = self.granted(driver)
        other = driver.grant(SECOND)
        fine = self.flow(driver, grant, one)
        eye = other.registers["eye"]
        assert eye.register is not None
        bit = of.RegisterField(eye.register, eye.first, eye.first, "not its own")
        before = self.environment.dump_state()
        trespasses = {
            "a table of the switch": self.added(one, evolve(fine, table=0)),
            "a table of another": self.added(one, evolve(fine, table=other.tables["see"].number)),
            "a cookie of another": self.added(one, evolve(fine, cookie=other.cookie)),
            "bits of another": self.added(one, evolve(fine, actions=(of.load(bit, 1),))),
            "nobody's": self.added(one, fine, owner="nobody"),
            "too long": self.added(one, evolve(fine, actions=(of.controller(userdata=LONG),))),
            "too many": self.added(one, evolve(fine, actions=(of.output(7),) * 5000)),
            "one of two": self.added(one, fine, evolve(fine, table=0, priority=11)),
        }
        with self.environment.probe_traffic(one, two) as probe:
            for name, wiring in trespasses.items():
                outcome = driver.converge(Update(put={one.key: wiring, **wanted(two)}))
                error = outcome.failed.get(one.key)
                assert isinstance(error, NetfwError), name
                assert wiring.contributions[0].owner in str(error), name
                assert outcome.failed.keys() == {one.key}, name
                assert outcome.done == {two.key}, name
                assert self.environment.dump_state().keys() ^ before.keys() == frozenset(), name
                self.assert_exchange(probe, among(one, two))

    @proves(SwitchDriver, 8)
    def test_an_addition_that_belongs_to_no_port(
        self, driver: SwitchDriver, make_driver: MakeDriver
    ) -> None:
        grant, (one, two) = self.granted(driver)
        key: SwitchKey = ExtensionKey("ears")
        everything = evolve(self.flow(driver, grant, one), match=of.ANYTHING)
        with self.environment.probe_traffic(one, two) as probe:
            addition = SwitchContribution(owner="ears", flows=(everything,))
            self.bring(driver, Update(put={key: addition}))
            self.assert_exchange(probe)
            assert key in driver.present()
            successor = make_driver()
            for request in (FIRST, SECOND):
                successor.grant(request)
            assert key in successor.present()
            self.bring(successor, Update(drop=frozenset({key})))
            self.assert_exchange(probe, among(one, two))
            assert key not in successor.present()
