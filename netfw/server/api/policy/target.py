"""Targets of rules: the attributes of a resource and of its parents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from netfw.drivers.server.query import Body, Query, RequestContext
from netfw.drivers.server.resource_plugin import ResourcePlugin
from netfw.model.wire import Json
from netfw.server.api.schema.resource_schema import ApiResource

Lookup = Callable[[RequestContext, str, frozenset[str]], Mapping[str, Body]]
"""Returns the resources of a name by their ids, as a requester sees them."""

EXT_PARENT: Final = "ext_parent"
"""The name, in rules, of the resource of which the target is a sub-resource."""
_SYNONYMS = {"tenant_id": "project_id", "project_id": "tenant_id"}


class TargetRows:
    """Resources of one kind as targets of rules; their parents are read once, on first use."""

    def __init__(
        self,
        bodies: Sequence[Body],
        resource: ApiResource,
        lookup: Lookup,
        requester: RequestContext,
    ) -> None:
        """Prepare the targets of *bodies*.

        :param requester: whose project decides which parents are shared.
        """
        self._bodies, self._resource = bodies, resource
        self._lookup, self._reader = lookup, requester.elevated()
        self._parents_by_id: dict[str, Mapping[str, Body]] = {}

    def target(self, body: Body) -> TargetRow:
        """Return *body* as a target."""
        return TargetRow(body, self)

    def parent(self, body: Body, name: str) -> Body | None:
        """Return the parent *name* of *body*, or ``None`` if it does not exist."""
        attribute = self._resource.parents.get(name)
        if name == EXT_PARENT and self._resource.parent is not None:
            name, attribute = self._resource.parent, self._resource.parent_attribute
        id = None if attribute is None else body.get(attribute)
        if attribute is None or not isinstance(id, str):
            return None
        if name not in self._parents_by_id:
            ids = (each.get(attribute) for each in self._bodies)
            wanted = frozenset(id for id in ids if isinstance(id, str))
            self._parents_by_id[name] = self._lookup(self._reader, name, wanted)
        return self._parents_by_id[name].get(id)


class TargetRow:
    """One resource as the target of a rule."""

    __slots__ = ("_rows", "body")

    def __init__(self, body: Body, rows: TargetRows) -> None:
        self.body, self._rows = body, rows

    def __getitem__(self, name: str) -> Json:
        body = self.body
        if name in body:
            return body[name]
        parent, colon, attribute = name.partition(":")
        if colon:
            parent_body = self._rows.parent(body, parent)
            if parent_body is None:
                raise KeyError(name)
            body, name = parent_body, attribute
        return body[name] if name in body else body[_SYNONYMS.get(name, name)]


def lookup_in(plugins: Mapping[str, ResourcePlugin]) -> Lookup:
    """Return a look-up in the plugins, by the names of their resources."""

    def lookup(requester: RequestContext, name: str, ids: frozenset[str]) -> Mapping[str, Body]:
        query = Query(filters={"id": tuple(ids)})
        bodies = plugins[name].find(requester, name, query) if ids else ()
        return {str(body["id"]): body for body in bodies}

    return lookup
