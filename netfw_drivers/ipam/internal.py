"""InternalIpamDriver: addresses in the server's own database."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv6Network
from typing import Any, ClassVar, Self

from netfw.drivers.base import DriverInfo, HostResources
from netfw.drivers.server.ipam import (
    AddressRequest,
    AddressStore,
    AnyAddress,
    DerivedAddress,
    IpamCapability,
    IpamDriver,
    ThisAddress,
)
from netfw.errors import InvalidInput
from netfw.errors.ports import (
    InvalidIpForSubnet,
    IpAddressAlreadyAllocated,
    IpAddressGenerationFailure,
)
from netfw.model.port import FixedIp
from netfw.model.subnet import Subnet
from netfw.model.values.address import IpAddress, eui64
from netfw.model.values.ids import SubnetId
from netfw_drivers.ipam.validation import address_problems, subnet_problems


class InternalIpamDriver(IpamDriver):
    """Stateless: a free address is one query of the store, in a subnet of any size.

    A request may name an address outside the allocation pools, the gateway's included.
    """

    VERSION: ClassVar[int] = 2

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls()

    def describe(self) -> DriverInfo[IpamCapability]:
        return DriverInfo("internal")

    def validate_subnet(self, before: Subnet | None, after: Subnet, store: AddressStore) -> None:
        if problems := dict(subnet_problems(before, after)):
            raise InvalidInput(problems)

    def allocate(self, request: AddressRequest, store: AddressStore) -> FixedIp:
        match request:
            case AnyAddress(subnets=subnets):
                return _any(subnets, store)
            case ThisAddress(subnet=subnet, address=address):
                if problems := dict(address_problems(subnet, address)):
                    raise InvalidIpForSubnet(problems)
                return _this(subnet, address, store)
            case DerivedAddress(subnet=subnet):
                return _this(subnet, _derived(request), store)

    def release(self, fixed_ip: FixedIp, store: AddressStore) -> None:
        store.release(fixed_ip.subnet_id, fixed_ip.address)

    def drop_subnet(self, subnet: SubnetId, store: AddressStore) -> None:
        """Do nothing: the store deletes its allocations with the subnet."""


def _any(subnets: tuple[Subnet, ...], store: AddressStore) -> FixedIp:
    for subnet in subnets:
        address = store.acquire_any(subnet)
        if address is not None:
            return FixedIp(subnet_id=subnet.id, address=address)
    if not subnets:
        raise IpAddressGenerationFailure("there is no subnet to take an address from")
    raise IpAddressGenerationFailure(f"no address is left in {', '.join(map(_named, subnets))}")


def _this(subnet: Subnet, address: IpAddress, store: AddressStore) -> FixedIp:
    if not store.acquire(subnet.id, address):
        raise IpAddressAlreadyAllocated(f"address {address} is taken in {_named(subnet)}")
    return FixedIp(subnet_id=subnet.id, address=address)


def _derived(request: DerivedAddress) -> IpAddress:
    block = request.subnet.cidr
    if not (isinstance(block, IPv6Network) and request.subnet.automatic):
        raise InvalidInput(
            {
                "subnet_id": f"hosts derive no addresses in {_named(request.subnet)}: "
                "its ipv6_address_mode is neither slaac nor dhcpv6-stateless"
            }
        )
    return eui64(block, request.mac)


def _named(subnet: Subnet) -> str:
    return f"{subnet.cidr} (subnet {subnet.id})"
