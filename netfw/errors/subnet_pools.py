"""Refusals of subnet pools, address scopes and auto-allocated topologies; clients map the names."""

from __future__ import annotations

from netfw.errors import Conflict, Exhausted, InvalidInput, NotFound, OverQuota


class SubnetPoolNotFound(NotFound):
    """The subnet pool does not exist, or the requester may not see it."""

    resource = "subnetpool"


class AddressScopeNotFound(NotFound):
    """The address scope does not exist, or the requester may not see it."""

    resource = "address_scope"


class EmptySubnetPoolPrefixList(InvalidInput):
    """The subnet pool would have no prefix."""


class PrefixVersionMismatch(InvalidInput):
    """The subnet pool would have prefixes of both IP versions."""


class IllegalSubnetPoolPrefixBounds(InvalidInput):
    """The shortest, default and longest prefix length of the pool are not in this order."""


class IllegalSubnetPoolPrefixUpdate(InvalidInput):
    """The new prefixes of the pool lack some that it has, or that subnets have."""


class IllegalSubnetPoolUpdate(InvalidInput):
    """The subnet pool cannot be changed in this way."""


class IllegalSubnetPoolIpVersionAssociationToAddressScope(InvalidInput):
    """The address scope is of another IP version than the subnet pool."""


class SubnetPoolDeleteError(InvalidInput):
    """Subnets have prefixes of the subnet pool."""


class SubnetAllocationError(Exhausted):
    """The subnet pool has no free prefix of that length, or that prefix is not free."""


class MinPrefixSubnetAllocationError(InvalidInput):
    """The requested prefix is shorter than the subnet pool allows."""


class MaxPrefixSubnetAllocationError(InvalidInput):
    """The requested prefix is longer than the subnet pool allows."""


class SubnetPoolQuotaExceeded(OverQuota):
    """The project has used up its quota of the subnet pool."""


class NetworkSubnetPoolAffinityError(InvalidInput):
    """Other subnets of the network and IP version are not of that subnet pool."""


class NetworkAddressScopeAffinityError(InvalidInput):
    """Other subnets of the network and IP version are not of that address scope."""


class AddressScopeInUse(Conflict):
    """Subnet pools are in the address scope."""


class AddressScopeUpdateError(InvalidInput):
    """The address scope cannot be changed in this way."""


class AddressScopePrefixConflict(Conflict):
    """Another subnet pool of the address scope has some of these addresses."""


class AutoAllocationFailure(Conflict):
    """The cloud lacks what an automatically allocated topology needs."""
