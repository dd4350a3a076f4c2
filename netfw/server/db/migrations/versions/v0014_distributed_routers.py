"""Hosts of floating IPs, hosts that prepare for ports, and subscriptions to distributed routers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from alembic import op

from netfw.model.port import Port
from netfw.model.values.device_owner import DeviceOwner, is_distributed
from netfw.server.db.journal.topics import TopicEdge
from netfw.server.db.schema.columns import TABLE_OPTIONS, text, word
from netfw.server.db.subscriptions.rebuild import rebuild_subscriptions
from netfw.state.dependencies import Item

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

HOSTS = "port_prepared_hosts"
PORTS = sa.table("ports", sa.column("id"), sa.column("body", sa.Text()))
FLOATING_IPS = sa.table(
    "floating_ips", sa.column("id"), sa.column("host"), sa.column("body", sa.Text())
)
NEW_ROLES = ("assigned:", "distributed:", "distributed_peers:")


def upgrade() -> None:
    """Create the table and the column, and subscribe the readers by the new rules.

    No stored floating IP has a host yet, and no host prepares for a port.
    """
    op.create_table(
        HOSTS,
        sa.Column("port_id", word(), nullable=False),
        sa.Column("host", text(), nullable=False),
        sa.PrimaryKeyConstraint("port_id", "host", name=f"pk_{HOSTS}"),
        sa.ForeignKeyConstraint(
            ["port_id"], ["ports.id"], name=f"fk_{HOSTS}_port_id", ondelete="CASCADE"
        ),
        **TABLE_OPTIONS,
    )
    op.create_index(f"ix_{HOSTS}_host", HOSTS, ["host"])
    op.add_column("floating_ips", sa.Column("host", text(), nullable=True))
    op.create_index("ix_floating_ips_host", "floating_ips", ["host"])
    rebuild_subscriptions(op.get_bind())


def downgrade() -> None:
    """Drop the table, the column and the attributes that the former release refuses to read, and
    subscribe the readers by its rules."""
    prepared = sa.table(HOSTS, sa.column("port_id"))
    _remove(PORTS, "binding:prepared_hosts", PORTS.c.id.in_(sa.select(prepared.c.port_id)))
    _remove(FLOATING_IPS, "host", FLOATING_IPS.c.host.is_not(None))
    op.drop_table(HOSTS)
    op.drop_index("ix_floating_ips_host", "floating_ips")
    op.drop_column("floating_ips", "host")
    rebuild_subscriptions(op.get_bind(), _former_edges)


def _former_edges(item: Item, edges: Iterable[TopicEdge]) -> Iterator[TopicEdge]:
    """Yield the edges of *item* by the rules of the former release.

    Floating IPs followed each host of their router, ports those of a distributed router around
    them, and gateways of agents counted as instances.
    """
    is_agent_gateway = (
        isinstance(item, Port) and item.device_owner == DeviceOwner.FLOATING_IP_AGENT_GATEWAY
    )
    for edge in edges:
        is_assigned = edge.source.startswith("assigned:")
        source = f"home:{edge.source.removeprefix('assigned:')}" if is_assigned else edge.source
        added = is_agent_gateway and source.startswith("l3@")
        if not (added or source.startswith(NEW_ROLES) or edge.node.startswith(NEW_ROLES)):
            yield TopicEdge(edge.item, source, edge.node)
    if isinstance(item, Port):
        name, subnets = f"port {item.id}", {fixed.subnet_id for fixed in item.fixed_ips}
        sources = {f"l3@{host}" for host in item.binding.all_hosts} if is_agent_gateway else ()
        yield from (TopicEdge(name, it, f"routed:subnet:{id}") for it in sources for id in subnets)
        if is_distributed(item.device_owner) and (router := _router(item)) is not None:
            source = f"home:router:{router}"
            yield from (TopicEdge(name, source, f"around:subnet:{id}") for id in subnets)


def _router(port: Port) -> UUID | None:
    try:
        return UUID(port.device_id)
    except ValueError:
        return None


def _remove(table: Any, name: str, where: sa.ColumnElement[bool]) -> None:
    """Remove an attribute from the documents of some rows."""
    connection = op.get_bind()
    rows = connection.execute(sa.select(table.c.id, table.c.body).where(where)).all()
    bodies = [{"of": id, "new": _without(body, name)} for id, body in rows]
    if bodies:
        change = sa.update(table).where(table.c.id == sa.bindparam("of"))
        connection.execute(change.values(body=sa.bindparam("new")), bodies)


def _without(text: str, name: str) -> str:
    body = json.loads(text)
    body.pop(name, None)
    return json.dumps(body)
