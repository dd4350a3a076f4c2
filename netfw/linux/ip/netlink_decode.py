"""Decoding of netlink messages to values."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any

from netfw.linux.ip.values import (
    Address,
    FoundAddress,
    Link,
    Neighbour,
    NextHop,
    Route,
    RouteKind,
    Rule,
    RuleAction,
    Scope,
)
from netfw.model.address import IpAddress, IpNetwork, Mac

_UP = 0x1
_SECONDARY, _DUPLICATE, _TENTATIVE, _PERMANENT = 0x01, 0x08, 0x40, 0x80
_NODAD, _NOPREFIXROUTE = 0x02, 0x200
_MADE_BY_KERNEL_FOR_LINK = 3
_ONLINK = 0x4
_FIXED, _PROXY = 0x80, 0x8
_NO_GATEWAY = frozenset(
    {RouteKind.BLACKHOLE, RouteKind.UNREACHABLE, RouteKind.PROHIBIT, RouteKind.THROW}
)
_RULE_WORDS = frozenset(
    {
        "FRA_DST", "FRA_SRC", "FRA_IIFNAME", "FRA_OIFNAME", "FRA_PRIORITY", "FRA_FWMARK",
        "FRA_FWMASK", "FRA_TABLE", "FRA_PROTOCOL", "FRA_PAD",
    }
)  # fmt: skip

Names = Callable[[int], str | None]
"""Lookup of a device's name by its index; None if it is gone."""


def link(message: Any, names: Names) -> Link:
    master = message.get_attr("IFLA_MASTER")
    kind = message.get_nested("IFLA_LINKINFO", "IFLA_INFO_KIND")
    is_whole = kind == "veth" and message.get_attr("IFLA_LINK_NETNSID") is None
    return Link(
        name=message.get_attr("IFLA_IFNAME"),
        index=message["index"],
        kind=kind,
        mtu=message.get_attr("IFLA_MTU"),
        mac=_mac(message.get_attr("IFLA_ADDRESS")),
        up=bool(message["flags"] & _UP),
        state=str(message.get_attr("IFLA_OPERSTATE") or "unknown").lower(),
        carrier=message.get_attr("IFLA_CARRIER") != 0,
        master=names(master) if master else None,
        peer=message.get_attr("IFLA_LINK") if is_whole else None,
    )


def _mac(text: str | None) -> Mac | None:
    """Return the MAC address; None for devices that are not Ethernet."""
    try:
        return Mac(text) if text else None
    except ValueError:
        return None


def address(message: Any, names: Names) -> FoundAddress | None:
    """Decode an address; None if its device is gone already."""
    device = names(message["index"])
    if device is None:
        return None
    flags = message.get_attr("IFA_FLAGS", message["flags"])
    local = message.get_attr("IFA_LOCAL") or message.get_attr("IFA_ADDRESS")
    interface = ipaddress.ip_interface(f"{local}/{message['prefixlen']}")
    scope = _scope(message["scope"])
    return FoundAddress(
        address=Address(
            device=device,
            interface=interface,
            scope=scope,
            noprefixroute=bool(flags & _NOPREFIXROUTE),
            nodad=bool(flags & _NODAD),
        ),
        permanent=bool(flags & _PERMANENT),
        automatic=_is_automatic(message, interface),
        secondary=bool(flags & _SECONDARY) and interface.version == 4,
        tentative=bool(flags & _TENTATIVE),
        duplicate=bool(flags & _DUPLICATE),
    )


def _is_automatic(
    message: Any, interface: ipaddress.IPv4Interface | ipaddress.IPv6Interface
) -> bool:
    """Return whether the kernel made the address; before 5.18 only its form indicates that."""
    if interface.version == 4 or not interface.is_link_local:
        return False
    origin = message.get_attr("IFA_PROTO")
    if origin is not None:
        return bool(origin == _MADE_BY_KERNEL_FOR_LINK)
    return interface.network == ipaddress.ip_network("fe80::/64")


def _scope(number: int) -> Scope | None:
    return Scope(number) if number in Scope._value2member_map_ else None


def route(message: Any, names: Names) -> Route | None:
    """Decode a route; None for a kind that netfw does not model."""
    if message["type"] not in RouteKind._value2member_map_:
        return None
    kind = RouteKind(message["type"])
    version = 4 if message["family"] == 2 else 6
    source = message.get_attr("RTA_PREFSRC")
    metric = message.get_attr("RTA_PRIORITY")
    return Route(
        destination=_network(message.get_attr("RTA_DST"), message["dst_len"], version),
        hops=() if kind in _NO_GATEWAY else _hops(message, names),
        table=message.get_attr("RTA_TABLE", message["table"]),
        scope=_scope(message["scope"]),
        source=ipaddress.ip_address(source) if source else None,
        kind=kind,
        protocol=message["proto"],
        **({"metric": metric} if metric else {}),
    )


def _network(text: str | None, length: int, version: int) -> IpNetwork:
    return ipaddress.ip_network(f"{text or ('0.0.0.0' if version == 4 else '::')}/{length}")


def _hops(message: Any, names: Names) -> tuple[NextHop, ...]:
    several = message.get_attr("RTA_MULTIPATH")
    if several:
        return tuple(_hop(entry, entry["oif"], entry["hops"] + 1, names) for entry in several)
    index = message.get_attr("RTA_OIF")
    gateway = _gateway(message)
    if index is None and gateway is None:
        return ()
    return (_hop(message, index, 1, names),)


def _hop(entry: Any, index: int | None, weight: int, names: Names) -> NextHop:
    return NextHop(
        via=_gateway(entry),
        device=names(index) if index else None,
        weight=weight,
        onlink=bool(entry["flags"] & _ONLINK),
    )


def _gateway(entry: Any) -> IpAddress | None:
    gateway = entry.get_attr("RTA_GATEWAY")
    if gateway is None and (other := entry.get_attr("RTA_VIA")):
        gateway = other["addr"]
    return ipaddress.ip_address(gateway) if gateway else None


def rule(message: Any, _names: Names) -> Rule | None:
    """Decode a rule; None for one that netfw does not model."""
    if message["action"] not in RuleAction._value2member_map_:
        return None
    version = 4 if message["family"] == 2 else 6
    source, destination = message.get_attr("FRA_SRC"), message.get_attr("FRA_DST")
    mark = message.get_attr("FRA_FWMARK")
    return Rule(
        priority=message.get_attr("FRA_PRIORITY") or 0,
        source=_network(source, message["src_len"], version) if source else None,
        destination=_network(destination, message["dst_len"], version) if destination else None,
        version=version,
        iif=message.get_attr("FRA_IIFNAME"),
        oif=message.get_attr("FRA_OIFNAME"),
        mark=mark,
        mask=0xFFFFFFFF if mark is None else message.get_attr("FRA_FWMASK", 0xFFFFFFFF),
        table=message.get_attr("FRA_TABLE", message["table"]),
        action=RuleAction(message["action"]),
        protocol=message.get_attr("FRA_PROTOCOL") or 0,
        other=_other_conditions(message),
    )


def _other_conditions(message: Any) -> frozenset[str]:
    unset = {"FRA_SUPPRESS_PREFIXLEN": 0xFFFFFFFF, "FRA_SUPPRESS_IFGROUP": 0xFFFFFFFF}
    return frozenset(
        name
        for name, value in message["attrs"]
        if name not in _RULE_WORDS and unset.get(name) != value
    )


def neighbour(message: Any, names: Names) -> Neighbour | None:
    """Decode a configured neighbour; None if learned, multicast, or of a device that is gone."""
    device, address = names(message["ifindex"]), message.get_attr("NDA_DST")
    if device is None or address is None:
        return None
    if message["flags"] & _PROXY:
        return Neighbour(device=device, address=address, proxy=True)
    mac = _mac(message.get_attr("NDA_LLADDR"))
    if not message["state"] & _FIXED or mac is None:
        return None
    return Neighbour(device=device, address=address, mac=mac)
