"""SplitDetector: warns of highly available routers that stay active on several hosts."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final
from uuid import UUID

from netfw.server.agents.agents import L3_AGENT
from netfw.server.core.server_context import ServerContext
from netfw.server.db.agents.router_roles import RouterRoleRows
from netfw.server.db.database import ReadSnapshot
from netfw.server.l3.ha.role_decision import find_active_hosts
from netfw.server.scheduling.assignments import AgentAssignments

LOG = logging.getLogger(__name__)

SPLIT: Final = (
    "router %s: active on %s at once, for more than %g seconds: the hosts do not reach each other "
    "on the HA network"
)


class SplitDetector:
    """Checks the routers that became active on a host before the former one was standby.

    A host that crashed never reports that it is not active any more, and its agent counts as living
    for ``agent_down_time``. Only hosts whose agents live after this time are active at once.
    """

    def __init__(self, context: ServerContext, clock: Callable[[], float] = time.monotonic) -> None:
        self._context, self._clock = context, clock
        self._lock = threading.Lock()
        self._since: dict[UUID, float] = {}
        """When a host became active last, of the routers that are to be checked."""

    def add(self, router: UUID) -> None:
        """Have *router* checked later, of which one more host is active now."""
        with self._lock:
            self._since[router] = self._clock()

    def reconcile(self) -> int:
        """Log the routers that are active on several hosts, once each; it changes nothing."""
        limit = self._context.settings.agent_down_time
        with self._lock:
            latest = self._clock() - limit
            due = sorted(id for id, since in self._since.items() if since < latest)
            for id in due:
                del self._since[id]
        if due:
            for id, hosts in self._context.read(lambda view: self._find_split(view, due)).items():
                LOG.warning(SPLIT, id, " and ".join(hosts), limit)
        return 0

    def _find_split(self, view: ReadSnapshot, routers: list[UUID]) -> dict[UUID, list[str]]:
        """Return the active hosts with living agents of those of *routers* that have several."""
        dead = AgentAssignments(L3_AGENT, self._context.settings).dead(view)
        roles = RouterRoleRows(view.connection).of(routers)
        active = {
            id: sorted(find_active_hosts(each.keys() - dead, each)) for id, each in roles.items()
        }
        return {id: hosts for id, hosts in active.items() if len(hosts) > 1}
