"""Withdraw IPv6 prefixes from the hosts of a link that loses its router."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from ipaddress import IPv6Address, IPv6Network

from netfw.linux import netns
from netfw.linux.errno_errors import error_from_errno
from netfw.linux.netns import Namespace
from netfw.linux.sockets.arp_nd_frames import withdrawal
from netfw.model.values.device_names import check_device_name

_ALL_NODES, _HOP_LIMIT = "ff02::1", 255


def withdraw_prefixes(
    device: str,
    source: IPv6Address,
    prefixes: Iterable[IPv6Network],
    namespace: Namespace = None,
) -> None:
    """Send a router advertisement with lifetime 0 for the router and for *prefixes*, once.

    *source* is the link-local address that the router advertised from: its hosts withdraw what
    they know from there.

    :raises NotFound: there is no such namespace or device, or the device has no address *source*
        that it may send from: not while the address is tentative.
    :raises OperationRefused: the device cannot send; is it up?
    """
    check_device_name(device)
    message = withdrawal(prefixes)

    def send() -> None:
        with socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6) as raw:
            raw.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, _HOP_LIMIT)
            index = socket.if_nametoindex(device)
            raw.bind((str(source), 0, 0, index))
            raw.sendto(message, (_ALL_NODES, 0, 0, index))

    try:
        netns.run_in(namespace, send)
    except OSError as error:
        what = f"withdrawing prefixes on {device}"
        raise error_from_errno(error.errno or 0, what, error.strerror or "") from error
