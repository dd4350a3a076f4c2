"""DistributedDhcpPorts: the DHCP port of a network that every host answers from."""

from __future__ import annotations

from collections.abc import Set
from typing import Any, cast
from uuid import UUID

from attrs import frozen

from netfw.drivers.server.change import Change
from netfw.drivers.server.query import Query
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref
from netfw.model.subnet import Subnet
from netfw.model.values.address import derives
from netfw.model.values.device_owner import DISTRIBUTED_DHCP_DEVICE, DeviceOwner
from netfw.model.values.ids import NetworkId, SubnetId
from netfw.server.core.server_context import ServerContext
from netfw.server.core.service_ports import make_service_port
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.resources.distributed_dhcp_ports import (
    networks_with_agents_port,
    networks_without_dhcp_port,
)
from netfw.server.scheduling.rescheduler import run_each_as_server


@frozen
class DistributedDhcpPorts:
    """The port comes with the first DHCP subnet of a network, in its transaction.

    It is bound to no host, has an address on each subnet with DHCP, and goes with the last.
    Where this mode is off again, no port is made or grows, and one goes when a DHCP agent serves
    its network.
    """

    context: ServerContext

    def watch(self, unit: UnitOfWork, change: Change) -> None:
        """Follow subnets, inside their transactions; deleted ones take their addresses along."""
        if not isinstance(change.after, Subnet):
            return
        has_dhcp = change.after.enable_dhcp
        had_dhcp = isinstance(change.before, Subnet) and change.before.enable_dhcp
        may_grow = self.context.settings.distributed_dhcp
        if has_dhcp is not had_dhcp and (may_grow or had_dhcp):
            self._update(unit, change.after.network_id)

    def reconcile(self) -> int:
        """Make the ports of networks that are older than this mode; where it is off, remove those
        that DHCP agents have replaced.  Return how many changed.

        Each network is a transaction of its own.
        """
        if not self.context.settings.distributed_dhcp:
            replaced = self.context.read(lambda view: networks_with_agents_port(view.connection))
            targets = [Ref(Kind.NETWORK, id) for id in replaced]
            return run_each_as_server(self.context, self._remove, targets)
        lacking = self.context.read(lambda view: networks_without_dhcp_port(view.connection))
        targets = [Ref(Kind.NETWORK, id) for id in lacking]
        return run_each_as_server(self.context, self._make_missing, targets)

    def _make_missing(self, unit: UnitOfWork, network: UUID) -> bool:
        return self._update(unit, NetworkId(network))

    @staticmethod
    def _remove(unit: UnitOfWork, network: UUID) -> bool:
        unit.network(NetworkId(network), lock=True)
        port = _dhcp_port(unit, NetworkId(network))
        if port is not None:
            with unit.elevated():
                unit.context.handler("port").delete(unit, str(port.id))
        return port is not None

    def _update(self, unit: UnitOfWork, id: NetworkId) -> bool:
        """Make the port of a network as its subnets need it; return whether it changed."""
        network = unit.network(id, lock=True)
        served = {each.id for each in unit.subnets(id) if each.enable_dhcp}
        port = _dhcp_port(unit, id)
        if not self.context.settings.distributed_dhcp:
            served &= set() if port is None else {each.subnet_id for each in port.fixed_ips}
        with unit.elevated():
            if port is None and served:
                make_service_port(
                    unit,
                    network,
                    device=DISTRIBUTED_DHCP_DEVICE,
                    owner=DeviceOwner.DHCP.value,
                    host="",
                    fixed_ips=[{"subnet_id": str(each)} for each in sorted(served)],
                )
                return True
            if port is None or (served and _is_complete(port, served)):
                return False
            handler = unit.context.handler("port")
            if not served:
                handler.delete(unit, str(port.id))
                return True
            fixed: list[Any] = [
                {"subnet_id": str(each.subnet_id), "ip_address": str(each.address)}
                for each in port.fixed_ips
                if each.subnet_id in served
            ]
            missing = served - {each.subnet_id for each in port.fixed_ips}
            fixed += [{"subnet_id": str(each)} for each in sorted(missing)]
            handler.update(unit, str(port.id), {"fixed_ips": fixed})
        return True


def _is_complete(port: Port, served: Set[SubnetId]) -> bool:
    """Return whether a port is as needed; derived addresses on other subnets may be present."""
    more = [each.address for each in port.fixed_ips if each.subnet_id not in served]
    present = {each.subnet_id for each in port.fixed_ips}
    return served <= present and all(derives(port.mac, address) for address in more)


def _dhcp_port(unit: UnitOfWork, network: NetworkId) -> Port | None:
    filters = {
        "network_id": (str(network),),
        "device_owner": (DeviceOwner.DHCP.value,),
        "device_id": (DISTRIBUTED_DHCP_DEVICE,),
    }
    rows = unit.tx.resources.find(Kind.PORT, Query(filters=filters))
    return min((cast(Port, row.resource()) for row in rows), key=lambda it: it.id, default=None)
