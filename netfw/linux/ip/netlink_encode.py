"""Encoding of operations as netlink requests; a lookup gives indexes and descriptors."""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable
from pathlib import Path
from socket import AF_INET, AF_INET6, AF_UNSPEC

from attrs import frozen

from netfw.linux.ip import rtnetlink_constants as rt
from netfw.linux.ip.netlink_new_link import encode_new_link
from netfw.linux.ip.netlink_socket import NetlinkError, NetlinkRequest
from netfw.linux.ip.operations import (
    AddAddress,
    AddLink,
    AddLinuxBridge,
    AddRoute,
    AddRule,
    AddVeth,
    DelAddress,
    DelLink,
    DelNeighbour,
    DelRoute,
    DelRule,
    MoveLink,
    NetworkOperation,
    RenameLink,
    SetMac,
    SetMaster,
    SetMtu,
    SetNeighbour,
    SetUp,
)
from netfw.linux.ip.values import Address, IpRoute, IpRule, Neighbour, NextHop, RouteKind, Scope
from netfw.linux.netlink.messages import render_attribute
from netfw.model.values.address import Mac

_COMPATIBLE_TABLE = 252
_NEW = rt.NLM_F_CREATE | rt.NLM_F_EXCL
_ANEW = rt.NLM_F_CREATE | rt.NLM_F_REPLACE
_BYTE, _NUMBER = struct.Struct("=B"), struct.Struct("=I")


@frozen
class Lookup:
    """Lookup from names to the kernel's numbers."""

    index: Callable[[str], int]
    """Index of a device in this namespace."""
    descriptor: Callable[[str | Path], int]
    """Open descriptor of another namespace."""


def encode(operation: NetworkOperation, lookup: Lookup) -> NetlinkRequest:
    """Return the request that executes *operation*.

    :raises TypeError: the operation is not executed by netlink.
    :raises NetlinkError: a number does not fit into its field.
    """
    try:
        return _encode(operation, lookup)
    except struct.error as error:
        raise NetlinkError(errno.EINVAL, f"a number is out of range: {error}") from error


def _encode(operation: NetworkOperation, lookup: Lookup) -> NetlinkRequest:
    match operation:
        case AddAddress(address, replace):
            request = _new_address(address, lookup, _ANEW if replace else _NEW)
        case DelAddress(address):
            request = NetlinkRequest(rt.DEL_ADDRESS, _address(address, lookup))
        case AddRoute(route, replace):
            request = NetlinkRequest(
                rt.NEW_ROUTE, _route(route, lookup), _ANEW if replace else _NEW
            )
        case DelRoute(route) if route.message:
            request = NetlinkRequest(rt.DEL_ROUTE, route.message)
        case DelRoute(route):
            request = NetlinkRequest(rt.DEL_ROUTE, _route(route, lookup))
        case AddRule(rule):
            request = NetlinkRequest(rt.NEW_RULE, _rule(rule), _NEW)
        case DelRule(rule) if rule.message:
            request = NetlinkRequest(rt.DEL_RULE, rule.message)
        case DelRule(rule):
            request = NetlinkRequest(rt.DEL_RULE, _rule(rule))
        case SetNeighbour(neighbour):
            request = NetlinkRequest(rt.NEW_NEIGHBOUR, _neighbour(neighbour, lookup), _ANEW)
        case DelNeighbour(neighbour):
            request = NetlinkRequest(rt.DEL_NEIGHBOUR, _neighbour(neighbour, lookup))
        case _:
            request = _link(operation, lookup)
    return request


def _link(operation: NetworkOperation, lookup: Lookup) -> NetlinkRequest:
    match operation:
        case AddLink() | AddLinuxBridge() | AddVeth():
            body = encode_new_link(operation, lookup.descriptor)
            request = NetlinkRequest(rt.NEW_LINK, body, _NEW)
        case DelLink(name):
            request = NetlinkRequest(rt.DEL_LINK, _link_header(lookup.index(name)))
        case SetUp(name, up):
            flags = rt.IFF_UP if up else 0
            request = NetlinkRequest(
                rt.SET_LINK, _link_header(lookup.index(name), flags, rt.IFF_UP)
            )
        case SetMtu(name, mtu):
            request = _set_link(lookup.index(name), _number(rt.IFLA_MTU, mtu))
        case SetMac(name, mac):
            request = _set_link(lookup.index(name), _mac(rt.IFLA_ADDRESS, mac))
        case SetMaster(name, master):
            number = lookup.index(master) if master is not None else 0
            request = _set_link(lookup.index(name), _number(rt.IFLA_MASTER, number))
        case RenameLink(name, new_name):
            request = _set_link(lookup.index(name), _text(rt.IFLA_IFNAME, new_name))
        case MoveLink(name=name, namespace=namespace, new_name=new_name):
            target = _number(rt.IFLA_NET_NS_FD, lookup.descriptor(namespace))
            renamed = _text(rt.IFLA_IFNAME, new_name) if new_name is not None else b""
            request = _set_link(lookup.index(name), target + renamed)
        case _:
            raise TypeError(f"not an operation of netlink: {operation}")
    return request


def _number(kind: int, number: int) -> bytes:
    return render_attribute(kind, _NUMBER.pack(number))


def _text(kind: int, text: str) -> bytes:
    """Render a name; one that the kernel has given may be of any bytes, as it was decoded."""
    return render_attribute(kind, text.encode(errors="surrogateescape") + b"\0")


def _mac(kind: int, mac: Mac) -> bytes:
    return render_attribute(kind, bytes.fromhex(mac.replace(":", "")))


def _link_header(index: int = 0, flags: int = 0, change: int = 0) -> bytes:
    return rt.LINK.pack(AF_UNSPEC, 0, index, flags, change)


def _set_link(index: int, attributes: bytes) -> NetlinkRequest:
    return NetlinkRequest(rt.SET_LINK, _link_header(index) + attributes)


def _family(version: int) -> int:
    return AF_INET if version == 4 else AF_INET6


def _address(address: Address, lookup: Lookup) -> bytes:
    interface = address.interface
    header = rt.ADDRESS.pack(
        _family(interface.version),
        interface.network.prefixlen,
        0,
        _address_scope(address),
        lookup.index(address.device),
    )
    local = render_attribute(rt.IFA_LOCAL, interface.ip.packed)
    return header + local + render_attribute(rt.IFA_ADDRESS, (address.peer or interface.ip).packed)


def _new_address(address: Address, lookup: Lookup, flags: int) -> NetlinkRequest:
    marks = rt.IFA_F_NODAD if address.nodad else 0
    marks |= rt.IFA_F_NOPREFIXROUTE if address.noprefixroute else 0
    body = _address(address, lookup) + _number(rt.IFA_FLAGS, marks)
    network = address.interface.network
    if network.version == 4 and network.prefixlen < 31:
        body += render_attribute(rt.IFA_BROADCAST, network.broadcast_address.packed)
    return NetlinkRequest(rt.NEW_ADDRESS, body, flags)


def _address_scope(address: Address) -> Scope:
    if address.scope is not None:
        return address.scope
    return Scope.HOST if address.interface.is_loopback else Scope.GLOBAL


def _route(route: IpRoute, lookup: Lookup) -> bytes:
    only = route.hops[0] if len(route.hops) == 1 else None
    header = rt.ROUTE.pack(
        _family(route.destination.version),
        route.destination.prefixlen,
        0,
        0,
        _compatible_table(route.table),
        route.protocol,
        _route_scope(route),
        route.kind,
        rt.RTNH_F_ONLINK if only is not None and only.onlink else 0,
    )
    attributes = [_number(rt.RTA_TABLE, route.table)]
    if route.destination.prefixlen:
        packed = route.destination.network_address.packed
        attributes.append(render_attribute(rt.RTA_DST, packed))
    if route.metric:
        attributes.append(_number(rt.RTA_PRIORITY, route.metric))
    if route.source is not None:
        attributes.append(render_attribute(rt.RTA_PREFSRC, route.source.packed))
    if only is not None:
        attributes.append(_gateway(only, route))
        if only.device is not None:
            attributes.append(_number(rt.RTA_OIF, lookup.index(only.device)))
    elif route.hops:
        hops = b"".join(_hop(hop, route, lookup) for hop in route.hops)
        attributes.append(render_attribute(rt.RTA_MULTIPATH, hops))
    return header + b"".join(attributes)


def _compatible_table(table: int) -> int:
    """Return the byte that the header states; a larger number is in an attribute only."""
    return table if table < 256 else _COMPATIBLE_TABLE


def _route_scope(route: IpRoute) -> Scope:
    if route.scope is not None:
        return route.scope
    if route.kind == RouteKind.LOCAL:
        return Scope.HOST
    reached = route.kind != RouteKind.UNICAST or any(hop.via is not None for hop in route.hops)
    return Scope.GLOBAL if reached or route.destination.version == 6 else Scope.LINK


def _gateway(hop: NextHop, route: IpRoute) -> bytes:
    if hop.via is None:
        return b""
    if hop.via.version == route.destination.version:
        return render_attribute(rt.RTA_GATEWAY, hop.via.packed)
    return render_attribute(rt.RTA_VIA, rt.VIA.pack(_family(hop.via.version)) + hop.via.packed)


def _hop(hop: NextHop, route: IpRoute, lookup: Lookup) -> bytes:
    gateway = _gateway(hop, route)
    flags = rt.RTNH_F_ONLINK if hop.onlink else 0
    index = lookup.index(hop.device) if hop.device is not None else 0
    size = rt.NEXT_HOP.size + len(gateway)
    return rt.NEXT_HOP.pack(size, flags, hop.weight - 1, index) + gateway


def _rule(rule: IpRule) -> bytes:
    header = rt.RULE.pack(
        _family(rule.version),
        rule.destination.prefixlen if rule.destination is not None else 0,
        rule.source.prefixlen if rule.source is not None else 0,
        0,
        _compatible_table(rule.table),
        0,
        0,
        rule.action,
        0,
    )
    attributes = [
        _number(rt.FRA_PRIORITY, rule.priority),
        _number(rt.FRA_TABLE, rule.table),
        render_attribute(rt.FRA_PROTOCOL, _BYTE.pack(rule.protocol)),
    ]
    if rule.source is not None:
        attributes.append(render_attribute(rt.FRA_SRC, rule.source.network_address.packed))
    if rule.destination is not None:
        attributes.append(render_attribute(rt.FRA_DST, rule.destination.network_address.packed))
    if rule.iif is not None:
        attributes.append(_text(rt.FRA_IIFNAME, rule.iif))
    if rule.oif is not None:
        attributes.append(_text(rt.FRA_OIFNAME, rule.oif))
    if rule.mark is not None:
        attributes += _number(rt.FRA_FWMARK, rule.mark), _number(rt.FRA_FWMASK, rule.mask)
    return header + b"".join(attributes)


def _neighbour(neighbour: Neighbour, lookup: Lookup) -> bytes:
    body = rt.NEIGHBOUR.pack(
        _family(neighbour.address.version),
        lookup.index(neighbour.device),
        0 if neighbour.proxy else rt.NUD_PERMANENT,
        rt.NTF_PROXY if neighbour.proxy else 0,
        0,
    )
    body += render_attribute(rt.NDA_DST, neighbour.address.packed)
    if neighbour.mac is not None:
        body += _mac(rt.NDA_LLADDR, neighbour.mac)
    return body


_SKIP_STATISTICS = _number(rt.IFLA_EXT_MASK, rt.RTEXT_FILTER_SKIP_STATS)


def read_links() -> NetlinkRequest:
    return NetlinkRequest(rt.GET_LINK, _link_header() + _SKIP_STATISTICS)


def read_link(name: str) -> NetlinkRequest:
    return NetlinkRequest(
        rt.GET_LINK, _link_header() + _text(rt.IFLA_IFNAME, name) + _SKIP_STATISTICS
    )


def read_addresses(index: int) -> NetlinkRequest:
    """Build a request for the addresses of one device, or (0) of all."""
    return NetlinkRequest(rt.GET_ADDRESS, rt.ADDRESS.pack(AF_UNSPEC, 0, 0, 0, index))


def read_routes(version: int, table: int) -> NetlinkRequest:
    header = rt.ROUTE.pack(_family(version), 0, 0, 0, _compatible_table(table), 0, 0, 0, 0)
    return NetlinkRequest(rt.GET_ROUTE, header + _number(rt.RTA_TABLE, table))


def read_all_routes(version: int, index: int = 0) -> NetlinkRequest:
    """Build a request for the routes of all tables, by one device or (0) by any.

    The kernel could select those of one origin, except for the unspecified one.
    """
    header = rt.ROUTE.pack(_family(version), *bytes(8))
    return NetlinkRequest(rt.GET_ROUTE, header + _number(rt.RTA_OIF, index) if index else header)


def read_rules(version: int) -> NetlinkRequest:
    return NetlinkRequest(rt.GET_RULE, rt.RULE.pack(_family(version), *bytes(8)))


def read_neighbours(proxy: bool) -> NetlinkRequest:
    flags = rt.NTF_PROXY if proxy else 0
    return NetlinkRequest(rt.GET_NEIGHBOUR, rt.NEIGHBOUR.pack(AF_UNSPEC, 0, 0, flags, 0))
