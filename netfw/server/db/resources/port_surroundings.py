"""What new ports are decided by, beside their networks, in one statement."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, cast
from uuid import UUID

from attrs import frozen
from sqlalchemy import (
    BigInteger,
    Select,
    String,
    bindparam,
    literal_column,
    null,
    select,
    type_coerce,
    union_all,
)
from sqlalchemy import cast as sql_cast

from netfw.model.agent import Agent
from netfw.model.resource import Kind, Resource
from netfw.model.values.ids import NetworkId, SecurityGroupId
from netfw.server.db.agents.heartbeats import AgentWithAge, Now
from netfw.server.db.engine.prepared import Prepared
from netfw.server.db.resources.row import value
from netfw.server.db.resources.rows import RowReader
from netfw.server.db.schema.resource_tables import STORED
from netfw.server.db.schema.tables import DEFAULT_SECURITY_GROUPS, HEARTBEATS

_NO_TIME: Final = sql_cast(null(), BigInteger)
_AGENTS: Final = STORED[Kind.AGENT].table
_GROUP, _AGENT = "group", "agent"


def _of_networks(kind: Kind) -> Select[Any]:
    table = STORED[kind].table
    return select(
        _part(kind.value), table.c.id, table.c.network_id, table.c.body, _NO_TIME, _NO_TIME
    ).where(table.c.network_id.in_(bindparam("networks", expanding=True)))


def _part(name: str) -> Any:
    return type_coerce(literal_column(f"'{name}'"), String).label("part")


SELECT_SURROUNDINGS: Final = Prepared(
    union_all(
        select(
            _part(_AGENT),
            _AGENTS.c.id.label("id"),
            _AGENTS.c.host.label("of"),
            _AGENTS.c.body.label("body"),
            HEARTBEATS.c.at.label("at"),
            (Now() - HEARTBEATS.c.at).label("ago"),
        )
        .select_from(_AGENTS.outerjoin(HEARTBEATS, HEARTBEATS.c.agent_id == _AGENTS.c.id))
        .where(_AGENTS.c.host.in_(bindparam("hosts", expanding=True))),
        _of_networks(Kind.SUBNET),
        _of_networks(Kind.SEGMENT),
        select(
            _part(_GROUP),
            DEFAULT_SECURITY_GROUPS.c.security_group_id,
            DEFAULT_SECURITY_GROUPS.c.project_id,
            literal_column("''"),
            _NO_TIME,
            _NO_TIME,
        ).where(DEFAULT_SECURITY_GROUPS.c.project_id.in_(bindparam("projects", expanding=True))),
    )
)


@frozen(kw_only=True)
class PortSurroundings:
    """The default groups of projects that have one, and the agents of hosts."""

    groups: dict[str, SecurityGroupId]
    agents: dict[str, list[AgentWithAge]]


def read_surroundings(
    rows: RowReader, networks: Iterable[NetworkId], projects: Iterable[str], hosts: Iterable[str]
) -> PortSurroundings:
    """Read what new ports are decided by; the next reads of these subnets and segments use it."""
    wanted = dict.fromkeys(networks)
    found = SELECT_SURROUNDINGS.all(
        rows.connection,
        {
            "networks": sorted(map(str, wanted)),
            "projects": sorted(set(projects)),
            "hosts": sorted(set(hosts)) or [""],
        },
    )
    found.sort(key=lambda row: cast(str, row.id))
    surroundings = PortSurroundings(groups={}, agents={host: [] for host in hosts})
    ahead: dict[tuple[Kind, UUID], list[Resource]] = {
        (kind, id): [] for kind in (Kind.SUBNET, Kind.SEGMENT) for id in wanted
    }
    for row in found:
        if row.part == _GROUP:
            surroundings.groups[row.of] = SecurityGroupId(UUID(row.id))
        elif row.part == _AGENT:
            surroundings.agents[row.of].append(_agent(row))
        else:
            kind = Kind(row.part)
            ahead[kind, UUID(row.of)].append(value(kind, row.body))
    rows.read_ahead = {key: tuple(some) for key, some in ahead.items()}
    return surroundings


def _agent(row: Any) -> AgentWithAge:
    return AgentWithAge.of(cast(Agent, value(Kind.AGENT, row.body)), row.at, row.ago)
