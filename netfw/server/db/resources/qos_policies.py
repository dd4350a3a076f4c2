"""Queries about QoS policies: their rules, their users, and the default policies of projects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, literal, select, union_all

from netfw.model.resource import Kind, Ref
from netfw.model.values.ids import NetworkId, QosPolicyId
from netfw.server.db.schema.qos_tables import (
    DEFAULT_QOS_POLICIES,
    NETWORK_POLICY,
    PORT_POLICY,
    QOS_RULES,
    USES,
)
from netfw.server.db.schema.resource_tables import STORED

AT_ONCE: Final = 500
"""Ids in one statement: databases limit the number of values."""


class QosPolicyRows:
    """Reads what is known about policies beside their documents."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def of_rule(self, rule: UUID, type: str) -> QosPolicyId | None:
        """Return the policy of a rule of that type, or ``None``."""
        rows = QOS_RULES.c
        query = select(rows.policy_id).where(rows.rule_id == str(rule), rows.type == type)
        found = self._connection.execute(query).scalar()
        return None if found is None else QosPolicyId(UUID(found))

    def defaults(self, projects: Iterable[str]) -> Mapping[str, QosPolicyId]:
        """Return the default policies of *projects*, by project."""
        rows, found = DEFAULT_QOS_POLICIES.c, {}
        wanted = sorted(set(projects))
        for at in range(0, len(wanted), AT_ONCE):
            chosen = rows.project_id.in_(wanted[at : at + AT_ONCE])
            query = select(rows.project_id, rows.policy_id).where(chosen)
            for project, policy in self._connection.execute(query):
                found[project] = QosPolicyId(UUID(policy))
        return found

    def of_networks(self, networks: Iterable[NetworkId | str]) -> Mapping[str, str]:
        """Return the policies of *networks* that have one, as texts."""
        rows = NETWORK_POLICY.table.c
        found: dict[str, str] = {}
        wanted = sorted({str(each) for each in networks})
        for at in range(0, len(wanted), AT_ONCE):
            chosen = rows.network_id.in_(wanted[at : at + AT_ONCE])
            query = select(rows.network_id, rows.policy_id).where(chosen)
            for network, policy in self._connection.execute(query):
                found.setdefault(network, policy)
        return found

    def ports(self, policy: QosPolicyId) -> Iterator[Sequence[UUID]]:
        """Yield the ports that *policy* applies to, by their network or by themselves, in pages."""
        ports, own, networks = STORED[Kind.PORT].table, PORT_POLICY.table, NETWORK_POLICY.table
        of = str(policy)
        named = select(own.c.port_id.label("id")).where(own.c.policy_id == of)
        inherited = (
            select(ports.c.id)
            .join(networks, networks.c.network_id == ports.c.network_id)
            .where(networks.c.policy_id == of, ports.c.qos_policy_id.is_(None))
        )
        every = union_all(named, inherited).subquery()
        after = ""
        while True:
            page = select(every.c.id).where(every.c.id > after).order_by(every.c.id).limit(AT_ONCE)
            ids = list(self._connection.execute(page).scalars())
            if not ids:
                return
            yield [UUID(id) for id in ids]
            after = ids[-1]

    def users(self, policy: QosPolicyId, limit: int) -> tuple[Ref, ...]:
        """Return some resources that use *policy*, at most *limit* of each kind."""
        parts = []
        for kind, relation in USES.items():
            owner = relation.table.c[relation.owner]
            some = select(literal(kind.value).label("kind"), owner.label("id"))
            some = some.where(relation.table.c.policy_id == str(policy))
            chosen = some.order_by(owner).limit(limit).subquery()
            parts.append(select(chosen.c.kind, chosen.c.id))
        found = self._connection.execute(union_all(*parts))
        return tuple(Ref(Kind(kind), UUID(id)) for kind, id in found)
