"""Encoding of operations as netlink requests.  Pure: a lookup gives indexes and descriptors."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from pathlib import Path
from socket import AF_INET, AF_INET6, AF_UNSPEC
from typing import Any

from attrs import frozen

from netfw.linux.ip import netlink_socket
from netfw.linux.ip.netlink_socket import Request
from netfw.linux.ip.operations import (
    AddAddress,
    AddBridge,
    AddLink,
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
from netfw.linux.ip.values import Address, Neighbour, NextHop, Route, RouteKind, Rule, Scope

_UP = 0x1
_NODAD, _NOPREFIXROUTE = 0x02, 0x200
_ONLINK = 0x4
_PERMANENT = 0x80
_PROXY = 0x8
_COMPATIBLE_TABLE = 252
_NEW = netlink_socket.CREATE | netlink_socket.EXCLUSIVE
_ANEW = netlink_socket.CREATE | netlink_socket.REPLACE


@frozen
class Lookup:
    """Lookup from names to the kernel's numbers."""

    index: Callable[[str], int]
    """Index of a device in this namespace."""
    descriptor: Callable[[str | Path], int]
    """Open descriptor of another namespace."""


def encode(operation: NetworkOperation, lookup: Lookup) -> Request:
    """Return the request that executes *operation*.

    :raises TypeError: the operation is not executed by netlink.
    """
    match operation:
        case AddAddress(address, replace):
            flags = _ANEW if replace else _NEW
            request = _address(netlink_socket.NEW_ADDRESS, address, lookup, flags)
        case DelAddress(address):
            request = _address(netlink_socket.DEL_ADDRESS, address, lookup, 0)
        case AddRoute(route, replace):
            request = _route(netlink_socket.NEW_ROUTE, route, lookup, _ANEW if replace else _NEW)
        case DelRoute(route) if route.message:
            request = Request(netlink_socket.DEL_ROUTE, body=route.message)
        case DelRoute(route):
            request = _route(netlink_socket.DEL_ROUTE, route, lookup, 0)
        case AddRule(rule):
            request = _rule(netlink_socket.NEW_RULE, rule, _NEW)
        case DelRule(rule) if rule.message:
            request = Request(netlink_socket.DEL_RULE, body=rule.message)
        case DelRule(rule):
            request = _rule(netlink_socket.DEL_RULE, rule, 0)
        case SetNeighbour(neighbour):
            request = _neighbour(netlink_socket.NEW_NEIGHBOUR, neighbour, lookup, _ANEW)
        case DelNeighbour(neighbour):
            request = _neighbour(netlink_socket.DEL_NEIGHBOUR, neighbour, lookup, 0)
        case _:
            request = _link(operation, lookup)
    return request


def _link(operation: NetworkOperation, lookup: Lookup) -> Request:
    match operation:
        case AddLink(name, kind):
            request = _new_link(name, [("IFLA_INFO_KIND", kind)])
        case AddBridge(name):
            request = _bridge(name)
        case AddVeth(name=name):
            request = _veth(operation, lookup)
        case DelLink(name):
            request = Request(netlink_socket.DEL_LINK, {"index": lookup.index(name)})
        case SetUp(name, up):
            fields = {"index": lookup.index(name), "flags": _UP if up else 0, "change": _UP}
            request = Request(netlink_socket.SET_LINK, fields)
        case SetMtu(name, mtu):
            request = _set_link(lookup.index(name), ("IFLA_MTU", mtu))
        case SetMac(name, mac):
            request = _set_link(lookup.index(name), ("IFLA_ADDRESS", str(mac)))
        case SetMaster(name, master):
            number = lookup.index(master) if master is not None else 0
            request = _set_link(lookup.index(name), ("IFLA_MASTER", number))
        case RenameLink(name, new_name):
            request = _set_link(lookup.index(name), ("IFLA_IFNAME", new_name))
        case MoveLink(name=name, namespace=namespace, new_name=new_name):
            called = [("IFLA_IFNAME", new_name)] if new_name is not None else []
            target = ("IFLA_NET_NS_FD", lookup.descriptor(namespace))
            request = _set_link(lookup.index(name), target, *called)
        case _:
            raise TypeError(f"not an operation of netlink: {operation}")
    return request


def _set_link(index: int, *attributes: tuple[str, Any]) -> Request:
    return Request(netlink_socket.SET_LINK, {"index": index}, attributes)


def _new_link(name: str, info: list[tuple[str, Any]]) -> Request:
    attributes = (("IFLA_IFNAME", name), ("IFLA_LINKINFO", {"attrs": info}))
    return Request(netlink_socket.NEW_LINK, {}, attributes, _NEW)


def _bridge(name: str) -> Request:
    data = {"attrs": [("IFLA_BR_FORWARD_DELAY", 0), ("IFLA_BR_MCAST_SNOOPING", 0)]}
    return _new_link(name, [("IFLA_INFO_KIND", "bridge"), ("IFLA_INFO_DATA", data)])


def _veth(veth: AddVeth, lookup: Lookup) -> Request:
    peer: list[tuple[str, Any]] = [("IFLA_IFNAME", veth.peer)]
    if veth.peer_namespace is not None:
        peer.append(("IFLA_NET_NS_FD", lookup.descriptor(veth.peer_namespace)))
    data = {"attrs": [("VETH_INFO_PEER", {"attrs": peer})]}
    return _new_link(veth.name, [("IFLA_INFO_KIND", "veth"), ("IFLA_INFO_DATA", data)])


def _family(version: int) -> int:
    return AF_INET if version == 4 else AF_INET6


def _address(kind: int, address: Address, lookup: Lookup, flags: int) -> Request:
    interface = address.interface
    fields = {
        "family": _family(interface.version),
        "prefixlen": interface.network.prefixlen,
        "index": lookup.index(address.device),
        "scope": _address_scope(address),
    }
    attributes: list[tuple[str, Any]] = [
        ("IFA_LOCAL", str(interface.ip)),
        ("IFA_ADDRESS", str(address.peer or interface.ip)),
    ]
    if kind == netlink_socket.NEW_ADDRESS:
        marks = (_NODAD if address.nodad else 0) | (_NOPREFIXROUTE if address.noprefixroute else 0)
        attributes.append(("IFA_FLAGS", marks))
        if isinstance(interface, ipaddress.IPv4Interface) and fields["prefixlen"] < 31:
            attributes.append(("IFA_BROADCAST", str(interface.network.broadcast_address)))
    return Request(kind, fields, tuple(attributes), flags)


def _address_scope(address: Address) -> Scope:
    if address.scope is not None:
        return address.scope
    return Scope.HOST if address.interface.is_loopback else Scope.GLOBAL


def _route(kind: int, route: Route, lookup: Lookup, flags: int) -> Request:
    only = route.hops[0] if len(route.hops) == 1 else None
    fields = {
        "family": _family(route.destination.version),
        "dst_len": route.destination.prefixlen,
        "table": route.table if route.table < 256 else _COMPATIBLE_TABLE,
        "proto": route.protocol,
        "scope": _route_scope(route),
        "type": route.kind,
        "flags": _ONLINK if only is not None and only.onlink else 0,
    }
    attributes: list[tuple[str, Any]] = [("RTA_TABLE", route.table)]
    if route.destination.prefixlen:
        attributes.append(("RTA_DST", str(route.destination.network_address)))
    if route.metric:
        attributes.append(("RTA_PRIORITY", route.metric))
    if route.source is not None:
        attributes.append(("RTA_PREFSRC", str(route.source)))
    if only is not None:
        attributes.extend(_gateway(only, route))
        if only.device is not None:
            attributes.append(("RTA_OIF", lookup.index(only.device)))
    elif route.hops:
        attributes.append(("RTA_MULTIPATH", [_hop(hop, route, lookup) for hop in route.hops]))
    return Request(kind, fields, tuple(attributes), flags)


def _route_scope(route: Route) -> Scope:
    if route.scope is not None:
        return route.scope
    if route.kind == RouteKind.LOCAL:
        return Scope.HOST
    reached = route.kind != RouteKind.UNICAST or any(hop.via is not None for hop in route.hops)
    return Scope.GLOBAL if reached or route.destination.version == 6 else Scope.LINK


def _gateway(hop: NextHop, route: Route) -> list[tuple[str, Any]]:
    if hop.via is None:
        return []
    if hop.via.version == route.destination.version:
        return [("RTA_GATEWAY", str(hop.via))]
    return [("RTA_VIA", {"family": _family(hop.via.version), "addr": str(hop.via)})]


def _hop(hop: NextHop, route: Route, lookup: Lookup) -> dict[str, Any]:
    return {
        "flags": _ONLINK if hop.onlink else 0,
        "hops": hop.weight - 1,
        "oif": lookup.index(hop.device) if hop.device is not None else 0,
        "attrs": _gateway(hop, route),
    }


def _rule(kind: int, rule: Rule, flags: int) -> Request:
    fields = {
        "family": _family(rule.version),
        "src_len": rule.source.prefixlen if rule.source is not None else 0,
        "dst_len": rule.destination.prefixlen if rule.destination is not None else 0,
        "table": rule.table if rule.table < 256 else _COMPATIBLE_TABLE,
        "action": rule.action,
    }
    attributes: list[tuple[str, Any]] = [
        ("FRA_PRIORITY", rule.priority),
        ("FRA_TABLE", rule.table),
        ("FRA_PROTOCOL", rule.protocol),
    ]
    if rule.source is not None:
        attributes.append(("FRA_SRC", str(rule.source.network_address)))
    if rule.destination is not None:
        attributes.append(("FRA_DST", str(rule.destination.network_address)))
    if rule.iif is not None:
        attributes.append(("FRA_IIFNAME", _found_name(rule.iif)))
    if rule.oif is not None:
        attributes.append(("FRA_OIFNAME", _found_name(rule.oif)))
    if rule.mark is not None:
        attributes.extend((("FRA_FWMARK", rule.mark), ("FRA_FWMASK", rule.mask)))
    return Request(kind, fields, tuple(attributes), flags)


def _found_name(name: str) -> bytes:
    """Encode a name that the kernel may have given, of any bytes; as it was decoded."""
    return name.encode(errors="surrogateescape")


def _neighbour(kind: int, neighbour: Neighbour, lookup: Lookup, flags: int) -> Request:
    fields = {
        "family": _family(neighbour.address.version),
        "ifindex": lookup.index(neighbour.device),
        "state": 0 if neighbour.proxy else _PERMANENT,
        "flags": _PROXY if neighbour.proxy else 0,
    }
    attributes = [("NDA_DST", str(neighbour.address))]
    if neighbour.mac is not None:
        attributes.append(("NDA_LLADDR", str(neighbour.mac)))
    return Request(kind, fields, tuple(attributes), flags)


_SKIP_STATISTICS = ("IFLA_EXT_MASK", 8)


def read_links() -> Request:
    return Request(netlink_socket.GET_LINK, {"family": AF_UNSPEC}, (_SKIP_STATISTICS,))


def read_link(name: str) -> Request:
    attributes = (("IFLA_IFNAME", _found_name(name)), _SKIP_STATISTICS)
    return Request(netlink_socket.GET_LINK, {"family": AF_UNSPEC}, attributes)


def read_addresses(index: int) -> Request:
    """Build a request for the addresses of one device, or (0) of all."""
    return Request(netlink_socket.GET_ADDRESS, {"family": AF_UNSPEC, "index": index})


def read_routes(version: int, table: int) -> Request:
    fields = {"family": _family(version), "table": table if table < 256 else _COMPATIBLE_TABLE}
    return Request(netlink_socket.GET_ROUTE, fields, (("RTA_TABLE", table),))


def read_all_routes(version: int) -> Request:
    """Build a request for the routes of all tables.

    The kernel could select those of one origin, except for the unspecified one.
    """
    return Request(netlink_socket.GET_ROUTE, {"family": _family(version)})


def read_rules(version: int) -> Request:
    return Request(netlink_socket.GET_RULE, {"family": _family(version)})


def read_neighbours(proxy: bool) -> Request:
    return Request(
        netlink_socket.GET_NEIGHBOUR, {"family": AF_UNSPEC, "flags": _PROXY if proxy else 0}
    )
