"""Virtual router ids: HA networks of projects, and the ids that their routers use.

The rows of a project's HA networks are locked before a decision by them, so that its highly
available routers are created and deleted one after the other.  Unique constraints are the backstop.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any, Final
from uuid import UUID

from attrs import frozen
from sqlalchemy import Connection, bindparam, delete, func, insert, select
from sqlalchemy.exc import IntegrityError

from netfw.model.resource import Kind
from netfw.model.router import VRIDS as ALL_VRIDS
from netfw.model.values.ids import NetworkId, RouterId
from netfw.server.db.engine.errors import RetryTransaction
from netfw.server.db.engine.prepared import Prepared
from netfw.server.db.schema.resource_tables import STORED
from netfw.server.db.schema.tables import HA_NETWORKS, VRIDS

ROUTERS: Final = STORED[Kind.ROUTER].table
OF_NETWORK: Final = Prepared(
    select(HA_NETWORKS.c.project_id).where(HA_NETWORKS.c.network_id == bindparam("of_network"))
)


@frozen(kw_only=True)
class HaNetwork:
    """One of a project's HA networks."""

    project_id: str
    ordinal: int
    """Position among the networks of the project: further ones exist while the first are full."""
    network_id: NetworkId


class VridStore:
    """HA networks and virtual router ids, in one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def lock_networks(self, project: str) -> tuple[HaNetwork, ...]:
        """Return the HA networks of *project*, locked until the transaction ends."""
        rows = select(HA_NETWORKS).where(HA_NETWORKS.c.project_id == project)
        found = self._connection.execute(rows.order_by(HA_NETWORKS.c.ordinal).with_for_update())
        return tuple(_ha_network(row) for row in found)

    def project_of(self, network: UUID) -> str | None:
        """Return the project whose HA network is *network*; ``None``: it is none."""
        row = OF_NETWORK.first(self._connection, {"of_network": str(network)})
        return None if row is None else str(row.project_id)

    def network_of(self, router: UUID) -> NetworkId | None:
        """Return the HA network of *router*; ``None``: it has no virtual router id."""
        rows = select(VRIDS.c.network_id).where(VRIDS.c.router_id == str(router))
        found = self._connection.execute(rows).scalar()
        return None if found is None else NetworkId(UUID(found))

    def find_routers_without_vrid(self) -> tuple[RouterId, ...]:
        """Return the highly available routers that have no virtual router id."""
        rows = select(ROUTERS.c.id).where(
            ROUTERS.c.ha.is_(True), ROUTERS.c.id.not_in(select(VRIDS.c.router_id))
        )
        found = self._connection.execute(rows.order_by(ROUTERS.c.id)).scalars()
        return tuple(RouterId(UUID(id)) for id in found)

    def add_network(self, new: HaNetwork) -> None:
        """Store an HA network.

        If another transaction added one meanwhile, this one is retried and finds it.
        """
        row = {
            "project_id": new.project_id,
            "ordinal": new.ordinal,
            "network_id": str(new.network_id),
        }
        self._insert(insert(HA_NETWORKS).values(row), "another transaction added an HA network")

    def remove_network_if_unused(self, network: HaNetwork) -> bool:
        """Remove a locked HA network that no router uses; return whether it was removed."""
        used = select(func.count()).where(VRIDS.c.network_id == str(network.network_id))
        if self._connection.execute(used).scalar_one():
            return False
        row = HA_NETWORKS.c.network_id == str(network.network_id)
        self._connection.execute(delete(HA_NETWORKS).where(row))
        return True

    def allocate(self, router: RouterId, networks: Sequence[HaNetwork]) -> int | None:
        """Allocate an id for *router* on the first of *networks* that has a free one.

        The networks are locked.  The choice is random: a host that is cut off may still run a
        router that was deleted, so that its id is better not used again soon.
        """
        for network in networks:
            if free := sorted(set(ALL_VRIDS) - set(self._used(network))):
                vrid = random.choice(free)
                row = {"network_id": str(network.network_id), "vrid": vrid}
                change = insert(VRIDS).values({**row, "router_id": str(router)})
                self._insert(change, "another transaction allocated the same virtual router id")
                return vrid
        return None

    def release(self, router: RouterId) -> None:
        """Release the id of *router*.  Idempotent."""
        self._connection.execute(delete(VRIDS).where(VRIDS.c.router_id == str(router)))

    def _used(self, network: HaNetwork) -> Iterable[int]:
        rows = select(VRIDS.c.vrid).where(VRIDS.c.network_id == str(network.network_id))
        return self._connection.execute(rows).scalars()

    def _insert(self, statement: Any, problem: str) -> None:
        try:
            self._connection.execute(statement)
        except IntegrityError as exc:
            raise RetryTransaction(problem) from exc


def _ha_network(row: Any) -> HaNetwork:
    return HaNetwork(
        project_id=row.project_id, ordinal=row.ordinal, network_id=NetworkId(UUID(row.network_id))
    )
