"""Decoding of netlink messages (rtnetlink) to values.

The counterpart of :mod:`netfw.linux.ip.netlink_encode`.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from ipaddress import (
    IPv4Interface,
    IPv4Network,
    IPv6Interface,
    IPv6Network,
    ip_address,
)
from socket import AF_INET
from typing import overload

from netfw.linux.ip import rtnetlink_constants as rt
from netfw.linux.ip.values import (
    MAIN_TABLE,
    PROTOCOL_KERNEL,
    Address,
    FoundAddress,
    IpRoute,
    IpRule,
    Link,
    Neighbour,
    NextHop,
    RouteKind,
    RuleAction,
    Scope,
)
from netfw.linux.netlink.messages import parse_attributes, render_attribute
from netfw.model.values.address import IpAddress, IpInterface, IpNetwork, Mac

_ROUTE_TABLE, _ROUTE_PROTOCOL = 4, 5
"""Offsets of the bytes in the header."""
_CACHE_INFO = struct.Struct("=IIiI")
_MADE_BY_KERNEL_FOR_LINK = 3
_ALL_BITS = 0xFFFFFFFF
_LINK_STATES = ("unknown", "notpresent", "down", "lowerlayerdown", "testing", "dormant", "up")
_NO_GATEWAY = frozenset(
    {RouteKind.BLACKHOLE, RouteKind.UNREACHABLE, RouteKind.PROHIBIT, RouteKind.THROW}
)
_MODELLED = frozenset(
    {
        rt.FRA_DST, rt.FRA_SRC, rt.FRA_IIFNAME, rt.FRA_OIFNAME, rt.FRA_PRIORITY, rt.FRA_FWMARK,
        rt.FRA_FWMASK, rt.FRA_TABLE, rt.FRA_PROTOCOL, rt.FRA_PAD,
    }
)  # fmt: skip
_NEXT_HOPS = frozenset({rt.RTA_OIF, rt.RTA_GATEWAY, rt.RTA_MULTIPATH, rt.RTA_VIA})
_MODELLED_OF_ROUTE = _NEXT_HOPS | {
    rt.RTA_DST, rt.RTA_SRC, rt.RTA_PRIORITY, rt.RTA_PREFSRC, rt.RTA_TABLE,
    rt.RTA_CACHEINFO, rt.RTA_PAD,
}  # fmt: skip
_LINK_LOCAL = IPv6Network("fe80::/64")
_CACHED = 4096
"""Limit of cached addresses; an address that did not change has the same message."""

Body = bytes | memoryview
"""A message without its header."""
Names = Callable[[int], str | None]
"""Lookup of a device's name by its index; None if it is gone."""
_Attributes = Mapping[int, memoryview]


def link_name(body: Body) -> tuple[int, str]:
    """Decode the index and the name of a link."""
    attributes = parse_attributes(memoryview(body)[rt.LINK.size :])
    return int(rt.LINK.unpack_from(body)[2]), _text(attributes[rt.IFLA_IFNAME])


def link(body: Body, names: Names) -> Link:
    """Decode a link."""
    _family, _type, index, flags, _change = rt.LINK.unpack_from(body)
    attributes = parse_attributes(memoryview(body)[rt.LINK.size :])
    master = _number(attributes, rt.IFLA_MASTER)
    info = parse_attributes(attributes.get(rt.IFLA_LINKINFO, memoryview(b"")))
    kind = _text(info[rt.IFLA_INFO_KIND]) if rt.IFLA_INFO_KIND in info else None
    is_whole = kind == "veth" and rt.IFLA_LINK_NETNSID not in attributes
    return Link(
        name=_text(attributes[rt.IFLA_IFNAME]),
        index=index,
        kind=kind,
        mtu=_number(attributes, rt.IFLA_MTU) or 0,
        mac=_mac(attributes.get(rt.IFLA_ADDRESS)),
        up=bool(flags & rt.IFF_UP),
        state=_link_state(_number(attributes, rt.IFLA_OPERSTATE) or 0),
        carrier=_number(attributes, rt.IFLA_CARRIER) != 0,
        master=names(master) if master else None,
        peer=_number(attributes, rt.IFLA_LINK) if is_whole else None,
    )


def _link_state(number: int) -> str:
    return _LINK_STATES[number] if number < len(_LINK_STATES) else _LINK_STATES[0]


def _mac(value: memoryview | None) -> Mac | None:
    """Return the MAC address; None for devices that are not Ethernet."""
    try:
        return Mac(value.hex(":")) if value else None
    except ValueError:
        return None


def address(body: Body, names: Names) -> FoundAddress | None:
    """Decode an address; None if its device is gone already."""
    device = names(rt.ADDRESS.unpack_from(body)[4])
    return None if device is None else _address(bytes(body), device)


@lru_cache(_CACHED)
def _address(body: bytes, device: str) -> FoundAddress:
    family, length, flags, scope, _index = rt.ADDRESS.unpack_from(body)
    attributes = parse_attributes(memoryview(body)[rt.ADDRESS.size :])
    flags = _number(attributes, rt.IFA_FLAGS, flags)
    local = bytes(attributes.get(rt.IFA_LOCAL) or attributes[rt.IFA_ADDRESS])
    other_end = bytes(attributes.get(rt.IFA_ADDRESS, local))
    interface = (IPv4Interface if family == AF_INET else IPv6Interface)((local, length))
    return FoundAddress(
        address=Address(
            device=device,
            interface=interface,
            scope=_scope(scope),
            noprefixroute=bool(flags & rt.IFA_F_NOPREFIXROUTE),
            nodad=bool(flags & rt.IFA_F_NODAD),
            peer=None if other_end == local else ip_address(other_end),
        ),
        permanent=bool(flags & rt.IFA_F_PERMANENT),
        automatic=_is_automatic(_number(attributes, rt.IFA_PROTO), interface),
        secondary=bool(flags & rt.IFA_F_SECONDARY) and interface.version == 4,
        tentative=bool(flags & rt.IFA_F_TENTATIVE),
        duplicate=bool(flags & rt.IFA_F_DADFAILED),
    )


def _is_automatic(origin: int | None, interface: IpInterface) -> bool:
    """Return whether the kernel made the address; before 5.18 only its form indicates that."""
    if interface.version == 4 or not interface.is_link_local:
        return False
    if origin is not None:
        return origin == _MADE_BY_KERNEL_FOR_LINK
    return interface.network == _LINK_LOCAL


def _scope(number: int) -> Scope | None:
    return Scope(number) if number in Scope._value2member_map_ else None


def route_protocol(body: Body) -> int:
    """Decode the origin of a route alone."""
    return body[_ROUTE_PROTOCOL]


def is_connected_route(body: Body) -> bool:
    """Return whether the kernel added a route to the main table, as it does with an address."""
    return (body[_ROUTE_TABLE], body[_ROUTE_PROTOCOL]) == (MAIN_TABLE, PROTOCOL_KERNEL)


def route(body: Body, names: Names) -> IpRoute | None:
    """Decode a route; None for a kind that netfw does not model."""
    family, length, src_len, tos, table, protocol, scope, type_, flags = rt.ROUTE.unpack_from(body)
    if type_ not in RouteKind._value2member_map_:
        return None
    kind = RouteKind(type_)
    attributes = parse_attributes(memoryview(body)[rt.ROUTE.size :])
    metric = _number(attributes, rt.RTA_PRIORITY)
    source = f"from {_network(attributes.get(rt.RTA_SRC), src_len, family)}" if src_len else ""
    return IpRoute(
        destination=_network(attributes.get(rt.RTA_DST), length, family),
        hops=() if kind in _NO_GATEWAY else _hops(attributes, flags, names),
        table=_number(attributes, rt.RTA_TABLE, table),
        scope=_scope(scope),
        source=_ip_address(attributes.get(rt.RTA_PREFSRC)),
        kind=kind,
        protocol=protocol,
        selector=f"tos {tos:#x}" if tos else source,
        other=_other_attributes(attributes),
        message=_route_message(body, attributes),
        **({"metric": metric} if metric else {}),
    )


def _other_attributes(attributes: _Attributes) -> frozenset[str]:
    """Return the attributes of a route that netfw does not model."""
    lifetime = attributes.get(rt.RTA_CACHEINFO)
    expires = {"expires"} if lifetime and _CACHE_INFO.unpack_from(lifetime)[2] else set()
    return frozenset(
        expires.union(
            f"attribute {kind}"
            for kind in attributes.keys() - _MODELLED_OF_ROUTE
            if not (kind == rt.RTA_PREF and not any(attributes[kind]))
        )
    )


def _route_message(body: Body, attributes: _Attributes) -> bytes:
    """Return the message that removes a route; one of a nexthop object is named by that alone."""
    header = [*rt.ROUTE.unpack_from(body)]
    header[-1] &= rt.RTNH_F_ONLINK
    named = _NEXT_HOPS if rt.RTA_NH_ID in attributes else frozenset()
    kept = (
        render_attribute(kind, bytes(value))
        for kind, value in attributes.items()
        if kind not in named
    )
    return rt.ROUTE.pack(*header) + b"".join(kept)


def _network(value: memoryview | None, length: int, family: int) -> IpNetwork:
    if family == AF_INET:
        return IPv4Network((bytes(value or bytes(4)), length), strict=False)
    return IPv6Network((bytes(value or bytes(16)), length), strict=False)


def _has_host_bits(value: memoryview | None, network: IpNetwork | None) -> bool:
    """Return whether a rule matches an address that its network does not state."""
    return value is not None and network is not None and network.network_address.packed != value


def _ip_address(value: memoryview | None) -> IpAddress | None:
    return None if value is None else ip_address(bytes(value))


def _hops(attributes: _Attributes, flags: int, names: Names) -> tuple[NextHop, ...]:
    several = attributes.get(rt.RTA_MULTIPATH)
    if several:
        return tuple(_several_hops(several, names))
    index = _number(attributes, rt.RTA_OIF)
    gateway = _gateway(attributes)
    if index is None and gateway is None:
        return ()
    device = names(index) if index else None
    return (NextHop(via=gateway, device=device, onlink=bool(flags & rt.RTNH_F_ONLINK)),)


def _several_hops(data: memoryview, names: Names) -> list[NextHop]:
    hops = []
    while len(data) >= rt.NEXT_HOP.size:
        size, flags, weight, index = rt.NEXT_HOP.unpack_from(data)
        if size < rt.NEXT_HOP.size:
            break
        gateway = _gateway(parse_attributes(data[rt.NEXT_HOP.size : size]))
        device = names(index) if index else None
        onlink = bool(flags & rt.RTNH_F_ONLINK)
        hops.append(NextHop(via=gateway, device=device, weight=weight + 1, onlink=onlink))
        data = data[(size + 3) & ~3 :]
    return hops


def _gateway(attributes: _Attributes) -> IpAddress | None:
    if (other := attributes.get(rt.RTA_VIA)) is not None and rt.RTA_GATEWAY not in attributes:
        return _ip_address(other[rt.VIA.size :])
    return _ip_address(attributes.get(rt.RTA_GATEWAY))


def rule(body: Body, _names: Names) -> IpRule | None:
    """Decode a rule; None for one that netfw does not model."""
    family, dst_len, src_len, tos, table, _, _, action, flags = rt.RULE.unpack_from(body)
    if action not in RuleAction._value2member_map_:
        return None
    attributes = parse_attributes(memoryview(body)[rt.RULE.size :])
    source, destination = attributes.get(rt.FRA_SRC), attributes.get(rt.FRA_DST)
    mark = _number(attributes, rt.FRA_FWMARK)
    sources = _network(source, src_len, family) if source else None
    destinations = _network(destination, dst_len, family) if destination else None
    other = _other_conditions(attributes)
    if _has_host_bits(source, sources) or _has_host_bits(destination, destinations):
        other |= {"host bits"}
    other |= ({f"tos {tos:#x}"} if tos else set()) | (
        {"not"} if flags & rt.FIB_RULE_INVERT else set()
    )
    return IpRule(
        priority=_number(attributes, rt.FRA_PRIORITY, 0),
        source=sources,
        destination=destinations,
        version=4 if family == AF_INET else 6,
        iif=_text(attributes[rt.FRA_IIFNAME]) if rt.FRA_IIFNAME in attributes else None,
        oif=_text(attributes[rt.FRA_OIFNAME]) if rt.FRA_OIFNAME in attributes else None,
        mark=mark,
        mask=_ALL_BITS if mark is None else _number(attributes, rt.FRA_FWMASK, _ALL_BITS),
        table=_number(attributes, rt.FRA_TABLE, table),
        action=RuleAction(action),
        protocol=_number(attributes, rt.FRA_PROTOCOL, 0),
        other=other,
        message=bytes(body),
    )


def _other_conditions(attributes: _Attributes) -> frozenset[str]:
    unset = (rt.FRA_SUPPRESS_PREFIXLEN, rt.FRA_SUPPRESS_IFGROUP)
    return frozenset(
        f"attribute {kind}"
        for kind in attributes.keys() - _MODELLED
        if not (kind in unset and _number(attributes, kind) == _ALL_BITS)
    )


def neighbour(body: Body, names: Names) -> Neighbour | None:
    """Decode a configured neighbour; None if learned, multicast, or of a device that is gone."""
    _family, index, state, flags, _type = rt.NEIGHBOUR.unpack_from(body)
    attributes = parse_attributes(memoryview(body)[rt.NEIGHBOUR.size :])
    device, address = names(index), _ip_address(attributes.get(rt.NDA_DST))
    if device is None or address is None:
        return None
    if flags & rt.NTF_PROXY:
        return Neighbour(device=device, address=address, proxy=True)
    mac = _mac(attributes.get(rt.NDA_LLADDR))
    if not state & rt.NUD_PERMANENT or mac is None:
        return None
    return Neighbour(device=device, address=address, mac=mac)


@overload
def _number(attributes: _Attributes, kind: int) -> int | None: ...
@overload
def _number(attributes: _Attributes, kind: int, default: int) -> int: ...
def _number(attributes: _Attributes, kind: int, default: int | None = None) -> int | None:
    """Return a number in the byte order of the machine, of any size."""
    value = attributes.get(kind)
    return default if value is None else int.from_bytes(value, sys.byteorder)


def _text(value: memoryview) -> str:
    return bytes(value).rstrip(b"\0").decode(errors="surrogateescape")
