"""SubnetHandler: subnets and their allocation pools."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from ipaddress import IPv6Network
from typing import Any, cast
from uuid import UUID, uuid4

from netfw.drivers.server.ipam import DerivedAddress, ThisAddress
from netfw.drivers.server.query import Body, Query, RequestContext
from netfw.errors.networks import (
    GatewayIpInUse,
    NetworkMTUSubnetConflict,
    NetworkNotFound,
    SubnetInUse,
)
from netfw.model.network import Network
from netfw.model.port import FixedIp, IpAllocation, Port
from netfw.model.renumbering import readdress, renumber
from netfw.model.resource import Kind
from netfw.model.subnet import Subnet
from netfw.model.values.device_owner import DeviceOwner, is_dhcp, is_l3_agent_port
from netfw.model.values.ids import NetworkId
from netfw.model.values.text_validation import counted
from netfw.model.wire import parse, render
from netfw.server.core.extension_drivers import ExtensionDrivers
from netfw.server.core.resource_handler import Reader, StoredResourceHandler
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.resources.row import Row
from netfw.server.l2.networks import LEAST_MTU
from netfw.server.l2.port_validation import removal_advice
from netfw.server.l2.subnet_validation import check_overlap, check_pools, check_subnet, completed
from netfw.server.subnet_pools.subnet_allocation import (
    allocate_prefix,
    release_prefix,
    with_scopes,
)


class SubnetHandler(StoredResourceHandler[Subnet]):
    """Subnets: their pools are defined with them, and dropped when they are deleted."""

    name, kind, quota = "subnet", Kind.SUBNET, "subnet"

    def __init__(self, extensions: ExtensionDrivers) -> None:
        self._extensions = extensions

    def do_create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[Subnet, ...]:
        on_network: dict[NetworkId, list[Subnet]] = {}
        new: list[Subnet] = []
        for body in bodies:
            network = _visible_network(unit, str(body.get("network_id")))
            others = on_network.setdefault(network.id, list(unit.subnets(network.id)))
            subnet = self._new(unit, body, network, others)
            check_overlap(subnet, others)
            others.append(subnet)
            new.append(subnet)
        made = unit.insert(*new)
        for id, subnets in on_network.items():
            _list_subnets(unit, id, subnets)
        for subnet in made:
            unit.tx.addresses.define(subnet)
            unit.context.ipam.validate_subnet(None, subnet, unit.tx.addresses)
            if subnet.automatic:
                self._give_addresses(unit, subnet)
        return made

    def do_update(self, unit: UnitOfWork, before: Subnet, body: Body) -> Subnet:
        attributes = {**render(before), **self._extensions.plain(Kind.SUBNET, body)}
        check_pools(attributes)
        after = cast(Subnet, parse(Kind.SUBNET, attributes))
        network = unit.network(before.network_id)
        after = self._extensions.apply(unit, before, after, body, network)
        check_subnet(after, unit.context.settings, before)
        if after.gateway != before.gateway:
            _check_pools_unused(unit, before)
        unit.context.ipam.validate_subnet(before, after, unit.tx.addresses)
        if after.allocation_pools != before.allocation_pools:
            unit.tx.addresses.define(after)
        return unit.update(before, after)

    def do_delete(self, unit: UnitOfWork, before: Subnet) -> None:
        for row in _vacating(unit, before):
            self._take_address(unit, row, before)
        unit.context.ipam.drop_subnet(before.id, unit.tx.addresses)
        unit.tx.addresses.drop(before.id)
        unit.network(before.network_id, lock=True)
        left = [each for each in unit.subnets(before.network_id) if each.id != before.id]
        unit.delete(before)
        release_prefix(unit, before)
        _list_subnets(unit, before.network_id, left)

    def renumber(self, unit: UnitOfWork, before: Subnet, prefix: IPv6Network | None) -> Subnet:
        """Give a subnet, and its ports, the addresses of a delegated *prefix*, or provisional ones.

        :raises InvalidInput: no host can have its addresses, or another subnet has it.
        """
        after = renumber(before, prefix)
        if after.cidr == before.cidr:
            return before
        others = (each for each in unit.subnets(before.network_id) if each.id != before.id)
        check_subnet(after, unit.context.settings)
        check_overlap(after, others)
        ipam, store = unit.context.ipam, unit.tx.addresses
        ipam.drop_subnet(before.id, store)
        store.drop(before.id)  # waits for transactions that allocate addresses of it
        on_subnet = Query(filters={"fixed_ips": (f"subnet_id={before.id}",)})
        rows = unit.tx.resources.find(Kind.PORT, on_subnet)
        after = unit.update(before, after)
        store.define(after)
        ipam.validate_subnet(None, after, store)
        for row in rows:
            port = cast(Port, row.resource())
            fixed_ips = readdress(port, before, after).fixed_ips
            for each in fixed_ips:
                if each.subnet_id == after.id:
                    ipam.allocate(ThisAddress(subnet=after, address=each.address), store)
            self._readdress(unit, row, port, fixed_ips)
        return after

    def decorate(
        self, reader: Reader, requester: RequestContext, bodies: Sequence[MutableMapping[str, Any]]
    ) -> None:
        self._extensions.extend(Kind.SUBNET, bodies)

    def _new(
        self, unit: UnitOfWork, body: Body, network: Network, others: Sequence[Subnet]
    ) -> Subnet:
        plain = allocate_prefix(unit, self._extensions.plain(Kind.SUBNET, body), others)
        attributes = {**completed(plain), "id": str(uuid4())}
        subnet = self._extensions.apply(
            unit, None, cast(Subnet, parse(Kind.SUBNET, attributes)), body, network
        )
        check_subnet(subnet, unit.context.settings)
        least = LEAST_MTU[subnet.ip_version]
        if network.mtu < least:
            raise NetworkMTUSubnetConflict(
                f"network {network.id} has an MTU of {network.mtu}, and IPv{subnet.ip_version} "
                f"needs {least}"
            )
        return subnet

    def _give_addresses(self, unit: UnitOfWork, subnet: Subnet) -> None:
        """Give existing ports the addresses that their hosts derive."""
        of = Query(filters={"network_id": (str(subnet.network_id),)})
        for row in unit.tx.resources.find(Kind.PORT, of):
            port = cast(Port, row.resource())
            if is_l3_agent_port(port.device_owner):
                continue
            if port.ip_allocation is IpAllocation.NONE:
                continue
            request = DerivedAddress(subnet=subnet, mac=port.mac)
            got = unit.context.ipam.allocate(request, unit.tx.addresses)
            self._readdress(unit, row, port, (*port.fixed_ips, got))

    def _take_address(self, unit: UnitOfWork, row: Row, subnet: Subnet) -> None:
        port = cast(Port, row.resource())
        left = tuple(each for each in port.fixed_ips if each.subnet_id != subnet.id)
        if is_dhcp(port.device_owner) and not left:
            with unit.elevated():  # the port belongs to the owner of the network
                unit.context.handler("port").delete(unit, str(port.id))
        else:
            self._readdress(unit, row, port, left)

    def _readdress(
        self, unit: UnitOfWork, row: Row, port: Port, fixed_ips: tuple[FixedIp, ...]
    ) -> None:
        unit.extras[row.ref] = dict(row.extra)
        after = unit.evolved(port, fixed_ips=fixed_ips)
        network = unit.network(port.network_id)
        unit.update(port, self._extensions.apply(unit, port, after, {}, network))


def _visible_network(unit: UnitOfWork, id: str) -> Network:
    """Return the network of a new subnet, locked against other new subnets.

    :raises NotFound: there is none that the requester may see.
    """
    try:
        network_id = NetworkId(UUID(id))
    except ValueError:
        raise NetworkNotFound(f"there is no network {id[:80]}") from None
    return unit.visible_network(network_id, lock=True)[0]


def _list_subnets(unit: UnitOfWork, id: NetworkId, subnets: Sequence[Subnet]) -> None:
    """Update the list of subnets, and the address scopes, in their network, which is locked."""
    network = unit.network(id)
    ids = frozenset(subnet.id for subnet in subnets)
    unit.update(network, with_scopes(unit, unit.evolved(network, subnet_ids=ids), subnets))


def _vacating(unit: UnitOfWork, subnet: Subnet) -> tuple[Row, ...]:
    """Return the ports that lose addresses when *subnet* is deleted.

    :raises Conflict: other ports keep addresses of it.
    """
    on_subnet = {"fixed_ips": (f"subnet_id={subnet.id}",)}
    if subnet.automatic:
        rows = unit.tx.resources.find(Kind.PORT, Query(filters=on_subnet))
        owners = [row.body["device_owner"] for row in rows]
        others = sum(map(is_l3_agent_port, owners))
    else:
        own = Query(filters={**on_subnet, "device_owner": (DeviceOwner.DHCP.value,)})
        rows = unit.tx.resources.find(Kind.PORT, own)
        others = unit.tx.resources.count(Kind.PORT, Query(filters=on_subnet)) - len(rows)
    if others:
        some = unit.tx.resources.find(Kind.PORT, Query(filters=on_subnet, limit=10))
        users = {row.body["device_owner"] for row in some} - {DeviceOwner.DHCP.value}
        raise SubnetInUse(
            f"subnet {subnet.id} is in use: addresses of {subnet.cidr} belong to "
            f"{counted(others, 'port')}; {removal_advice(users)}"
        )
    return rows


def _check_pools_unused(unit: UnitOfWork, subnet: Subnet) -> None:
    if subnet.gateway is None:
        return
    gateway_ip = (f"subnet_id={subnet.id}", f"ip_address={subnet.gateway}")
    for row in unit.tx.resources.find(Kind.PORT, Query(filters={"fixed_ips": gateway_ip})):
        if is_l3_agent_port(row.body["device_owner"]):
            raise GatewayIpInUse(
                f"gateway {subnet.gateway} of subnet {subnet.id} is in use by port "
                f"{row.body['id']} of router {row.body['device_id']}"
            )
