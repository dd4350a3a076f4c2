"""Packet logs: which packets of which ports are logged on their hosts."""

from __future__ import annotations

import enum
from typing import Final

from attrs import frozen

from netfw.model.port import Port
from netfw.model.values.common_fields import Named
from netfw.model.values.ids import PacketLogId, PortId, SecurityGroupId

EXTENSION: Final = "packet_log"
"""Name of the extension of L2 agents that logs packets."""


class LoggedResource(enum.StrEnum):
    """The kind of resource whose decisions are logged."""

    SECURITY_GROUP = "security_group"


class LogEvent(enum.StrEnum):
    """The decisions that are logged."""

    ACCEPT = "ACCEPT"
    DROP = "DROP"
    ALL = "ALL"

    def includes(self, event: LogEvent) -> bool:
        """Return whether this is *event*, or all."""
        return self in (event, LogEvent.ALL)


@frozen(kw_only=True)
class PacketLog(Named):
    """An order to log packets of ports.

    It is for the ports that are in the group *resource_id* and are *target_id*, as far as these
    are given; without both, for all ports of its project.
    """

    id: PacketLogId
    resource_type: LoggedResource = LoggedResource.SECURITY_GROUP
    resource_id: SecurityGroupId | None = None
    target_id: PortId | None = None
    event: LogEvent = LogEvent.ALL
    enabled: bool = True

    def is_for(self, port: Port) -> bool:
        """Return whether packets of *port* are logged."""
        if not self.enabled:
            return False
        if self.resource_id is None and self.target_id is None:
            return port.project_id == self.project_id
        is_member = self.resource_id is None or self.resource_id in port.security_groups
        return is_member and self.target_id in (None, port.id)
