"""Pre-commit hook for HA networks: requests change neither them nor their ports.

It compares what the transaction leaves with what the routers need, so that it does not matter which
request or scheduler made the change.
"""

from __future__ import annotations

from collections import Counter
from typing import cast

from attrs import evolve

from netfw.drivers.server.change import Change
from netfw.drivers.values.subscription import Service
from netfw.errors.networks import NetworkInUse, SubnetInUse
from netfw.errors.ports import ServicePortInUse, UnsupportedPortDeviceOwner
from netfw.model.binding import VifDetails, VifType
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref
from netfw.model.subnet import Subnet
from netfw.model.values.common_fields import Status
from netfw.model.values.device_owner import DeviceOwner
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.allocation.vrids import VridStore
from netfw.server.l3.ha.ha_networks import find_ha_ports
from netfw.server.l3.router_ports import router_of


def check_ha_network_change(unit: UnitOfWork, change: Change) -> None:
    """Refuse a change of an HA network, its subnet or its ports that its routers do not need.

    It is a :data:`.PrecommitHook`.

    :raises Conflict: routers use the HA network as it is, or an HA port is on another network.
    """
    network = change.network
    project = None
    if network is not None and not network.project_id:
        project = VridStore(unit.tx.connection).project_of(network.id)
    if network is None or project is None:
        _check_owner(change)
        return
    text = (
        f"network {network.id} is the HA network of project {project!r}, which the server creates "
        "and deletes with the highly available routers there"
    )
    instead = "delete the routers or set their ha to false, and it is deleted with the last one"
    match change.resource:
        case Network() if change.before is not None:
            raise NetworkInUse(f"{text}: it cannot be changed or deleted by itself; {instead}")
        case Subnet() if change.before is not None or len(unit.subnets(network.id)) > 1:
            raise SubnetInUse(
                f"{text}: its subnet cannot be changed or deleted, and no other added; {instead}"
            )
        case Port() if not _is_needed(unit, change):
            raise ServicePortInUse(
                f"{text}: it has one port for each L3 agent of each router, which cannot be "
                "created, changed or deleted by itself; add or remove the router at the agent, or "
                "delete the router"
            )
        case _:
            pass


def _check_owner(change: Change) -> None:
    """Refuse a new HA port on a network that is no HA network: agents would use it for VRRP."""
    before, after = change.before, change.after
    owner = DeviceOwner.ROUTER_HA_INTERFACE
    is_known = isinstance(before, Port) and before.device_owner == owner
    if isinstance(after, Port) and after.device_owner == owner and not is_known:
        raise UnsupportedPortDeviceOwner(
            f"device_owner {owner.value} is for ports of HA networks, which the server creates "
            "with highly available routers; use another device_owner"
        )


def _is_needed(unit: UnitOfWork, change: Change) -> bool:
    """Return whether the router of an HA port needs it as it is after the change."""
    before, after = cast("Port | None", change.before), cast("Port | None", change.after)
    if before is not None and after is not None:
        return _as_requested(before) == _as_requested(after)
    port = cast(Port, change.resource)
    router = router_of(port)
    if port.device_owner != DeviceOwner.ROUTER_HA_INTERFACE or router is None:
        return after is None
    needed: Counter[str] = Counter()
    if VridStore(unit.tx.connection).network_of(router) == port.network_id:
        assigned = unit.tx.assignments.of([Ref(Kind.ROUTER, router)])
        needed.update(each.host for each in assigned if each.service is Service.L3)
    present = find_ha_ports(unit.tx, device_id=str(router))
    return Counter(each.binding.host for each in present) == needed


def _as_requested(port: Port) -> Port:
    """Return *port* without what the server and its drivers set by themselves."""
    binding = evolve(port.binding, vif_type=VifType.UNBOUND.value, vif_details=VifDetails())
    return evolve(port, binding=binding, status=Status.DOWN, revision=0, updated_at=None)
