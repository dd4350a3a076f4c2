"""The suite of L3 extensions refuses every mutation of a fake extension."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.l3_extension import ExtendedRouter, L3Extension
from netfw.drivers.values.pipeline_grant import Grant, GrantRequest, RegisterRequest
from netfw.drivers.values.router_contribution import (
    RouterContribution,
    RouterRule,
    RuleChain,
    RuleTable,
)
from netfw.model.router import Router
from netfw.model.values.ids import RouterId
from netfw.testing.conformance.common.promises import proofs_in
from netfw.testing.conformance.l3_extension import L3ExtensionConformance
from netfw.testing.conformance.router.factories import make_site
from tests.conformance.common.suite_runner import run_tests

pytestmark = pytest.mark.fakes

SITES = tuple(make_site() for _ in range(2))


class MarkingExtension(L3Extension):
    """A correct extension: marks the packets of each router with its granted bit."""

    VERSION: ClassVar[int] = 2

    def __init__(self) -> None:
        self.calls = 0

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls()

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("marking")

    def grant_request(self) -> GrantRequest:
        return GrantRequest(owner="marking", marks=(RegisterRequest("seen", 1),))

    def words(self, grant: Grant) -> tuple[str, ...]:
        bit = 1 << grant.marks["seen"].first
        return ("-j", "MARK", "--set-xmark", f"{bit:#x}/{bit:#x}")

    def contribute(
        self, key: RouterId, value: ExtendedRouter, grant: Grant
    ) -> RouterContribution | None:
        self.calls += 1
        rule = RouterRule(table=RuleTable.MANGLE, chain=RuleChain.FORWARD, words=self.words(grant))
        return RouterContribution(owner=grant.owner, rules=(rule,))


class ChangingRequest(MarkingExtension):
    def grant_request(self) -> GrantRequest:
        bits = 2 if self.calls else 1
        return GrantRequest(owner="marking", marks=(RegisterRequest("seen", bits),))


class CountingCalls(MarkingExtension):
    def words(self, grant: Grant) -> tuple[str, ...]:
        return ("-m", "comment", "--comment", str(self.calls), *super().words(grant))


class ReadingFile(MarkingExtension):
    def words(self, grant: Grant) -> tuple[str, ...]:
        Path("/proc/self/comm").read_text()
        return super().words(grant)


class ForeignOwner(MarkingExtension):
    def contribute(
        self, key: RouterId, value: ExtendedRouter, grant: Grant
    ) -> RouterContribution | None:
        return RouterContribution(owner="other")


class ForeignChain(MarkingExtension):
    def words(self, grant: Grant) -> tuple[str, ...]:
        return ("-j", "router-snat")


class ForeignBits(MarkingExtension):
    def words(self, grant: Grant) -> tuple[str, ...]:
        return ("-j", "MARK", "--set-xmark", "0x1/0x1")


class WholeMark(MarkingExtension):
    def words(self, grant: Grant) -> tuple[str, ...]:
        return ("-j", "MARK", "--set-mark", "0x10")


class NoContribution(MarkingExtension):
    def contribute(
        self, key: RouterId, value: ExtendedRouter, grant: Grant
    ) -> RouterContribution | None:
        return None


class MarkingConformance(L3ExtensionConformance):
    """The suite on fake extensions; ``extension`` is their class."""

    extension: type[MarkingExtension] = MarkingExtension

    def make_extension(self) -> L3Extension:
        return self.extension()

    def routers(self) -> Sequence[ExtendedRouter]:
        return [ExtendedRouter(router=Router(id=each.router), state=each.state) for each in SITES]


class TestMarkingExtension(MarkingConformance):
    """The correct extension passes."""


@pytest.mark.parametrize(
    ("extension", "test"),
    [
        (ChangingRequest, "test_the_grant_request_is_constant"),
        (CountingCalls, "test_equal_routers_get_equal_contributions_in_any_order"),
        (ReadingFile, "test_contributions_are_made_without_input_or_output"),
        (ForeignOwner, "test_contributions_are_of_their_owner_and_of_the_right_types"),
        (ForeignChain, "test_rules_jump_to_targets_only"),
        (ForeignBits, "test_rules_set_granted_bits_of_the_mark_only"),
        (WholeMark, "test_rules_set_granted_bits_of_the_mark_only"),
        (NoContribution, "test_rules_jump_to_targets_only"),
    ],
)
def test_mutation_is_refused(extension: type[MarkingExtension], test: str) -> None:
    suite = MarkingConformance()
    suite.extension = extension
    tests = [name for name, _ in proofs_in(L3ExtensionConformance)]
    assert test in run_tests(suite, tests).tests
