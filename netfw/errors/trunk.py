"""Refusals about trunks; clients know each by the name of its class."""

from __future__ import annotations

from netfw.errors import Conflict, NotFound


class TrunkPortInUse(Conflict):
    """The port is a sub-port of a trunk already."""


class ParentPortInUse(Conflict):
    """The port cannot be the parent of a trunk, or is the parent of one already."""


class PortInUse(Conflict):
    """The port belongs to a device, and cannot be a sub-port."""


class PortInUseAsTrunkParent(Conflict):
    """The port is the parent of a trunk, which must be deleted first."""


class PortInUseAsSubPort(Conflict):
    """The port is a sub-port of a trunk, and must be removed from it first."""


class DuplicateSubPort(Conflict):
    """Another sub-port of the trunk has that tag."""


class SubPortMtuGreaterThanTrunkPortMtu(Conflict):
    """The network of a sub-port has larger packets than that of the parent port."""


class TrunkDisabled(Conflict):
    """The trunk is switched off: its sub-ports cannot be changed."""


class TrunkInErrorState(Conflict):
    """A port of the trunk cannot be bound; no sub-ports are added meanwhile."""


class SubPortNotFound(NotFound):
    """The trunk has no such sub-port."""
