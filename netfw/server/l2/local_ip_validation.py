"""Validation of local IPs: their ports, addresses and hosts."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import cast
from uuid import UUID

from netfw.errors import Forbidden, NotFound
from netfw.errors.local_ips import (
    LocalIPNoIP,
    LocalIPNoRequestedIP,
    LocalIPNotSupported,
    LocalIPRequestedIPNotFound,
)
from netfw.errors.requests import BadRequest
from netfw.model.local_ip import EXTENSION
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.rbac_policy import RbacAction
from netfw.model.resource import Kind
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.security_groups.unenforceable_rules import live_l2_agents


def get_port(unit: UnitOfWork, attribute: str, id: str) -> Port:
    """Return the port that *attribute* of a request names, locked.

    :raises BadRequest: there is no such port that the requester may see.
    :raises Forbidden: it belongs to another project.
    """
    try:
        row = unit.tx.resources.get(Kind.PORT, UUID(id), project=unit.requester.sees, lock=True)
    except NotFound:
        raise BadRequest({attribute: f"there is no port {id}"}) from None
    unit.extras[row.ref] = dict(row.extra)
    port = cast(Port, row.resource())
    if not unit.requester.admin and port.project_id != unit.requester.project_id:
        raise Forbidden(f"port {port.id} belongs to another project")
    return port


def choose_address(port: Port, attribute: str, requested: str | None) -> IPv4Address:
    """Return the IPv4 address of *port* that a request names in *attribute*, or the only one.

    :raises InvalidInput: there is no such address, or several and none is named.
    """
    own = [fixed.address for fixed in port.fixed_ips if isinstance(fixed.address, IPv4Address)]
    if not own:
        raise LocalIPNoIP({attribute: f"port {port.id} has no IPv4 address"})
    if requested is not None:
        for address in own:
            if str(address) == requested:
                return address
        text = f"port {port.id} does not have the IPv4 address {requested}"
        raise LocalIPRequestedIPNotFound({attribute: text})
    if len(own) > 1:
        text = f"port {port.id} has {len(own)} IPv4 addresses; name one"
        raise LocalIPNoRequestedIP({attribute: text})
    return own[0]


def check_chosen_address(unit: UnitOfWork, network: Network, address: str) -> None:
    """Check that the requester may choose *address* of *network*, as for ports.

    :raises Forbidden: the network belongs to another project.
    """
    requester = unit.requester
    if not requester.admin and network.project_id != requester.project_id:
        raise Forbidden(
            f"only the owner of network {network.id} and administrators choose an address: leave "
            "local_ip_address out"
        )


def check_network(unit: UnitOfWork, network: Network) -> None:
    """Check that the requester may have addresses of *network*, which is visible, as for ports.

    :raises Forbidden: it is an external network of another project that is not shared.
    """
    sees = unit.requester.sees
    if not network.external or sees in (None, network.project_id):
        return
    if not unit.tx.resources.access.require(network.id, sees, RbacAction.SHARED):
        raise Forbidden(
            f"external network {network.id} is not shared with you: its addresses are those of "
            "floating IPs and router gateways"
        )


def check_host(unit: UnitOfWork, port: Port) -> None:
    """Refuse a port on a host whose live L2 agent reports that it leads no local IPs to ports.

    :raises LocalIPNotSupported: the host must load the extension first.
    """
    if not port.binding.host:
        return
    for agent in live_l2_agents(unit):
        extensions = agent["configurations"].get("extensions")
        if agent["host"] == port.binding.host and isinstance(extensions, list):
            if EXTENSION not in extensions:
                raise LocalIPNotSupported(
                    f"host {port.binding.host} of port {port.id} does not serve local IPs: set "
                    f"extensions = {EXTENSION} in [agent] of its L2 agent"
                )
            return
