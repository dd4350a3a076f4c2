"""Extension drivers that are wrong, each in one way, and the tests of the suite that refuse it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, cast
from uuid import UUID

from attrs import evolve

from netfw.drivers.attribute import Attribute, AttributeType
from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.change import Change
from netfw.drivers.extension_driver import AttributeStore, ExtensionDriver
from netfw.drivers.query import Body
from netfw.errors import Conflict
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref, Resource

COLOUR, SHADE, OFF = "vendor:colour", "vendor:shade", "port_security_enabled"

CONSTANT = "test_what_it_adds_is_constant_and_each_name_is_there_once"
DECLARED = "test_it_keeps_nothing_but_what_it_declares"
SHAPED = "test_a_resource_is_shaped_by_what_was_asked_for_and_by_defaults"
NOTHING_ELSE = "test_nothing_else_of_the_resource_changes"
PURE = "test_shaping_is_pure"
UNNAMED = "test_a_change_that_names_nothing_changes_nothing"
KEPT = "test_what_is_no_field_of_the_model_is_kept_with_defaults_for_the_rest"
TWICE = "test_the_same_request_twice_is_one"
ONCE = "test_a_list_of_any_length_is_read_once"
SHOWN = "test_only_what_was_asked_about_is_shown_and_only_what_is_declared"
ALONE = "test_other_resources_are_left_alone"
SILENT = "test_showing_writes_nothing"
REFUSED = "test_what_cannot_be_is_refused_and_nothing_of_it_kept"


class Painter(ExtensionDriver):
    """A good driver: colours, which it keeps; shades, worked out; and ports that are not filtered.

    Black is no colour.
    """

    VERSION: ClassVar[int] = 1

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

    VERSION: ClassVar[int] = 1

    def store_attributes(self, change: Change, requested: Body, store: AttributeStore) -> None:
        if requested.get(COLOUR) == "black":
            raise Conflict("black is no colour")
        ExtensionDriver.store_attributes(self, change, requested, store)


class BrokenExtension(Painter):
    """The painter, with one thing wrong."""

    VERSION = 1
    refused_by: ClassVar[frozenset[str]]

    def __init__(self) -> None:
        self.calls = 0


class AddsMoreEachTime(BrokenExtension):
    """Makes up its mind as it goes."""

    refused_by = frozenset({CONSTANT})

    def attributes(self) -> Mapping[Kind, tuple[Attribute, ...]]:
        self.calls += 1
        more = Attribute(name=f"vendor:{self.calls}", type=AttributeType.TEXT)
        found = super().attributes()
        return {**found, Kind.PORT: (*found[Kind.PORT], more)}


class DeclaresTwice(BrokenExtension):
    """Has one name for two things."""

    refused_by = frozenset({CONSTANT})

    def attributes(self) -> Mapping[Kind, tuple[Attribute, ...]]:
        found = super().attributes()
        return {**found, Kind.PORT: (*found[Kind.PORT], found[Kind.PORT][0])}


class KeepsSecrets(BrokenExtension):
    """Stores what it never declared."""

    refused_by = frozenset({DECLARED, KEPT})

    def store_attributes(self, change: Change, requested: Body, store: AttributeStore) -> None:
        super().store_attributes(change, requested, store)
        if COLOUR in requested or change.before is None:
            store.write(change.ref, {COLOUR: requested.get(COLOUR, "grey"), "vendor:secret": 1})


class KeepsTheModelToo(BrokenExtension):
    """Stores a second time what is a field of the resource."""

    refused_by = frozenset({DECLARED, KEPT})

    def store_attributes(self, change: Change, requested: Body, store: AttributeStore) -> None:
        super().store_attributes(change, requested, store)
        if OFF in requested:
            store.write(change.ref, {COLOUR: requested.get(COLOUR, "grey"), OFF: requested[OFF]})


class IgnoresTheRequest(BrokenExtension):
    """Knows better."""

    refused_by = frozenset({SHAPED})

    def apply_fields(self, change: Change, requested: Body) -> Resource:
        return change.resource


class RenamesThings(BrokenExtension):
    """Writes its colour into the description."""

    refused_by = frozenset({NOTHING_ELSE, UNNAMED})

    def apply_fields(self, change: Change, requested: Body) -> Resource:
        shaped = super().apply_fields(change, requested)
        return evolve(shaped, description="painted") if isinstance(shaped, Network) else shaped


class Counts(BrokenExtension):
    """Filters every other port."""

    refused_by = frozenset({SHAPED, PURE, UNNAMED})

    def apply_fields(self, change: Change, requested: Body) -> Resource:
        self.calls += 1
        after = super().apply_fields(change, requested)
        if isinstance(after, Port) and self.calls % 2 == 0:
            return evolve(after, port_security=not after.port_security)
        return after


class FallsBack(BrokenExtension):
    """Forgets what it was told as soon as somebody changes something else."""

    refused_by = frozenset({UNNAMED})

    def store_attributes(self, change: Change, requested: Body, store: AttributeStore) -> None:
        if requested.get(COLOUR) == "black":
            raise Conflict("black is no colour")
        store.write(change.ref, {COLOUR: requested.get(COLOUR, "grey")})


class ResetsTheModel(BrokenExtension):
    """Filters again at the next change."""

    refused_by = frozenset({UNNAMED})

    def apply_fields(self, change: Change, requested: Body) -> Resource:
        after = change.resource
        if isinstance(after, Port):
            return evolve(after, port_security=cast(bool, requested.get(OFF, True)))
        return after


class HasNoDefaults(BrokenExtension):
    """Keeps only what is named."""

    refused_by = frozenset({KEPT})

    def store_attributes(self, change: Change, requested: Body, store: AttributeStore) -> None:
        if COLOUR in requested:
            super().store_attributes(change, requested, store)


class Mixes(BrokenExtension):
    """Adds each colour to the one before."""

    refused_by = frozenset({TWICE})

    def store_attributes(self, change: Change, requested: Body, store: AttributeStore) -> None:
        super().store_attributes(change, requested, store)
        if change.before is not None and COLOUR in requested:
            store.write(change.ref, {COLOUR: f"{requested[COLOUR]}, {requested[COLOUR]}"})


class AsksForEach(BrokenExtension):
    """A query per row."""

    refused_by = frozenset({ONCE})

    def extend(self, kind: Kind, ids: Sequence[UUID], store: AttributeStore) -> Mapping[UUID, Body]:
        found: dict[UUID, Body] = {}
        for id in ids:
            found |= super().extend(kind, (id,), store)
        return found


class TellsOfOthers(BrokenExtension):
    """Answers for what nobody asked about."""

    refused_by = frozenset({SHOWN})

    def extend(self, kind: Kind, ids: Sequence[UUID], store: AttributeStore) -> Mapping[UUID, Body]:
        return {**super().extend(kind, ids, store), UUID(int=7): {SHADE: "dark"}}


class ShowsMore(BrokenExtension):
    """Shows attributes that the API does not know."""

    refused_by = frozenset({SHOWN})

    def extend(self, kind: Kind, ids: Sequence[UUID], store: AttributeStore) -> Mapping[UUID, Body]:
        found = super().extend(kind, ids, store)
        return {id: {**extra, "vendor:more": 1} for id, extra in found.items()}


class PaintsTheNeighbours(BrokenExtension):
    """Writes to another resource too."""

    refused_by = frozenset({ALONE})

    def store_attributes(self, change: Change, requested: Body, store: AttributeStore) -> None:
        super().store_attributes(change, requested, store)
        store.write(Ref(change.ref.kind, UUID(int=7)), {COLOUR: "red"})


class RemembersWhatItShows(BrokenExtension):
    """Writes while it reads."""

    refused_by = frozenset({SILENT})

    def extend(self, kind: Kind, ids: Sequence[UUID], store: AttributeStore) -> Mapping[UUID, Body]:
        for id, extra in store.read(kind, ids).items():
            store.write(Ref(kind, id), extra)
        return {id: {} for id in ids}


class TakesAnything(BrokenExtension):
    """Black it is."""

    refused_by = frozenset({REFUSED})

    def store_attributes(self, change: Change, requested: Body, store: AttributeStore) -> None:
        if COLOUR in requested or change.before is None:
            store.write(change.ref, {COLOUR: requested.get(COLOUR, "grey")})


BROKEN: tuple[type[BrokenExtension], ...] = tuple(BrokenExtension.__subclasses__())
