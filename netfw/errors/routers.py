"""Refusals of routers, floating IPs, port forwardings and conntrack helpers."""

from __future__ import annotations

from netfw.errors import Conflict, InUse, InvalidInput, NotFound


class RouterNotFound(NotFound):
    """The router does not exist, or the requester may not see it."""

    resource = "router"


class RouterInUse(InUse):
    """The router has interfaces."""

    resource = "router"


class FloatingIPNotFound(NotFound):
    """The floating IP does not exist, or the requester may not see it."""

    resource = "floatingip"


class PortForwardingNotFound(NotFound):
    """The floating IP has no such port forwarding."""

    resource = "port_forwarding"


class ExternalGatewayForFloatingIPNotFound(NotFound):
    """No router leads from the port to the network of the floating IP."""


class RouterInterfaceNotFound(NotFound):
    """The port is no interface of the router."""


class RouterInterfaceNotFoundForSubnet(NotFound):
    """The router has no interface on the subnet."""


class RouterInterfaceInUseByFloatingIP(InUse):
    """Floating IPs need the interface of the router."""


class RouterInterfaceInUseByRoute(InUse):
    """A route of the router needs its interface or gateway."""


class RouterExternalGatewayInUseByFloatingIp(InUse):
    """Floating IPs need the gateway of the router."""


class InvalidRoutes(InvalidInput):
    """A route of the router has an unreachable next hop, or is there twice."""


class RoutesExhausted(InvalidInput):
    """The router has more routes than the configuration allows."""


class FloatingIPPortAlreadyAssociated(InUse):
    """The address has a floating IP, or the floating IP has an address."""


class FipInUseByPortForwarding(InUse):
    """The floating IP has port forwardings."""


class PortHasPortForwarding(InvalidInput):
    """A port forwarding leads to the address."""


class PortHasBindingFloatingIP(InUse):
    """A floating IP stands for the address."""


class RouterExtensionNotLoaded(Conflict):
    """An L3 agent of the router lacks the extension that does what is requested."""


class ConntrackHelperNotFound(NotFound):
    """The router has no such conntrack helper."""

    resource = "conntrack_helper"


class ConntrackHelperNotAllowed(InvalidInput):
    """The configuration does not allow the conntrack helper."""


class InvalidProtocolForHelper(InvalidInput):
    """The conntrack helper does not read connections of the protocol."""
