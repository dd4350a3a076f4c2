"""Events of the API: what is about to be done, and what was done."""

from __future__ import annotations

import logging
from collections.abc import Callable

from attrs import frozen

from netfw.drivers.query import Body, RequestContext

log = logging.getLogger(__name__)


@frozen(kw_only=True)
class Event:
    """One event.  That of a failed request has no ``.end``."""

    name: str
    """``port.create.start``, ``router.add_router_interface.end``."""
    requester: RequestContext
    id: str = ""
    """Of the resource, where it exists."""
    body: Body
    """Before: what the request asks for.  After: the resource; nothing when it is gone."""


Subscriber = Callable[[Event], None]
"""Hears of events, in the thread of the request; quick.  What it raises is logged."""


class Events:
    """Tells subscribers of what requests do; an event that nobody wants costs nothing."""

    def __init__(self, subscribers: tuple[Subscriber, ...] = ()) -> None:
        self._subscribers = subscribers

    def tell(self, name: str, requester: RequestContext, body: Body, id: str = "") -> None:
        """Tell everybody."""
        if not self._subscribers:
            return
        event = Event(name=name, requester=requester, id=id, body=body)
        for subscriber in self._subscribers:
            try:
                subscriber(event)
            except Exception:
                log.exception("a subscriber of events failed on %s", name)
