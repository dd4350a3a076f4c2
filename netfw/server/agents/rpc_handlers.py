"""AgentRpcHandlers: the core plugin's answers to requests of agents."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, cast

from attrs import frozen

from netfw.drivers.server.query import Body, Query
from netfw.drivers.values.agent_requests import (
    EnabledServices,
    EnsureDhcpPort,
    EnsureGatewayPort,
    EnsureHostMac,
    FindPorts,
    ReleaseDhcpPort,
    ReleaseGatewayPort,
    Request,
    ResolveDevices,
    SetPrefix,
)
from netfw.drivers.values.subscription import Service
from netfw.errors import Conflict, Exhausted, NotFound, NotSupported
from netfw.errors.networks import SubnetNotFound
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref
from netfw.model.values.address import Mac, derives, link_local_mac
from netfw.model.values.device_owner import DeviceOwner, is_router_port
from netfw.model.values.ids import NetworkId, PortId
from netfw.server.agents.agent_gateway_ports import (
    gateway_device_id,
    is_mac_of_port,
    release_gateway_ports,
)
from netfw.server.core.resource_handler import Reader
from netfw.server.core.server_context import SERVER, ServerContext
from netfw.server.core.service_ports import make_service_port
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.allocation.allocation_stores import HostMacPool
from netfw.server.db.database import Transaction
from netfw.state.agent_requests import RESERVED_DHCP_DEVICE, dhcp_device_id

Answer = Callable[[Any], Any]
MAC_ATTEMPTS: Final = 8


@frozen
class AgentRpcHandlers:
    """Answers requests of agents.

    What exists as requested is only read. All else is created in one transaction that locks the
    network, so that no other transaction creates the same.
    """

    context: ServerContext
    services: Callable[[], Collection[str]] = lambda: ()
    """Names of the service plugins that the server runs."""

    def table(self) -> Mapping[type[Request[Any]], Answer]:
        """Return the handlers by type of request."""
        return {
            EnsureDhcpPort: self.ensure_dhcp_port,
            ReleaseDhcpPort: self.release_dhcp_port,
            FindPorts: self.find_ports,
            ResolveDevices: self.resolve_devices,
            EnsureGatewayPort: self.ensure_gateway_port,
            ReleaseGatewayPort: self.release_gateway_port,
            EnsureHostMac: self.ensure_host_mac,
            EnabledServices: lambda _: frozenset(self.services()),
            SetPrefix: self.set_prefix,
        }

    def ensure_dhcp_port(self, request: EnsureDhcpPort) -> Port:
        """Return the port from which a host serves a network; create or change it if needed.

        :raises NotFound: the network or a subnet of it does not exist.
        :raises Conflict: a subnet has no address left, or other hosts serve the network.
        """
        device = dhcp_device_id(request.host, request.network)

        def present(reader: Reader) -> Port | None:
            port = _first(_ports(reader, request.network, DeviceOwner.DHCP.value, device))
            return port if port is not None and _is_complete(port, request) else None

        return self._find_or_make(present, lambda unit: _make_dhcp_port(unit, request, device))

    def release_dhcp_port(self, request: ReleaseDhcpPort) -> None:
        """Delete the port from which a host served a network, if there is one."""
        device = dhcp_device_id(request.host, request.network)

        def release(unit: UnitOfWork) -> None:
            for port in _ports(unit.tx, request.network, DeviceOwner.DHCP.value, device):
                unit.context.handler("port").delete(unit, str(port.id))

        if self.context.read(
            lambda view: _ports(view, request.network, DeviceOwner.DHCP.value, device)
        ):
            self.context.run(SERVER, release)

    def find_ports(self, request: FindPorts) -> tuple[Port, ...]:
        """Return the ports that have an address on a network, or on any network of a router."""

        def find(reader: Reader) -> tuple[Port, ...]:
            networks = _networks(reader, request)
            if not networks:
                return ()
            address = f"ip_address={request.address}"
            found = _find(reader, network_id=networks, fixed_ips=(address,))
            mac = link_local_mac(request.address)
            if mac is not None:
                derived = _find(reader, network_id=networks, mac_address=(mac,))
                found += tuple(port for port in derived if port not in found)
            return found

        return self.context.read(find)

    def resolve_devices(self, request: ResolveDevices) -> tuple[Port, ...]:
        """Return those of the ports that exist."""
        refs = [Ref(Kind.PORT, id) for id in sorted(request.ports)]
        rows = self.context.read(lambda view: view.resources.present(refs))
        return tuple(cast(Port, row.resource()) for row in rows)

    def ensure_gateway_port(self, request: EnsureGatewayPort) -> Port:
        """Return the port of a host on an external network; create it if needed.

        :raises NotFound: there is no such network.
        :raises Conflict: it is not external, or has no address left.
        """
        device = gateway_device_id(request.host)
        return self._find_or_make(
            lambda reader: _first(
                _ports(reader, request.network, DeviceOwner.FLOATING_IP_AGENT_GATEWAY.value, device)
            ),
            lambda unit: _make_gateway_port(unit, request, device),
        )

    def release_gateway_port(self, request: ReleaseGatewayPort) -> None:
        """Delete the port of a host on an external network, if there is one."""
        owner, device = (
            DeviceOwner.FLOATING_IP_AGENT_GATEWAY.value,
            gateway_device_id(request.host),
        )

        def release(unit: UnitOfWork) -> None:
            unit.network(request.network, lock=True)
            release_gateway_ports(unit, request.host, network_id=str(request.network))

        if self.context.read(lambda view: _ports(view, request.network, owner, device)):
            with suppress(NotFound):  # deleted meanwhile, with its network or by itself
                self.context.run(SERVER, release)

    def set_prefix(self, request: SetPrefix) -> None:
        """Renumber a subnet to the prefix that a provider delegated, or make it provisional.

        :raises NotFound: there is no such subnet.
        :raises InvalidInput: no subnet can have the prefix, or another one has it.
        :raises Conflict: its prefix is not delegated, or not to that router.
        :raises NotSupported: this server has no routers.
        """
        handle = self.context.prefix_handler
        if handle is None:
            raise NotSupported("this server has no routers: add router to its service_plugins")
        self.context.run(SERVER, handle, request)

    def ensure_host_mac(self, request: EnsureHostMac) -> Mac:
        """Return the MAC address of a host; allocate it once.

        :raises Exhausted: ports have the MAC addresses of its prefix.
        """
        known = self.context.read(lambda view: HostMacPool(view.connection).of(request.host))
        if known is not None:
            return known

        def give(tx: Transaction) -> Mac:
            macs = HostMacPool(tx.connection)
            mac = macs.of(request.host)
            if mac is None:
                mac = _generate_mac(tx, self.context.settings.dvr_base_mac)
                macs.assign(request.host, mac)
            return mac

        return self.context.database.transaction(give)

    def _find_or_make(
        self, present: Callable[[Reader], Port | None], make: Callable[[UnitOfWork], PortId]
    ) -> Port:
        """Return the port that *present* finds or *make* creates, as it is after the commit."""
        known = self.context.read(present)
        if known is not None:
            return known
        id = self.context.run(SERVER, make)
        row = self.context.read(lambda view: view.resources.get(Kind.PORT, id))
        return cast(Port, row.resource())


def _make_dhcp_port(unit: UnitOfWork, request: EnsureDhcpPort, device: str) -> PortId:
    network = unit.network(request.network, lock=True)
    _check_assigned(unit, request)
    _check_subnets(unit, request)
    own = _first(_ports(unit.tx, network.id, DeviceOwner.DHCP.value, device))
    port = own or _first(_ports(unit.tx, network.id, DeviceOwner.DHCP.value, RESERVED_DHCP_DEVICE))
    if port is None:
        subnets: list[Any] = [{"subnet_id": str(id)} for id in sorted(request.subnets)]
        return make_service_port(
            unit,
            network,
            device=device,
            owner=DeviceOwner.DHCP.value,
            host=request.host,
            fixed_ips=subnets,
        )
    if not _is_complete(port, request):
        fixed: list[Any] = [
            {"subnet_id": str(each.subnet_id), "ip_address": str(each.address)}
            for each in port.fixed_ips
            if each.subnet_id in request.subnets
        ]
        missing = request.subnets - {each.subnet_id for each in port.fixed_ips}
        fixed += [{"subnet_id": str(id)} for id in sorted(missing)]
        body: Body = {"device_id": device, "binding:host_id": request.host, "fixed_ips": fixed}
        unit.context.handler("port").update(unit, str(port.id), body)
    return port.id


def _make_gateway_port(unit: UnitOfWork, request: EnsureGatewayPort, device: str) -> PortId:
    network = unit.network(request.network, lock=True)
    if not network.external:
        raise Conflict(f"network {network.id} is not external: no gateway port can be there")
    own = _first(_ports(unit.tx, network.id, DeviceOwner.FLOATING_IP_AGENT_GATEWAY.value, device))
    if own is not None:
        return own.id
    return make_service_port(
        unit,
        network,
        device=device,
        owner=DeviceOwner.FLOATING_IP_AGENT_GATEWAY.value,
        host=request.host,
    )


def _check_assigned(unit: UnitOfWork, request: EnsureDhcpPort) -> None:
    """Refuse an agent whose network was moved meanwhile: it may not have received the change
    yet."""
    served = unit.tx.assignments.of([Ref(Kind.NETWORK, request.network)])
    hosts = {each.host for each in served if each.service is Service.DHCP}
    if hosts and request.host not in hosts:
        raise Conflict(
            f"network {request.network} is with the DHCP agent on {', '.join(sorted(hosts))}, and "
            f"not on {request.host}"
        )


def _check_subnets(unit: UnitOfWork, request: EnsureDhcpPort) -> None:
    refs = [Ref(Kind.SUBNET, id) for id in sorted(request.subnets)]
    rows = unit.tx.resources.present(refs)
    there = {row.ref.id for row in rows if row.body["network_id"] == str(request.network)}
    for each in refs:
        if each.id not in there:
            raise SubnetNotFound(f"network {request.network} has no subnet {each.id}")


def _is_complete(port: Port, request: EnsureDhcpPort) -> bool:
    """Return whether *port* is as requested; derived addresses on other subnets may be present."""
    more = [each.address for each in port.fixed_ips if each.subnet_id not in request.subnets]
    return (
        port.device_id == dhcp_device_id(request.host, request.network)
        and port.binding.host == request.host
        and request.subnets <= {each.subnet_id for each in port.fixed_ips}
        and (not more or (bool(request.subnets) and all(derives(port.mac, each) for each in more)))
    )


def _networks(reader: Reader, request: FindPorts) -> tuple[str, ...]:
    if request.network is not None:
        return (str(request.network),)
    ports = _find(reader, device_id=(str(request.router),))
    return tuple(
        sorted({str(port.network_id) for port in ports if is_router_port(port.device_owner)})
    )


def _ports(reader: Reader, network: NetworkId, owner: str, device: str) -> tuple[Port, ...]:
    """Return the ports of that owner: any user of a network can give a port this *device*."""
    return _find(reader, network_id=(str(network),), device_owner=(owner,), device_id=(device,))


def _find(reader: Reader, **filters: tuple[str, ...]) -> tuple[Port, ...]:
    rows = reader.resources.find(Kind.PORT, Query(filters=filters))
    return tuple(cast(Port, row.resource()) for row in rows)


def _first(ports: Iterable[Port]) -> Port | None:
    return next(iter(ports), None)


def _generate_mac(tx: Transaction, base: str) -> Mac:
    """Return a random MAC address with the first three octets of *base* that no port has."""
    for _ in range(MAC_ATTEMPTS):
        rest = (f"{random.getrandbits(8):02x}" for _ in range(3))
        mac = Mac(":".join((*base.split(":")[:3], *rest)))
        if not is_mac_of_port(tx, mac):
            return mac
    raise Exhausted(
        f"ports have MAC addresses that begin as {base}: set dvr_base_mac to another prefix"
    )
