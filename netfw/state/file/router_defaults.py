"""Defaults for routers, floating IPs, port forwardings and NDP proxies of a file.  Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from uuid import UUID, uuid5

from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.router import Router
from netfw.model.values.address import IpAddress, IpNetwork
from netfw.model.values.device_owner import DeviceOwner, is_router_interface
from netfw.model.values.ids import NetworkId, PortId, RouterId, SubnetId
from netfw.model.wire.scalars import ADDRESS
from netfw.state.file.name_resolution import Body, Found, address_scope_id

SCOPES = ("ipv4_address_scope", "ipv6_address_scope")


def complete_address_scopes(body: Body) -> None:
    """Replace the names of a network's address scopes by ids."""
    for name in SCOPES:
        if isinstance(body.get(name), str):
            body[name] = str(address_scope_id(body[name]))


def complete_router(body: Body, id: UUID) -> None:
    """Set the ids of the conntrack helpers of a router: one for each content."""
    helpers = body.get("conntrack_helpers")
    for helper in helpers if isinstance(helpers, list) else ():
        if isinstance(helper, dict):
            content = " ".join(str(helper.get(name)) for name in ("protocol", "port", "helper"))
            helper.setdefault("id", str(uuid5(id, content)))


def complete_router_port(
    body: Body, network: Network | None, interface_owners: Mapping[str, DeviceOwner]
) -> Iterator[Found]:
    """Make a port with ``router_id`` the gateway of that router on an external network, and its
    interface elsewhere, by *interface_owners* for routers that are not plain.

    Yield the problems found.
    """
    if "router_id" not in body:
        return
    router = body.pop("router_id")
    if body.setdefault("device_id", router) != router:
        yield "device_id", "contradicts the router"
    owner = interface_owners.get(str(router), DeviceOwner.ROUTER_INTERFACE)
    if network is not None and network.external:
        owner = DeviceOwner.ROUTER_GATEWAY
    body.setdefault("device_owner", owner.value)


class RouterDefaults:
    """Completes floating IPs, port forwardings and NDP proxies from the ports and routers of all
    files."""

    def __init__(self, ports: Collection[Port], routers: Collection[Router]) -> None:
        self._ports = {port.id: port for port in ports}
        self._external = {each.id: each.gateway.network_id for each in routers if each.gateway}
        self._distributed = {each.id for each in routers if each.distributed}
        self._gateways: set[tuple[UUID | None, str]] = set()
        """External networks and hosts that have a gateway of an agent there."""
        self._pairs: dict[NetworkId, list[tuple[PortId, IpNetwork]]] = {}
        self._routers: dict[SubnetId, set[RouterId]] = {}
        for port in ports:
            if is_router_interface(port.device_owner) and (id := _uuid(port.device_id)):
                for fixed in port.fixed_ips:
                    self._routers.setdefault(fixed.subnet_id, set()).add(RouterId(id))
            elif port.device_owner == DeviceOwner.FLOATING_IP_AGENT_GATEWAY and port.binding.host:
                self._gateways.add((port.network_id, port.binding.host))
            for pair in port.allowed_address_pairs:
                self._pairs.setdefault(port.network_id, []).append((port.id, pair.prefix))

    def complete_floating_ip(self, body: Body) -> None:
        """Set the fixed address, if the port has one of the family, the router, if one alone
        connects that address with the external network, and the host, if it is the port's."""
        port = self._ports.get(PortId(_uuid(body.get("port_id")) or UUID(int=0)))
        address = _address(body.get("floating_ip_address"))
        if port is None or address is None:
            return
        if "fixed_ip_address" not in body:
            _set_only_address(body, "fixed_ip_address", port, address.version)
        if "router_id" not in body:
            found = self._between(port, body)
            if len(found) == 1:
                body["router_id"] = str(found.pop())
        if "host" not in body and self._is_local(port, body):
            body["host"] = port.binding.host

    def _is_local(self, port: Port, body: Body) -> bool:
        """Return whether a floating IP of *port* is on the host of the port: its router is
        distributed, the host has a gateway on the external network, and the address is not shared
        with other ports."""
        inside = _address(body.get("fixed_ip_address"))
        return (
            inside is not None
            and _uuid(body.get("router_id")) in self._distributed
            and (_uuid(body.get("floating_network_id")), port.binding.host) in self._gateways
            and not any(
                owner != port.id and inside in prefix
                for owner, prefix in self._pairs.get(port.network_id, ())
            )
        )

    def complete_port_forwarding(self, body: Body) -> None:
        """Set the inside address, if the port has one IPv4 address."""
        port = self._ports.get(PortId(_uuid(body.get("internal_port_id")) or UUID(int=0)))
        if port is not None and "internal_ip_address" not in body:
            _set_only_address(body, "internal_ip_address", port, 4)

    def complete_ndp_proxy(self, body: Body) -> None:
        """Set the address, if the port has one IPv6 address."""
        port = self._ports.get(PortId(_uuid(body.get("port_id")) or UUID(int=0)))
        if port is not None and "ip_address" not in body:
            _set_only_address(body, "ip_address", port, 6)

    def _between(self, port: Port, body: Body) -> set[RouterId]:
        """Return the routers between an address of *port* and the floating IP's network."""
        network, inside = _uuid(body.get("floating_network_id")), body.get("fixed_ip_address")
        subnets = {each.subnet_id for each in port.fixed_ips if str(each.address) == inside}
        return {
            router
            for subnet in subnets
            for router in self._routers.get(subnet, ())
            if self._external.get(router) == network
        }


def _set_only_address(body: Body, name: str, port: Port, version: int) -> None:
    found = [each.address for each in port.fixed_ips if each.address.version == version]
    if len(found) == 1:
        body[name] = str(found[0])


def _uuid(text: object) -> UUID | None:
    try:
        return UUID(str(text))
    except ValueError:
        return None


def _address(raw: object) -> IpAddress | None:
    try:
        return ADDRESS.parse(raw)
    except ValueError:
        return None
