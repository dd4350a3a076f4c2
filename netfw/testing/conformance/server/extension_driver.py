"""The suite that every extension driver passes.

In your own tests, with plain pytest::

    class TestMyDriver(ExtensionDriverConformance):
        def make_driver(self) -> ExtensionDriver:
            return MyDriver()

        def examples(self) -> Sequence[Example]:
            return [Example(resource=PORT, requested={"vendor:colour": "red"},
                            kept={"vendor:colour": "red"})]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, cast
from uuid import uuid4

import pytest
from attrs import evolve, field, fields_dict, frozen

from netfw.drivers.server.attribute import Attribute
from netfw.drivers.server.change import Change
from netfw.drivers.server.extension_driver import ExtensionDriver
from netfw.drivers.server.query import Body
from netfw.errors import RequestError
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref, Resource, kind_of, ref
from netfw.model.subnet import Subnet
from netfw.model.wire import CODECS
from netfw.testing.conformance.common.call_counter import count_calls
from netfw.testing.conformance.common.promises import proves, proves_raise
from netfw.testing.conformance.common.required_hooks import RequiresHooks
from netfw.testing.conformance.server import mechanism_samples as samples
from netfw.testing.fakes.attribute_store import MemoryAttributeStore

NETWORK, SUBNET, PORT = samples.NETWORK, samples.SUBNET, samples.PORT
"""Resources for examples; the port has an address in the subnet, and both are of the network."""
CONTRACTS = (ExtensionDriver,)
EXTENDED = frozenset({Kind.NETWORK, Kind.SUBNET, Kind.PORT})
EFFORT = 20_000
"""Function calls that one answer within a transaction may take."""
MANY = 40


@frozen(kw_only=True)
class Example:
    """A created resource, the driver's attributes in the request, and the expected result.

    Attributes that are fields of the model are in *shaped*, by the name of the field; all others in
    *kept*.  Defaults that the driver sets for omitted attributes are included.
    """

    resource: Resource
    requested: Body = field(factory=dict)
    shaped: Mapping[str, Any] = field(factory=dict)
    kept: Body = field(factory=dict)
    network: Network = NETWORK
    """The network of a subnet or a port."""

    @property
    def kind(self) -> Kind:
        """The kind of the resource."""
        return kind_of(self.resource)

    def change(self, after: Resource | None = None, before: Resource | None = None) -> Change:
        """Return the change that the request makes."""
        network = None if isinstance(self.resource, Network) else self.network
        return Change(before=before, after=after or self.resource, network=network)


class ExtensionDriverConformance(RequiresHooks):
    """One test or more per promise of :class:`ExtensionDriver`."""

    HOOKS: ClassVar[tuple[str, ...]] = ("make_driver", "examples")

    def make_driver(self) -> ExtensionDriver:
        """Return a driver; every call makes one of the same configuration."""
        raise NotImplementedError("override `make_driver`")

    def examples(self) -> Sequence[Example]:
        """Return requests for all kinds of resources that the driver extends, with their results.

        For each kind, one request has none of the driver's attributes.
        """
        raise NotImplementedError("override `examples`; see the module's docstring")

    def impossible(self) -> Example | None:
        """Return a request that the driver refuses; ``None``: it accepts what the API accepts."""
        return None

    def declared(self, driver: ExtensionDriver, kind: Kind) -> Mapping[str, Attribute]:
        """Return the attributes that the driver adds to *kind*, by name."""
        return {attribute.name: attribute for attribute in driver.attributes().get(kind, ())}

    def stored(self, driver: ExtensionDriver, kind: Kind) -> frozenset[str]:
        """Return the attributes that are not fields of the model."""
        return frozenset(self.declared(driver, kind)) - frozenset(CODECS[kind].names)

    def create(
        self, driver: ExtensionDriver, example: Example, store: MemoryAttributeStore
    ) -> Resource:
        """Execute the request that creates the resource, and return it."""
        shaped = driver.apply_fields(example.change(), example.requested)
        driver.store_attributes(example.change(shaped), example.requested, store)
        return shaped

    @proves(ExtensionDriver, 6)
    def test_no_call_waits_within_the_transaction(self) -> None:
        """Make the calls of requests; what surrounds each call is watched by itself."""
        driver, store = self.make_driver(), MemoryAttributeStore()
        for example in self.examples():
            created = self.create(driver, example, store)
            driver.extend(example.kind, [created.id], store)

    @proves(ExtensionDriver, 1)
    def test_what_it_adds_is_constant_and_each_name_is_there_once(self) -> None:
        driver, extended = self.make_driver(), self.make_driver().attributes()
        assert extended == driver.attributes() == driver.attributes()
        assert extended, "a driver that adds nothing is none"
        assert extended.keys() <= EXTENDED, "only networks, subnets and ports are extended"
        for kind, attributes in extended.items():
            names = [attribute.name for attribute in attributes]
            assert len(names) == len(set(names)), f"{kind}: {names}"
        assert {example.kind for example in self.examples()} == extended.keys(), (
            "an example for each kind"
        )

    @proves(ExtensionDriver, 1, 5)
    def test_it_keeps_nothing_but_what_it_declares(self) -> None:
        driver = self.make_driver()
        for example in self.examples():
            store = MemoryAttributeStore()
            self.create(driver, example, store)
            names = {name for extra in store.kept.values() for name in extra}
            assert names <= self.stored(driver, example.kind), example

    @proves(ExtensionDriver, 2)
    def test_model_fields_follow_the_request_and_defaults(self) -> None:
        driver = self.make_driver()
        for example in self.examples():
            shaped = driver.apply_fields(example.change(), example.requested)
            for name, value in example.shaped.items():
                assert getattr(shaped, name) == value, (name, example.requested)

    @proves(ExtensionDriver, 2)
    def test_nothing_else_of_the_resource_changes(self) -> None:
        driver = self.make_driver()
        for example in self.examples():
            shaped = driver.apply_fields(example.change(), example.requested)
            assert ref(shaped) == ref(example.resource)
            others = fields_dict(type(example.resource)).keys() - example.shaped.keys()
            for name in others:
                assert getattr(shaped, name) == getattr(example.resource, name), name

    @proves(ExtensionDriver, 2)
    def test_shaping_is_pure(self) -> None:
        one, other = self.make_driver(), self.make_driver()
        for example in (*self.examples(), *self.examples()):
            change, requested = example.change(), dict(example.requested)
            expected = other.apply_fields(change, example.requested)
            count_calls(partial(one.apply_fields, change, example.requested), EFFORT)
            assert one.apply_fields(change, example.requested) == expected
            assert example.requested == requested

    @proves(ExtensionDriver, 2, 3)
    def test_a_change_that_names_nothing_changes_nothing(self) -> None:
        driver = self.make_driver()
        for example in self.examples():
            store = MemoryAttributeStore()
            before = self.create(driver, example, store)
            kept = dict(store.kept)
            named = evolve(cast("Network | Subnet | Port", before), description="another")
            after = driver.apply_fields(example.change(named, before), {})
            assert after == named, example
            driver.store_attributes(example.change(after, before), {}, store)
            assert store.kept == kept

    @proves(ExtensionDriver, 3)
    def test_what_is_no_field_of_the_model_is_kept_with_defaults_for_the_rest(self) -> None:
        driver = self.make_driver()
        for example in self.examples():
            store = MemoryAttributeStore()
            self.create(driver, example, store)
            kept = store.kept.get(ref(example.resource), {})
            assert kept == example.kept, example.requested

    @proves(ExtensionDriver, 3)
    def test_the_same_request_twice_is_one(self) -> None:
        driver, other = self.make_driver(), self.make_driver()
        for example in self.examples():
            store = MemoryAttributeStore()
            shaped = self.create(driver, example, store)
            once = dict(store.kept)
            assert other.apply_fields(example.change(shaped, shaped), example.requested) == shaped
            other.store_attributes(example.change(shaped, shaped), example.requested, store)
            assert store.kept == once

    @proves(ExtensionDriver, 4)
    def test_a_list_of_any_length_is_read_once(self) -> None:
        driver = self.make_driver()
        for example, store, refs in self.lists(driver):
            store.reads = 0
            driver.extend(example.kind, tuple(ref.id for ref in refs), store)
            assert store.reads <= 1, f"{store.reads} readings for {len(refs)} resources"

    @proves(ExtensionDriver, 4)
    def test_only_requested_resources_and_declared_attributes_are_returned(self) -> None:
        driver = self.make_driver()
        for example, store, refs in self.lists(driver):
            some = tuple(ref.id for ref in refs[::2])
            extras = driver.extend(example.kind, some, store)
            assert extras.keys() <= set(some)
            for extra in extras.values():
                assert extra.keys() <= self.declared(driver, example.kind).keys()
            assert driver.extend(example.kind, (), store) == {}

    @proves(ExtensionDriver, 5)
    def test_other_resources_are_left_alone(self) -> None:
        driver = self.make_driver()
        for example in self.examples():
            store = MemoryAttributeStore()
            bystander = Ref(example.kind, uuid4())
            store.kept[bystander] = {"name": "its own"}
            self.create(driver, example, store)
            driver.extend(example.kind, (example.resource.id, bystander.id), store)
            assert store.kept.keys() <= {bystander, ref(example.resource)}
            assert store.kept[bystander] == {"name": "its own"}

    @proves(ExtensionDriver, 5)
    def test_showing_writes_nothing(self) -> None:
        driver = self.make_driver()
        for example, store, refs in self.lists(driver):
            store.writes, kept = 0, dict(store.kept)
            driver.extend(example.kind, tuple(ref.id for ref in refs), store)
            assert store.writes == 0
            assert store.kept == kept

    @proves_raise(ExtensionDriver, "apply_fields", RequestError)
    @proves_raise(ExtensionDriver, "store_attributes", RequestError)
    def test_what_cannot_be_is_refused_and_nothing_of_it_kept(self) -> None:
        example = self.impossible()
        if example is None:
            pytest.skip("the driver takes what the API lets through")
        driver, store = self.make_driver(), MemoryAttributeStore()
        for _ in range(2):
            with pytest.raises(RequestError) as refusal:
                self.create(driver, example, store)
            assert str(refusal.value)
        assert not store.kept

    def lists(
        self, driver: ExtensionDriver
    ) -> Iterator[tuple[Example, MemoryAttributeStore, tuple[Ref, ...]]]:
        """Yield many resources like that of each example, and their store."""
        for example in self.examples():
            store = MemoryAttributeStore()
            copy: Any = partial(evolve, example.resource)
            copies: list[Resource] = [copy(id=uuid4()) for _ in range(MANY)]
            for each in copies:
                self.create(driver, evolve(example, resource=each), store)
            yield example, store, tuple(map(ref, copies))
