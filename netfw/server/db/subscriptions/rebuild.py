"""Rebuilds the subscriptions of all readers, for migrations that change rules or topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from uuid import UUID

import orjson
from sqlalchemy import Connection, column, delete, insert, inspect, select, table

from netfw.drivers.values.subscription import Service
from netfw.model.resource import Kind, Ref
from netfw.model.wire import parse
from netfw.server.db.journal.journal import start_epoch
from netfw.server.db.journal.topics import TopicEdge, is_root, topic_links
from netfw.server.db.schema.resource_tables import STORED
from netfw.server.db.schema.tables import ASSIGNMENTS, JOURNAL_HEAD, SUBSCRIPTIONS
from netfw.state.dependencies import Assignment, Item

Adapt = Callable[[Item, frozenset[TopicEdge]], Iterable[TopicEdge]]
"""Returns the edges of an item by other rules, from those by the rules of this release."""
Graph = Mapping[str, Mapping[str, int]]
"""The topics that each topic leads to, with the number of items that say so."""
ROWS_AT_ONCE = 1_000


def rebuild_subscriptions(connection: Connection, adapt: Adapt | None = None) -> None:
    """Compute all subscriptions from the stored resources and assignments, and start a new epoch.

    The journal is emptied: its topics may have former names, and no agent may miss what the new
    rules deliver.  Agents take a snapshot.

    :param adapt: for a downgrade to a release with other rules.
    """
    if not connection.execute(select(JOURNAL_HEAD.c.seq)).scalar_one():
        return  # nothing was ever committed
    graph: dict[str, Counter[str]] = {}
    for item in _stored_items(connection):
        edges = topic_links(item).edges
        for edge in edges if adapt is None else adapt(item, edges):
            graph.setdefault(edge.source, Counter())[edge.node] += 1
    start_epoch(connection)
    since = connection.execute(select(JOURNAL_HEAD.c.seq)).scalar_one()
    connection.execute(delete(SUBSCRIPTIONS))
    rows = [
        {"reader": reader, "topic": topic, "uses": uses, "since": since, "ended": None}
        for reader in sorted(filter(is_root, graph))
        for topic, uses in sorted(count_uses(graph, reader).items())
    ]
    for at in range(0, len(rows), ROWS_AT_ONCE):
        connection.execute(insert(SUBSCRIPTIONS), rows[at : at + ROWS_AT_ONCE])


def count_uses(graph: Graph, reader: str) -> Mapping[str, int]:
    """Return the topics that *reader* reaches, each with the number of edges that lead to it."""
    uses: Counter[str] = Counter()
    queue = [reader]
    while queue:
        for node, number in graph.get(queue.pop(), {}).items():
            if node not in uses:
                queue.append(node)
            uses[node] += number
    return uses


def _stored_items(connection: Connection) -> Iterator[Item]:
    """Yield all resources and assignments; a table of a later version may be missing."""
    present = set(inspect(connection).get_table_names())
    for kind, how in STORED.items():
        if how.table.name in present:
            bodies = select(table(how.table.name, column("body")).c.body)
            for body in connection.execute(bodies).scalars():
                yield parse(kind, orjson.loads(body))
    for row in connection.execute(select(ASSIGNMENTS)):
        yield Assignment(Service(row.service), row.host, Ref(Kind(row.kind), UUID(row.resource_id)))
