"""The MAC addresses of hosts, under which routed traffic travels between them."""

from __future__ import annotations

from sqlalchemy import Connection, insert, select
from sqlalchemy.exc import IntegrityError

from netfw.model.address import Mac
from netfw.server.db.engine.errors import RetryTransaction
from netfw.server.db.schema.tables import HOST_MACS


class HostMacs:
    """Which host has which; no two have the same."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def of(self, host: str) -> Mac | None:
        """That of *host*; ``None``: it has none yet."""
        rows = select(HOST_MACS.c.mac).where(HOST_MACS.c.host == host)
        found = self._connection.execute(rows).scalar()
        return None if found is None else Mac(found)

    def give(self, host: str, mac: Mac) -> None:
        """Have *host* have *mac*.

        When another host has it, or the host got one meanwhile, the transaction is tried again
        from its beginning: choose by chance.
        """
        try:
            self._connection.execute(insert(HOST_MACS).values(host=host, mac=str(mac)))
        except IntegrityError as exc:
            raise RetryTransaction(f"{mac} is taken, or {host} has a MAC address by now") from exc
