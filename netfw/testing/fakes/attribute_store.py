"""Attributes of extension drivers, kept in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from netfw.drivers.server.query import Body
from netfw.model.resource import Kind, Ref


class MemoryAttributeStore:
    """An inspectable ``AttributeStore`` that counts its reads and writes."""

    def __init__(self) -> None:
        self.kept: dict[Ref, Body] = {}
        self.reads = 0
        self.writes = 0

    def read(self, kind: Kind, ids: Sequence[UUID]) -> Mapping[UUID, Body]:
        """Return the values of these resources; a resource without any is absent."""
        self.reads += 1
        return {id: dict(self.kept[Ref(kind, id)]) for id in ids if Ref(kind, id) in self.kept}

    def write(self, ref: Ref, extra: Body) -> None:
        """Store the values of one resource, in place of its former ones."""
        self.writes += 1
        self.kept[ref] = dict(extra)
