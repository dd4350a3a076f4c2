"""Resources delivered under topics: those of a snapshot, and those newly reachable."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from attrs import frozen
from sqlalchemy import Column, ColumnElement, Connection, Select, and_, bindparam, or_, select

from netfw.drivers.values.subscription import Service
from netfw.model.resource import Kind, Ref
from netfw.model.values.device_owner import (
    DISTRIBUTED_DHCP_DEVICE,
    ROUTER_PORT_PREFIXES,
    DeviceOwner,
)
from netfw.server.db.journal.topics import source
from netfw.server.db.resources.row import Row
from netfw.server.db.resources.rows import AT_ONCE, RowReader
from netfw.server.db.schema.port_tables import PORT_GROUPS, PORT_HOSTS, PORT_PREPARED_HOSTS
from netfw.server.db.schema.resource_tables import STORED
from netfw.server.db.schema.tables import SUBSCRIPTIONS
from netfw.state.dependencies import EVERYWHERE, ResourceRole, Role, is_known_everywhere


@frozen
class TopicSubscription:
    """A topic of a reader, with its first commit, and its last one if it has ended."""

    topic: str
    since: int
    ended: int | None


PORTS: Final = STORED[Kind.PORT].table.c
DISTRIBUTED: Final = PORTS.device_owner == DeviceOwner.ROUTER_INTERFACE_DISTRIBUTED.value
DISTRIBUTED_DHCP: Final = and_(
    PORTS.device_owner == DeviceOwner.DHCP.value, PORTS.device_id == DISTRIBUTED_DHCP_DEVICE
)
AGENT_GATEWAY: Final = PORTS.device_owner == DeviceOwner.FLOATING_IP_AGENT_GATEWAY.value
WITHOUT_HOST: Final = STORED[Kind.FLOATING_IP].table.c.host.is_(None)
ROUTED: Final = STORED[Kind.FLOATING_IP].table.c.router_id.is_not(None)
WITH_HOST: Final = and_(STORED[Kind.FLOATING_IP].table.c.host.is_not(None), ROUTED)
BOUND: Final = or_(PORTS.binding_host_id != "", PORTS.id.in_(select(PORT_HOSTS.c.port_id)))
IS_ROUTER_PORT: Final = or_(
    *(PORTS.device_owner.startswith(prefix, autoescape=True) for prefix in ROUTER_PORT_PREFIXES)
)


@frozen
class ColumnLookup:
    """The resources of a kind that a topic delivers: those with its id in a column."""

    kind: Kind
    column: str
    only: ColumnElement[bool] | None = None

    def ids(self, of: Sequence[str]) -> Select[Any]:
        """Return a query for the ids of the resources delivered for the ids *of*."""
        table = STORED[self.kind].table.c
        found = select(table.id).where(table[self.column].in_(of))
        return found if self.only is None else found.where(self.only)


@frozen
class TopicMembers:
    """The ports with a row that has the topic's id in a relation."""

    column: Column[Any]
    kind: Kind = Kind.PORT

    def ids(self, of: Sequence[str]) -> Select[Any]:
        """Return a query for the ids of the resources delivered for the ids *of*."""
        return select(self.column.table.c.port_id).where(self.column.in_(of)).distinct()


_NETWORK_PARTS: Final = (
    ColumnLookup(Kind.NETWORK, "id"),
    ColumnLookup(Kind.SUBNET, "network_id"),
    ColumnLookup(Kind.SEGMENT, "network_id"),
)

PARTS: Final[Mapping[tuple[Kind, Role], tuple[ColumnLookup | TopicMembers, ...]]] = (
    MappingProxyType(
        {
            (Kind.NETWORK, Role.SEEN): (
                *_NETWORK_PARTS,
                ColumnLookup(Kind.PORT, "network_id", or_(DISTRIBUTED, DISTRIBUTED_DHCP)),
            ),
            (Kind.NETWORK, Role.SERVED): (*_NETWORK_PARTS, ColumnLookup(Kind.PORT, "network_id")),
            (Kind.NETWORK, Role.PEERS): (ColumnLookup(Kind.PORT, "network_id", BOUND),),
            (Kind.SECURITY_GROUP, Role.SEEN): (
                ColumnLookup(Kind.SECURITY_GROUP, "id"),
                ColumnLookup(Kind.SECURITY_GROUP_RULE, "security_group_id"),
            ),
            (Kind.SECURITY_GROUP, Role.MEMBERS): (TopicMembers(PORT_GROUPS.c.security_group_id),),
            (Kind.ADDRESS_GROUP, Role.SEEN): (ColumnLookup(Kind.ADDRESS_GROUP, "id"),),
            (Kind.QOS_POLICY, Role.SEEN): (ColumnLookup(Kind.QOS_POLICY, "id"),),
            (Kind.PORT, Role.SEEN): (ColumnLookup(Kind.PORT, "id"),),
            (Kind.PORT, Role.FLOATING): (ColumnLookup(Kind.FLOATING_IP, "port_id", WITH_HOST),),
            (Kind.ROUTER, Role.HOME): (
                ColumnLookup(Kind.ROUTER, "id"),
                ColumnLookup(Kind.PORT, "device_id", IS_ROUTER_PORT),
                ColumnLookup(Kind.NDP_PROXY, "router_id"),
            ),
            (Kind.ROUTER, Role.ASSIGNED): (
                ColumnLookup(Kind.FLOATING_IP, "router_id", WITHOUT_HOST),
            ),
            (Kind.FLOATING_IP, Role.FORWARDING): (
                ColumnLookup(Kind.PORT_FORWARDING, "floatingip_id"),
            ),
        }
    )
)
ROOT_PARTS: Final[Mapping[Service, tuple[ColumnLookup | TopicMembers, ...]]] = MappingProxyType(
    {
        Service.L2: (
            ColumnLookup(Kind.PORT, "binding_host_id"),
            TopicMembers(PORT_HOSTS.c.host),
            TopicMembers(PORT_PREPARED_HOSTS.c.host),
        ),
        Service.L3: (
            ColumnLookup(Kind.PORT, "binding_host_id", AGENT_GATEWAY),
            ColumnLookup(Kind.FLOATING_IP, "host", ROUTED),
        ),
    }
)
"""What the root of a service of a host delivers: those with the host in a column or relation."""


OF_READERS: Final = SUBSCRIPTIONS.c.reader.in_(bindparam("readers", expanding=True))
SELECT_SUBSCRIPTIONS: Final = (
    select(SUBSCRIPTIONS.c.topic, SUBSCRIPTIONS.c.since, SUBSCRIPTIONS.c.ended)
    .where(OF_READERS)
    .order_by(SUBSCRIPTIONS.c.topic)
)
SELECT_SUBSCRIPTIONS_TO: Final = SELECT_SUBSCRIPTIONS.where(
    SUBSCRIPTIONS.c.topic.in_(bindparam("topics", expanding=True))
)
SELECT_CHANGED_TOPICS: Final = (
    select(SUBSCRIPTIONS.c.topic)
    .where(
        OF_READERS,
        or_(SUBSCRIPTIONS.c.since > bindparam("after"), SUBSCRIPTIONS.c.ended > bindparam("after")),
    )
    .distinct()
)


SELECT_AGENTS: Final = select(STORED[Kind.AGENT].table.c.id, STORED[Kind.AGENT].table.c.body)
PACKET_LOGS: Final = STORED[Kind.PACKET_LOG].table.c
SELECT_PACKET_LOGS: Final = select(PACKET_LOGS.id).where(PACKET_LOGS.enabled.is_(True))


@lru_cache(maxsize=4096)
def _is_known_everywhere(body: str) -> bool:
    """Return whether all L2 agents know the agent *body*; each reader checks all agents."""
    return is_known_everywhere(json.loads(body)["configurations"])


class Topics:
    """Subscriptions and the resources that they deliver, in one snapshot."""

    def __init__(self, connection: Connection, rows: RowReader) -> None:
        self._connection, self._rows = connection, rows

    def of(self, readers: Sequence[str]) -> tuple[TopicSubscription, ...]:
        """Return the topics that *readers* together follow or followed lately."""
        rows = self._connection.execute(SELECT_SUBSCRIPTIONS, {"readers": list(readers)})
        return _combined(rows)

    def among(self, topics: Iterable[str], readers: Sequence[str]) -> tuple[TopicSubscription, ...]:
        """Return those of *topics* that *readers* together follow or followed lately."""
        names = sorted(topics)
        rows: list[Any] = []
        for at in range(0, len(names), AT_ONCE):
            values = {"readers": list(readers), "topics": names[at : at + AT_ONCE]}
            rows += self._connection.execute(SELECT_SUBSCRIPTIONS_TO, values)
        return _combined(rows)

    def changed(self, readers: Sequence[str], after: int) -> frozenset[str]:
        """Return the topics that one of *readers* began or ceased to follow after a commit."""
        values = {"readers": list(readers), "after": after}
        return frozenset(self._connection.execute(SELECT_CHANGED_TOPICS, values).scalars())

    def refs(self, topics: Iterable[str]) -> set[Ref]:
        """Return refs of the resources delivered under *topics*; statements per kind of topic."""
        wanted: dict[tuple[Kind, Role], list[str]] = {}
        hosts: dict[Service, list[str]] = {}
        everywhere = False
        for each in map(source, topics):
            if isinstance(each, ResourceRole):
                wanted.setdefault((each.ref.kind, each.role), []).append(str(each.ref.id))
            elif each.host != EVERYWHERE:
                hosts.setdefault(each.service, []).append(each.host)
            else:
                everywhere |= each.service is Service.L2
        found: set[Ref] = set()
        for service, names in hosts.items():
            for part in ROOT_PARTS.get(service, ()):
                found.update(self._named(part, names))
        for how, ids in wanted.items():
            for part in PARTS.get(how, ()):
                found.update(self._named(part, ids))
        if everywhere:
            found.update(self._known_everywhere())
        return found

    def under(self, topics: Iterable[str]) -> dict[Ref, Row]:
        """Return the resources delivered under *topics*, as they are now."""
        return {row.ref: row for row in self._rows.present(self.refs(topics))}

    def _named(self, part: ColumnLookup | TopicMembers, values: Sequence[str]) -> Iterator[Ref]:
        for at in range(0, len(values), AT_ONCE):
            for id in self._connection.execute(part.ids(values[at : at + AT_ONCE])).scalars():
                yield Ref(part.kind, UUID(id))

    def _known_everywhere(self) -> Iterator[Ref]:
        for row in self._connection.execute(SELECT_AGENTS):
            if _is_known_everywhere(row.body):
                yield Ref(Kind.AGENT, UUID(row.id))
        for id in self._connection.execute(SELECT_PACKET_LOGS).scalars():
            yield Ref(Kind.PACKET_LOG, UUID(id))


def _combined(rows: Iterable[Any]) -> tuple[TopicSubscription, ...]:
    """Return one subscription for each topic."""
    best: dict[str, TopicSubscription] = {}
    for row in rows:
        new = TopicSubscription(row.topic, row.since, row.ended)
        best[row.topic] = _combine(best.get(row.topic, new), new)
    return tuple(best.values())


def _combine(one: TopicSubscription, two: TopicSubscription) -> TopicSubscription:
    """Combine the subscriptions of two readers to one topic."""
    if one.ended is None and two.ended is None:
        return min(one, two, key=lambda each: each.since)
    if one.ended is None or two.ended is None:
        return one if one.ended is None else two
    return max(one, two, key=lambda each: each.ended or 0)
