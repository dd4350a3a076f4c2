"""Ports of routers: interfaces and gateways, and the subnets that they reach."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast
from uuid import UUID

from attrs import frozen

from netfw.drivers.server.query import Body, Query
from netfw.model.port import FixedIp, Port
from netfw.model.resource import Kind, Ref
from netfw.model.router import Router
from netfw.model.subnet import Subnet
from netfw.model.values.address import IpAddress
from netfw.model.values.device_owner import ROUTER_ATTACHMENTS, DeviceOwner, is_router_interface
from netfw.model.values.ids import PortId, SubnetId
from netfw.server.core.resource_handler import Reader
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.l2.ports import PortHandler

NAMED_IN_TEXTS: Final = 3
BOUND_WITH_ROUTER: Final = (*ROUTER_ATTACHMENTS, DeviceOwner.ROUTER_CENTRALIZED_SNAT.value)
"""Owners of the ports that are bound where the router, or its central part, is."""


def kind_of(router: Router) -> tuple[bool, bool]:
    """Return the kind of a router: highly available, distributed.  A conversion changes it."""
    return router.ha, router.distributed


def interface_owner(router: Router) -> str:
    """Return the device owner of a router's interfaces; it tells agents the kind of router."""
    if router.distributed:
        return DeviceOwner.ROUTER_INTERFACE_DISTRIBUTED.value
    if router.ha:
        return DeviceOwner.HA_ROUTER_REPLICATED_INTERFACE.value
    return DeviceOwner.ROUTER_INTERFACE.value


@frozen(kw_only=True)
class RouterPorts:
    """The ports of one router, and the subnets on which they have addresses."""

    gateway: Port | None
    interfaces: tuple[Port, ...]
    central: tuple[Port, ...]
    """Ports of the central part of a distributed router."""
    subnets: Mapping[SubnetId, Subnet]
    """Subnets of the interfaces and of the gateway."""

    @property
    def ports(self) -> tuple[Port, ...]:
        inside = (*self.interfaces, *self.central)
        return inside if self.gateway is None else (*inside, self.gateway)

    @property
    def addresses(self) -> frozenset[IpAddress]:
        """All addresses of the router itself."""
        return frozenset(fixed.address for port in self.ports for fixed in port.fixed_ips)

    def on(self, subnet: SubnetId) -> Port | None:
        """Return the interface on a subnet."""
        for port in self.interfaces:
            if any(fixed.subnet_id == subnet for fixed in port.fixed_ips):
                return port
        return None


def read_router_ports(reader: Reader, router: UUID) -> RouterPorts:
    """Read the ports of a router, in two statements."""
    filters = {"device_id": (str(router),), "device_owner": BOUND_WITH_ROUTER}
    rows = reader.resources.find(Kind.PORT, Query(filters=filters))
    ports = [cast(Port, row.resource()) for row in rows]
    gateways = [port for port in ports if port.device_owner == DeviceOwner.ROUTER_GATEWAY]
    interfaces = tuple(port for port in ports if is_router_interface(port.device_owner))
    attached = (*interfaces, *gateways)
    return RouterPorts(
        gateway=gateways[0] if gateways else None,
        interfaces=interfaces,
        central=tuple(
            port for port in ports if port.device_owner == DeviceOwner.ROUTER_CENTRALIZED_SNAT
        ),
        subnets=subnets_of(reader, (fixed for port in attached for fixed in port.fixed_ips)),
    )


def get_router_for_update(unit: UnitOfWork, id: UUID) -> Router:
    """Return a router, locked.

    :raises NotFound: it does not exist.
    """
    return cast(Router, unit.tx.resources.get(Kind.ROUTER, id, lock=True).resource())


def router_of(port: Port) -> UUID | None:
    """Return the router id in the ``device_id`` of *port*; ``None``: it is no id."""
    try:
        return UUID(port.device_id)
    except ValueError:
        return None


def subnets_of(reader: Reader, fixed_ips: Iterable[FixedIp]) -> Mapping[SubnetId, Subnet]:
    """Read the subnets of addresses, in one statement."""
    refs = {Ref(Kind.SUBNET, fixed.subnet_id) for fixed in fixed_ips}
    rows = reader.resources.present(refs) if refs else ()
    found = (cast(Subnet, row.resource()) for row in rows)
    return {subnet.id: subnet for subnet in found}


def port_handler(unit: UnitOfWork) -> PortHandler:
    """Return the handler of ports."""
    return cast(PortHandler, unit.context.handler("port"))


def make_port(unit: UnitOfWork, body: Mapping[str, Any]) -> Port:
    """Create a port with the server's own rights."""
    plain = {"name": "", "admin_state_up": True, **body}
    handler = port_handler(unit)
    with unit.elevated():
        (made,) = handler.create(unit, [plain])
        return handler.get_for_update(unit, str(made["id"]))


def change_port(unit: UnitOfWork, port: PortId, body: Body) -> Port:
    """Change a port of a router."""
    handler = port_handler(unit)
    with unit.elevated():
        handler.update(unit, str(port), body)
        return handler.get_for_update(unit, str(port))


def bind_ports(unit: UnitOfWork, hosts: Mapping[PortId, str]) -> None:
    """Bind ports of routers to the given hosts."""
    with unit.elevated():
        port_handler(unit).update_all(
            unit, {id: {"binding:host_id": host} for id, host in hosts.items()}
        )


def drop_port(unit: UnitOfWork, port: Port) -> None:
    """Delete a port of a router or a floating IP."""
    handler = port_handler(unit)
    with unit.elevated():
        handler.discard(unit, handler.get_for_update(unit, str(port.id)))


def quote_ids(ids: Sequence[object]) -> str:
    """Render the first few of *ids* for a message."""
    quoted = ", ".join(str(id) for id in ids[:NAMED_IN_TEXTS])
    return f"{quoted} and others" if len(ids) > NAMED_IN_TEXTS else quoted
