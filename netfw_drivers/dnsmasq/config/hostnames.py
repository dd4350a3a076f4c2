"""Names of ports.  Pure."""

from __future__ import annotations

import re
from ipaddress import IPv4Address

from attrs import frozen

from netfw.drivers.dhcp import DhcpNetwork, DhcpPort
from netfw.model.address import IpAddress
from netfw.model.text_validation import quote
from netfw_drivers.dnsmasq.config.option_values import check_domain
from netfw_drivers.dnsmasq.config.settings import Settings

_LIKE_TIME = re.compile(r"[0-9]+[wdhmsWDHMS]?")
_WORDS = {"ignore", "infinite"}
_LENGTH = 253


@frozen
class Name:
    """What an address is called."""

    host: str
    full: str


def domain_of(network: DhcpNetwork, settings: Settings) -> str:
    """The domain of the network's ports; empty: none."""
    return (network.dns_domain or settings.domain).removesuffix(".")


def name_of(port: DhcpPort, address: IpAddress, network: DhcpNetwork, settings: Settings) -> Name:
    """What *address* of *port* is called; the port was checked before."""
    domain = port.domain.removesuffix(".") or domain_of(network, settings)
    host = port.hostname.removesuffix(".") or default_hostname(address)
    return Name(host, f"{host}.{domain}" if domain else host)


def default_hostname(address: IpAddress) -> str:
    """The host name of an address that has none: the address in full."""
    if address.version == 4:
        return "host-" + str(address).replace(".", "-")
    digits = address.packed.hex("-", 2)
    return f"host-{digits}"


def check_name(full: str) -> None:
    """Refuse a name that is none, or that dnsmasq takes for something else in a host file.

    :raises ValueError: saying which.
    """
    check_domain(full)
    if len(full) > _LENGTH:
        raise ValueError(f"is longer than {_LENGTH} characters with its domain")
    if full.lower() in _WORDS or _LIKE_TIME.fullmatch(full) or _is_address(full):
        raise ValueError(f"is a word of dnsmasq's, a time or an address: {quote(full)}")


def _is_address(text: str) -> bool:
    if not text[-1:].isdigit():
        return False
    try:
        IPv4Address(text)
    except ValueError:
        return False
    return True
