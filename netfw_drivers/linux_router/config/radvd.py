"""Renderer of the configuration of radvd, which sends a router's advertisements.

Only names of devices, numbers and IPv6 addresses are rendered, each from a checked value: no text
of a user can become syntax.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import IPv6Address, IPv6Network

from attrs import field, frozen

from netfw.errors import InvalidInput
from netfw.model.values.address import no_scope
from netfw.model.values.device_names import check_device_name

SLAAC_LENGTH = 64
"""Prefix length of networks whose hosts make their own addresses (RFC 4862)."""
IPV6_MTU = (1280, 65535)
MAX_PREFIXES = 64
"""Limit of prefixes of an interface: they have to fit into one packet."""
MAX_DNS_SERVERS = 16
_SECTION_SERVERS = 3
"""Limit of addresses in one section of name servers: radvd refuses a file with more."""

_INTERVALS = (30, 100)
"""Minimum and maximum seconds between two advertisements."""
_LIFETIME = 3 * _INTERVALS[1]
"""Lifetime of the default route, and of DNS servers, in seconds."""


@frozen(kw_only=True)
class RadvdPrefix:
    """An advertised prefix.

    :raises InvalidInput: hosts cannot make addresses of a prefix of that length.
    """

    prefix: IPv6Network = field(validator=no_scope)
    autonomous: bool
    """Whether hosts make their addresses from it: SLAAC and stateless DHCPv6, not stateful."""
    removed: bool = False
    """Whether the router lost it: it is advertised with lifetime 0, so that hosts stop using it."""

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.prefix, IPv6Network):
            raise InvalidInput({"prefix": f"{self.prefix!r} is not an IPv6 network"})
        if self.autonomous and self.prefix.prefixlen != SLAAC_LENGTH:
            raise InvalidInput({"prefix": f"{self.prefix}: SLAAC needs a /{SLAAC_LENGTH}"})


@frozen(kw_only=True)
class RadvdInterface:
    """An interface of the router, and what is advertised there.

    :raises InvalidInput: a name, MTU or address that cannot be, or more than fits into a packet.
    """

    device: str
    source: IPv6Address = field(validator=no_scope)
    """Link-local address that advertisements come from: the device may have others, which other
    routers have as well."""
    mtu: int
    prefixes: tuple[RadvdPrefix, ...] = ()
    dns_servers: tuple[IPv6Address, ...] = field(default=(), validator=no_scope)
    managed: bool = False
    """Whether addresses come from DHCPv6 (stateful)."""
    other_config: bool = False
    """Whether other options come from DHCPv6 (stateless)."""

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.source, IPv6Address):
            raise InvalidInput({"source": f"{self.source!r} is not an IPv6 address"})
        problems: dict[str, str] = {}
        try:
            check_device_name(self.device)
        except ValueError as error:
            problems["device"] = str(error)
        if not self.source.is_link_local:
            problems["source"] = f"{self.source} is not a link-local address"
        low, high = IPV6_MTU
        if type(self.mtu) is not int or not low <= self.mtu <= high:
            problems["mtu"] = f"{self.mtu!r}: IPv6 has MTUs from {low} to {high}"
        if not all(isinstance(server, IPv6Address) for server in self.dns_servers):
            problems["dns_servers"] = "IPv4 servers are not advertised"
        if len(self.prefixes) > MAX_PREFIXES:
            problems["prefixes"] = f"{len(self.prefixes)}: at most {MAX_PREFIXES}"
        if len(self.dns_servers) > MAX_DNS_SERVERS:
            problems["dns_servers"] = f"{len(self.dns_servers)}: at most {MAX_DNS_SERVERS}"
        if len({each.prefix for each in self.prefixes}) < len(self.prefixes):
            problems["prefixes"] = "one of them is there twice"
        if problems:
            raise InvalidInput(problems)


def render_radvd(interfaces: Iterable[RadvdInterface]) -> str:
    """Render the configuration file; equal values render to equal text.

    :raises InvalidInput: two of *interfaces* have the same device.
    """
    by_device: dict[str, RadvdInterface] = {}
    for interface in interfaces:
        if interface.device in by_device:
            raise InvalidInput({interface.device: "is there twice"})
        by_device[interface.device] = interface
    lines = (line for device in sorted(by_device) for line in _interface(by_device[device]))
    return "".join(f"{line}\n" for line in lines)


def _interface(interface: RadvdInterface) -> Iterator[str]:
    yield f"interface {interface.device}"
    yield "{"
    yield "    AdvSendAdvert on;"
    yield "    AdvRASrcAddress"
    yield "    {"
    yield f"        {interface.source};"
    yield "    };"
    yield f"    MinRtrAdvInterval {_INTERVALS[0]};"
    yield f"    MaxRtrAdvInterval {_INTERVALS[1]};"
    yield f"    AdvDefaultLifetime {_LIFETIME if _has_prefixes(interface) else 0};"
    yield f"    AdvLinkMTU {interface.mtu};"
    yield f"    AdvManagedFlag {_switch(interface.managed)};"
    yield f"    AdvOtherConfigFlag {_switch(interface.other_config)};"
    for prefix in _in_order(interface.prefixes):
        yield from _prefix(prefix)
    servers = interface.dns_servers
    for first in range(0, len(servers), _SECTION_SERVERS):
        yield f"    RDNSS {' '.join(map(str, servers[first : first + _SECTION_SERVERS]))}"
        yield "    {"
        yield f"        AdvRDNSSLifetime {_LIFETIME};"
        yield "    };"
    yield "};"


def _has_prefixes(interface: RadvdInterface) -> bool:
    """Return whether hosts use the router: not if it only withdraws what it advertised before."""
    return not interface.prefixes or any(not each.removed for each in interface.prefixes)


def _in_order(prefixes: Iterable[RadvdPrefix]) -> list[RadvdPrefix]:
    """Return the prefixes in their order, then removed ones as they are: the last removed last."""
    every = list(prefixes)
    present = (each for each in every if not each.removed)
    removed = (each for each in every if each.removed)
    return [*sorted(present, key=lambda each: each.prefix), *removed]


def _prefix(prefix: RadvdPrefix) -> Iterator[str]:
    """Render a prefix, which radvd deprecates when it ends: its last advertisement names it."""
    yield f"    prefix {prefix.prefix}"
    yield "    {"
    yield "        AdvOnLink on;"
    yield f"        AdvAutonomous {_switch(prefix.autonomous)};"
    if prefix.removed:
        yield "        AdvValidLifetime 0;"
        yield "        AdvPreferredLifetime 0;"
    else:
        yield "        DeprecatePrefix on;"
    yield "    };"


def _switch(on: bool) -> str:
    return "on" if on else "off"
