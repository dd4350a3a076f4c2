"""The suite that every L2 extension passes.

In your own tests, with plain pytest::

    class TestMyExtension(L2ExtensionConformance):
        def make_extension(self) -> L2Extension:
            return MyExtension()

        def ports(self) -> Sequence[ExtendedPort]:
            return [ExtendedPort(port=PORT, network=NETWORK, device=DEVICE, related=(POLICY,))]

Promises about the order and the failure of calls are the agent's; whether a switch accepts the
flows is asked of the switch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import combinations
from typing import ClassVar

from netfw import flows as of
from netfw.drivers.agent_extension import AgentExtension
from netfw.drivers.base import Driver
from netfw.drivers.l2_extension import ExtendedPort, L2Extension
from netfw.drivers.values.pipeline_grant import (
    Grant,
    GrantRequest,
    PipelineHook,
    RegisterGrant,
    TableGrant,
)
from netfw.drivers.values.switch_contribution import SwitchContribution
from netfw.flows.action import NO_TABLE
from netfw.testing.conformance.common.driver_rules import DriverConformance
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.watch.io_events import observed_io

COOKIE, COOKIE_MASK = 0x5EED << 32, 0xFFFFFFFF << 32
FIRST_TABLE, FIRST_REGISTER = 100, 9
PORTS = 1 << 16
"""Numbers of ports, and so the distance between the meters of a grant."""


class L2ExtensionConformance(DriverConformance):
    """Tests of the promises of :class:`L2Extension` that the extension itself keeps."""

    HOOKS: ClassVar[tuple[str, ...]] = ("make_extension", "ports")

    def make_extension(self) -> L2Extension:
        """Return an extension; every call makes one of the same configuration."""
        raise NotImplementedError("override `make_extension`")

    def ports(self) -> Sequence[ExtendedPort]:
        """Return ports with different ids and numbers; the extension contributes something to at
        least two of them."""
        raise NotImplementedError("override `ports`; see the module's docstring")

    def contribute(
        self, extension: L2Extension, ports: Sequence[ExtendedPort]
    ) -> dict[object, SwitchContribution | None]:
        """Return the contribution to each of *ports*, by its id, and the base by ``None``."""
        grant = make_grant(extension.grant_request())
        made: dict[object, SwitchContribution | None] = {None: extension.contribute_base(grant)}
        for each in ports:
            made[each.port.id] = extension.contribute(each.port.id, each, grant)
        return made

    def contributions(self) -> list[tuple[ExtendedPort, SwitchContribution]]:
        """Return the ports with contributions, of which there must be two."""
        made = self.contribute(self.make_extension(), ports := self.ports())
        found = [(p, each) for p in ports if (each := made[p.port.id]) is not None]
        assert len(found) >= 2, "two ports are needed to which the extension contributes something"
        return found

    def _all_contributions(self) -> list[SwitchContribution]:
        """Return the base, if there is one, and the contributions to ports."""
        extension = self.make_extension()
        base = extension.contribute_base(make_grant(extension.grant_request()))
        ports = [each for _, each in self.contributions()]
        return ports if base is None else [base, *ports]

    def maker(self) -> AbstractContextManager[Callable[[], L2Extension]]:
        return nullcontext(self.make_extension)

    def use(self, driver: Driver) -> None:
        assert isinstance(driver, L2Extension), f"{driver!r} is no L2 extension"
        self.contribute(driver, self.ports())

    @proves(AgentExtension, 1)
    def test_the_grant_request_is_constant(self) -> None:
        extension = self.make_extension()
        first = extension.grant_request()
        self.contribute(extension, self.ports())
        assert extension.grant_request() == first == self.make_extension().grant_request()

    @proves(AgentExtension, 2)
    def test_equal_ports_get_equal_contributions_in_any_order(self) -> None:
        ports = self.ports()
        extension = self.make_extension()
        first = self.contribute(extension, ports)
        assert self.contribute(extension, ports) == first, "the second call differs"
        backwards = self.contribute(self.make_extension(), ports[::-1])
        assert backwards == first, "the order of calls matters"

    @proves(AgentExtension, 2)
    def test_contributions_are_made_without_input_or_output(self) -> None:
        extension, ports = self.make_extension(), self.ports()
        self.contribute(extension, ports)  # what is imported late is imported now
        with observed_io() as events:
            self.contribute(extension, ports)
        assert not events, f"contribute touched files, sockets or processes: {events[:5]}"

    @proves(AgentExtension, 3)
    def test_contributions_are_of_their_owner_and_of_the_right_types(self) -> None:
        owner = self.make_extension().grant_request().owner
        for contribution in self._all_contributions():
            assert contribution.owner == owner, f"{contribution.owner!r} is not {owner!r}"
            assert isinstance(contribution.flows, tuple), f"{contribution.flows!r} is no tuple"
            assert all(isinstance(each, of.Flow) for each in _flows(contribution)), "no flows"

    @proves(AgentExtension, 3)
    def test_flows_are_in_granted_tables_and_have_the_granted_cookie(self) -> None:
        grant = make_grant(self.make_extension().grant_request())
        tables = {table.number for table in grant.tables.values()}
        for contribution in self._all_contributions():
            for flow in _flows(contribution):
                assert flow.table in tables, f"table {flow.table} is not granted: {flow}"
                assert flow.cookie & grant.cookie_mask == grant.cookie, f"a foreign cookie: {flow}"

    @proves(AgentExtension, 3)
    def test_packets_go_on_in_granted_tables_or_behind_them(self) -> None:
        grant = make_grant(self.make_extension().grant_request())
        onward = {NO_TABLE}
        for table in grant.tables.values():
            onward |= {table.number} | (set() if table.then is None else {table.then})
        for contribution in self._all_contributions():
            for flow in _flows(contribution):
                for number in _next_tables(flow):
                    assert number in onward, f"table {number} is not granted: {flow}"

    @proves(AgentExtension, 3)
    def test_meters_are_granted_ones_of_the_port_and_have_a_limit(self) -> None:
        grant = make_grant(self.make_extension().grant_request())
        for view, contribution in self.contributions():
            number = view.device.ofport or 0
            own = {first + number for first in grant.meters}
            limits: dict[int, of.RateLimit] = {}
            for flow in _flows(contribution):
                for meter, limit in _meters(flow):
                    assert meter in own, f"meter {meter} is not one of {sorted(own)}: {flow}"
                    assert limit is not None, f"meter {meter} has no limit: {flow}"
                    assert limits.setdefault(meter, limit) == limit, f"meter {meter} has two limits"

    @proves(L2Extension, 2)
    def test_ports_share_no_flow(self) -> None:
        for (one, first), (two, second) in combinations(self.contributions(), 2):
            shared = {flow.identity for flow in first.flows} & {
                flow.identity for flow in second.flows
            }
            if one.port.network_id == two.port.network_id:
                shared |= {flow.identity for flow in first.network_flows} & {
                    flow.identity for flow in second.network_flows
                }
            assert not shared, f"{one.port.id} and {two.port.id} have one flow: {shared}"


def _flows(contribution: SwitchContribution) -> tuple[of.Flow, ...]:
    return (*contribution.flows, *contribution.network_flows)


def make_grant(request: GrantRequest) -> Grant:
    """Return a grant as switch drivers give it: tables, register bits, a cookie and meters."""
    tables, number = {}, FIRST_TABLE
    for wanted in request.tables:
        hooked = wanted.hook not in {None, PipelineHook.DROPPED}
        tables[wanted.name] = TableGrant(number=number, then=number + 1 if hooked else None)
        number += 2
    registers = {
        wanted.name: RegisterGrant(register=FIRST_REGISTER + at, first=0, bits=wanted.bits)
        for at, wanted in enumerate(request.registers)
    }
    return Grant(
        owner=request.owner,
        cookie=COOKIE,
        cookie_mask=COOKIE_MASK,
        prefix=f"{request.owner}-",
        tables=tables,
        registers=registers,
        meters=tuple(PORTS * at for at in range(request.meters)),
    )


def _next_tables(flow: of.Flow) -> Iterator[int]:
    for action in flow.actions:
        match action:
            case of.Resubmit(table=number) | of.GotoTable(table=number) | of.Ct(table=number):
                yield number
            case of.Learn(table=number):
                yield number


def _meters(flow: of.Flow) -> Iterator[tuple[int, of.RateLimit | None]]:
    for action in flow.actions:
        match action:
            case of.Meter(id=number, limit=limit):
                yield number, limit
            case of.SendToController(limit=of.PacketLimit() as limit):
                yield limit.meter, limit
