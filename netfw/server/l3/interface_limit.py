"""The number of interfaces that distributed routers have on one network.

Every host with a port on the network has all of them, and a switch driver refuses the whole network
if they are too many.  Users of a shared network must not bring that about.
"""

from __future__ import annotations

from typing import Final

from netfw.drivers.server.change import Change
from netfw.drivers.server.query import Query
from netfw.errors import Conflict
from netfw.model.port import Port
from netfw.model.resource import Kind
from netfw.model.router import MAX_ROUTER_INTERFACES
from netfw.model.values.device_owner import DeviceOwner, is_distributed
from netfw.server.core.unit_of_work import UnitOfWork

MAX_INTERFACES: Final = MAX_ROUTER_INTERFACES - 16
"""Fewer than switches take: requests at the same moment do not see each other's interfaces."""


def check_interface_count(unit: UnitOfWork, change: Change) -> None:
    """Refuse an interface of a distributed router that is one too many on its network.

    It is a :data:`.PrecommitHook`.

    :raises Conflict: the network has as many as it can have.
    """
    if not _is_interface(change.after) or _is_interface(change.before):
        return
    assert isinstance(change.after, Port)
    network = str(change.after.network_id)
    owner = DeviceOwner.ROUTER_INTERFACE_DISTRIBUTED.value
    query = Query(filters={"network_id": (network,), "device_owner": (owner,)})
    if unit.tx.resources.count(Kind.PORT, query) > MAX_INTERFACES:
        raise Conflict(
            f"network {network} has {MAX_INTERFACES} interfaces of distributed routers, and can "
            "have no more"
        )


def _is_interface(resource: object) -> bool:
    return isinstance(resource, Port) and is_distributed(resource.device_owner)
