"""The suite that every API extension passes.

In your own tests, with plain pytest::

    class TestMyExtension(ApiExtensionConformance):
        def make_extension(self) -> ApiExtension:
            return MyExtension()

        def requests(self) -> Sequence[Request]:
            return [Request("lamp", {"brightness": 40}),
                    Request("lamp", {"brightness": 101}, refused="brightness")]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import pytest
from attrs import field, frozen

from netfw.drivers.base import Driver
from netfw.drivers.server.api_extension import ApiExtension, ResourceDeclaration, Verb
from netfw.drivers.server.attribute import Attribute, plain
from netfw.errors import ConfigError, InvalidInput
from netfw.server.api.policy.rules import compile_rules, declared_rules
from netfw.server.api.resource_registry import ResourceRegistry, build
from netfw.server.api.resources import RESOURCES
from netfw.server.api.schema.validation import for_create
from netfw.testing.conformance.common.driver_rules import DriverConformance
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.watch.secret_options import SECRET

CONTRACTS = (Driver, ApiExtension)
LONGEST_NAME = 64

_ALIAS = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_RESOURCE = re.compile(r"[a-z][a-z0-9_]*")
_COLLECTION = re.compile(r"[a-z][a-z0-9_-]*")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_ATTRIBUTE = re.compile(r"[a-z][a-z0-9_]*(:[a-z][a-z0-9_]*)?")


@frozen
class CreateRequest:
    """The body of a request that makes one, within its envelope."""

    resource: str
    body: Mapping[str, Any] = field(factory=dict)
    refused: str = ""
    """The invalid attribute; empty: the request is valid."""


class ApiExtensionConformance(DriverConformance):
    """One test and more per promise of :class:`ApiExtension`."""

    HOOKS: ClassVar[tuple[str, ...]] = ("make_extension", "requests")

    def make_extension(self) -> ApiExtension:
        """Return an extension; every call makes one of the same configuration."""
        raise NotImplementedError("override `make_extension`")

    def requests(self) -> Sequence[CreateRequest]:
        """Return a request for each resource that can be created, and some that are refused."""
        raise NotImplementedError("override `requests`; see the module's docstring")

    def others(self) -> Sequence[ApiExtension]:
        """Return the extensions that it requires and that the API does not have by itself."""
        return ()

    def catalog(self, *more: ApiExtension) -> ResourceRegistry:
        """Return the resources of a server with all of netfw and this extension."""
        kept = {resource.name for resource in RESOURCES} | {"quota"}
        return build(kept, api=[*self.others(), self.make_extension(), *more])

    def maker(self) -> AbstractContextManager[Callable[[], ApiExtension]]:
        return nullcontext(self.make_extension)

    def use(self, driver: Driver) -> None:
        assert isinstance(driver, ApiExtension), f"{driver!r} is no API extension"
        driver.info()
        driver.resources()
        driver.policies()
        driver.requires()

    @proves(ApiExtension, 5)
    def test_secrets_are_for_administrators(self) -> None:
        extension = self.make_extension()
        rules = {rule.name for rule in extension.policies()}
        for resource in extension.resources():
            for attribute in resource.attributes:
                has_rule = f"get_{resource.name}:{attribute.name}" in rules
                assert attribute.admin_only or has_rule or not SECRET.search(attribute.name), (
                    f"promise 5 of ApiExtension: everybody reads {resource.name}.{attribute.name}: "
                    f"make it admin_only, or give it a rule get_{resource.name}:{attribute.name}"
                )

    @proves(ApiExtension, 1)
    def test_all_answers_are_constant(self) -> None:
        one, other = self.make_extension(), self.make_extension()
        for extension in (one, other, one):
            assert extension.info() == one.info()
            assert extension.resources() == one.resources()
            assert extension.policies() == one.policies()
            assert extension.requires() == one.requires()

    @proves(ApiExtension, 2)
    def test_names_are_such_as_clients_and_urls_have(self) -> None:
        extension = self.make_extension()
        info = extension.info()
        assert _ALIAS.fullmatch(info.alias), f"{info.alias!r}: small letters, digits and hyphens"
        assert info.name, "people read it in the list of extensions"
        assert _TIME.fullmatch(info.updated), f"{info.updated!r}: like 2026-11-15T00:00:00Z"
        for resource in extension.resources():
            assert _RESOURCE.fullmatch(resource.name), resource.name
            assert len(resource.name) <= LONGEST_NAME, resource.name
            assert _COLLECTION.fullmatch(resource.collection), resource.collection
            for attribute in _attributes(resource):
                assert _ATTRIBUTE.fullmatch(attribute.name), f"{resource.name}: {attribute.name!r}"

    @proves(ApiExtension, 2)
    def test_it_stands_beside_all_that_the_api_has(self) -> None:
        names = {resource.name for resource in self.catalog().resources}
        assert names >= {resource.name for resource in self.make_extension().resources()}

    @proves(ApiExtension, 2)
    def test_a_second_declaration_of_the_same_is_refused(self) -> None:
        with pytest.raises(ConfigError) as refusal:
            self.catalog(self.make_extension())
        assert str(refusal.value)

    @proves(ApiExtension, 3)
    def test_every_verb_and_every_action_has_a_rule(self) -> None:
        extension = self.make_extension()
        rules = {rule.name for rule in extension.policies()}
        for resource in extension.resources():
            needed = {f"{verb}_{resource.name}" for verb in resource.verbs}
            needed |= {action.name for action in resource.actions}
            assert needed <= rules, f"only administrators may {', '.join(sorted(needed - rules))}"

    @proves(ApiExtension, 3)
    def test_every_rule_is_of_something_and_can_be_read(self) -> None:
        extension = self.make_extension()
        known = {name for resource in extension.resources() for name in _rule_names(resource)}
        names = [rule.name for rule in extension.policies()]
        assert len(names) == len(set(names)), f"a rule is there twice: {sorted(names)}"
        assert set(names) <= known, f"nothing asks for {', '.join(sorted(set(names) - known))}"
        assert compile_rules(declared_rules(self.catalog().resources)) is not None

    @proves(ApiExtension, 4)
    def test_what_is_left_out_gets_what_could_have_been_given(self) -> None:
        catalog = self.catalog()
        for resource in self.make_extension().resources():
            served = catalog.resource(resource.name)
            for declared in resource.attributes:
                attribute = served.attribute(declared.name)
                if attribute is None or declared.default is None:
                    continue
                try:
                    attribute.codec.parse(plain(declared.default))
                except ValueError as exc:
                    pytest.fail(f"{resource.name}.{declared.name}: the default cannot be: {exc}")

    @proves(ApiExtension, 4)
    def test_requests_are_accepted_or_refused_by_the_schema(self) -> None:
        catalog = self.catalog()
        for request in self.requests():
            validator = for_create(catalog.resource(request.resource))
            if not request.refused:
                assert validator.with_defaults(
                    validator.validate(dict(request.body), request.resource)
                )
                continue
            with pytest.raises(InvalidInput) as refusal:
                validator.validate(dict(request.body), request.resource)
            assert request.refused in refusal.value.problems, request

    @proves(ApiExtension, 4)
    def test_each_resource_that_can_be_made_has_an_example(self) -> None:
        makeable = {
            resource.name
            for resource in self.make_extension().resources()
            if Verb.CREATE in resource.verbs
        }
        covered = {request.resource for request in self.requests() if not request.refused}
        assert makeable <= covered, f"no request makes {', '.join(sorted(makeable - covered))}"


def _attributes(resource: ResourceDeclaration) -> Iterator[Attribute]:
    yield from resource.attributes
    for action in resource.actions:
        yield from (*action.attributes, *action.returns)


def _rule_names(resource: ResourceDeclaration) -> Iterator[str]:
    """Yield all policy rule names that the API checks for *resource*."""
    yield from (action.name for action in resource.actions)
    for verb in Verb:
        yield f"{verb}_{resource.name}"
        yield from (f"{verb}_{resource.name}:{attribute.name}" for attribute in resource.attributes)
