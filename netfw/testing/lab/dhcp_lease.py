"""Leases of DHCP clients as values, parsed from the environment of their scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Network

from attrs import field, frozen

from netfw.model.values.route import Route

_TEXTS = {66: "tftp", 67: "bootfile", 252: "wpad"}
_ADDRESSES = {42: "ntpsrv"}
_RAW = re.compile(r"opt(\d+)")
_TALK = {51, 53, 54, 58, 59}
"""Options of the protocol exchange itself; renewal times are random."""
_ISC = "new_"
OPTION_NUMBER = "option_"
"""Prefix in the lab's configuration of dhclient of options requested by number."""


@frozen(kw_only=True)
class ClientLease:
    """The lease of an IPv4 client; ``options`` are those without a field, as on the wire."""

    address: IPv4Interface
    server: IPv4Address
    seconds: int
    gateways: tuple[IPv4Address, ...] = ()
    dns: tuple[IPv4Address, ...] = ()
    routes: frozenset[Route] = frozenset()
    """Option 121."""
    microsoft_routes: frozenset[Route] = frozenset()
    """Option 249."""
    mtu: int | None = None
    domain: str = ""
    hostname: str = ""
    options: Mapping[int, bytes] = field(factory=dict)

    @property
    def ip(self) -> IPv4Address:
        return self.address.ip


@frozen(kw_only=True)
class Lease6:
    """The answer to a DHCPv6 client; no addresses: it requested only the other options."""

    addresses: tuple[IPv6Address, ...] = ()
    dns: tuple[IPv6Address, ...] = ()
    search: tuple[str, ...] = ()
    options: Mapping[int, bytes] = field(factory=dict)


@frozen(kw_only=True)
class Announcement:
    """The content of a router advertisement."""

    managed: bool
    """The managed flag: addresses come from DHCPv6."""
    other: bool
    """The other-configuration flag: all else comes from DHCPv6."""
    lifetime: int
    """Seconds for which its sender is a default router; 0: it is none."""
    source: IPv6Address | None = None
    """Address of its sender; ``None``: it is not known."""
    mtu: int | None = None
    prefixes: Mapping[IPv6Network, bool] = field(factory=dict)
    """Prefixes, each with the autonomous flag: clients derive addresses from it."""
    deprecated: frozenset[IPv6Network] = frozenset()
    """Prefixes with a preferred lifetime of 0: addresses in them are not used any more."""
    dns: tuple[IPv6Address, ...] = ()
    search: tuple[str, ...] = ()


def lease_of_udhcpc(variables: Mapping[str, str]) -> ClientLease:
    """Parse the lease in the environment of a script of udhcpc."""
    options = {
        int(number[1]): bytes.fromhex(value)
        for name, value in variables.items()
        if (number := _RAW.fullmatch(name)) and int(number[1]) not in _TALK
    }
    options |= {n: variables[name].encode() for n, name in _TEXTS.items() if name in variables}
    options |= {n: _packed(variables[name]) for n, name in _ADDRESSES.items() if name in variables}
    return ClientLease(
        address=IPv4Interface(f"{variables['ip']}/{variables.get('mask', '32')}"),
        server=IPv4Address(variables["serverid"]),
        seconds=int(variables["lease"]),
        gateways=_addresses(variables.get("router", "")),
        dns=_addresses(variables.get("dns", "")),
        routes=frozenset(_routes(variables.get("staticroutes", ""))),
        microsoft_routes=frozenset(_routes(variables.get("msstaticroutes", ""))),
        mtu=int(variables["mtu"]) if "mtu" in variables else None,
        domain=variables.get("domain", ""),
        hostname=variables.get("hostname", ""),
        options=options,
    )


def lease_of_dhclient(variables: Mapping[str, str]) -> ClientLease:
    """Parse the lease in the environment of a script of dhclient with the lab's configuration."""
    new = {
        name.removeprefix(_ISC): value for name, value in variables.items() if name.startswith(_ISC)
    }
    options = _numbered(new)
    options |= {n: options[n].rstrip(b"\0") for n in _TEXTS if n in options}  # some end so
    routes = {n: frozenset(_coded_routes(options.pop(n, b""))) for n in (121, 249)}
    return ClientLease(
        address=IPv4Interface(f"{new['ip_address']}/{new.get('subnet_mask', '32')}"),
        server=IPv4Address(new["dhcp_server_identifier"]),
        seconds=int(new["dhcp_lease_time"]),
        gateways=_addresses(new.get("routers", "")),
        dns=_addresses(new.get("domain_name_servers", "")),
        routes=routes[121],
        microsoft_routes=routes[249],
        mtu=int(new["interface_mtu"]) if "interface_mtu" in new else None,
        domain=new.get("domain_name", ""),
        hostname=new.get("host_name", ""),
        options=options,
    )


def lease6_of_dhclient(variables: Mapping[str, str]) -> Lease6:
    """Parse the DHCPv6 answer in the environment of a script of dhclient."""
    new = {
        name.removeprefix(_ISC): value for name, value in variables.items() if name.startswith(_ISC)
    }
    address = new.get("ip6_address")
    return Lease6(
        addresses=(IPv6Address(address),) if address else (),
        dns=tuple(map(IPv6Address, new.get("dhcp6_name_servers", "").split())),
        search=tuple(name.rstrip(".") for name in new.get("dhcp6_domain_search", "").split()),
        options=_numbered({name.removeprefix("dhcp6_"): value for name, value in new.items()}),
    )


def announcement_of_rdisc6(output: str) -> Announcement:
    """Parse the first advertisement in the output of ``rdisc6``."""
    content, _, rest = output.partition(" from ")
    lines = [line.split(":", 1) for line in content.splitlines() if ":" in line]
    sender = rest.split(maxsplit=1)
    fields = [(name.strip(), value.strip()) for name, value in lines]
    first = dict(reversed(fields))
    prefixes: dict[IPv6Network, bool] = {}
    deprecated: set[IPv6Network] = set()
    last = IPv6Network("::/0")
    for name, value in fields:
        if name == "Prefix":
            last = IPv6Network(value)
        elif name.startswith("Autonomous"):
            prefixes[last] = value == "Yes"
        elif name.startswith("Pref") and value.split()[0] == "0":
            deprecated.add(last)
    servers = [value.split() for name, value in fields if name.startswith("Recursive DNS")]
    return Announcement(
        managed=first["Stateful address conf."] == "Yes",
        other=first["Stateful other conf."] == "Yes",
        lifetime=int(first["Router lifetime"].split()[0]),
        source=IPv6Address(sender[0]) if sender else None,
        mtu=int(first["MTU"].split()[0]) if "MTU" in first else None,
        prefixes=prefixes,
        deprecated=frozenset(deprecated),
        dns=tuple(IPv6Address(server) for listed in servers for server in listed),
        search=tuple(first.get("DNS search list", "").split()),
    )


def _numbered(new: Mapping[str, str]) -> dict[int, bytes]:
    """Return the options that were requested by number; dhclient prints them octet by octet."""
    return {
        int(name.removeprefix(OPTION_NUMBER)): bytes(map(int, value.split()))
        for name, value in new.items()
        if name.startswith(OPTION_NUMBER)
    }


def _packed(text: str) -> bytes:
    return b"".join(address.packed for address in _addresses(text))


def _addresses(text: str) -> tuple[IPv4Address, ...]:
    return tuple(map(IPv4Address, text.split()))


def _routes(text: str) -> Iterator[Route]:
    words = iter(text.split())
    for destination, nexthop in zip(words, words, strict=True):
        yield Route(destination=IPv4Network(destination), nexthop=IPv4Address(nexthop))


def _coded_routes(coded: bytes) -> Iterator[Route]:
    """Parse routes in the encoding of RFC 3442."""
    while coded:
        length, octets = coded[0], (coded[0] + 7) // 8
        destination = coded[1 : 1 + octets].ljust(4, b"\0")
        nexthop = coded[1 + octets : 5 + octets]
        yield Route(destination=IPv4Network((destination, length)), nexthop=IPv4Address(nexthop))
        coded = coded[5 + octets :]
