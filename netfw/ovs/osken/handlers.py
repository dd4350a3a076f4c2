"""Handlers of os-ken applications: methods that os-ken's ``set_ev_cls`` has decorated."""

from __future__ import annotations

import inspect
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from netfw.ovs.openflow import messages

LOG = logging.getLogger(__name__)
_PREFIX = "Event"

Handler = Callable[[Any], object]


class Handlers:
    """The handlers of *apps*, by event and phase."""

    def __init__(self, apps: Iterable[object], parser: Any) -> None:
        """Collect the decorated methods of applications.

        :raises ValueError: an application does not support our version, or handles nothing.
        """
        self._handlers: dict[type, list[tuple[frozenset[str], Handler]]] = defaultdict(list)
        for app in apps:
            _validate_app(app)
            for handler, event, phases in _decorated(app):
                self._handlers[event].append((phases, handler))
        self.message_types = frozenset(
            getattr(parser, name).cls_msg_type
            for name in (event.__name__.removeprefix(_PREFIX) for event in self._handlers)
            if hasattr(getattr(parser, name, None), "cls_msg_type")
        )
        """Types of the messages that have a handler."""

    def call(self, event: Any, phase: str) -> None:
        """Call the handlers of *event* that are meant for *phase*; those that raise are logged."""
        for phases, handler in self._handlers.get(type(event), ()):
            if phases and phase not in phases:
                continue
            try:
                handler(event)
            except Exception:
                LOG.exception("%s: a handler failed", type(event).__name__)


def _validate_app(app: object) -> None:
    versions = getattr(app, "OFP_VERSIONS", None)
    if versions is not None and messages.VERSION not in versions:
        raise ValueError(
            f"{type(app).__name__} does not speak OpenFlow 1.4: add "
            "ofproto_v1_4.OFP_VERSION to its OFP_VERSIONS"
        )
    if not any(True for _ in _decorated(app)):
        raise ValueError(f"{type(app).__name__} has no method with os-ken's set_ev_cls")


def _decorated(app: object) -> Iterable[tuple[Handler, type, frozenset[str]]]:
    for _, method in inspect.getmembers(app, inspect.ismethod):
        for event, caller in getattr(method, "callers", {}).items():
            yield method, event, frozenset(caller.dispatchers)
