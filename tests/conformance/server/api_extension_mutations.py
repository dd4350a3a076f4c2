"""Mutations of a fake API extension: each breaks one promise."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any, ClassVar, Self

from attrs import evolve

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.server.api_extension import (
    Action,
    ApiExtension,
    ExtensionInfo,
    PolicyRule,
    ResourceDeclaration,
    Verb,
)
from netfw.drivers.server.attribute import Attribute, AttributeType, Value
from tests.conformance.common.conduct_mutations import conduct_mutations
from tests.conformance.common.mutations import Mutations, breaks

MUTATIONS = Mutations()
NUMBERS = count()


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

    VERSION: ClassVar[int] = 2
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


@MUTATIONS.override("info", breaks(ApiExtension, 1))
def change_name_each_time(driver, original):
    """Return another name with each call."""
    driver.calls += 1
    return evolve(original(), name=f"Taps {driver.calls}")


@MUTATIONS.override("info", breaks(ApiExtension, 2))
def use_invalid_alias(driver, original):
    """Use an alias that is no valid identifier."""
    return evolve(original(), alias="Acme Taps!")


@MUTATIONS.override("resources", breaks(ApiExtension, 2))
def take_existing_collection(driver, _):
    """Declare the collection of an existing resource."""
    return (evolve(TAP, collection="networks"),)


@MUTATIONS.override("policies", breaks(ApiExtension, 3))
def omit_delete_policy(driver, original):
    """Declare no policy for deletion."""
    return tuple(each for each in original() if each.name != "delete_tap")


@MUTATIONS.override("policies", breaks(ApiExtension, 3))
def misspell_policy(driver, original):
    """Declare a policy of an unknown attribute."""
    more = PolicyRule(name="get_tap:raet", check="rule:admin", description="")
    return (*original(), more)


@MUTATIONS.override("policies", breaks(ApiExtension, 3))
def refer_to_unknown_rule(driver, original):
    """Declare policies that refer to an unknown rule."""
    return tuple(evolve(each, check="rule:plumber") for each in original())


@MUTATIONS.override("resources", breaks(ApiExtension, 4))
def declare_invalid_default(driver, _):
    """Declare a default that the check refuses."""
    return (evolve(TAP, attributes=(TAP.attributes[0], evolve(RATE, default=3))),)


@MUTATIONS.override("resources", breaks(ApiExtension, 4))
def accept_any_value(driver, _):
    """Declare an attribute without its check."""
    return (evolve(TAP, attributes=(TAP.attributes[0], evolve(RATE, check=None))),)


@MUTATIONS.override("resources", breaks(ApiExtension, 4))
def declare_resource_without_example(driver, _):
    """Declare a resource that has no sample request."""
    return (TAP, evolve(TAP, name="hose", collection="hoses", actions=()))


@declare_resource_without_example.also("policies")
def _(driver, original):
    more = [
        evolve(each, name=each.name.replace("tap", "hose"))
        for each in original()
        if "tap" in each.name
    ]
    return (*original(), *more)


@MUTATIONS.override("info", breaks(ApiExtension, 2))
def declare_other_names_per_object(driver, original):
    """Declare other names with each object, so that two objects of one extension fit."""
    return evolve(original(), alias=f"acme-taps-{driver.number}")


@declare_other_names_per_object.also("__init__")
def _(driver, original):
    original()
    driver.number = next(NUMBERS)


@declare_other_names_per_object.also("resources")
def _(driver, _):
    number = driver.number
    mute = Action(name=f"mute{number}")
    return (evolve(TAP, name=f"tap{number}", collection=f"taps{number}", actions=(mute,)),)


@declare_other_names_per_object.also("policies")
def _(driver, original):
    return tuple(evolve(rule, name=f"{rule.name}{driver.number}") for rule in original())


WATCHED = conduct_mutations("problems")
"""Mutations that do their work, and misuse the process."""


@WATCHED.override("resources", breaks(ApiExtension, 5))
def show_secret(driver, original):
    """Declare a secret that everybody reads."""
    secret = Attribute(name="shared_secret", type=AttributeType.TEXT, nullable=True)
    return tuple(evolve(each, attributes=(*each.attributes, secret)) for each in original())
