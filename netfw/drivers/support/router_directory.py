"""RouterDirectory: the routers of this host, for L3 extensions."""

from __future__ import annotations

import enum
import logging
import threading
from collections.abc import Callable

from attrs import frozen

from netfw.drivers.base import HostResources
from netfw.drivers.l3_extension import ExtendedRouter
from netfw.drivers.router import RouterDriver
from netfw.drivers.values.router_values import RouterStatus
from netfw.errors import NotFound
from netfw.model.values.ids import RouterId

LOG = logging.getLogger(__name__)


class RouterAction(enum.StrEnum):
    """A change of a router on this host."""

    CREATE = "create"
    """The agent runs the router for the first time since it started."""
    UPDATE = "update"
    """The router, or one of its floating IPs, changes."""
    DELETE = "delete"


class RouterPhase(enum.StrEnum):
    """A moment of a change."""

    BEFORE = "before"
    AFTER = "after"
    """The router driver has done it.  A change that fails has no such event."""


@frozen(kw_only=True)
class RouterEvent:
    """A change of a router, for extensions; a creation has no event before it."""

    router: RouterId
    action: RouterAction
    phase: RouterPhase


RouterListener = Callable[[RouterEvent], None]
"""Takes an event, in a thread that converges this router: what it does delays the router."""


class RouterDirectory:
    """Looks up routers by id and by namespace, and announces changes; may be used by any thread.

    An extension gets it from the resources of its host (`router_directory`), so that it needs no
    reference to the agent.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._driver: RouterDriver | None = None
        self._routers: dict[RouterId, ExtendedRouter] = {}
        self._listeners: tuple[RouterListener, ...] = ()

    def watch(self, listener: RouterListener) -> None:
        """Have *listener* called before and after each change of a router."""
        with self._lock:
            self._listeners = (*self._listeners, listener)

    def router(self, id: RouterId) -> ExtendedRouter | None:
        """Return a router as extensions see it; ``None``: it is not on this host."""
        with self._lock:
            return self._routers.get(id)

    def router_in(self, namespace: str) -> RouterId | None:
        """Return the router that has a network namespace of this name."""
        driver = self._driver
        if driver is None:
            return None
        with self._lock:
            routers = dict(self._routers)
        return next(
            (
                id
                for id, view in routers.items()
                if namespace in {driver.namespace_of(id, part) for part in view.state.parts}
            ),
            None,
        )

    def status(self, id: RouterId) -> RouterStatus:
        """Return the namespaces and devices of a router, as this host has them now.

        :raises NotFound: the router is not on this host.
        :raises BackendUnavailable: the machine does not answer.
        """
        if self._driver is None:
            raise NotFound(f"router {id} is not on this host: no router driver runs yet")
        return self._driver.status(id)

    # For the agent.

    def attach(self, driver: RouterDriver) -> None:
        """Read namespaces and devices from *driver*."""
        self._driver = driver

    def publish(self, event: RouterEvent) -> None:
        """Call the listeners; an error of one is logged, and concerns nothing else."""
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:
                LOG.exception(
                    "router %s: a listener failed %s %s", event.router, event.phase, event.action
                )

    def update(self, id: RouterId, view: ExtendedRouter | None) -> None:
        """Store a router; ``None``: it is gone."""
        with self._lock:
            if view is None:
                self._routers.pop(id, None)
            else:
                self._routers[id] = view


def router_directory(host: HostResources) -> RouterDirectory:
    """Return the directory of a host, for ``from_conf`` of an extension."""
    return host.share(RouterDirectory, RouterDirectory)
