"""Subscriptions of readers to topics, maintained by the transactions that bind ports and so on.

A row has the number of edges by which a reader reaches a topic, and since which commit.  A topic
that is new to a reader leads to others; the cost of a transaction is that of the topics that become
reachable or unreachable, without members of groups and ports of networks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final
from uuid import UUID

from attrs import mutable
from sqlalchemy import Connection, bindparam, insert, select
from sqlalchemy.exc import IntegrityError

from netfw.drivers.server.query import Query
from netfw.model.resource import Kind, Ref, Resource
from netfw.model.values.device_owner import DeviceOwner
from netfw.server.db.engine.errors import RetryTransaction
from netfw.server.db.engine.prepared import Prepared
from netfw.server.db.journal.topics import TopicEdge, TopicLinks, is_root, source, topic_links
from netfw.server.db.resources.rows import AT_ONCE, RowReader
from netfw.server.db.schema.tables import SUBSCRIPTIONS
from netfw.state.dependencies import DELIVERED, ResourceRole, Role

Key = tuple[str, str]
"""A reader and a topic."""

SELECT_SUBSCRIPTIONS_FOR_UPDATE: Final = Prepared(
    select(SUBSCRIPTIONS)
    .where(
        SUBSCRIPTIONS.c.reader.in_(bindparam("readers", expanding=True)),
        SUBSCRIPTIONS.c.topic.in_(bindparam("topics", expanding=True)),
    )
    .with_for_update()
)
REPLACE_SUBSCRIPTIONS: Final = Prepared.upsert(SUBSCRIPTIONS)
"""For rows that are locked: it is one statement for all of them, unlike an update."""


@mutable
class RefCount:
    """A row: its new values, and the former reference count."""

    uses: int
    since: int
    ended: int | None
    stored: bool
    former: int


class Subscriptions:
    """Subscriptions in a transaction: changes are collected, and written at its end."""

    def __init__(self, connection: Connection, rows: RowReader) -> None:
        self._connection, self._rows = connection, rows
        self._added: set[TopicEdge] = set()
        self._removed: set[TopicEdge] = set()
        self._counts: dict[Key, RefCount] = {}
        self._interfaces: dict[UUID, list[Resource]] = {}
        """The distributed interfaces on each subnet, while subscriptions are computed."""

    def change(self, before: TopicLinks, after: TopicLinks) -> None:
        """Collect the difference between the edges of *before* and *after*."""
        _move(after.edges - before.edges, self._removed, self._added)
        _move(before.edges - after.edges, self._added, self._removed)

    def resolve(self) -> None:
        """Compute the new subscriptions from the collected edges.

        The rows of resources are written already, and transactions do this one after another: each
        sees the changes of all earlier ones.
        """
        entering, leaving = set(self._added), set(self._removed)
        if not entering and not leaving:
            return
        self._interfaces.clear()
        self._load(entering | leaving)
        for edge in sorted(self._added, key=_order):
            entering.discard(edge)
            for reader in self._readers(edge.source):
                self._enter(reader, edge.node, entering, leaving)
        for edge in sorted(self._removed, key=_order):
            leaving.discard(edge)
            for reader in self._readers(edge.source):
                self._leave(reader, edge.node, leaving)
        self._added.clear()
        self._removed.clear()

    @property
    def pending(self) -> bool:
        """Whether edges are collected, so that subscriptions may change."""
        return bool(self._added or self._removed)

    def write(self, seq: int) -> dict[str, Ref]:
        """Write the subscriptions as of commit *seq*.

        Return the readers for which a delivered topic began or ended, with one such topic each.
        """
        counted, new = [], []
        changed = self._changed_readers()
        for (reader, name), held in sorted(self._counts.items()):
            if held.uses == held.former:
                continue
            begins = held.uses > 0 and not (held.stored and held.former)
            since = seq if begins else held.since
            ended = None if held.uses else seq
            if held.stored:
                counted.append(_row(reader, name, held.uses, since, ended))
            elif held.uses:
                new.append(_row(reader, name, held.uses, since, ended))
        self._counts.clear()
        if counted:
            REPLACE_SUBSCRIPTIONS.count_many(self._connection, counted)
        if new:
            try:
                self._connection.execute(insert(SUBSCRIPTIONS), new)
            except IntegrityError as exc:
                raise RetryTransaction(
                    "another transaction inserted the same subscription"
                ) from exc
        return changed

    def _changed_readers(self) -> dict[str, Ref]:
        changed: dict[str, Ref] = {}
        for (reader, name), held in sorted(self._counts.items()):
            if reader not in changed and bool(held.uses) != bool(held.former):
                node = source(name)
                if isinstance(node, ResourceRole) and node.role in DELIVERED:
                    changed[reader] = node.ref
        return changed

    def _enter(
        self, reader: str, node: str, entering: set[TopicEdge], leaving: set[TopicEdge]
    ) -> None:
        held = self._get((reader, node))
        held.uses += 1
        if held.uses == 1:
            for onward in (self._out(node) - entering) | _from(node, leaving):
                self._enter(reader, onward.node, entering, leaving)

    def _leave(self, reader: str, node: str, leaving: set[TopicEdge]) -> None:
        held = self._get((reader, node))
        held.uses -= 1
        if held.uses == 0:
            for onward in self._out(node) | _from(node, leaving):
                self._leave(reader, onward.node, leaving)

    def _out(self, node: str) -> set[TopicEdge]:
        """Return the edges from *node*, by the resources stored now."""
        origin = source(node)
        items = self._contributors(origin) if isinstance(origin, ResourceRole) else ()
        return {edge for item in items for edge in _from(node, topic_links(item).edges)}

    def _contributors(self, node: ResourceRole) -> Iterator[Resource]:
        id, find = node.ref.id, self._find
        match node.ref.kind, node.role:
            case Kind.NETWORK, Role.SEEN:
                yield from find(Kind.NETWORK, id=id)
            case Kind.SECURITY_GROUP, Role.SEEN:
                yield from find(Kind.SECURITY_GROUP_RULE, security_group_id=id)
            case Kind.PORT, Role.FLOATING:
                yield from find(Kind.FLOATING_IP, port_id=id)
            case Kind.ROUTER, Role.HOME:
                yield from find(Kind.ROUTER, id=id)
                yield from find(Kind.PORT, device_id=id)
            case Kind.ROUTER, Role.ASSIGNED:
                yield from find(Kind.FLOATING_IP, router_id=id)
            case Kind.ROUTER, Role.DISTRIBUTED | Role.DISTRIBUTED_PEERS:
                yield from find(Kind.PORT, device_id=id)
            case Kind.SUBNET, Role.ROUTED | Role.DISTRIBUTED | Role.DISTRIBUTED_PEERS:
                yield from self._distributed_interfaces(id)

    def _distributed_interfaces(self, subnet: UUID) -> list[Resource]:
        """Return the distributed interfaces on a subnet, which is read once for all roles."""
        if subnet not in self._interfaces:
            owner = DeviceOwner.ROUTER_INTERFACE_DISTRIBUTED.value
            wanted = {"fixed_ips": (f"subnet_id={subnet}",), "device_owner": (owner,)}
            found = self._rows.find(Kind.PORT, Query(filters=wanted))
            self._interfaces[subnet] = [row.resource() for row in found]
        return self._interfaces[subnet]

    def _find(self, kind: Kind, **filters: object) -> Iterator[Resource]:
        query = Query(filters={name: (str(value),) for name, value in filters.items()})
        for row in self._rows.find(kind, query):
            yield row.resource()

    def _readers(self, name: str) -> tuple[str, ...]:
        if is_root(name):
            return (name,)
        rows = select(SUBSCRIPTIONS).where(SUBSCRIPTIONS.c.topic == name)
        for row in self._connection.execute(rows.with_for_update()):
            self._keep(row)
        return tuple(
            sorted(key[0] for key, held in self._counts.items() if key[1] == name and held.uses)
        )

    def _load(self, edges: Iterable[TopicEdge]) -> None:
        """Load and lock the subscriptions of agent roots to the targets of *edges*."""
        direct = [edge for edge in edges if is_root(edge.source)]
        readers = sorted({edge.source for edge in direct})
        names = sorted({edge.node for edge in direct})
        for at in range(0, len(names), AT_ONCE):
            values = {"readers": readers, "topics": names[at : at + AT_ONCE]}
            for row in SELECT_SUBSCRIPTIONS_FOR_UPDATE.all(self._connection, values):
                self._keep(row)
        for edge in direct:
            if (edge.source, edge.node) not in self._counts:
                self._counts[edge.source, edge.node] = RefCount(0, 0, None, False, 0)

    def _get(self, key: Key) -> RefCount:
        if key not in self._counts:
            same = SUBSCRIPTIONS.c.reader == key[0], SUBSCRIPTIONS.c.topic == key[1]
            row = self._connection.execute(
                select(SUBSCRIPTIONS).where(*same).with_for_update()
            ).first()
            if row is None:
                self._counts[key] = RefCount(0, 0, None, False, 0)
            else:
                self._keep(row)
        return self._counts[key]

    def _keep(self, row: Any) -> None:
        held = RefCount(row.uses, row.since, row.ended, True, row.uses)
        self._counts.setdefault((row.reader, row.topic), held)


def _order(edge: TopicEdge) -> tuple[str, str]:
    """Return the lock order of all transactions, which makes deadlocks rare."""
    return edge.source, edge.node


def _move(edges: Iterable[TopicEdge], undone: set[TopicEdge], done: set[TopicEdge]) -> None:
    """Add *edges* to *done*, except those that cancel an edge of *undone*."""
    for edge in edges:
        if edge in undone:
            undone.discard(edge)
        else:
            done.add(edge)


def _from(node: str, edges: Iterable[TopicEdge]) -> set[TopicEdge]:
    return {edge for edge in edges if edge.source == node}


def _row(reader: str, name: str, uses: int, since: int, ended: int | None) -> dict[str, Any]:
    return {"reader": reader, "topic": name, "uses": uses, "since": since, "ended": ended}
