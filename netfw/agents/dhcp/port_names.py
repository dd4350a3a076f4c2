"""Host names and client identifiers of ports, by the projects that use a network.  Pure.

On a network that several projects use, a member could take the name of another project's port, and
receive its connections.  So a name that two projects use belongs to the network's owner alone, or
to none of them; a port without a name gets the default name of its address.

A DHCP server gives the lease of a client identifier to whichever port sends it, so that a member
could give its own lease to another project's port.  So only the network's owner sets identifiers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from netfw.drivers.support.dhcp_options import is_client_id
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.values.dhcp_option import DhcpOption
from netfw.model.values.ids import NetworkId
from netfw.model.values.text_validation import is_autodiscovery_name

_DEFAULT_NAME = re.compile(r"host(-[0-9]{1,3}){4}|host(-[0-9a-f]{4}){8}")
"""The default name of an address, by which no port may name another address."""
HostnameKey = tuple[NetworkId, str]
"""A network and a host name in lower case."""


def requested_hostname(port: Port) -> str:
    """Return the host name that all addresses of a port share; empty: the default of each address.

    A source that assigns no names, such as a file, may still set the name of a port.
    """
    hostnames = {assignment.hostname for assignment in port.dns_assignment} or {port.dns_name}
    name = hostnames.pop() if len(hostnames) == 1 else ""
    reserved = is_autodiscovery_name(name) or _DEFAULT_NAME.fullmatch(name.lower())
    return "" if reserved else name


def hostname_keys(port: Port) -> tuple[HostnameKey, ...]:
    """Return the key of the port's host name, if it has one."""
    name = requested_hostname(port).removesuffix(".").lower()
    return ((port.network_id, name),) if name else ()


def sole_project(ports: Iterable[Port]) -> str | None:
    """Return the project that all *ports* belong to; ``None``: there are several."""
    first: str | None = None
    for port in ports:
        if first is not None and port.project_id != first:
            return None
        first = port.project_id
    return first


def served_name(port: Port, network: Network, project: str | None) -> tuple[str, str]:
    """Return the host name and the domain to serve for *port*; empty: those of the network.

    The domain of an assigned name is ignored: unless the port sets one, it is that of the network
    or the default of the source.  The driver has a default of its own; if the two differed, every
    port would get its own DHCP options.

    :param project: the only project that uses the name on the network, if it is one.
    """
    name = requested_hostname(port)
    if port.project_id == network.project_id:
        return name, port.dns_domain
    return (name if project == port.project_id else ""), ""


def served_options(port: Port, network: Network) -> tuple[DhcpOption, ...]:
    """Return the DHCP options to serve for *port*: the network's owner alone names clients."""
    if port.project_id == network.project_id:
        return port.dhcp_options
    return tuple(each for each in port.dhcp_options if not is_client_id(each))
