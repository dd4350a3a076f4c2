"""Refusals of networks, segments and subnets."""

from __future__ import annotations

from netfw.errors import Conflict, InUse, InvalidInput, NotFound, ResourceExhausted


class NetworkNotFound(NotFound):
    """The network does not exist, or the requester may not see it."""

    resource = "network"


class NetworkInUse(InUse):
    """The network has ports that are not the server's own, or something else refers to it."""

    resource = "network"


class SegmentNotFound(NotFound):
    """The segment does not exist, or the requester may not see it."""

    resource = "segment"


class SegmentInUse(InUse):
    """Something refers to the segment."""

    resource = "segment"


class SubnetNotFound(NotFound):
    """The subnet does not exist, or the requester may not see it."""

    resource = "subnet"


class SubnetInUse(InUse):
    """Ports have addresses of the subnet, or a router has an interface on it."""

    resource = "subnet"


class SubnetMismatchForPort(InvalidInput):
    """The port has no address of the subnet."""


class ExternalNetworkInUse(InUse):
    """Routers or floating IPs use the network, which cannot stop being external."""


class InvalidSharedSetting(Conflict):
    """Other projects use the network, which cannot stop being shared."""


class DefaultExternalNetworkExists(Conflict):
    """Another network is the default external network."""


class NetworkMTUSubnetConflict(Conflict):
    """The MTU of the network is too small for the IP version of the subnet."""


class VlanIdInUse(InUse):
    """Another segment of the physical network has the VLAN."""


class TunnelIdInUse(InUse):
    """Another segment has the tunnel id."""


class FlatNetworkInUse(InUse):
    """Another flat network has the physical network."""


class NoNetworkAvailable(ResourceExhausted):
    """No segment is left for a network without provider attributes."""


class SegmentsSetInConjunctionWithProviders(InvalidInput):
    """The request has both segments and provider attributes."""


class SegmentsContainDuplicateEntry(InvalidInput):
    """Two segments of the request are the same."""


class InvalidAllocationPool(InvalidInput):
    """The ends of the pool are no addresses of the subnet's family, or in the wrong order."""


class OutOfBoundsAllocationPool(InvalidInput):
    """The pool is not within the prefix of the subnet."""


class OverlappingAllocationPools(Conflict):
    """Two pools of the subnet overlap."""


class GatewayConflictWithAllocationPools(InUse):
    """The gateway is in an allocation pool."""


class GatewayIpInUse(InUse):
    """A router has the gateway address, which cannot change."""


class DNSNameServersExhausted(InvalidInput):
    """The subnet has more DNS servers than the configuration allows."""


class HostRoutesExhausted(InvalidInput):
    """The subnet has more host routes than the configuration allows."""


class InvalidSubnetServiceType(InvalidInput):
    """A service type of the subnet is no owner of ports."""
