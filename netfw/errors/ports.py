"""Refusals of ports, their addresses and their bindings."""

from __future__ import annotations

from netfw.errors import Conflict, Exhausted, InUse, InvalidInput, NotFound, ResourceExhausted


class PortNotFound(NotFound):
    """The port does not exist, or the requester may not see it."""

    resource = "port"


class PortInUse(InUse):
    """A device uses the port, or something else refers to it."""

    resource = "port"


class IpAddressGenerationFailure(Exhausted):
    """No address is left in the subnets that the port may use."""


class IpAddressAlreadyAllocated(Conflict):
    """Another port has the address."""


class MacAddressInUse(InUse):
    """Another port of the network has the MAC address."""


class ServicePortInUse(InUse):
    """The port belongs to a router or a floating IP, and goes with it."""


class UnsupportedPortDeviceOwner(Conflict):
    """The owner of the port does not permit the operation."""


class PortBound(InUse):
    """The port is bound to a host; its MAC address stays while it is."""


class InvalidIpForNetwork(InvalidInput):
    """The address is in no subnet of the network."""


class InvalidIpForSubnet(InvalidInput):
    """The address is not in the subnet, or no host can have it."""


class AllocationOnAutoAddressSubnet(InvalidInput):
    """Hosts of the subnet derive their addresses; none can be chosen."""


class HostMacAddressGenerationFailure(ResourceExhausted):
    """No MAC address is left with the configured prefix."""


class AllowedAddressPairExhausted(InvalidInput):
    """The port has more address pairs than the configuration allows."""


class DuplicateAddressPairInRequest(InvalidInput):
    """Two address pairs are the same."""


class AddressPairAndPortSecurityRequired(Conflict):
    """Address pairs need port security, which is off."""


class PortSecurityAndIPRequiredForSecurityGroups(InvalidInput):
    """Security groups need port security, which is off."""


class PortSecurityPortHasSecurityGroup(InUse):
    """Port security cannot be switched off while the port has security groups."""


class PortBindingNotFound(NotFound):
    """The port has no binding to the host."""

    resource = "binding"


class PortBindingAlreadyExists(Conflict):
    """The port has a binding to the host."""


class PortBindingAlreadyActive(Conflict):
    """The binding is the active one."""


class PortBindingError(InvalidInput):
    """No mechanism driver binds the port to the host."""
