"""Handlers of resources that are stored as documents: agents never receive them, and few exist."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Self, cast
from uuid import UUID, uuid4

from attrs import evolve

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.server.api_extension import ResourceDeclaration
from netfw.drivers.server.change import Change
from netfw.drivers.server.query import Body, Query, RequestContext
from netfw.drivers.server.service_plugin import ServicePlugin
from netfw.errors import ConfigError, NotFound, Outdated
from netfw.errors.registry import not_found
from netfw.model.resource import kind_of
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.core.resource_handler import (
    TAG_ACTIONS,
    TAG_FILTERS,
    Reader,
    ResourceHandler,
    apply_query,
    apply_tag_action,
    matches_tags,
)
from netfw.server.core.server_context import ServerContext
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.resources.vendor_resources import COLUMNS, VendorResources


class DocumentHandler(ResourceHandler):
    """Handler that stores a resource whole, as its API body.

    The database filters by id, project, name and parent, the handler by all else.
    """

    def __init__(
        self,
        name: str,
        *,
        parent: str | None = None,
        counted: bool = False,
        public: bool = False,
        shareable: bool = False,
        tagged: bool = True,
    ) -> None:
        """*parent*: the attribute with the id of its parent; *counted*: it has a quota; *public*:
        all projects see it; *shareable*: if it is ``shared``; *tagged*: it has tags."""
        self._name, self._parent, self._counted, self._public = name, parent, counted, public
        self._shareable, self._tagged = shareable, tagged
        self.children: Sequence[DocumentHandler] = ()
        """Handlers of its sub-resources, which are deleted with it."""

    @classmethod
    def declared(cls, declared: ResourceDeclaration) -> Self:
        """Return the handler of a resource that a vendor declares and no plugin stores."""
        parent = None if declared.parent is None else f"{declared.parent}_id"
        return cls(declared.name, parent=parent, counted=declared.quota is not None)

    @property
    def name(self) -> str:  # type: ignore[override]
        return self._name

    def create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[Body, ...]:
        made = [self._new(unit, body) for body in bodies]
        if self._counted and len(made) > 1:
            unit.check_quota(self.name, (each["project_id"] for each in made))
        self._in(unit.tx).insert(*made, parent=self._parent)
        self._count(unit, made, 1)
        return tuple(made)

    def update(self, unit: UnitOfWork, id: str, body: Body, revision: int | None = None) -> Body:
        return self.do_update(unit, self.get_for_update(unit, id, revision), body)

    def do_update(self, unit: UnitOfWork, before: dict[str, Any], body: Body) -> Body:
        """Store *before*, which this transaction locked, as *body* changes it."""
        after = {**before, **body}
        if after == before:
            return before
        after |= {
            "revision_number": before["revision_number"] + 1,
            "updated_at": _time(unit),
        }
        self._in(unit.tx).update(before, after)
        return after

    def delete(self, unit: UnitOfWork, id: str, revision: int | None = None) -> None:
        self.do_delete(unit, self.get_for_update(unit, id, revision))

    def do_delete(self, unit: UnitOfWork, before: Body) -> None:
        """Delete *before*, which this transaction locked, with its sub-resources."""
        for child in self.children:
            child.delete_below(unit, str(before["id"]))
        self._in(unit.tx).delete(UUID(str(before["id"])))
        self._count(unit, [before], -1)

    def delete_below(self, unit: UnitOfWork, parent: str) -> None:
        """Delete those whose parent is *parent*."""
        stored = self._in(unit.tx)
        for each in stored.find({"parent_id": [parent]}):
            with suppress(NotFound):  # deleted meanwhile
                self.do_delete(unit, stored.get(UUID(each["id"]), lock=True))

    def find(self, reader: Reader, requester: RequestContext, query: Query) -> tuple[Body, ...]:
        by_column: dict[str, Sequence[str]] = {}
        by_tag: dict[str, tuple[Any, ...]] = {}
        others: dict[str, tuple[Any, ...]] = {}
        for name, values in query.filters.items():
            column = "parent_id" if name == self._parent else name
            if column in COLUMNS:
                by_column[column] = [str(value) for value in values]
            elif name in TAG_FILTERS:
                by_tag[name] = values
            else:
                others["project_id" if name == "tenant_id" else name] = values
        project = self._project(requester)
        found = self._in(reader).find(by_column, project=project, or_shared=self._shareable)
        tagged = [
            body
            for body in found
            if all(matches_tags(name, body["tags"], values) for name, values in by_tag.items())
        ]
        return apply_query(self._derived(reader, tagged), evolve(query, filters=others))

    def show(self, reader: Reader, requester: RequestContext, id: str) -> Body:
        (body,) = self._derived(reader, [self._get(reader, requester, id)])
        return body

    def act(self, unit: UnitOfWork, id: str, action: str, body: Body) -> Body:
        if action not in TAG_ACTIONS or not self._tagged:
            return super().act(unit, id, action, body)
        tags = apply_tag_action(action, self.get_for_update(unit, id)["tags"], body)
        return {"tags": self.update(unit, id, {"tags": sorted(tags)})["tags"]}

    def _derived(self, reader: Reader, bodies: Sequence[Body]) -> Sequence[Body]:
        """Return *bodies* with the attributes that follow from what else is stored."""
        return bodies

    def _new(self, unit: UnitOfWork, body: Body) -> dict[str, Any]:
        project = body.get("project_id") or unit.requester.project_id
        fixed = {
            "id": str(uuid4()),
            "project_id": project,
            "tenant_id": project,
            "revision_number": 1,
            "created_at": _time(unit),
            "updated_at": _time(unit),
        }
        if self._tagged:
            fixed["tags"] = sorted(set(cast(list[str], body.get("tags", []))))
        return {"description": "", **body, **fixed}

    def get_for_update(
        self, unit: UnitOfWork, id: str, revision: int | None = None
    ) -> dict[str, Any]:
        """Return the resource of *id*, locked until the transaction ends.

        :raises NotFound: it does not exist, or is invisible to the requester.
        :raises Outdated: its revision differs from *revision*.
        """
        found = self._get(unit.tx, unit.requester, id, lock=True)
        number = found["revision_number"]
        if revision is not None and number != revision:
            raise Outdated(f"{self.name} {id} has revision {number}, not {revision}")
        return found

    def _get(
        self, reader: Reader, requester: RequestContext, id: str, *, lock: bool = False
    ) -> dict[str, Any]:
        found = self._in(reader).get(
            self._identity(id),
            project=self._project(requester),
            or_shared=self._shareable,
            lock=lock,
        )
        parent, slash, own = id.rpartition("/")
        if slash and found.get(self._parent or "") != parent:
            raise not_found(self.name)(f"there is no {self.name} {own} of {parent[:80]}")
        return found

    def _project(self, requester: RequestContext) -> str | None:
        """Return the project whose resources *requester* sees; ``None``: all."""
        return None if self._public else requester.sees

    def _identity(self, id: str) -> UUID:
        """Return the id of *id*, in which the id of a parent may precede a slash."""
        try:
            return UUID(id.rpartition("/")[2])
        except ValueError:
            raise not_found(self.name)(f"there is no {self.name} {id[:80]!r}") from None

    def _count(self, unit: UnitOfWork, bodies: Sequence[Body], each: int) -> None:
        if not self._counted:
            return
        limit = unit.context.quota(self.name)
        for project, count in Counter(str(body["project_id"]) for body in bodies).items():
            unit.tx.quotas.use(project, self.name, each * count, limit)

    def _in(self, reader: Reader) -> VendorResources:
        return VendorResources(reader.connection, self.name)


class DocumentsPlugin(HandlerPlugin, ServicePlugin):
    """Plugin that stores the declared resources for which no vendor's plugin exists."""

    VERSION: ClassVar[int] = 2

    def __init__(self, context: ServerContext, declared: Iterable[ResourceDeclaration]) -> None:
        every = {each.name: each for each in declared}
        handlers = {name: DocumentHandler.declared(each) for name, each in every.items()}
        super().__init__(context, list(handlers.values()))
        self._children: dict[str, list[DocumentHandler]] = {}
        for name, each in every.items():
            if each.parent is not None:
                self._children.setdefault(each.parent, []).append(handlers[name])
        for name in self._children.keys() & handlers.keys():
            handlers[name].children = self._children[name]
        context.precommit_hooks.append(self._delete_children)

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        raise ConfigError("the server has this plugin by itself: name the API extension only")

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("documents")

    def _delete_children(self, unit: UnitOfWork, change: Change) -> None:
        """Delete the sub-resources of a resource of the model; a pre-commit hook."""
        gone: Any = change.before
        if change.after is None and gone is not None:
            for child in self._children.get(kind_of(gone).value, ()):
                child.delete_below(unit, str(gone.id))


def _time(unit: UnitOfWork) -> str:
    return unit.now.strftime("%Y-%m-%dT%H:%M:%SZ")
