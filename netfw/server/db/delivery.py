"""What is delivered under topics: the resources that a reader gets at first, or newly reaches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from uuid import UUID

from attrs import frozen
from sqlalchemy import Connection, select

from netfw.drivers.interest import Service
from netfw.drivers.query import Query
from netfw.messaging.reach import DISTRIBUTED_OWNER, EVERYWHERE, ROUTER_OWNERS, Facet, Node
from netfw.model.resource import Kind, Ref
from netfw.server.db.resources import AT_ONCE, Row, Rows
from netfw.server.db.schema import INTERESTS
from netfw.server.db.topics import source


@frozen
class Following:
    """A topic of a reader: since which commit, and until which, if it has ended."""

    topic: str
    since: int
    ended: int | None


def _all(row: Row) -> bool:
    return True


def _distributed(row: Row) -> bool:
    return bool(row.body["device_owner"] == DISTRIBUTED_OWNER)


def _bound(row: Row) -> bool:
    return bool(row.body["binding:host_id"])


def _of_router(row: Row) -> bool:
    return str(row.body["device_owner"]).startswith(ROUTER_OWNERS)


Part = tuple[Kind, str, Callable[[Row], bool]]
"""Resources of a kind whose attribute is the topic's id, and which of them."""

PARTS: dict[tuple[Kind, Facet], tuple[Part, ...]] = {
    (Kind.NETWORK, Facet.SEEN): (
        (Kind.NETWORK, "id", _all),
        (Kind.SUBNET, "network_id", _all),
        (Kind.SEGMENT, "network_id", _all),
        (Kind.PORT, "network_id", _distributed),
    ),
    (Kind.NETWORK, Facet.SERVED): (
        (Kind.NETWORK, "id", _all),
        (Kind.SUBNET, "network_id", _all),
        (Kind.SEGMENT, "network_id", _all),
        (Kind.PORT, "network_id", _all),
    ),
    (Kind.NETWORK, Facet.PEERS): ((Kind.PORT, "network_id", _bound),),
    (Kind.SECURITY_GROUP, Facet.SEEN): (
        (Kind.SECURITY_GROUP, "id", _all),
        (Kind.SECURITY_GROUP_RULE, "security_group_id", _all),
    ),
    (Kind.SECURITY_GROUP, Facet.MEMBERS): ((Kind.PORT, "security_groups", _all),),
    (Kind.ADDRESS_GROUP, Facet.SEEN): ((Kind.ADDRESS_GROUP, "id", _all),),
    (Kind.PORT, Facet.SEEN): ((Kind.PORT, "id", _all),),
    (Kind.SUBNET, Facet.AROUND): ((Kind.PORT, "fixed_ips", _all),),
    (Kind.ROUTER, Facet.HOME): (
        (Kind.ROUTER, "id", _all),
        (Kind.PORT, "device_id", _of_router),
        (Kind.FLOATING_IP, "router_id", _all),
    ),
}


class Topics:
    """What readers follow, and what that brings, in one moment of the database."""

    def __init__(self, connection: Connection, rows: Rows) -> None:
        self._connection, self._rows = connection, rows

    def of(self, readers: Sequence[str]) -> tuple[Following, ...]:
        """What *readers* follow, and lately followed; together they are one."""
        rows = select(INTERESTS).where(INTERESTS.c.reader.in_(readers))
        best: dict[str, Following] = {}
        for row in self._connection.execute(rows.order_by(INTERESTS.c.topic)):
            new = Following(row.topic, row.since, row.ended)
            best[row.topic] = _together(best.get(row.topic, new), new)
        return tuple(best.values())

    def under(self, topics: Iterable[str]) -> dict[Ref, Row]:
        """What is delivered under *topics*; statements for each kind of topic, not for each."""
        wanted: dict[tuple[Kind, Facet], list[UUID]] = {}
        hosts: list[str] = []
        everywhere = False
        for each in map(source, topics):
            if isinstance(each, Node):
                wanted.setdefault((each.ref.kind, each.facet), []).append(each.ref.id)
            elif each.service is Service.L2:
                everywhere |= each.host == EVERYWHERE
                hosts += [each.host] if each.host else []
        found: dict[Ref, Row] = {}
        for how, ids in wanted.items():
            for kind, attribute, which in PARTS.get(how, ()):
                rows = self._with(kind, attribute, list(map(str, ids)))
                found.update((row.ref, row) for row in rows if which(row))
        found.update((row.ref, row) for row in self._with(Kind.PORT, "binding:host_id", hosts))
        if everywhere:
            found.update((row.ref, row) for row in self._tunnelling())
        return found

    def _with(self, kind: Kind, attribute: str, values: Sequence[str]) -> Iterator[Row]:
        for at in range(0, len(values), AT_ONCE):
            part = tuple(values[at : at + AT_ONCE])
            if attribute == "fixed_ips":
                part = tuple(f"subnet_id={id}" for id in part)
            yield from self._rows.find(kind, Query(filters={attribute: part}))

    def _tunnelling(self) -> Iterator[Row]:
        for row in self._rows.find(Kind.AGENT, Query()):
            if row.body["configurations"].get("tunneling_ip"):
                yield row


def _together(one: Following, two: Following) -> Following:
    """What holds for somebody who is both readers."""
    if one.ended is None and two.ended is None:
        return min(one, two, key=lambda each: each.since)
    if one.ended is None or two.ended is None:
        return one if one.ended is None else two
    return max(one, two, key=lambda each: each.ended or 0)
