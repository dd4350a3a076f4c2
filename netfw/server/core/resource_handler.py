"""ResourceHandler: the semantics of one API resource; StoredResourceHandler, for those with rows.

A handler works inside the transaction of a :class:`~netfw.server.core.unit_of_work.UnitOfWork`:
handlers call each other, and all of it is one change.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast
from uuid import UUID

from netfw.drivers.server.query import Body, Query, RequestContext
from netfw.errors import InvalidInput, NotFound, NotSupported, Outdated, TagNotFound
from netfw.errors.registry import not_found
from netfw.model.rbac_policy import RbacAction
from netfw.model.resource import Kind, Resource
from netfw.model.values.common_fields import MAX_TAGS
from netfw.server.db.database import ReadSnapshot, Transaction
from netfw.server.db.resources.row import Row, api_body
from netfw.server.db.schema.shareable_kinds import SHAREABLE

if TYPE_CHECKING:
    from netfw.server.core.unit_of_work import UnitOfWork

R = TypeVar("R", bound=Resource)

Reader = ReadSnapshot | Transaction
"""Reader of rows: a snapshot of the database, or the transaction of a request."""
Act = Callable[["UnitOfWork", R, Body], Body]
"""Member action on a resource that was read and locked."""


class ResourceHandler(ABC):
    """Handler of one API resource; it has no state besides its collaborators."""

    name: ClassVar[str]
    """Name of the resource in the API: ``network``."""
    reading_actions: ClassVar[frozenset[str]] = frozenset()
    """Member actions that change nothing: :meth:`read_action` executes them, on a snapshot."""

    def create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[Body, ...]:
        """Create resources, as `~netfw.drivers.server.resource_plugin.ResourcePlugin` promises."""
        raise NotSupported(f"a {self.name} cannot be created")

    def update(self, unit: UnitOfWork, id: str, body: Body, revision: int | None = None) -> Body:
        """Change the attributes that *body* names."""
        raise NotSupported(f"a {self.name} cannot be changed")

    def delete(self, unit: UnitOfWork, id: str, revision: int | None = None) -> None:
        """Delete the resource of *id*."""
        raise NotSupported(f"a {self.name} cannot be deleted")

    @abstractmethod
    def find(self, reader: Reader, requester: RequestContext, query: Query) -> tuple[Body, ...]:
        """Return the resources that match *query* and are visible to *requester*."""

    def show(self, reader: Reader, requester: RequestContext, id: str) -> Body:
        """Return the resource of *id*.

        A resource whose declaration has ``member_shown=False`` needs no such method.

        :raises NotFound: it does not exist, or is invisible to the requester.
        """
        raise NotSupported(f"a {self.name} is shown in lists only")

    def act(self, unit: UnitOfWork, id: str, action: str, body: Body) -> Body:
        """Execute a member action."""
        raise NotSupported(f"a {self.name} has no action {action!r}")

    def read_action(self, reader: Reader, requester: RequestContext, id: str, action: str) -> Body:
        """Execute one of :attr:`reading_actions`.

        :raises NotFound: the resource does not exist, or is invisible to the requester.
        """
        raise NotSupported(f"a {self.name} has no action {action!r}")


class StoredResourceHandler(ResourceHandler, Generic[R]):
    """Handler of a kind that has rows; implements visibility, revisions, tags and quotas."""

    kind: ClassVar[Kind]
    quota: ClassVar[str | None]
    """Name of the quota that counts it; ``None``: it is not counted."""
    batched: ClassVar[bool] = False
    """Whether a transaction may create those of several requests, in the order of
    `UnitOfWork.batch_request_ids`."""

    def create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[Body, ...]:
        if self.quota is not None and len(bodies) > 1 and not unit.batch_request_ids:
            unit.check_quota(self.quota, self.find_projects(bodies))
        made = self.do_create(unit, bodies)
        if self.quota is not None:
            unit.count(self.quota, made)
        return self.render_all(unit, made)

    def find_projects(self, bodies: Sequence[Body]) -> Iterable[str]:
        """Return the project that each of *bodies* will belong to, as far as they tell."""
        return (str(body.get("project_id", "")) for body in bodies)

    def update(self, unit: UnitOfWork, id: str, body: Body, revision: int | None = None) -> Body:
        before = self.get_for_update(unit, id, revision)
        (rendered,) = self.render_all(unit, (self.do_update(unit, before, body),))
        return self._as_viewed(unit, before.id, rendered)

    def delete(self, unit: UnitOfWork, id: str, revision: int | None = None) -> None:
        before = self.get_for_update(unit, id, revision)
        self.do_delete(unit, before)
        if self.quota is not None:
            unit.count(self.quota, (before,), gone=True)

    def find(self, reader: Reader, requester: RequestContext, query: Query) -> tuple[Body, ...]:
        rows = reader.resources.find(
            self.kind, query, project=requester.sees, viewer=requester.project_id
        )
        return self._decorated(reader, requester, rows)

    def show(self, reader: Reader, requester: RequestContext, id: str) -> Body:
        row = reader.resources.get(
            self.kind, self.identity(id), project=requester.sees, viewer=requester.project_id
        )
        return self._decorated(reader, requester, (row,))[0]

    def act(self, unit: UnitOfWork, id: str, action: str, body: Body) -> Body:
        if action in TAG_ACTIONS:
            return self._tag(unit, id, action, body)
        act = self.actions().get(action)
        if act is None:
            return super().act(unit, id, action, body)
        return act(unit, self.get_for_update(unit, id), body)

    # Implemented by the handler of a kind.

    @abstractmethod
    def do_create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[R, ...]:
        """Build and insert the resources that *bodies* describe."""

    @abstractmethod
    def do_update(self, unit: UnitOfWork, before: R, body: Body) -> R:
        """Build and store *before* as *body* changes it."""

    @abstractmethod
    def do_delete(self, unit: UnitOfWork, before: R) -> None:
        """Delete *before* with what belongs to it.

        :raises Conflict: it is in use; the text names the user.
        """

    def actions(self) -> Mapping[str, Act[Any]]:
        """Return the member actions by name."""
        return {}

    def decorate(
        self, reader: Reader, requester: RequestContext, bodies: Sequence[MutableMapping[str, Any]]
    ) -> None:
        """Add attributes that follow from other rows, in a constant number of statements."""

    # Shared by all of them.

    def identity(self, id: str) -> UUID:
        """Return *id* as a UUID.

        :raises NotFound: it is not a UUID, so no resource has it.
        """
        try:
            return UUID(id)
        except ValueError:
            raise not_found(self.name)(f"there is no {self.name} {id[:80]!r}") from None

    def get_for_update(self, unit: UnitOfWork, id: str, revision: int | None = None) -> R:
        """Return the resource of *id*, locked until the transaction ends.

        :raises Outdated: its revision differs from *revision*.
        """
        row = unit.tx.resources.get(
            self.kind, self.identity(id), project=unit.requester.sees, lock=True
        )
        number = row.body["revision_number"]
        if revision is not None and number != revision:
            raise Outdated(f"{self.name} {id} has revision {number}, not {revision}")
        unit.extras[row.ref] = dict(row.extra)
        return cast(R, row.resource())

    def render_all(self, unit: UnitOfWork, resources: Sequence[R]) -> tuple[Body, ...]:
        """Return *resources*, which this transaction stored, as API bodies."""
        bodies = [
            api_body(self.kind, unit.body_of(each), unit.extra_of(each)) for each in resources
        ]
        self.decorate(unit.tx, unit.requester, bodies)
        return tuple(bodies)

    def _as_viewed(self, unit: UnitOfWork, id: UUID, body: Body) -> Body:
        """Return *body* as the requester's project views it: shared with it, or with all."""
        if self.kind not in SHAREABLE or body["shared"]:
            return body
        actions = unit.tx.resources.access.find_actions(id, unit.requester.project_id)
        return {**body, "shared": RbacAction.SHARED in actions}

    def _tag(self, unit: UnitOfWork, id: str, action: str, body: Body) -> Body:
        before: Any = self.get_for_update(unit, id)
        after = unit.evolved(before, tags=apply_tag_action(action, before.tags, body))
        return {"tags": sorted(unit.update(before, after).tags)}

    def _decorated(
        self, reader: Reader, requester: RequestContext, rows: Sequence[Row]
    ) -> tuple[Body, ...]:
        bodies = [row.shown for row in rows]
        self.decorate(reader, requester, bodies)
        return tuple(bodies)


Tags = frozenset[str]


def _without(had: Tags, named: Tags) -> Tags:
    if missing := named - had:
        raise TagNotFound(f"there is no tag {sorted(missing)[0]!r} on it")
    return had - named


TAG_ACTIONS: Mapping[str, Callable[[Tags, Tags], Tags]] = {
    "replace_tags": lambda had, named: named,
    "add_tags": lambda had, named: had | named,
    "remove_tags": _without,
}
"""Tag actions of every stored resource; the body names the tags in ``tags``."""


def apply_tag_action(action: str, had: Collection[str], body: Body) -> Tags:
    """Return the tags after *action*.

    :raises TagNotFound: a tag to be removed is missing.
    :raises InvalidInput: there would be too many tags.
    """
    named = frozenset(cast(list[str], body["tags"]))
    tags = TAG_ACTIONS[action](frozenset(had), named)
    if len(tags) > MAX_TAGS:
        raise InvalidInput({"tags": f"{len(tags)}, more than the {MAX_TAGS} that a resource has"})
    return tags


TAG_FILTERS: Mapping[str, Callable[[Tags, Tags], bool]] = {
    "tags": lambda has, named: named <= has,
    "tags-any": lambda has, named: bool(named & has),
    "not-tags": lambda has, named: not named <= has,
    "not-tags-any": lambda has, named: not named & has,
}
"""Predicates on the tags of a resource, by the name of the filter."""


def matches_tags(name: str, has: Collection[str], values: Collection[Any]) -> bool:
    """Return whether the tags *has* match the filter *name*; each value may name several tags."""
    named = frozenset(tag for value in values for tag in str(value).split(","))
    return TAG_FILTERS[name](frozenset(has), named)


def apply_query(bodies: Iterable[Body], query: Query, identity: str = "id") -> tuple[Body, ...]:
    """Filter, sort and page *bodies* in memory by *query*.

    :raises NotFound: no body has the id of the marker.
    """
    found = [body for body in bodies if _passes(body, query.filters)]
    for name, up in reversed((*query.sort, (identity, True))):
        found.sort(key=lambda body, by=name: _key(body.get(by)), reverse=not up)  # type: ignore[misc]
    return select_page(found, query, identity)


def select_page(found: Sequence[Body], query: Query, identity: str = "id") -> tuple[Body, ...]:
    """Return the page of *query* from bodies that are in their order.

    :raises NotFound: no body has the id of the marker.
    """
    if query.marker is not None:
        ids = [body.get(identity) for body in found]
        if str(query.marker) not in ids:
            raise NotFound(f"there is no {query.marker} to go on from")
        at = ids.index(str(query.marker))
        found = found[:at] if query.backwards else found[at + 1 :]
    if query.limit is None:
        return tuple(found)
    return tuple(found[-query.limit :] if query.backwards else found[: query.limit])


def _passes(body: Body, filters: Mapping[str, Iterable[Any]]) -> bool:
    return all(
        any(_text(body.get(name)) == _text(value) for value in values)
        for name, values in filters.items()
    )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _key(value: object) -> tuple[bool, bool, Any]:
    """Return a sort key: null first, then numbers, then text."""
    number = isinstance(value, int)
    return value is not None, not number, value if number else str(value)
