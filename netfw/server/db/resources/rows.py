"""Resource rows: documents in the form of the API, with columns for filters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar, cast
from uuid import UUID

from attrs import evolve
from sqlalchemy import (
    Connection,
    Result,
    Select,
    Table,
    and_,
    delete,
    func,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError
from sqlalchemy.util import LRUCache

from netfw.drivers.server.query import Query
from netfw.errors import Conflict
from netfw.errors.registry import in_use, not_found
from netfw.model.network import Network
from netfw.model.resource import Kind, Ref, Resource, ref
from netfw.model.subnet import Subnet
from netfw.model.values.ids import SubnetId
from netfw.model.wire import render
from netfw.server.db.engine.errors import Duplicate, ErrorKind, RetryTransaction, classify_error
from netfw.server.db.journal.journal import Journal
from netfw.server.db.journal.topics import NOTHING, TopicLinks, topic_links
from netfw.server.db.resources.query_builder import conditions, selection, sort_columns
from netfw.server.db.resources.row import CACHED, Json, Row, read_row, value
from netfw.server.db.resources.row_statements import (
    SELECT_OF_NETWORK,
    insert_into,
    select_one,
    select_texts,
    unchanged_condition,
)
from netfw.server.db.resources.shared_access import Owners, SharedAccess
from netfw.server.db.resources.visibility import project_values, visible
from netfw.server.db.schema.resource_tables import STORED, TAGS, table_mapping
from netfw.server.db.schema.row_values import related_rows, row_values, unique_key_text
from netfw.server.db.schema.table_mapping import TableMapping

R = TypeVar("R", bound=Resource)

OnChange = Callable[[TopicLinks, TopicLinks], None]
"""Called with the topics and edges before and after each change."""
AT_ONCE = 500
"""Ids in one statement: databases limit the number of values."""
LIST_STATEMENTS: LRUCache[Any, Any] = LRUCache(64)
"""Compiled statements of lists.  Clients choose their shape by filters and order, and one can take
250 kB: they must neither fill the engine's cache of 500 statements nor displace its own."""


@lru_cache(maxsize=CACHED)
def _network(body: str, subnets: frozenset[SubnetId]) -> Network:
    return evolve(cast(Network, value(Kind.NETWORK, body)), subnet_ids=subnets)


class RowReader:
    """Reads resources, in a number of statements independent of the number of rows."""

    def __init__(self, connection: Connection) -> None:
        self._connection = self.connection = connection
        self.read_ahead: dict[tuple[Kind, UUID], tuple[Resource, ...]] = {}
        """Subnets and segments of networks for the next `of_network`, which uses them once."""

    def find(
        self,
        kind: Kind,
        query: Query,
        *,
        project: str | None = None,
        viewer: str | None = None,
    ) -> tuple[Row, ...]:
        """Return the resources of *query* that *project* can see; ``None`` sees all.

        *viewer* is the project in whose view a resource is shared; ``None``: with all projects.

        :raises InvalidInput: names each wrong filter or sort key.
        :raises NotFound: *project* sees no resource with the marker's id.
        """
        marker = None if query.marker is None else self._marker(kind, query, project)
        rows = selection(kind, query, marker, viewed=viewer is not None)
        if project is not None:
            rows = rows.where(visible(kind, by_id="id" in query.filters))
        extras: dict[str, Json] = {}
        listed = self._execute_list(rows, project, viewer).all()
        found = [read_row(kind, row, extras) for row in listed]
        self._note_access(kind, project, _owners(found))
        if query.backwards:
            found.reverse()
        return self._with_subnets(kind, found)

    def count(self, kind: Kind, query: Query, *, project: str | None = None) -> int:
        """Return the number of resources of *query*, on all pages."""
        counted = select(func.count()).select_from(table_mapping(kind).table)
        rows = counted.where(*conditions(kind, query.filters))
        if project is not None:
            rows = rows.where(visible(kind))
        return int(self._execute_list(rows, project).scalar_one())

    def get(
        self,
        kind: Kind,
        id: UUID,
        *,
        project: str | None = None,
        lock: bool = False,
        viewer: str | None = None,
    ) -> Row:
        """Return the resource of that id.

        *lock* locks it until the transaction ends, for a caller that changes it.  *viewer* is the
        project in whose view it is shared, for a caller that shows it.

        :raises NotFound: it does not exist, or *project* cannot see it.
        """
        found = read_row(kind, self._get(kind, id, project, lock, viewer))
        self._note_access(kind, project, _owners([found]))
        return self._with_subnets(kind, [found])[0]

    def _get(
        self, kind: Kind, id: UUID, project: str | None, lock: bool, viewer: str | None = None
    ) -> Any:
        rows = select_one(kind, seen=project is not None, lock=lock, viewed=viewer is not None)
        found = rows.first(self._connection, {"of_id": str(id), **project_values(project, viewer)})
        if found is None:
            raise not_found(kind)(f"there is no {kind} {id}")
        return found

    def network(
        self, id: UUID, *, project: str | None = None, lock: bool = False
    ) -> tuple[Network, Sequence[Subnet]]:
        """Return a network and its subnets, parsed; *lock* locks the network.

        :raises NotFound: it does not exist, or *project* cannot see it.
        """
        found = self._get(Kind.NETWORK, id, project, lock)
        subnets = cast("tuple[Subnet, ...]", self.of_network(Kind.SUBNET, id))
        network = _network(found.body, frozenset(each.id for each in subnets))
        self._note_access(Kind.NETWORK, project, [(str(id), network.project_id)])
        return network, subnets

    def of_network(self, kind: Kind, network: UUID) -> tuple[Resource, ...]:
        """Return all subnets or segments of a network, parsed, in the order of their ids."""
        if (ahead := self.read_ahead.pop((kind, network), None)) is not None:
            return ahead
        found = SELECT_OF_NETWORK[kind].all(self._connection, {"of_network": str(network)})
        return tuple(value(kind, row.body) for row in found)

    def present(self, refs: Iterable[Ref], *, share: bool = False) -> tuple[Row, ...]:
        """Return those of *refs* that exist, by one statement per kind and some hundreds of ids.

        *share*: until this transaction ends, others may rely on them too, and none changes them.
        """
        wanted: dict[Kind, list[str]] = {}
        for each in refs:
            wanted.setdefault(each.kind, []).append(str(each.id))
        found: list[Row] = []
        for kind, ids in wanted.items():
            table = table_mapping(kind).table
            rows = select(table.c.body, table.c.extra)
            if share:
                rows = rows.order_by(table.c.id).with_for_update(read=True)
            some: list[Row] = []
            for part in _parts(ids):
                chosen = self._connection.execute(rows.where(table.c.id.in_(part)))
                some += [read_row(kind, row) for row in chosen]
            found += self._with_subnets(kind, some)
        return tuple(found)

    def texts(self, refs: Iterable[Ref]) -> dict[Ref, str]:
        """Return those of *refs* that exist as the stored JSON text, without parsing it.

        The text of a network has no subnets, which are rows of their own.
        """
        wanted: dict[Kind, list[str]] = {}
        for each in refs:
            wanted.setdefault(each.kind, []).append(str(each.id))
        found: dict[Ref, str] = {}
        for kind, ids in wanted.items():
            for part in _parts(ids):
                for row in self._connection.execute(select_texts(kind), {"ids": part}):
                    found[Ref(kind, UUID(row.id))] = row.body
        return found

    def _note_access(self, kind: Kind, project: str | None, owners: Owners) -> None:
        """Note rows that *project* can see, for a transaction that depends on it."""

    def _marker(self, kind: Kind, query: Query, project: str | None) -> Mapping[str, Any]:
        table = table_mapping(kind).table
        row = select(*sort_columns(kind, query)).where(table.c.id == str(query.marker))
        if project is not None:
            row = row.where(visible(kind, by_id=True))
        found = self._execute_list(row, project).first()
        if found is None:
            raise not_found(kind)(f"there is no {kind} {query.marker} to go on from")
        return dict(found._mapping)

    def _execute_list(
        self, rows: Select[Any], project: str | None, viewer: str | None = None
    ) -> Result[Any]:
        values, options = project_values(project, viewer), {"compiled_cache": LIST_STATEMENTS}
        return self._connection.execute(rows, values, execution_options=options)

    def _with_subnets(self, kind: Kind, rows: Sequence[Row]) -> tuple[Row, ...]:
        """Add to networks the ids of their subnets, which are rows of their own."""
        if kind is not Kind.NETWORK or not rows:
            return tuple(rows)
        subnets = STORED[Kind.SUBNET].table
        of: dict[str, list[str]] = {row.body["id"]: [] for row in rows}
        for part in _parts(list(of)):
            chosen = select(subnets.c.network_id, subnets.c.id).where(
                subnets.c.network_id.in_(part)
            )
            for network, id in self._connection.execute(chosen.order_by(subnets.c.id)):
                of[network].append(id)
        return tuple(evolve(row, body={**row.body, "subnets": of[row.body["id"]]}) for row in rows)


class RowWriter(RowReader):
    """Writes resources too; the journal records each change under its topics before and after."""

    def __init__(self, connection: Connection, journal: Journal, on_change: OnChange) -> None:
        super().__init__(connection)
        self._journal, self._on_change = journal, on_change
        self.access = SharedAccess(connection)
        self.written: dict[Ref, Json] = {}
        """The bodies that this transaction wrote, as stored: networks without subnets."""

    def insert(
        self, *new: R, extra: Json | None = None, extras: Mapping[UUID, Json] | None = None
    ) -> tuple[R, ...]:
        """Store new resources of one kind, with revision 1 where they have none.

        *extra* is of all of them, *extras* of each.

        :raises Conflict: one exists, or its address, MAC or the like; or it refers to what is gone.
        """
        numbered = tuple(each if each.revision else evolve(each, revision=1) for each in new)
        if not numbered:
            return ()
        how = table_mapping(ref(numbered[0]).kind)
        bodies = [_body(each) for each in numbered]
        rows = [
            row_values(how, body, (extras or {}).get(each.id, extra or {}))
            for each, body in zip(numbered, bodies, strict=True)
        ]
        self._insert(how.table, rows, how)
        for table, some in related_rows(how, bodies).items():
            self._insert(table, some, how)
        for each, body in zip(numbered, bodies, strict=True):
            target = ref(each)
            self.written[target] = body
            now = topic_links(each)
            self._journal.note(target, now.topics)
            self._on_change(NOTHING, now)
        return numbered

    def update(self, before: Resource, after: R, extra: Json | None = None) -> R:
        """Store *after* with the next revision, and return it.  *extra* ``None``: unchanged.

        *before* is what this transaction read; when another one changed it meanwhile, this
        transaction is tried again from its beginning.

        :raises Conflict: the address, MAC or the like exists; or it refers to what is gone.
        """
        how = table_mapping(ref(after).kind)
        changed: R = evolve(after, revision=before.revision + 1)
        old, new = _body(before), _body(changed)
        values = row_values(how, new, extra or {})
        if extra is None:
            del values["extra"]
        change = update(how.table).where(unchanged_condition(how, old)).values(values)
        if self._write(lambda: self._connection.execute(change).rowcount, how) != 1:
            raise RetryTransaction(f"{ref(after)} was changed or deleted meanwhile")
        self._relate(how, old, new)
        self.written[ref(after)] = new
        was, now = topic_links(before), topic_links(changed)
        self._journal.note(ref(after), was.topics | now.topics)
        self._on_change(was, now)
        return changed

    def delete(self, before: Resource) -> None:
        """Delete a resource that this transaction read.

        :raises Conflict: something refers to it.
        """
        target = ref(before)
        how = table_mapping(target.kind)
        table = how.table
        gone = delete(table).where(
            table.c.id == str(target.id), table.c.revision_number == before.revision
        )
        try:
            done = self._connection.execute(gone).rowcount
        except IntegrityError as exc:
            raise in_use(target.kind)(
                f"{target} is in use; remove what refers to it first"
            ) from exc
        if done != 1:
            raise RetryTransaction(f"{target} was changed or deleted meanwhile")
        if getattr(before, "tags", ()):
            self._connection.execute(delete(TAGS).where(TAGS.c.resource_id == str(target.id)))
        was = topic_links(before)
        self._journal.note(target, was.topics)
        self._on_change(was, NOTHING)

    def _note_access(self, kind: Kind, project: str | None, owners: Owners) -> None:
        self.access.note(kind, project, owners)

    def _relate(self, how: TableMapping, old: Json, new: Json) -> None:
        before, after = related_rows(how, [old]), related_rows(how, [new])
        for table in (*(relation.table for relation in how.relations), TAGS):
            former, wanted = before.get(table, []), after.get(table, [])
            for row in former:
                if row not in wanted:
                    same = and_(*(table.c[name] == value for name, value in row.items()))
                    self._connection.execute(delete(table).where(same))
            if fresh := [row for row in wanted if row not in former]:
                self._insert(table, fresh, how)

    def _insert(self, table: Table, rows: Sequence[Json], how: TableMapping) -> None:
        self._write(lambda: insert_into(table).count_many(self._connection, rows), how)

    def _write(self, run: Callable[[], int], how: TableMapping) -> int:
        try:
            return run()
        except IntegrityError as exc:
            if classify_error(exc) is ErrorKind.DUPLICATE:
                what = f"a {how.kind} with the same {unique_key_text(how)} exists"
                raise Duplicate(what) from exc
            what = f"the {how.kind} refers to something that does not exist, or not any more"
            raise Conflict(what) from exc


def _body(resource: Resource) -> dict[str, Any]:
    body = render(resource)
    if isinstance(body.get("subnets"), list):
        del body["subnets"]
    return body


def _owners(rows: Iterable[Row]) -> Owners:
    return ((row.body["id"], row.body.get("project_id", "")) for row in rows)


def _parts(ids: Sequence[str]) -> Iterable[Sequence[str]]:
    return (ids[at : at + AT_ONCE] for at in range(0, len(ids), AT_ONCE))
