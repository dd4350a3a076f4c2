"""An IPAM driver that allocates in a store of its own, outside the transaction."""

from __future__ import annotations

from typing import ClassVar

from netfw.drivers.base import DriverInfo
from netfw.drivers.server.ipam import AddressRequest, AddressStore, IpamCapability
from netfw.model.port import FixedIp
from netfw.model.subnet import Subnet
from netfw.model.values.address import IpAddress
from netfw.model.values.ids import SubnetId
from netfw.testing.conformance.server.ipam import AddressStoreFactory, IpamDriverConformance
from netfw.testing.fakes.allocations import MemoryAddresses
from netfw_drivers.ipam.internal import InternalIpamDriver


class ExternalIpam(InternalIpamDriver):
    """Allocates as the built-in driver does, and commits to another store at once."""

    VERSION: ClassVar[int] = 2

    def __init__(self, elsewhere: MemoryAddresses) -> None:
        self.elsewhere = elsewhere

    def describe(self) -> DriverInfo[IpamCapability]:
        return DriverInfo("external", {IpamCapability.EXTERNAL})

    def allocate(self, request: AddressRequest, store: AddressStore) -> FixedIp:
        with self.elsewhere.transaction() as own:
            return super().allocate(request, own)

    def release(self, fixed_ip: FixedIp, store: AddressStore) -> None:
        with self.elsewhere.transaction() as own:
            super().release(fixed_ip, own)

    def drop_subnet(self, subnet: SubnetId, store: AddressStore) -> None:
        self.elsewhere.drop(subnet)


class ExternalIpamConformance(IpamDriverConformance):
    """Hooks of the suite: the external store, read without the driver."""

    DRIVER: ClassVar[type[ExternalIpam]] = ExternalIpam

    def make_stores(self) -> MemoryAddresses:
        self.elsewhere = MemoryAddresses()
        return MemoryAddresses()

    def make_driver(self) -> ExternalIpam:
        return self.DRIVER(self.elsewhere)

    def taken(self, stores: AddressStoreFactory, subnet: Subnet) -> frozenset[IpAddress]:
        return self.elsewhere.taken(subnet)
