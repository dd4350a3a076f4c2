"""IpamDriver: allocates the addresses of subnets."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Protocol

from attrs import field, frozen

from netfw.drivers.base import Capability, Driver, DriverInfo
from netfw.model.port import FixedIp
from netfw.model.subnet import Subnet
from netfw.model.values.address import IpAddress, Mac, no_scope
from netfw.model.values.ids import SubnetId


@frozen(kw_only=True)
class AnyAddress:
    """Any free address of one of these subnets, tried in order."""

    subnets: tuple[Subnet, ...]


@frozen(kw_only=True)
class ThisAddress:
    """This address, inside or outside the allocation pools."""

    subnet: Subnet
    address: IpAddress = field(validator=no_scope)


@frozen(kw_only=True)
class DerivedAddress:
    """The address that a host derives from its MAC address (SLAAC)."""

    subnet: Subnet
    mac: Mac = field(converter=Mac)


AddressRequest = AnyAddress | ThisAddress | DerivedAddress


class AddressStore(Protocol):
    """Allocated addresses, in the transaction of the caller.

    The store alone handles concurrency: of two transactions one gets an address, the other another
    address or a ``Conflict``.  None of its methods scans a pool.  When a subnet is deleted, the
    store deletes its allocations without the driver.
    """

    def acquire(self, subnet: SubnetId, address: IpAddress) -> bool:
        """Allocate *address*; return false if it is taken."""

    def acquire_any(self, subnet: Subnet) -> IpAddress | None:
        """Allocate any free address of the subnet's pools; ``None`` if there is none."""

    def release(self, subnet: SubnetId, address: IpAddress) -> None:
        """Free *address*.  Idempotent."""


class IpamCapability(Capability):
    """Capabilities of IPAM drivers."""

    EXTERNAL = "external"
    """The driver stores addresses outside the database: it is called outside the transaction."""


class IpamDriver(Driver):
    """Allocates addresses.

    All methods are called in the transaction of an API request, by its thread, several at once:
    they do not wait, and are called again when the transaction is retried.  An exception rolls the
    request back.  A driver that stores allocations outside the database declares
    ``IpamCapability.EXTERNAL``: it is called before the transaction, and ``release`` is called for
    the allocations of a request that was rolled back.  Promises:

    1. ``allocate`` returns one address that fits the request, and returns it to no other request
       until it is released, for any number of concurrent processes.
    2. ``allocate`` costs the same in a small and a large, an empty and a full subnet.
    3. ``release`` frees an address; releasing a free address succeeds.
    4. ``validate_subnet`` refuses a subnet that this driver cannot serve before it exists, and a
       change that would leave an allocated address without a subnet.
    5. ``drop_subnet`` deletes everything about a subnet; a second call is harmless.
    """

    GROUP: ClassVar[str] = "netfw.ipam_drivers"
    VERSION: ClassVar[int] = 2
    CAPABILITY_TYPES: ClassVar[tuple[type[Capability], ...]] = (IpamCapability,)

    @abstractmethod
    def describe(self) -> DriverInfo[IpamCapability]:
        """Return the name of the driver and its capabilities.  Touches nothing."""

    @abstractmethod
    def validate_subnet(self, before: Subnet | None, after: Subnet, store: AddressStore) -> None:
        """Accept a new or changed subnet, and prepare for it.

        :raises RequestError: the subnet is impossible; the API returns this error.
        """

    @abstractmethod
    def allocate(self, request: AddressRequest, store: AddressStore) -> FixedIp:
        """Allocate an address.

        :raises Conflict: that address is taken, or no address is left; the text names the subnet.
        :raises InvalidInput: the address is not in the subnet, is not for a host (the network or
            broadcast address), or cannot be derived there.
        """

    @abstractmethod
    def release(self, fixed_ip: FixedIp, store: AddressStore) -> None:
        """Free an address.  Raises no own errors."""

    @abstractmethod
    def drop_subnet(self, subnet: SubnetId, store: AddressStore) -> None:
        """Delete the state of a deleted subnet."""
