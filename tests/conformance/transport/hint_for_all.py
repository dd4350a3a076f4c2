"""Hints that concern the agents of all hosts, over a real transport."""

from __future__ import annotations

import threading

from netfw.drivers.state_source import Cursor
from netfw.drivers.transport import Transport
from netfw.drivers.values.subscription import Service, Subscription
from netfw.state.dependencies import EVERYWHERE, AgentRoot
from netfw.state.rpc import RemoteSource
from netfw.state.rpc.notifications import make_notification

DEADLINE = 30.0


def hints_for_all(server: Transport, source: RemoteSource) -> bool:
    """Return whether an agent of any host receives what *server* publishes for all.

    The first hints of a subscription say only that it is there.
    """
    heard = threading.Semaphore(0)
    source.watch(Subscription("compute-7", {Service.L2}), heard.release)
    while heard.acquire(timeout=1.0):
        pass
    server.publish(make_notification(AgentRoot(Service.L2, EVERYWHERE), Cursor("epoch", 1)))
    return heard.acquire(timeout=DEADLINE)
