"""Resources as rows: documents in the form of the API, with columns for what is looked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Final, TypeVar, cast
from uuid import UUID

import orjson
from attrs import evolve, frozen
from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Table,
    and_,
    bindparam,
    delete,
    func,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from netfw.drivers.query import Query
from netfw.errors import Conflict, NotFound
from netfw.model.ids import SubnetId
from netfw.model.network import Network
from netfw.model.resource import Kind, Ref, Resource, ref
from netfw.model.subnet import Subnet
from netfw.model.wire import parse, render
from netfw.server.db.engine.errors import Duplicate, ErrorKind, RetryTransaction, classify_error
from netfw.server.db.engine.prepared import Prepared
from netfw.server.db.journal.journal import Journal
from netfw.server.db.journal.topics import NOTHING, TopicLinks, topic_links
from netfw.server.db.resources.query_builder import conditions, selection, sort_columns, visible
from netfw.server.db.schema.resource_tables import (
    STORED,
    TAGS,
    TableMapping,
    related_rows,
    row_values,
    table_mapping,
    unique_key_text,
)

R = TypeVar("R", bound=Resource)

Json = Mapping[str, Any]
Noticed = Callable[[TopicLinks, TopicLinks], None]
"""Told of every change, with what was said before and what is after."""
AT_ONCE = 500
"""So many ids in one statement: SQLite and others bound the number of values."""
OF_NETWORK: Final = {
    kind: Prepared(
        select(STORED[kind].table.c.body)
        .where(STORED[kind].table.c.network_id == bindparam("of_network"))
        .order_by(STORED[kind].table.c.id)
    )
    for kind in (Kind.SUBNET, Kind.SEGMENT)
}
REMEMBERED = 2048
"""So many values of rows are remembered, by their text: each port looks at its network."""


@lru_cache(maxsize=REMEMBERED)
def value(kind: Kind, body: str) -> Resource:
    """The value that the *body* of a row says."""
    return parse(kind, orjson.loads(body))


@lru_cache(maxsize=REMEMBERED)
def _network(body: str, subnets: frozenset[SubnetId]) -> Network:
    return evolve(cast(Network, value(Kind.NETWORK, body)), subnet_ids=subnets)


@cache
def _one(kind: Kind, *, seen: bool, lock: bool) -> Prepared:
    """The statement for one resource, made once: making it takes longer than running it."""
    table = table_mapping(kind).table
    rows = select(table.c.body, table.c.extra).where(table.c.id == bindparam("of_id"))
    if seen:
        rows = rows.where(visible(kind, bindparam("seen_by")))
    return Prepared(rows.with_for_update() if lock else rows)


@cache
def _texts(kind: Kind) -> Select[tuple[str, str]]:
    table = table_mapping(kind).table
    return select(table.c.id, table.c.body).where(table.c.id.in_(bindparam("ids", expanding=True)))


@cache
def _new(table: Table) -> Prepared:
    return Prepared.insert(table)


@frozen(kw_only=True)
class Row:
    """A stored resource, in the form of the API; a value of the model only for who needs one."""

    kind: Kind
    body: Json
    extra: Json
    """Attributes that extension drivers added."""

    @property
    def ref(self) -> Ref:
        return Ref(self.kind, UUID(self.body["id"]))

    @property
    def shown(self) -> dict[str, Any]:
        """What the API shows."""
        return {**self.body, **self.extra}

    def resource(self) -> Resource:
        """The value that the row says."""
        return parse(self.kind, self.body)


class Rows:
    """Reading resources, in a number of statements that does not grow with what is found."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find(self, kind: Kind, query: Query, *, project: str | None = None) -> tuple[Row, ...]:
        """The resources that *query* asks for, as far as *project* sees them; ``None`` sees all.

        :raises InvalidInput: naming each filter or order that cannot be.
        :raises NotFound: there is no resource of the marker's id that *project* sees.
        """
        marker = None if query.marker is None else self._marker(kind, query, project)
        rows = selection(kind, query, marker)
        if project is not None:
            rows = rows.where(visible(kind, project))
        found = [_row(kind, row) for row in self._connection.execute(rows)]
        if query.backwards:
            found.reverse()
        return self._completed(kind, found)

    def count(self, kind: Kind, query: Query, *, project: str | None = None) -> int:
        """How many *query* asks for, on all pages."""
        rows = select(func.count()).select_from(table_mapping(kind).table)
        rows = rows.where(*conditions(kind, query.filters))
        if project is not None:
            rows = rows.where(visible(kind, project))
        return int(self._connection.execute(rows).scalar_one())

    def get(
        self,
        kind: Kind,
        id: UUID,
        *,
        project: str | None = None,
        lock: bool = False,
    ) -> Row:
        """The resource of that id.

        Locked, nobody else changes it until the transaction ends; it is for who will.

        :raises NotFound: there is none, or *project* does not see it.
        """
        found = self._get(kind, id, project, lock)
        return self._completed(kind, [_row(kind, found)])[0]

    def _get(self, kind: Kind, id: UUID, project: str | None, lock: bool) -> Any:
        values = {"of_id": str(id)} | ({} if project is None else {"seen_by": project})
        rows = _one(kind, seen=project is not None, lock=lock)
        found = rows.first(self._connection, values)
        if found is None:
            raise NotFound(f"there is no {kind} {id}")
        return found

    def network(
        self, id: UUID, *, project: str | None = None, lock: bool = False
    ) -> tuple[Network, Sequence[Subnet]]:
        """A network and its subnets, as values; locked, nobody else changes the network.

        :raises NotFound: there is none, or *project* does not see it.
        """
        found = self._get(Kind.NETWORK, id, project, lock)
        subnets = cast("tuple[Subnet, ...]", self.of_network(Kind.SUBNET, id))
        return _network(found.body, frozenset(each.id for each in subnets)), subnets

    def of_network(self, kind: Kind, network: UUID) -> tuple[Resource, ...]:
        """All subnets or segments of a network, in the order of their ids, as values."""
        found = OF_NETWORK[kind].all(self._connection, {"of_network": str(network)})
        return tuple(value(kind, row.body) for row in found)

    def present(self, refs: Iterable[Ref]) -> tuple[Row, ...]:
        """Those of *refs* that exist: one statement for each kind, and for some hundreds."""
        wanted: dict[Kind, list[str]] = {}
        for each in refs:
            wanted.setdefault(each.kind, []).append(str(each.id))
        found: list[Row] = []
        for kind, ids in wanted.items():
            table = table_mapping(kind).table
            rows = select(table.c.body, table.c.extra)
            some: list[Row] = []
            for part in _parts(ids):
                chosen = self._connection.execute(rows.where(table.c.id.in_(part)))
                some += [_row(kind, row) for row in chosen]
            found += self._completed(kind, some)
        return tuple(found)

    def texts(self, refs: Iterable[Ref]) -> dict[Ref, str]:
        """Those of *refs* that exist, as JSON and just as they are stored: nothing is read of it.

        Networks do not list their subnets there, which are rows of their own.
        """
        wanted: dict[Kind, list[str]] = {}
        for each in refs:
            wanted.setdefault(each.kind, []).append(str(each.id))
        found: dict[Ref, str] = {}
        for kind, ids in wanted.items():
            for part in _parts(ids):
                for row in self._connection.execute(_texts(kind), {"ids": part}):
                    found[Ref(kind, UUID(row.id))] = row.body
        return found

    def _marker(self, kind: Kind, query: Query, project: str | None) -> Mapping[str, Any]:
        table = table_mapping(kind).table
        row = select(*sort_columns(kind, query)).where(table.c.id == str(query.marker))
        if project is not None:
            row = row.where(visible(kind, project))
        found = self._connection.execute(row).first()
        if found is None:
            raise NotFound(f"there is no {kind} {query.marker} to go on from")
        return dict(found._mapping)

    def _completed(self, kind: Kind, rows: Sequence[Row]) -> tuple[Row, ...]:
        """Networks list their subnets, which are rows of their own."""
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


class Resources(Rows):
    """Writing too.  Each change is noted in the journal under the topics of before and after."""

    def __init__(self, connection: Connection, journal: Journal, noticed: Noticed) -> None:
        super().__init__(connection)
        self._journal, self._noticed = journal, noticed
        self.written: dict[Ref, Json] = {}
        """What this transaction wrote of each, as it is stored; networks say no subnets there."""

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
            self._noticed(NOTHING, now)
        return numbered

    def update(self, before: Resource, after: R, extra: Json | None = None) -> R:
        """Store *after* with the next revision, and return it so.  *extra* ``None``: as it is.

        *before* is what this transaction read; when somebody changed it meanwhile, the
        transaction is tried again from its beginning.

        :raises Conflict: the address, MAC or the like exists; or it refers to what is gone.
        """
        how = table_mapping(ref(after).kind)
        changed: R = evolve(after, revision=before.revision + 1)
        old, new = _body(before), _body(changed)
        values = row_values(how, new, extra or {})
        if extra is None:
            del values["extra"]
        change = update(how.table).where(_as_read(how, old)).values(values)
        if self._write(lambda: self._connection.execute(change).rowcount, how) != 1:
            raise RetryTransaction(f"{ref(after)} was changed or deleted meanwhile")
        self._relate(how, old, new)
        self.written[ref(after)] = new
        was, now = topic_links(before), topic_links(changed)
        self._journal.note(ref(after), was.topics | now.topics)
        self._noticed(was, now)
        return changed

    def delete(self, before: Resource) -> None:
        """Remove what this transaction read.

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
            raise Conflict(f"{target} is in use; remove what refers to it first") from exc
        if done != 1:
            raise RetryTransaction(f"{target} was changed or deleted meanwhile")
        if getattr(before, "tags", ()):
            self._connection.execute(delete(TAGS).where(TAGS.c.resource_id == str(target.id)))
        was = topic_links(before)
        self._journal.note(target, was.topics)
        self._noticed(was, NOTHING)

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
        self._write(lambda: _new(table).count_many(self._connection, rows), how)

    def _write(self, run: Callable[[], int], how: TableMapping) -> int:
        try:
            return run()
        except IntegrityError as exc:
            if classify_error(exc) is ErrorKind.DUPLICATE:
                what = f"a {how.kind} with the same {unique_key_text(how)} exists"
                raise Duplicate(what) from exc
            what = f"the {how.kind} refers to something that does not exist, or not any more"
            raise Conflict(what) from exc


def _as_read(how: TableMapping, body: Json) -> ColumnElement[bool]:
    """That a row is still what was read: also its status, which has no revision."""
    columns = how.table.c
    same = and_(columns.id == body["id"], columns.revision_number == body["revision_number"])
    return and_(same, columns.status == body["status"]) if "status" in columns else same


def _body(resource: Resource) -> dict[str, Any]:
    body = render(resource)
    if isinstance(body.get("subnets"), list):
        del body["subnets"]
    return body


def _row(kind: Kind, row: Any) -> Row:
    extra = {} if row.extra == "{}" else json.loads(row.extra)
    return Row(kind=kind, body=orjson.loads(row.body), extra=extra)


def _parts(ids: Sequence[str]) -> Iterable[Sequence[str]]:
    return (ids[at : at + AT_ONCE] for at in range(0, len(ids), AT_ONCE))
