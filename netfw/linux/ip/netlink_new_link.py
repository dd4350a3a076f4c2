"""Encoding of new devices by pyroute2, which knows the attributes of each kind of device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from netfw.linux.ip.operations import AddBridge, AddLink, AddVeth
from netfw.linux.netlink.messages import HEADER

Attributes = Sequence[tuple[str, Any]]


def encode_new_link(
    operation: AddLink | AddBridge | AddVeth, descriptor: Callable[[str | Path], int]
) -> bytes:
    """Return the body of the request that creates a device.

    :param descriptor: returns the open descriptor of a namespace.
    """
    match operation:
        case AddBridge(name):
            options = [("IFLA_BR_FORWARD_DELAY", 0), ("IFLA_BR_MCAST_SNOOPING", 0)]
            return _encode(name, "bridge", options)
        case AddVeth(name=name, peer=peer, peer_namespace=namespace):
            attributes: list[tuple[str, Any]] = [("IFLA_IFNAME", peer)]
            if namespace is not None:
                attributes.append(("IFLA_NET_NS_FD", descriptor(namespace)))
            return _encode(name, "veth", [("VETH_INFO_PEER", {"attrs": attributes})])
        case AddLink(name, kind):
            return _encode(name, kind)


def _encode(name: str, kind: str, options: Attributes = ()) -> bytes:
    # Takes 0.12 s of CPU, and most agents create no device.
    from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

    info: list[tuple[str, Any]] = [("IFLA_INFO_KIND", kind)]
    if options:
        info.append(("IFLA_INFO_DATA", {"attrs": options}))
    message = ifinfmsg()
    message["attrs"] = [("IFLA_IFNAME", name), ("IFLA_LINKINFO", {"attrs": info})]
    message.encode()
    return bytes(message.data[HEADER.size :])
