"""The ports of routers: interfaces and gateways, and what they reach."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast
from uuid import UUID

from attrs import frozen

from netfw.drivers.query import Body, Query
from netfw.model.address import IpAddress
from netfw.model.device_owner import ROUTER_ATTACHMENTS, DeviceOwner
from netfw.model.ids import PortId, SubnetId
from netfw.model.port import FixedIp, Port
from netfw.model.resource import Kind, Ref
from netfw.model.router import Router
from netfw.model.subnet import Subnet
from netfw.server.core.resource_handler import Moment
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.l2.ports import PortHandler

NAMED_IN_TEXTS: Final = 3


def interface_owner(router: Router) -> str:
    """The owner of a router's interfaces, by which agents know what kind of router it is."""
    if router.distributed:
        return DeviceOwner.ROUTER_INTERFACE_DISTRIBUTED.value
    if router.ha:
        return DeviceOwner.HA_ROUTER_REPLICATED_INTERFACE.value
    return DeviceOwner.ROUTER_INTERFACE.value


@frozen(kw_only=True)
class RouterInterfaces:
    """The ports of one router, and the subnets on which they have addresses."""

    gateway: Port | None
    interfaces: tuple[Port, ...]
    subnets: Mapping[SubnetId, Subnet]

    @property
    def ports(self) -> tuple[Port, ...]:
        return self.interfaces if self.gateway is None else (*self.interfaces, self.gateway)

    @property
    def addresses(self) -> frozenset[IpAddress]:
        """All addresses that the router has itself."""
        return frozenset(fixed.address for port in self.ports for fixed in port.fixed_ips)

    def on(self, subnet: SubnetId) -> Port | None:
        """The interface on a subnet."""
        for port in self.interfaces:
            if any(fixed.subnet_id == subnet for fixed in port.fixed_ips):
                return port
        return None


def legs_of(moment: Moment, router: UUID) -> RouterInterfaces:
    """The ports of a router: two statements."""
    filters = {"device_id": (str(router),), "device_owner": ROUTER_ATTACHMENTS}
    rows = moment.resources.find(Kind.PORT, Query(filters=filters))
    ports = [cast(Port, row.resource()) for row in rows]
    gateways = [port for port in ports if port.device_owner == DeviceOwner.ROUTER_GATEWAY]
    return RouterInterfaces(
        gateway=gateways[0] if gateways else None,
        interfaces=tuple(port for port in ports if port.device_owner != DeviceOwner.ROUTER_GATEWAY),
        subnets=subnets_of(moment, (fixed for port in ports for fixed in port.fixed_ips)),
    )


def router_of(port: Port) -> UUID | None:
    """The id of the router that *port* says it is of; ``None``: it says none."""
    try:
        return UUID(port.device_id)
    except ValueError:
        return None


def subnets_of(moment: Moment, fixed_ips: Iterable[FixedIp]) -> Mapping[SubnetId, Subnet]:
    """The subnets of addresses: one statement."""
    refs = {Ref(Kind.SUBNET, fixed.subnet_id) for fixed in fixed_ips}
    rows = moment.resources.present(refs) if refs else ()
    found = (cast(Subnet, row.resource()) for row in rows)
    return {subnet.id: subnet for subnet in found}


def port_keeper(unit: UnitOfWork) -> PortHandler:
    """Who keeps ports."""
    return cast(PortHandler, unit.backbone.keeper("port"))


def make_port(unit: UnitOfWork, body: Mapping[str, Any]) -> Port:
    """A port of the server's own."""
    plain = {"name": "", "admin_state_up": True, **body}
    keeper = port_keeper(unit)
    with unit.elevated():
        (made,) = keeper.create(unit, [plain])
        return keeper.get_for_update(unit, str(made["id"]))


def change_port(unit: UnitOfWork, port: PortId, body: Body) -> Port:
    """Change a port of a router."""
    keeper = port_keeper(unit)
    with unit.elevated():
        keeper.update(unit, str(port), body)
        return keeper.get_for_update(unit, str(port))


def drop_port(unit: UnitOfWork, port: Port) -> None:
    """Delete a port of a router or a floating IP."""
    keeper = port_keeper(unit)
    with unit.elevated():
        keeper.discard(unit, keeper.get_for_update(unit, str(port.id)))


def named(ids: Sequence[object]) -> str:
    """Some of *ids*, for a text."""
    some = ", ".join(str(id) for id in ids[:NAMED_IN_TEXTS])
    return f"{some} and others" if len(ids) > NAMED_IN_TEXTS else some
