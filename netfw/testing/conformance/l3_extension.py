"""The suite that every L3 extension passes.

In your own tests, with plain pytest::

    class TestMyExtension(L3ExtensionConformance):
        def make_extension(self) -> L3Extension:
            return MyExtension()

        def routers(self) -> Sequence[ExtendedRouter]:
            return [ExtendedRouter(router=ROUTER, state=STATE, related=(FLOATING_IP,))]

Promises about the order and the failure of calls are the agent's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from ipaddress import IPv6Address
from itertools import pairwise
from typing import Any, ClassVar

from netfw.drivers.agent_extension import AgentExtension
from netfw.drivers.base import Driver
from netfw.drivers.l3_extension import ExtendedRouter, L3Extension
from netfw.drivers.values.pipeline_grant import Grant, GrantRequest, RegisterGrant
from netfw.drivers.values.router_contribution import AddressQos, RouterContribution, RouterRule
from netfw.model.values.address import IpInterface
from netfw.testing.conformance.common.driver_rules import DriverConformance
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.watch.io_events import observed_io

FIRST_BIT = 4
_JUMPS = ("-j", "--jump", "-g", "--goto")
_MARKS = ("--set-xmark", "--set-mark")


class L3ExtensionConformance(DriverConformance):
    """Tests of the promises of :class:`L3Extension` that the extension itself keeps."""

    HOOKS: ClassVar[tuple[str, ...]] = ("make_extension", "routers")

    def make_extension(self) -> L3Extension:
        """Return an extension; every call makes one of the same configuration."""
        raise NotImplementedError("override `make_extension`")

    def routers(self) -> Sequence[ExtendedRouter]:
        """Return different routers; the extension contributes something to at least one."""
        raise NotImplementedError("override `routers`; see the module's docstring")

    def contribute(
        self, extension: L3Extension, routers: Sequence[ExtendedRouter]
    ) -> dict[object, RouterContribution | None]:
        """Return the contribution to each of *routers*, by its id, and the base by ``None``."""
        grant = make_grant(extension.grant_request())
        made: dict[object, RouterContribution | None] = {None: extension.contribute_base(grant)}
        for each in routers:
            made[each.router.id] = extension.contribute(each.router.id, each, grant)
        return made

    def contributions(self) -> list[RouterContribution]:
        """Return all contributions, of which there must be one."""
        found = self.contribute(self.make_extension(), self.routers()).values()
        contributions = [each for each in found if each is not None]
        assert contributions, "an example is needed to which the extension contributes something"
        return contributions

    def maker(self) -> AbstractContextManager[Callable[[], L3Extension]]:
        return nullcontext(self.make_extension)

    def use(self, driver: Driver) -> None:
        assert isinstance(driver, L3Extension), f"{driver!r} is no L3 extension"
        self.contribute(driver, self.routers())

    @proves(AgentExtension, 1)
    def test_the_grant_request_is_constant(self) -> None:
        extension = self.make_extension()
        first = extension.grant_request()
        self.contribute(extension, self.routers())
        assert extension.grant_request() == first == self.make_extension().grant_request()

    @proves(AgentExtension, 2)
    def test_equal_routers_get_equal_contributions_in_any_order(self) -> None:
        routers = self.routers()
        extension = self.make_extension()
        first = self.contribute(extension, routers)
        assert self.contribute(extension, routers) == first, "the second call differs"
        backwards = self.contribute(self.make_extension(), routers[::-1])
        assert backwards == first, "the order of calls matters"

    @proves(AgentExtension, 2)
    def test_contributions_are_made_without_input_or_output(self) -> None:
        extension, routers = self.make_extension(), self.routers()
        self.contribute(extension, routers)  # what is imported late is imported now
        with observed_io() as events:
            self.contribute(extension, routers)
        assert not events, f"contribute touched files, sockets or processes: {events[:5]}"

    @proves(AgentExtension, 3)
    def test_contributions_are_of_their_owner_and_of_the_right_types(self) -> None:
        owner = self.make_extension().grant_request().owner
        for contribution in self.contributions():
            assert contribution.owner == owner, f"{contribution.owner!r} is not {owner!r}"
            fields: tuple[tuple[tuple[object, ...], Any], ...] = (
                (contribution.rules, RouterRule),
                (contribution.addresses, IpInterface),
                (contribution.qos, AddressQos),
                (contribution.proxied, IPv6Address),
            )
            for values, kind in fields:
                assert isinstance(values, tuple), f"{values!r} is not a tuple"
                assert all(isinstance(each, kind) for each in values), f"not of {kind}: {values!r}"
            assert len(set(contribution.addresses)) == len(contribution.addresses), (
                f"one address twice: {contribution.addresses}"
            )

    @proves(AgentExtension, 3)
    def test_rules_jump_to_targets_only(self) -> None:
        for contribution in self.contributions():
            for rule in contribution.rules:
                for option, word in pairwise(rule.words):
                    if option in _JUMPS:
                        assert word.isupper(), f"{word!r} is a chain of another owner: {rule}"

    @proves(AgentExtension, 3)
    def test_rules_set_granted_bits_of_the_mark_only(self) -> None:
        grant = make_grant(self.make_extension().grant_request())
        granted = sum(((1 << each.bits) - 1) << each.first for each in grant.marks.values())
        for contribution in self.contributions():
            for rule in contribution.rules:
                for option, word in pairwise(rule.words):
                    if option in _MARKS:
                        value, _, mask = word.partition("/")
                        changed = int(mask, 0) | int(value, 0) if mask else 0xFFFFFFFF
                        assert not changed & ~granted, f"bits that are not granted: {rule}"


def make_grant(request: GrantRequest) -> Grant:
    """Return a grant as router drivers give it: bits of the mark and a prefix of chains."""
    marks, first = {}, FIRST_BIT
    for each in request.marks:
        marks[each.name] = RegisterGrant(register=None, first=first, bits=each.bits)
        first += each.bits
    return Grant(
        owner=request.owner, cookie=0, cookie_mask=0, prefix=f"{request.owner}-", marks=marks
    )
