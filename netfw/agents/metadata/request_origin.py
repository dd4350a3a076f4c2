"""The origin of a request, from the headers that the proxy adds.  Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from netfw.drivers.values.agent_requests import FindPorts
from netfw.http.http_error import HttpError, malformed
from netfw.model.values.address import IpAddress
from netfw.model.values.ids import NetworkId, RouterId

FROM: Final = "X-Forwarded-For"
NETWORK: Final = "X-Neutron-Network-Id"
ROUTER: Final = "X-Neutron-Router-Id"

_ID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_ADDRESS = re.compile(r"[0-9A-Fa-f.:]{2,45}")


def parse_origin(headers: Mapping[str, str]) -> FindPorts:
    """Parse the origin of a request into a port query; names of *headers* are in title case.

    :raises HttpError: the headers are incomplete or ambiguous.
    """
    network, router = headers.get(NETWORK), headers.get(ROUTER)
    if (network is None) == (router is None):
        raise malformed(f"a request has {NETWORK} or {ROUTER}, not both and not neither")
    address = _address(headers.get(FROM, ""))
    if network is not None:
        return FindPorts(address=address, network=NetworkId(_id(NETWORK, network)))
    assert router is not None
    return FindPorts(address=address, router=RouterId(_id(ROUTER, router)))


def _id(name: str, text: str) -> UUID:
    if not _ID.fullmatch(text):
        raise malformed(f"{name} is no id")
    return UUID(text)


def _address(text: str) -> IpAddress:
    """Parse a single address; a list is refused, since the client may have sent its first part."""
    if not _ADDRESS.fullmatch(text):
        raise _no_address()
    try:
        address = ipaddress.ip_address(text)
    except ValueError as exc:
        raise _no_address() from exc
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _no_address() -> HttpError:
    return malformed(f"{FROM} is not one address")
