"""Refusals of NDP proxies."""

from __future__ import annotations

from netfw.errors import Conflict, InUse, InvalidInput, NotFound


class NDPProxyNotFound(NotFound):
    """The NDP proxy does not exist, or the requester may not see it."""

    resource = "ndp_proxy"


class RouterGatewayInUseByNDPProxy(InUse):
    """NDP proxies need the gateway of the router."""


class RouterInterfaceInUseByNDPProxy(InUse):
    """NDP proxies need the interface of the router."""


class RouterIPv6GatewayInUse(InUse):
    """The router answers for NDP proxies, and its gateway would have no IPv6 address."""


class RouterGatewayNotValid(Conflict):
    """The router has no gateway with an IPv6 address on a network with an address scope."""


class RouterNDPProxyNotEnable(Conflict):
    """NDP proxies are not enabled on the router."""


class AddressScopeConflict(Conflict):
    """The port and the gateway are in different address scopes."""


class PortUnreachableRouter(Conflict):
    """The router has no interface on an IPv6 subnet of the port."""


class InvalidAddress(InvalidInput):
    """The port does not have the address, or the router does not reach it."""
