"""Refusals of packet logs; clients map the names of these classes."""

from __future__ import annotations

from netfw.errors import Conflict, InvalidInput, NotFound


class LogResourceNotFound(NotFound):
    """There is no such packet log."""

    resource = "log"


class InvalidLogResourceType(InvalidInput):
    """Resources of that type cannot be logged."""


class InvalidResourceConstraint(InvalidInput):
    """The port of a packet log is not in the group of it."""


class LoggingTypeNotSupported(Conflict):
    """No host, or not that of the port, logs packets."""
