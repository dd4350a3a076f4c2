"""Announce the addresses of a device to its neighbours, so that none waits for a timeout."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable

from netfw.linux import netns
from netfw.linux.errno_errors import error_from_errno
from netfw.linux.netns import Namespace
from netfw.linux.sockets.arp_nd_frames import announcement
from netfw.model.values.address import IpAddress, Mac
from netfw.model.values.device_names import check_device_name

MAC_OCTETS = 6


def announce_addresses(
    device: str,
    addresses: Iterable[IpAddress],
    namespace: Namespace = None,
    *,
    router: bool = False,
    arp_destination: Mac | None = None,
) -> None:
    """Send gratuitous ARPs and unsolicited neighbour advertisements for *addresses*, once.

    :raises NotFound: there is no such namespace or device, or the device has no MAC address.
    :raises OperationRefused: the device does not accept frames; is it up?
    """
    check_device_name(device)
    known = tuple(addresses)

    def send() -> None:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as wire:
            wire.bind((device, 0))
            mac = _mac_of(wire)
            for address in known:
                for frame in announcement(mac, address, router, arp_destination):
                    wire.send(frame)

    if not known:
        return
    try:
        netns.run_in(namespace, send)
    except OSError as error:
        what = f"announcing {', '.join(map(str, known))} on {device}"
        raise error_from_errno(error.errno or 0, what, error.strerror or "") from error


def _mac_of(wire: socket.socket) -> Mac:
    """Return the MAC address of the device that *wire* is bound to; it may be gone meanwhile."""
    octets: bytes = wire.getsockname()[4]
    if len(octets) != MAC_OCTETS:
        raise OSError(errno.ENODEV, "it is gone, or has no MAC address")
    return Mac(octets.hex(":"))
