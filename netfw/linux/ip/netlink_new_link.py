"""Encoding of new devices; by pyroute2, except for pairs of devices, which routers often make."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from netfw.linux.ip import rtnetlink_constants as rt
from netfw.linux.ip.operations import AddLink, AddLinuxBridge, AddVeth
from netfw.linux.netlink.messages import HEADER, render_attribute

Attributes = Sequence[tuple[str, Any]]
_HEADER = rt.LINK.pack(0, 0, 0, 0, 0)
_NUMBER = struct.Struct("=I")


def encode_new_link(
    operation: AddLink | AddLinuxBridge | AddVeth, descriptor: Callable[[str | Path], int]
) -> bytes:
    """Return the body of the request that creates a device.

    :param descriptor: returns the open descriptor of a namespace.
    """
    match operation:
        case AddLinuxBridge(name):
            options = [("IFLA_BR_FORWARD_DELAY", 0), ("IFLA_BR_MCAST_SNOOPING", 0)]
            return _encode(name, "bridge", options)
        case AddVeth():
            return _encode_veth(operation, descriptor)
        case AddLink(name, kind):
            return _encode(name, kind)


def _encode_veth(operation: AddVeth, descriptor: Callable[[str | Path], int]) -> bytes:
    peer = _HEADER + _text(rt.IFLA_IFNAME, operation.peer)
    if operation.peer_namespace is not None:
        number = _NUMBER.pack(descriptor(operation.peer_namespace))
        peer += render_attribute(rt.IFLA_NET_NS_FD, number)
    data = render_attribute(rt.IFLA_INFO_DATA, render_attribute(rt.VETH_INFO_PEER, peer))
    info = render_attribute(rt.IFLA_LINKINFO, _text(rt.IFLA_INFO_KIND, "veth") + data)
    return _HEADER + _text(rt.IFLA_IFNAME, operation.name) + info


def _text(kind: int, text: str) -> bytes:
    return render_attribute(kind, text.encode() + b"\0")


def _encode(name: str, kind: str, options: Attributes = ()) -> bytes:
    # Takes 0.12 s of CPU, and most agents create no such device.
    from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

    info: list[tuple[str, Any]] = [("IFLA_INFO_KIND", kind)]
    if options:
        info.append(("IFLA_INFO_DATA", {"attrs": options}))
    message = ifinfmsg()
    message["attrs"] = [("IFLA_IFNAME", name), ("IFLA_LINKINFO", {"attrs": info})]
    message.encode()
    return bytes(message.data[HEADER.size :])
