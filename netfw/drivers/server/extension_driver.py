"""ExtensionDriver: adds attributes to networks, subnets and ports."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol
from uuid import UUID

from netfw.drivers.base import Driver
from netfw.drivers.server.attribute import Attribute, plain
from netfw.drivers.server.change import Change
from netfw.drivers.server.query import Body
from netfw.model.resource import Kind, Ref, Resource
from netfw.model.wire import CODECS


class AttributeStore(Protocol):
    """Stored attributes of one driver, in the transaction of the caller.

    When a resource is deleted, the store deletes its attributes without the driver.
    """

    def read(self, kind: Kind, ids: Sequence[UUID]) -> Mapping[UUID, Body]:
        """Return the stored values of these resources, in one query; absent if there are none."""

    def write(self, ref: Ref, extra: Body) -> None:
        """Store the driver's values of one resource, replacing the former ones."""


class ExtensionDriver(Driver):
    """Adds attributes to resources that the core plugin stores.

    ``attributes`` is constant.  The other methods are called in the transaction of the request, by
    its thread, several at once, and again when the transaction is retried.  An exception rolls the
    request back.  Promises:

    1. The API validates the declared attributes, and no others, before the driver gets them.
    2. ``apply_fields`` returns the resource with the model fields of this driver, such as port
       security, set from the request, or from the driver's default (that of the network).  It is
       pure, and changes no other field.
    3. ``store_attributes`` stores the requested attributes; a new resource gets the declared
       defaults of the others.  It is idempotent.  A driver that only declares attributes need not
       override it: the default stores what is no field of the model.
    4. Stored attributes are shown without the driver.  ``extend`` adds attributes that are computed
       when resources are shown, only of the given ids and the declared attributes, with one query
       for a list of any length.
    5. ``store_attributes`` changes neither other resources nor attributes of other drivers;
       ``extend`` writes nothing.
    6. All methods do no I/O but the store, and do not wait.
    """

    GROUP: ClassVar[str] = "netfw.extension_drivers"
    VERSION: ClassVar[int] = 2

    @abstractmethod
    def attributes(self) -> Mapping[Kind, tuple[Attribute, ...]]:
        """Return the added attributes, by resource type."""

    def apply_fields(self, change: Change, requested: Body) -> Resource:
        """Return ``change.after`` with the model fields that this driver owns.

        *requested* has the values of the request for the attributes that the driver declares.

        :raises RequestError: the values are impossible; the API returns this error.
        """
        return change.resource

    def store_attributes(self, change: Change, requested: Body, store: AttributeStore) -> None:
        """Store the requested attributes that are no fields of the model.

        The default stores just these, with the declared defaults for a new resource.

        :raises RequestError: the values are impossible; the API returns this error.
        """
        kind = change.ref.kind
        own = {name: requested[name] for name in requested if name not in CODECS[kind].names}
        if change.before is None:
            own = {**self._defaults(kind), **own}
        elif own:
            own = {**store.read(kind, (change.ref.id,)).get(change.ref.id, {}), **own}
        if own:
            store.write(change.ref, own)

    def _defaults(self, kind: Kind) -> Body:
        """Return the defaults of the settable attributes that are no fields of the model."""
        return {
            each.name: plain(each.default)
            for each in self.attributes().get(kind, ())
            if each.settable
            and each.name not in CODECS[kind].names
            and (each.nullable or each.default is not None)
        }

    def extend(self, kind: Kind, ids: Sequence[UUID], store: AttributeStore) -> Mapping[UUID, Body]:
        """Return attributes of these resources that are computed when they are shown.

        After an exception, which is logged, the attributes of this driver are absent.
        """
        return {}
