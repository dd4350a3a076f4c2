"""Small pure parts of the toolbox: parameters, IPv6, errors, frames, messages."""

from __future__ import annotations

import errno
import struct
from ipaddress import ip_address, ip_interface
from socket import AF_INET, AF_INET6

import pytest

from netfw.errors import (
    BackendBroken,
    BackendUnavailable,
    Conflict,
    NotFound,
    OperationRefused,
)
from netfw.linux.errno_errors import error_from_errno
from netfw.linux.ip import netlink_decode
from netfw.linux.ip.ipv6 import why_no_ipv6
from netfw.linux.ip.sysctl_names import device_parameter, path_of
from netfw.linux.netlink.messages import render_attribute
from netfw.linux.sockets.arp_nd_frames import announcement
from netfw.model.values.address import Mac

MAC = Mac("fa:16:3e:00:00:01")


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("net.ipv4.ip_forward", "/proc/sys/net/ipv4/ip_forward"),
        ("net/ipv4/conf/eth0.1/forwarding", "/proc/sys/net/ipv4/conf/eth0.1/forwarding"),
        ("net.ipv4.conf.eth0/1.forwarding", "/proc/sys/net/ipv4/conf/eth0.1/forwarding"),
        (device_parameter("ipv6", "a.b", "mtu"), "/proc/sys/net/ipv6/conf/a.b/mtu"),
    ],
)
def test_parameters_are_named_as_sysctl_names_them(name, path):
    assert path_of(name) == path


@pytest.mark.spec("DRV-46")
def test_ipv6_is_missing_from_the_kernel_or_switched_off_or_there():
    assert "no IPv6" in (why_no_ipv6(False, "0") or "")
    assert "no IPv6" in (why_no_ipv6(False, None) or "")
    assert why_no_ipv6(True, None) is None
    assert "disable_ipv6=1" in (why_no_ipv6(True, "1") or "")
    assert why_no_ipv6(True, "0") is None


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENODEV, NotFound),
        (errno.ESRCH, NotFound),
        (errno.EEXIST, Conflict),
        (errno.EPERM, BackendBroken),
        (errno.EROFS, BackendBroken),
        (errno.EOPNOTSUPP, BackendBroken),
        (errno.ENOBUFS, BackendUnavailable),
        (errno.EINVAL, OperationRefused),
        (errno.EBUSY, OperationRefused),
    ],
)
def test_the_kernels_errors_become_ours_and_name_the_operation(number, kind):
    error = error_from_errno(number, "ip link add a type veth")
    assert type(error) is kind
    assert "ip link add a type veth: " in str(error)
    assert "its own words" in str(error_from_errno(number, "something", "its own words"))


def test_a_gratuitous_arp_is_a_request_and_a_reply():
    request, reply = announcement(MAC, ip_address("10.0.0.2"))
    assert request.hex(" ") == (
        "ff ff ff ff ff ff fa 16 3e 00 00 01 08 06"
        " 00 01 08 00 06 04 00 01 fa 16 3e 00 00 01 0a 00 00 02 00 00 00 00 00 00 0a 00 00 02"
    )
    assert reply.hex(" ") == (
        "ff ff ff ff ff ff fa 16 3e 00 00 01 08 06"
        " 00 01 08 00 06 04 00 02 fa 16 3e 00 00 01 0a 00 00 02 fa 16 3e 00 00 01 0a 00 00 02"
    )


def test_a_neighbour_advertisement_overrides_and_names_the_target():
    (host,) = announcement(MAC, ip_address("fd00::2"))
    (router,) = announcement(MAC, ip_address("fd00::2"), router=True)
    assert host[:14].hex(" ") == "33 33 00 00 00 01 fa 16 3e 00 00 01 86 dd"
    assert (host[21], host[54]) == (255, 136)  # hop limit, type
    assert (host[58], router[58]) == (0x20, 0xA0)  # flags
    assert host[62:78] == ip_address("fd00::2").packed
    assert host[78:].hex(" ") == "02 01 fa 16 3e 00 00 01"


@pytest.mark.parametrize(
    ("cidr", "origin", "automatic"),
    [
        ("fe80::1/64", 3, True),
        ("fe80::1/64", 0, False),
        ("fe80::1/64", None, True),
        ("fe80::a9fe:a9fe/128", None, False),
        ("fd00::1/64", 3, False),
        ("169.254.169.254/16", None, False),
    ],
)
def test_link_local_address_of_the_kernel_is_distinguished_from_others(cidr, origin, automatic):
    interface = ip_interface(cidr)
    family = AF_INET if interface.version == 4 else AF_INET6
    header = struct.pack("=4BI", family, interface.network.prefixlen, 0x80, 253, 1)
    attributes = render_attribute(1, interface.ip.packed)
    if origin is not None:
        attributes += render_attribute(11, bytes([origin]))
    message = header + attributes + render_attribute(8, struct.pack("=I", 0x80))
    found = netlink_decode.address(message, {1: "e0"}.get)
    assert found is not None
    assert (found.automatic, found.permanent) == (automatic, True)
    assert netlink_decode.address(message, {}.get) is None
