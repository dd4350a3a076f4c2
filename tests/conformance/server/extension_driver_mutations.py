"""Mutations of a fake extension driver: each breaks one promise."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, cast
from uuid import UUID

from attrs import evolve

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.server.attribute import Attribute, AttributeType
from netfw.drivers.server.change import Change
from netfw.drivers.server.extension_driver import AttributeStore, ExtensionDriver
from netfw.drivers.server.query import Body
from netfw.errors import Conflict, RequestError
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref, Resource
from tests.conformance.common.mutations import Mutations, breaks, breaks_raise

MUTATIONS = Mutations()


COLOUR, SHADE, OFF = "vendor:colour", "vendor:shade", "port_security_enabled"


class Painter(ExtensionDriver):
    """A good driver: colours, which it keeps; shades, worked out; and ports that are not filtered.

    Black is no colour.
    """

    VERSION: ClassVar[int] = 2

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls()

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("painter")

    def attributes(self) -> Mapping[Kind, tuple[Attribute, ...]]:
        colour = Attribute(name=COLOUR, type=AttributeType.TEXT, default="grey")
        shade = Attribute(name=SHADE, type=AttributeType.TEXT, settable=False, mutable=False)
        off = Attribute(name=OFF, type=AttributeType.BOOLEAN)
        return {Kind.NETWORK: (colour, shade), Kind.PORT: (colour, shade, off)}

    def apply_fields(self, change: Change, requested: Body) -> Resource:
        after = change.resource
        if isinstance(after, Port) and OFF in requested:
            return evolve(after, port_security=cast(bool, requested[OFF]))
        return after

    def store_attributes(self, change: Change, requested: Body, store: AttributeStore) -> None:
        if requested.get(COLOUR) == "black":
            raise Conflict("black is no colour")
        if COLOUR in requested or change.before is None:
            store.write(change.ref, {COLOUR: requested.get(COLOUR, "grey")})

    def extend(self, kind: Kind, ids: Sequence[UUID], store: AttributeStore) -> Mapping[UUID, Body]:
        kept = store.read(kind, ids)
        return {id: {SHADE: f"light {kept.get(id, {}).get(COLOUR)}"} for id in ids}


class PlainPainter(Painter):
    """A good driver too: leaves keeping to the contract."""

    VERSION: ClassVar[int] = 2

    def store_attributes(self, change: Change, requested: Body, store: AttributeStore) -> None:
        if requested.get(COLOUR) == "black":
            raise Conflict("black is no colour")
        ExtensionDriver.store_attributes(self, change, requested, store)


class FakeExtensionDriver(Painter):
    """The painter, with a counter for the mutations."""

    VERSION = 2

    def __init__(self) -> None:
        self.calls = 0


@MUTATIONS.override("attributes", breaks(ExtensionDriver, 1))
def declare_more_each_time(driver, original):
    """Declare another attribute with each call."""
    driver.calls += 1
    more = Attribute(name=f"vendor:{driver.calls}", type=AttributeType.TEXT)
    found = original()
    return {**found, Kind.PORT: (*found[Kind.PORT], more)}


@MUTATIONS.override("attributes", breaks(ExtensionDriver, 1))
def declare_attribute_twice(driver, original):
    """Declare one name twice."""
    found = original()
    return {**found, Kind.PORT: (*found[Kind.PORT], found[Kind.PORT][0])}


@MUTATIONS.override("store_attributes", breaks(ExtensionDriver, 1, 5))
def store_undeclared_attribute(driver, original, change, requested, store):
    """Store an attribute that is not declared."""
    original(change, requested, store)
    if COLOUR in requested or change.before is None:
        store.write(change.ref, {COLOUR: requested.get(COLOUR, "grey"), "vendor:secret": 1})


@MUTATIONS.override("store_attributes", breaks(ExtensionDriver, 1, 5))
def store_model_field(driver, original, change, requested, store):
    """Store a field of the model as an attribute too."""
    original(change, requested, store)
    if OFF in requested:
        store.write(change.ref, {COLOUR: requested.get(COLOUR, "grey"), OFF: requested[OFF]})


@MUTATIONS.override("apply_fields", breaks(ExtensionDriver, 2))
def ignore_request(driver, _, change, requested):
    """Leave the model fields as they are."""
    return change.resource


@MUTATIONS.override("apply_fields", breaks(ExtensionDriver, 2))
def change_other_field(driver, original, change, requested):
    """Change a field that the driver does not own."""
    shaped = original(change, requested)
    return evolve(shaped, description="painted") if isinstance(shaped, Network) else shaped


@MUTATIONS.override("apply_fields", breaks(ExtensionDriver, 2))
def alternate_model_field(driver, original, change, requested):
    """Set a model field by the number of the call."""
    driver.calls += 1
    after = original(change, requested)
    if isinstance(after, Port) and driver.calls % 2 == 0:
        return evolve(after, port_security=not after.port_security)
    return after


@MUTATIONS.override("store_attributes", breaks(ExtensionDriver, 2, 3))
def reset_attribute_to_default(driver, _, change, requested, store):
    """Reset an attribute to its default with every change."""
    if requested.get(COLOUR) == "black":
        raise Conflict("black is no colour")
    store.write(change.ref, {COLOUR: requested.get(COLOUR, "grey")})


@MUTATIONS.override("apply_fields", breaks(ExtensionDriver, 2, 3))
def reset_model_field_to_default(driver, _, change, requested):
    """Reset a model field to its default with every change."""
    after = change.resource
    if isinstance(after, Port):
        return evolve(after, port_security=cast(bool, requested.get(OFF, True)))
    return after


@MUTATIONS.override("store_attributes", breaks(ExtensionDriver, 3))
def store_requested_only(driver, original, change, requested, store):
    """Store no defaults."""
    if COLOUR in requested:
        original(change, requested, store)


@MUTATIONS.override("store_attributes", breaks(ExtensionDriver, 3))
def append_to_stored_attribute(driver, original, change, requested, store):
    """Make the stored attribute depend on the number of requests."""
    original(change, requested, store)
    if change.before is not None and COLOUR in requested:
        store.write(change.ref, {COLOUR: f"{requested[COLOUR]}, {requested[COLOUR]}"})


@MUTATIONS.override("extend", breaks(ExtensionDriver, 4))
def read_store_per_resource(driver, original, kind, ids, store):
    """Read the store once per resource."""
    found: dict[UUID, Body] = {}
    for id in ids:
        found |= original(kind, (id,), store)
    return found


@MUTATIONS.override("extend", breaks(ExtensionDriver, 4))
def extend_other_resource(driver, original, kind, ids, store):
    """Return attributes of a resource that was not requested."""
    return {**original(kind, ids, store), UUID(int=7): {SHADE: "dark"}}


@MUTATIONS.override("extend", breaks(ExtensionDriver, 4))
def return_undeclared_attribute(driver, original, kind, ids, store):
    """Return an attribute that is not declared."""
    found = original(kind, ids, store)
    return {id: {**extra, "vendor:more": 1} for id, extra in found.items()}


@MUTATIONS.override("store_attributes", breaks(ExtensionDriver, 5))
def store_on_other_resource(driver, original, change, requested, store):
    """Store an attribute of another resource too."""
    original(change, requested, store)
    store.write(Ref(change.ref.kind, UUID(int=7)), {COLOUR: "red"})


@MUTATIONS.override("extend", breaks(ExtensionDriver, 5))
def write_while_reading(driver, _, kind, ids, store):
    """Write to the store while reading."""
    for id, extra in store.read(kind, ids).items():
        store.write(Ref(kind, id), extra)
    return {id: {} for id in ids}


@MUTATIONS.override(
    "store_attributes",
    breaks_raise(ExtensionDriver, "apply_fields", RequestError),
    breaks_raise(ExtensionDriver, "store_attributes", RequestError),
)
def accept_any_value(driver, _, change, requested, store):
    """Accept every value."""
    if COLOUR in requested or change.before is None:
        store.write(change.ref, {COLOUR: requested.get(COLOUR, "grey")})


@MUTATIONS.override("store_attributes", breaks(ExtensionDriver, 6))
def sleep_in_transaction(driver, original, change, requested, store):
    """Wait for a service within the transaction."""
    time.sleep(0.1)
    original(change, requested, store)
