"""Answers to reports of delegated prefixes, computed from resources in memory.  Pure."""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import IPv6Network

from netfw.drivers.values.agent_requests import SetPrefix
from netfw.errors import Conflict, InvalidInput, NotFound
from netfw.model.port import Port
from netfw.model.renumbering import readdress, renumber
from netfw.model.resource import Resource
from netfw.model.subnet import Subnet


def renumbered(request: SetPrefix, resources: Collection[Resource]) -> tuple[Resource, ...]:
    """Return the subnet of *request* and its ports, with the addresses of the prefix.

    :raises NotFound: there is no such subnet.
    :raises InvalidInput: the prefix is not one of IPv6.
    :raises Conflict: the prefix of the subnet is not delegated.
    """
    subnets = (each for each in resources if isinstance(each, Subnet))
    before = next((each for each in subnets if each.id == request.subnet), None)
    if before is None:
        raise NotFound(f"there is no subnet {request.subnet}")
    if not before.delegated:
        raise Conflict(f"the prefix of subnet {before.id} is {before.cidr} and is not delegated")
    if request.prefix is not None and not isinstance(request.prefix, IPv6Network):
        raise InvalidInput({"prefix": f"{request.prefix} is no prefix of IPv6"})
    after = renumber(before, request.prefix)
    if after.cidr == before.cidr:
        return ()
    ports = (each for each in resources if isinstance(each, Port))
    moved = (
        readdress(port, before, after)
        for port in ports
        if any(fixed.subnet_id == before.id for fixed in port.fixed_ips)
    )
    return (after, *moved)
