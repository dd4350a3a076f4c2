"""API extensions that are wrong, each in one way, and the tests of the suite that refuse it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from attrs import evolve

from netfw.drivers.api_extension import (
    Action,
    ApiExtension,
    ExtensionInfo,
    PolicyRule,
    ResourceDeclaration,
    Verb,
)
from netfw.drivers.attribute import Attribute, AttributeType, Value
from netfw.drivers.base import Capability, DriverInfo, HostResources

CONSTANT = "test_all_answers_are_constant"
NAMES = "test_names_are_such_as_clients_and_urls_have"
BESIDE = "test_it_stands_beside_all_that_the_api_has"
RULES = "test_every_verb_and_every_action_has_a_rule"
READABLE = "test_every_rule_is_of_something_and_can_be_read"
DEFAULTS = "test_what_is_left_out_gets_what_could_have_been_given"
REQUESTS = "test_requests_are_taken_or_refused_before_anybody_sees_them"
EXAMPLES = "test_each_resource_that_can_be_made_has_an_example"


def even(value: Value) -> None:
    """Refuse what is odd."""
    if not isinstance(value, int) or value % 2:
        raise ValueError("must be even")


RATE = Attribute(name="rate", type=AttributeType.INTEGER, default=10, check=even)
TAP = ResourceDeclaration(
    name="tap",
    collection="taps",
    attributes=(Attribute(name="port_id", type=AttributeType.UUID, required=True), RATE),
    actions=(Action(name="mute"),),
)


class Taps(ApiExtension):
    """A good extension."""

    VERSION: ClassVar[int] = 1
    calls = 0

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls()

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("taps")

    def info(self) -> ExtensionInfo:
        return ExtensionInfo(
            alias="acme-taps", name="Taps", description="", updated="2026-11-15T00:00:00Z"
        )

    def resources(self) -> tuple[ResourceDeclaration, ...]:
        return (TAP,)

    def policies(self) -> tuple[PolicyRule, ...]:
        names = (*(f"{verb}_tap" for verb in Verb), "mute")
        return tuple(PolicyRule(name=each, check="rule:member", description="") for each in names)


class BrokenTaps(Taps):
    """The good one, with one thing wrong."""

    VERSION = 1
    refused_by: ClassVar[frozenset[str]]


class ChangesItsMind(BrokenTaps):
    """Has a new name for itself each time."""

    refused_by = frozenset({CONSTANT})

    def info(self) -> ExtensionInfo:
        self.calls += 1
        return evolve(super().info(), name=f"Taps {self.calls}")


class HasAnAliasOfItsOwnKind(BrokenTaps):
    """Is called as nobody can write it."""

    refused_by = frozenset({NAMES})

    def info(self) -> ExtensionInfo:
        return evolve(super().info(), alias="Acme Taps!")


class TakesNetworks(BrokenTaps):
    """Wants the place of what is there."""

    refused_by = frozenset({BESIDE, READABLE, DEFAULTS, REQUESTS})

    def resources(self) -> tuple[ResourceDeclaration, ...]:
        return (evolve(TAP, collection="networks"),)


class ForgetsDeletion(BrokenTaps):
    """Nobody but administrators gets rid of a tap."""

    refused_by = frozenset({RULES})

    def policies(self) -> tuple[PolicyRule, ...]:
        return tuple(each for each in super().policies() if each.name != "delete_tap")


class Misspells(BrokenTaps):
    """Has a rule that nobody asks for."""

    refused_by = frozenset({READABLE})

    def policies(self) -> tuple[PolicyRule, ...]:
        more = PolicyRule(name="get_tap:raet", check="rule:admin", description="")
        return (*super().policies(), more)


class AsksForNobody(BrokenTaps):
    """Has a rule that rests on one that is not there."""

    refused_by = frozenset({READABLE})

    def policies(self) -> tuple[PolicyRule, ...]:
        return tuple(evolve(each, check="rule:plumber") for each in super().policies())


class ContradictsItself(BrokenTaps):
    """Has a default that it would refuse."""

    refused_by = frozenset({DEFAULTS})

    def resources(self) -> tuple[ResourceDeclaration, ...]:
        return (evolve(TAP, attributes=(TAP.attributes[0], evolve(RATE, default=3))),)


class TakesAnything(BrokenTaps):
    """Says nothing of what cannot be."""

    refused_by = frozenset({REQUESTS})

    def resources(self) -> tuple[ResourceDeclaration, ...]:
        return (evolve(TAP, attributes=(TAP.attributes[0], evolve(RATE, check=None))),)


class HasMoreThanItShows(BrokenTaps):
    """Has a resource that nobody tried."""

    refused_by = frozenset({EXAMPLES})

    def resources(self) -> tuple[ResourceDeclaration, ...]:
        return (TAP, evolve(TAP, name="hose", collection="hoses", actions=()))

    def policies(self) -> tuple[PolicyRule, ...]:
        more = [
            evolve(each, name=each.name.replace("tap", "hose"))
            for each in super().policies()
            if "tap" in each.name
        ]
        return (*super().policies(), *more)


BROKEN: tuple[type[BrokenTaps], ...] = tuple(BrokenTaps.__subclasses__())
