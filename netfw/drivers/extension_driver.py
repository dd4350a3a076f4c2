"""ExtensionDriver: adds attributes to networks, subnets and ports."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol
from uuid import UUID

from netfw.drivers.attribute import Attribute, plain
from netfw.drivers.base import Driver
from netfw.drivers.change import Change
from netfw.drivers.query import Body
from netfw.model.resource import Kind, Ref, Resource
from netfw.model.wire import CODECS


class AttributeStore(Protocol):
    """Where a driver's attributes are kept, in the transaction of the caller.

    What belongs to a resource is gone with it, without the driver's doing.
    """

    def read(self, kind: Kind, ids: Sequence[UUID]) -> Mapping[UUID, Body]:
        """The driver's own values of these resources, at once; absent where nothing was kept."""

    def write(self, ref: Ref, extra: Body) -> None:
        """Keep the driver's values of one resource, in place of its former ones."""


class ExtensionDriver(Driver):
    """Adds attributes to resources that the core plugin stores.

    ``attributes`` is constant.  The others are called in the transaction of the request, by its
    thread, several at once: no I/O but the store, no waiting, and again when the transaction is
    retried.  What they raise rolls the request back.  Promises:

    1. The attributes it declares, and no others, are validated by the API before it sees them.
    2. ``shape`` answers with the resource as it is to be: fields of the model that it answers for,
       such as port security, follow what was asked for, or a default that it knows (the network's).
       It is pure, and changes no other field.
    3. ``keep`` stores what a request asks for; a resource whose attributes nobody named gets the
       declared defaults.  The same request twice is one.  A driver that only declares need not
       write it: what is no field of the model is stored by itself.
    4. What ``keep`` stored is shown without the driver's doing.  ``extend`` adds what is worked out
       when resources are shown: of ids that it was given and attributes that it declares, with one
       reading for a list of any length.
    5. ``keep`` changes nothing of other resources or of what is no attribute of the driver;
       ``extend`` writes nothing.
    """

    GROUP: ClassVar[str] = "netfw.extension_drivers"
    VERSION: ClassVar[int] = 1

    @abstractmethod
    def attributes(self) -> Mapping[Kind, tuple[Attribute, ...]]:
        """What it adds, by kind of resource."""

    def apply_fields(self, change: Change, asked: Body) -> Resource:
        """``change.after`` with the fields of the model that this driver answers for.

        *asked* is what the request says of the attributes that the driver declares.

        :raises RequestError: they cannot be; the API answers with it.
        """
        return change.resource

    def store_attributes(self, change: Change, asked: Body, store: AttributeStore) -> None:
        """Store the attributes that are no fields of the model, as a request named them.

        Unless a driver does otherwise, just that: of a new resource with the declared defaults.

        :raises RequestError: they cannot be; the API answers with it.
        """
        kind = change.ref.kind
        own = {name: asked[name] for name in asked if name not in CODECS[kind].names}
        if change.before is None:
            own = {**self._defaults(kind), **own}
        elif own:
            own = {**store.read(kind, (change.ref.id,)).get(change.ref.id, {}), **own}
        if own:
            store.write(change.ref, own)

    def _defaults(self, kind: Kind) -> Body:
        """What a new resource has of what can be given, and is no field of the model."""
        return {
            each.name: plain(each.default)
            for each in self.attributes().get(kind, ())
            if each.settable
            and each.name not in CODECS[kind].names
            and (each.nullable or each.default is not None)
        }

    def extend(self, kind: Kind, ids: Sequence[UUID], store: AttributeStore) -> Mapping[UUID, Body]:
        """Attributes of these resources that are worked out when they are shown.

        An exception makes the attributes of this driver absent from the answer, and is logged.
        """
        return {}
