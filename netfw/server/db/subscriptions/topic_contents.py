"""What is delivered under topics: the resources that a reader gets at first, or newly reaches."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from attrs import frozen
from sqlalchemy import Column, ColumnElement, Connection, Select, bindparam, or_, select

from netfw.drivers.subscription import Service
from netfw.model.device_owner import ROUTER_PORT_PREFIXES, DeviceOwner
from netfw.model.resource import Kind, Ref
from netfw.server.db.journal.topics import source
from netfw.server.db.resources.rows import AT_ONCE, Row, Rows
from netfw.server.db.schema.resource_tables import PORT_ADDRESSES, PORT_GROUPS, STORED
from netfw.server.db.schema.tables import INTERESTS
from netfw.state.dependencies import (
    EVERYWHERE,
    ResourceRole,
    Role,
)


@frozen
class TopicSubscription:
    """A topic of a reader: since which commit, and until which, if it has ended."""

    topic: str
    since: int
    ended: int | None


PORTS: Final = STORED[Kind.PORT].table.c
DISTRIBUTED: Final = PORTS.device_owner == DeviceOwner.ROUTER_INTERFACE_DISTRIBUTED.value
BOUND: Final = PORTS.binding_host_id != ""
OF_ROUTERS: Final = or_(
    *(PORTS.device_owner.startswith(prefix, autoescape=True) for prefix in ROUTER_PORT_PREFIXES)
)


@frozen
class ColumnLookup:
    """The resources of a kind that a topic brings: those that say its id in a column."""

    kind: Kind
    column: str
    only: ColumnElement[bool] | None = None

    def ids(self, of: Sequence[str]) -> Select[Any]:
        """The ids of those that *of* bring."""
        table = STORED[self.kind].table.c
        found = select(table.id).where(table[self.column].in_(of))
        return found if self.only is None else found.where(self.only)


@frozen
class Members:
    """The ports that have a row in a relation which says the topic's id."""

    column: Column[Any]
    kind: Kind = Kind.PORT

    def ids(self, of: Sequence[str]) -> Select[Any]:
        """The ids of those that *of* bring."""
        return select(self.column.table.c.port_id).where(self.column.in_(of)).distinct()


_OF_A_NETWORK: Final = (
    ColumnLookup(Kind.NETWORK, "id"),
    ColumnLookup(Kind.SUBNET, "network_id"),
    ColumnLookup(Kind.SEGMENT, "network_id"),
)

PARTS: Final[Mapping[tuple[Kind, Role], tuple[ColumnLookup | Members, ...]]] = MappingProxyType(
    {
        (Kind.NETWORK, Role.SEEN): (
            *_OF_A_NETWORK,
            ColumnLookup(Kind.PORT, "network_id", DISTRIBUTED),
        ),
        (Kind.NETWORK, Role.SERVED): (*_OF_A_NETWORK, ColumnLookup(Kind.PORT, "network_id")),
        (Kind.NETWORK, Role.PEERS): (ColumnLookup(Kind.PORT, "network_id", BOUND),),
        (Kind.SECURITY_GROUP, Role.SEEN): (
            ColumnLookup(Kind.SECURITY_GROUP, "id"),
            ColumnLookup(Kind.SECURITY_GROUP_RULE, "security_group_id"),
        ),
        (Kind.SECURITY_GROUP, Role.MEMBERS): (Members(PORT_GROUPS.c.security_group_id),),
        (Kind.ADDRESS_GROUP, Role.SEEN): (ColumnLookup(Kind.ADDRESS_GROUP, "id"),),
        (Kind.PORT, Role.SEEN): (ColumnLookup(Kind.PORT, "id"),),
        (Kind.SUBNET, Role.AROUND): (Members(PORT_ADDRESSES.c.subnet_id),),
        (Kind.ROUTER, Role.HOME): (
            ColumnLookup(Kind.ROUTER, "id"),
            ColumnLookup(Kind.PORT, "device_id", OF_ROUTERS),
            ColumnLookup(Kind.FLOATING_IP, "router_id"),
        ),
    }
)
HERE: Final = ColumnLookup(Kind.PORT, "binding_host_id")
"""What the L2 service of a host begins with."""


FOLLOWED: Final = (
    select(INTERESTS.c.topic, INTERESTS.c.since, INTERESTS.c.ended)
    .where(INTERESTS.c.reader.in_(bindparam("readers", expanding=True)))
    .order_by(INTERESTS.c.topic)
)


EVERY_AGENT: Final = select(STORED[Kind.AGENT].table.c.id, STORED[Kind.AGENT].table.c.body)


@lru_cache(maxsize=4096)
def _tunnels(body: str) -> bool:
    """Whether the agent has an end of tunnels; each reader of all agents asks that of each."""
    return bool(json.loads(body)["configurations"].get("tunneling_ip"))


class Topics:
    """What readers follow, and what that brings, in one moment of the database."""

    def __init__(self, connection: Connection, rows: Rows) -> None:
        self._connection, self._rows = connection, rows

    def of(self, readers: Sequence[str]) -> tuple[TopicSubscription, ...]:
        """What *readers* follow, and lately followed; together they are one."""
        best: dict[str, TopicSubscription] = {}
        for row in self._connection.execute(FOLLOWED, {"readers": list(readers)}):
            new = TopicSubscription(row.topic, row.since, row.ended)
            best[row.topic] = _together(best.get(row.topic, new), new)
        return tuple(best.values())

    def refs(self, topics: Iterable[str]) -> set[Ref]:
        """What is delivered under *topics*, by name; statements for each kind of topic."""
        wanted: dict[tuple[Kind, Role], list[str]] = {}
        hosts: list[str] = []
        everywhere = False
        for each in map(source, topics):
            if isinstance(each, ResourceRole):
                wanted.setdefault((each.ref.kind, each.role), []).append(str(each.ref.id))
            elif each.service is Service.L2:
                everywhere |= each.host == EVERYWHERE
                hosts += [each.host] if each.host else []
        found = set(self._named(HERE, hosts))
        for how, ids in wanted.items():
            for part in PARTS.get(how, ()):
                found.update(self._named(part, ids))
        if everywhere:
            found.update(self._tunnelling())
        return found

    def under(self, topics: Iterable[str]) -> dict[Ref, Row]:
        """What is delivered under *topics*, as it is now."""
        return {row.ref: row for row in self._rows.present(self.refs(topics))}

    def _named(self, part: ColumnLookup | Members, values: Sequence[str]) -> Iterator[Ref]:
        for at in range(0, len(values), AT_ONCE):
            for id in self._connection.execute(part.ids(values[at : at + AT_ONCE])).scalars():
                yield Ref(part.kind, UUID(id))

    def _tunnelling(self) -> Iterator[Ref]:
        for row in self._connection.execute(EVERY_AGENT):
            if _tunnels(row.body):
                yield Ref(Kind.AGENT, UUID(row.id))


def _together(one: TopicSubscription, two: TopicSubscription) -> TopicSubscription:
    """What holds for somebody who is both readers."""
    if one.ended is None and two.ended is None:
        return min(one, two, key=lambda each: each.since)
    if one.ended is None or two.ended is None:
        return one if one.ended is None else two
    return max(one, two, key=lambda each: each.ended or 0)
