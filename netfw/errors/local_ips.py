"""Refusals about local IPs; clients know each by the name of its class."""

from __future__ import annotations

from netfw.errors import Conflict, InUse, InvalidInput, NotFound


class LocalIPNotFound(NotFound):
    """The local IP does not exist, or the requester may not see it."""

    resource = "local_ip"


class LocalIPInUse(InUse):
    """The local IP is associated with ports, which must be disassociated first."""

    resource = "local_ip"


class LocalIPNoIP(InvalidInput):
    """The port has no IPv4 address."""


class LocalIPRequestedIPNotFound(InvalidInput):
    """The port does not have the address that the request names."""


class LocalIPNoRequestedIP(InvalidInput):
    """The port has several addresses, and the request names none of them."""


class LocalIPPortOrNetworkRequired(InvalidInput):
    """The request names neither a port with the address nor a network."""


class LocalIPAssociationNotFound(NotFound):
    """The local IP is not associated with that port."""

    resource = "local_ip_port_association"


class LocalIPAssociationExists(Conflict):
    """The local IP is associated with that port already."""


class LocalIPNotSupported(Conflict):
    """The host of the port does not lead local IPs to ports."""
