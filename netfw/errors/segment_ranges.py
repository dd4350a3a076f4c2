"""Refusals of network segment ranges."""

from __future__ import annotations

from netfw.errors import Conflict, InUse, InvalidInput, NotFound


class NetworkSegmentRangeNotFound(NotFound):
    """The network segment range does not exist."""

    resource = "network_segment_range"


class NetworkSegmentRangeNetTypeNotSupported(InvalidInput):
    """The server has no such network type, or its segments have no numbers."""


class NetworkSegmentRangeReferencedByProject(InUse):
    """Networks use segments of the range."""

    resource = "network_segment_range"


class NetworkSegmentRangeDefaultReadOnly(InvalidInput):
    """The network segment range follows from the configuration."""


class NetworkSegmentRangeOverlaps(Conflict):
    """Another network segment range has some of the numbers."""
