"""IpamDriver: hands out the addresses of subnets."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Protocol

from attrs import field, frozen

from netfw.drivers.base import Capability, Driver, DriverInfo
from netfw.model.address import IpAddress, Mac, no_scope
from netfw.model.ids import SubnetId
from netfw.model.port import FixedIp
from netfw.model.subnet import Subnet


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
    """The address that a host derives from its MAC by itself."""

    subnet: Subnet
    mac: Mac = field(converter=Mac)


AddressRequest = AnyAddress | ThisAddress | DerivedAddress


class AddressStore(Protocol):
    """Which addresses are taken, in the transaction of the caller.

    It alone answers for concurrency: of two transactions one gets an address, the other another
    one or a ``Conflict``.  None of its methods scans a pool.  What is taken in a subnet is gone
    with it, without the driver's doing.
    """

    def acquire(self, subnet: SubnetId, address: IpAddress) -> bool:
        """Take *address*; false when it is taken."""

    def acquire_any(self, subnet: Subnet) -> IpAddress | None:
        """Take any free address of the subnet's pools; ``None`` when there is none."""

    def release(self, subnet: SubnetId, address: IpAddress) -> None:
        """Free *address*.  What is free already stays so."""


class IpamCapability(Capability):
    """Capabilities of IPAM drivers."""

    EXTERNAL = "external"
    """The driver stores addresses outside the database: it is called outside the transaction."""


class IpamDriver(Driver):
    """Hands out addresses.

    All methods are called in the transaction of an API request, by its thread, several at once: no
    waiting, and again when it is retried.  What they raise rolls the request back.  A driver that
    keeps its books elsewhere declares ``IpamCapability.EXTERNAL``: it is then called before the
    transaction, and ``release`` is called for what a rolled-back request had got.  Promises:

    1. ``allocate`` gives one address that fits the request, and nobody else has it until it is
       released, however many processes ask at once.
    2. It does not cost more in a large subnet or a full one.
    3. ``release`` makes an address free; releasing what is free succeeds.
    4. ``check_subnet`` refuses what this driver cannot serve before the subnet exists, and a
       change that would leave a taken address without a subnet.
    5. ``drop_subnet`` forgets everything about a subnet; a second time is harmless.
    """

    GROUP: ClassVar[str] = "netfw.ipam_drivers"
    VERSION: ClassVar[int] = 1
    CAPABILITY_TYPES: ClassVar[tuple[type[Capability], ...]] = (IpamCapability,)

    @abstractmethod
    def describe(self) -> DriverInfo[IpamCapability]:
        """Return the name of the driver and its capabilities.  Touches nothing."""

    @abstractmethod
    def validate_subnet(self, before: Subnet | None, after: Subnet, store: AddressStore) -> None:
        """Accept a new or changed subnet, and prepare for it.

        :raises RequestError: it cannot be; the API answers with it.
        """

    @abstractmethod
    def allocate(self, request: AddressRequest, store: AddressStore) -> FixedIp:
        """Take an address.

        :raises Conflict: that address is taken, or no address is left; the text says where.
        :raises InvalidInput: the address is not in the subnet, is none for a host (the network or
            broadcast address), or cannot be derived there.
        """

    @abstractmethod
    def release(self, fixed_ip: FixedIp, store: AddressStore) -> None:
        """Make an address free.  Raises nothing of its own."""

    @abstractmethod
    def drop_subnet(self, subnet: SubnetId, store: AddressStore) -> None:
        """Forget a subnet that is deleted."""
