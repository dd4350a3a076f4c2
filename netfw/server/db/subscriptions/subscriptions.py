"""Who follows which topics: kept by the transactions that bind ports, assign routers and so on.

A row says over how many ways a reader reaches a topic, and since which commit.  A topic that is new
to a reader leads on to others; what a transaction does here costs what becomes reachable or stops
being so, members of groups and ports of networks not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from attrs import mutable
from sqlalchemy import Connection, bindparam, insert, select, update
from sqlalchemy.exc import IntegrityError

from netfw.drivers.query import Query
from netfw.model.device_owner import DeviceOwner
from netfw.model.resource import Kind, Resource
from netfw.server.db.engine.errors import RetryTransaction
from netfw.server.db.engine.prepared import Prepared
from netfw.server.db.journal.topics import TopicEdge, TopicLinks, is_root, source, topic_links
from netfw.server.db.resources.rows import AT_ONCE, Rows
from netfw.server.db.schema.tables import INTERESTS
from netfw.state.dependencies import ResourceRole, Role

Key = tuple[str, str]
"""A reader and a topic."""

SELECT_SUBSCRIPTIONS_FOR_UPDATE: Final = Prepared(
    select(INTERESTS)
    .where(
        INTERESTS.c.reader.in_(bindparam("readers", expanding=True)),
        INTERESTS.c.topic.in_(bindparam("topics", expanding=True)),
    )
    .with_for_update()
)
UPDATE_SUBSCRIPTION: Final = Prepared(
    update(INTERESTS)
    .where(INTERESTS.c.reader == bindparam("of_reader"), INTERESTS.c.topic == bindparam("of_topic"))
    .values(uses=bindparam("new_uses"), since=bindparam("new_since"), ended=bindparam("new_ended"))
)


@mutable
class RefCount:
    """A row as it was read, and as it will be."""

    uses: int
    since: int
    ended: int | None
    stored: bool
    former: int


class Subscriptions:
    """The topics of readers, in a transaction: changes are collected, and written at its end."""

    def __init__(self, connection: Connection, rows: Rows) -> None:
        self._connection, self._rows = connection, rows
        self._added: set[TopicEdge] = set()
        self._removed: set[TopicEdge] = set()
        self._held: dict[Key, RefCount] = {}

    def change(self, before: TopicLinks, after: TopicLinks) -> None:
        """Have whoever is concerned follow what *after* leads to, instead of *before*."""
        _move(after.ways - before.ways, self._removed, self._added)
        _move(before.ways - after.ways, self._added, self._removed)

    def settle(self) -> None:
        """Work out who follows what from now on.

        The rows of resources are written already, and no other transaction does the same until
        this one ends: each sees all that others did before.
        """
        waiting, lingering = set(self._added), set(self._removed)
        if not waiting and not lingering:
            return
        self._load(waiting | lingering)
        for way in sorted(self._added, key=_order):
            waiting.discard(way)
            for reader in self._readers(way.source):
                self._enter(reader, way.node, waiting, lingering)
        for way in sorted(self._removed, key=_order):
            lingering.discard(way)
            for reader in self._readers(way.source):
                self._leave(reader, way.node, lingering)
        self._added.clear()
        self._removed.clear()

    @property
    def pending(self) -> bool:
        """Whether anybody may follow something else than before."""
        return bool(self._added or self._removed)

    def write(self, seq: int) -> None:
        """Write it down as of commit *seq*."""
        counted, new = [], []
        for (reader, name), held in sorted(self._held.items()):
            if held.uses == held.former:
                continue
            begins = held.uses > 0 and not (held.stored and held.former)
            since = seq if begins else held.since
            ended = None if held.uses else seq
            if held.stored:
                counted.append(_row("of_", reader, name) | _count("new_", held.uses, since, ended))
            elif held.uses:
                new.append(_row("", reader, name) | _count("", held.uses, since, ended))
        self._held.clear()
        if counted:
            UPDATE_SUBSCRIPTION.count_many(self._connection, counted)
        if new:
            try:
                self._connection.execute(insert(INTERESTS), new)
            except IntegrityError as exc:
                raise RetryTransaction("another transaction has a reader follow the same") from exc

    def _enter(
        self, reader: str, node: str, waiting: set[TopicEdge], lingering: set[TopicEdge]
    ) -> None:
        held = self._get((reader, node))
        held.uses += 1
        if held.uses == 1:
            for onward in (self._out(node) - waiting) | _from(node, lingering):
                self._enter(reader, onward.node, waiting, lingering)

    def _leave(self, reader: str, node: str, lingering: set[TopicEdge]) -> None:
        held = self._get((reader, node))
        held.uses -= 1
        if held.uses == 0:
            for onward in self._out(node) | _from(node, lingering):
                self._leave(reader, onward.node, lingering)

    def _out(self, node: str) -> set[TopicEdge]:
        """The ways that lead on from *node*, as what is stored now says them."""
        found = source(node)
        items = self._contributors(found) if isinstance(found, ResourceRole) else ()
        return {way for item in items for way in _from(node, topic_links(item).ways)}

    def _contributors(self, node: ResourceRole) -> Iterator[Resource]:
        id, find = node.ref.id, self._find
        match node.ref.kind, node.role:
            case Kind.NETWORK, Role.SEEN:
                yield from find(Kind.NETWORK, id=id)
            case Kind.SECURITY_GROUP, Role.SEEN:
                yield from find(Kind.SECURITY_GROUP_RULE, security_group_id=id)
            case Kind.ROUTER, Role.HOME:
                yield from find(Kind.ROUTER, id=id)
                yield from find(Kind.PORT, device_id=id)
                yield from find(Kind.FLOATING_IP, router_id=id)
            case Kind.SUBNET, Role.ROUTED:
                wanted = {
                    "fixed_ips": (f"subnet_id={id}",),
                    "device_owner": (DeviceOwner.ROUTER_INTERFACE_DISTRIBUTED.value,),
                }
                for row in self._rows.find(Kind.PORT, Query(filters=wanted)):
                    yield row.resource()

    def _find(self, kind: Kind, **filters: object) -> Iterator[Resource]:
        query = Query(filters={name: (str(value),) for name, value in filters.items()})
        for row in self._rows.find(kind, query):
            yield row.resource()

    def _readers(self, name: str) -> tuple[str, ...]:
        if is_root(name):
            return (name,)
        rows = select(INTERESTS).where(INTERESTS.c.topic == name)
        for row in self._connection.execute(rows.with_for_update()):
            self._keep(row)
        return tuple(
            sorted(key[0] for key, held in self._held.items() if key[1] == name and held.uses)
        )

    def _load(self, ways: Iterable[TopicEdge]) -> None:
        """What the readers of roots follow of what the ways lead to, in one statement."""
        direct = [way for way in ways if is_root(way.source)]
        readers = sorted({way.source for way in direct})
        names = sorted({way.node for way in direct})
        for at in range(0, len(names), AT_ONCE):
            values = {"readers": readers, "topics": names[at : at + AT_ONCE]}
            for row in SELECT_SUBSCRIPTIONS_FOR_UPDATE.all(self._connection, values):
                self._keep(row)
        for way in direct:
            if (way.source, way.node) not in self._held:
                self._held[way.source, way.node] = RefCount(0, 0, None, False, 0)

    def _get(self, key: Key) -> RefCount:
        if key not in self._held:
            same = INTERESTS.c.reader == key[0], INTERESTS.c.topic == key[1]
            row = self._connection.execute(select(INTERESTS).where(*same).with_for_update()).first()
            if row is None:
                self._held[key] = RefCount(0, 0, None, False, 0)
            else:
                self._keep(row)
        return self._held[key]

    def _keep(self, row: Any) -> None:
        held = RefCount(row.uses, row.since, row.ended, True, row.uses)
        self._held.setdefault((row.reader, row.topic), held)


def _order(way: TopicEdge) -> tuple[str, str]:
    """All transactions come to the rows in one order, so that they seldom lock each other out."""
    return way.source, way.node


def _move(ways: Iterable[TopicEdge], undone: set[TopicEdge], done: set[TopicEdge]) -> None:
    """Count *ways* as done, unless that takes back what was done the other way round."""
    for way in ways:
        if way in undone:
            undone.discard(way)
        else:
            done.add(way)


def _from(node: str, ways: Iterable[TopicEdge]) -> set[TopicEdge]:
    return {way for way in ways if way.source == node}


def _row(prefix: str, reader: str, name: str) -> dict[str, Any]:
    return {f"{prefix}reader": reader, f"{prefix}topic": name}


def _count(prefix: str, uses: int, since: int, ended: int | None) -> dict[str, Any]:
    return {f"{prefix}uses": uses, f"{prefix}since": since, f"{prefix}ended": ended}
