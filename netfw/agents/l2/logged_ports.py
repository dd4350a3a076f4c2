"""The ports of this host that a packet log is for.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set

from netfw.model.packet_log import PacketLog
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref
from netfw.model.values.ids import PortId


def logged_ports(
    log: PacketLog,
    users: Mapping[Ref, Set[PortId]],
    here: Set[PortId],
    find_port: Callable[[PortId], Port | None],
) -> Set[PortId]:
    """Return those of the ports *here* that *log* may be for, enabled or not.

    *users* are the ports that refer to a resource.
    """
    if log.target_id is not None:
        return here & {log.target_id}
    if log.resource_id is not None:
        return users.get(Ref(Kind.SECURITY_GROUP, log.resource_id), frozenset())
    ports = ((id, find_port(id)) for id in here)
    return {id for id, port in ports if port and port.project_id == log.project_id}
