"""What rules can ask of a resource: its attributes, and those of the resources it belongs to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from netfw.drivers.query import Body, Query, RequestContext
from netfw.drivers.resource_plugin import ResourcePlugin
from netfw.model.wire import Json

Lookup = Callable[[str, frozenset[str]], Mapping[str, Body]]
"""Resources of a name by their ids, as an administrator sees them; those that exist."""

_SAME = {"tenant_id": "project_id", "project_id": "tenant_id"}


class Rows:
    """Resources of one kind as targets of rules; their parents are read once, when first needed."""

    def __init__(self, bodies: Sequence[Body], parents: Mapping[str, str], lookup: Lookup) -> None:
        """*parents*: their names, and the attribute with the id."""
        self._bodies, self._parents, self._lookup = bodies, parents, lookup
        self._found: dict[str, Mapping[str, Body]] = {}

    def target(self, body: Body) -> Row:
        """One of them."""
        return Row(body, self)

    def parent(self, body: Body, name: str) -> Body | None:
        """The resource *name* that *body* belongs to; ``None``: it is gone, or there is none."""
        attribute = self._parents.get(name)
        id = None if attribute is None else body.get(attribute)
        if attribute is None or not isinstance(id, str):
            return None
        if name not in self._found:
            ids = (each.get(attribute) for each in self._bodies)
            wanted = frozenset(id for id in ids if isinstance(id, str))
            self._found[name] = self._lookup(name, wanted)
        return self._found[name].get(id)


class Row:
    """One resource as the target of a rule."""

    __slots__ = ("_body", "_rows")

    def __init__(self, body: Body, rows: Rows) -> None:
        self._body, self._rows = body, rows

    def __getitem__(self, name: str) -> Json:
        body = self._body
        if name in body:
            return body[name]
        parent, colon, attribute = name.partition(":")
        if colon:
            found = self._rows.parent(body, parent)
            if found is None:
                raise KeyError(name)
            body, name = found, attribute
        return body[name] if name in body else body[_SAME.get(name, name)]


def lookup_in(plugins: Mapping[str, ResourcePlugin]) -> Lookup:
    """A look-up that asks the plugin of each resource, by its name."""
    server = RequestContext(project_id="", admin=True)

    def lookup(name: str, ids: frozenset[str]) -> Mapping[str, Body]:
        query = Query(filters={"id": tuple(ids)})
        found = plugins[name].find(server, name, query) if ids else ()
        return {str(each["id"]): each for each in found}

    return lookup
