"""Replies to DHCP requests of IPv4 clients.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address
from struct import Struct
from typing import Final

from attrs import frozen

from netfw_drivers.ovs.dhcp.plan.frames import BROADCAST, parse_udp4, render_udp4
from netfw_drivers.ovs.dhcp.plan.leases import (
    Lease4,
    Leases4,
    Options,
    decode_options4,
    encode_options4,
    octets,
)

DISCOVER, OFFER, REQUEST, ACK, NAK, INFORM = 1, 2, 3, 5, 6, 8
MASK, MTU, REQUESTED, LEASE, TYPE, SERVER, WANTED, MAX_SIZE = 1, 26, 50, 51, 53, 54, 55, 57
T1, T2, CLIENT_ID, IPXE, BOOT_SERVER, END = 58, 59, 61, 175, 255, 255
_TIMES: Final = frozenset({LEASE, T1, T2})
_ESSENTIAL: Final = (LEASE, T1, T2, MASK)
_HEADER: Final = Struct("!4BIHH4s4s4s4s16s64s128s4s")
_COOKIE: Final = b"\x63\x82\x53\x63"
_ANY: Final = IPv4Address(0)
_BROADCAST_FLAG: Final = 0x8000
_LEAST, _MOST = 576, 1500
"""Limits of the size of a reply: every client accepts the former; what is larger than the MTU of
the network does not reach the client, whatever it states."""
_IP_AND_UDP: Final = 28
_SHORTEST: Final = 300


@frozen(kw_only=True)
class Request4:
    """A message of a client on the same link."""

    xid: int
    flags: int
    address: IPv4Address
    """The address that the client has, or zero."""
    chaddr: bytes
    options: Options

    @property
    def kind(self) -> int:
        """The type of the message."""
        return int.from_bytes(self.options.get(TYPE, b""), "big")

    @property
    def wanted(self) -> IPv4Address:
        """The address that the client requests, or zero."""
        value = self.options.get(REQUESTED, b"")
        return IPv4Address(value) if len(value) == 4 else self.address


def parse_request4(data: bytes) -> Request4 | None:
    """Return the request in *data*; ``None``: it is none, or a relay sent it."""
    if len(data) < _HEADER.size:
        return None
    op, kind, length, _, xid, _, flags, ciaddr, _, _, giaddr, chaddr, _, _, cookie = (
        _HEADER.unpack_from(data)
    )
    if (op, kind, length, cookie, giaddr) != (1, 1, 6, _COOKIE, _ANY.packed):
        return None
    return Request4(
        xid=xid,
        flags=flags,
        address=IPv4Address(ciaddr),
        chaddr=chaddr[:6],
        options=dict(decode_options4(data[_HEADER.size :])),
    )


@frozen(kw_only=True)
class Reply4:
    """A reply, and where to send it."""

    kind: int
    lease: Lease4
    address: IPv4Address
    """The address that the client gets, or zero."""
    destination: IPv4Address


def choose_reply4(request: Request4, leases: Leases4) -> Reply4 | None:
    """Return the reply to *request*; ``None``: none is due."""
    servers = {None, *(each.server.packed for each in leases.leases)}
    is_ours = request.chaddr == octets(leases.client) and request.options.get(SERVER) in servers
    if not leases.leases or not is_ours:
        return None
    by_address: Mapping[IPv4Address, Lease4] = {lease.address: lease for lease in leases.leases}
    lease = by_address.get(request.wanted, leases.leases[0])
    destination = _destination(request, lease)
    if request.kind == DISCOVER:
        return Reply4(kind=OFFER, lease=lease, address=lease.address, destination=destination)
    if request.kind == REQUEST and request.wanted in by_address:
        return Reply4(kind=ACK, lease=lease, address=lease.address, destination=destination)
    if request.kind == REQUEST:
        return Reply4(kind=NAK, lease=lease, address=_ANY, destination=BROADCAST)
    if request.kind == INFORM and request.address != _ANY:
        return Reply4(kind=ACK, lease=lease, address=_ANY, destination=destination)
    return None


def _destination(request: Request4, lease: Lease4) -> IPv4Address:
    """Return where the client receives its reply: at the address that it has, or will have."""
    if request.address != _ANY:
        return request.address
    return BROADCAST if request.flags & _BROADCAST_FLAG else lease.address


def render_reply4(request: Request4, reply: Reply4) -> bytes:
    """Return the message of *reply*; options that do not fit are left out, unrequested first."""
    offered = dict(reply.lease.ipxe_options if IPXE in request.options else reply.lease.options)
    boot_server = offered.pop(BOOT_SERVER, b"")
    if reply.kind == NAK:
        offered, boot_server = {}, b""
    if reply.address == _ANY:
        offered = {number: value for number, value in offered.items() if number not in _TIMES}
    head = _HEADER.pack(
        2, 1, 6, 0, request.xid, 0, request.flags,
        b"" if reply.kind == NAK else request.address.packed, reply.address.packed,
        boot_server[:4], b"", request.chaddr, b"", b"", _COOKIE,
    )  # fmt: skip
    options = encode_options4(_fitting(request, reply, offered))
    return (head + options + bytes((END,))).ljust(_SHORTEST, b"\0")


def _fitting(request: Request4, reply: Reply4, offered: Options) -> Iterator[tuple[int, bytes]]:
    stated = int.from_bytes(request.options.get(MAX_SIZE, b""), "big")
    mtu = int.from_bytes(offered.get(MTU, b""), "big") or _MOST
    left = max(min(stated, mtu, _MOST), _LEAST) - _IP_AND_UDP - _HEADER.size - 1
    own = {TYPE: bytes((reply.kind,)), SERVER: reply.lease.server.packed}
    if CLIENT_ID in request.options:
        own[CLIENT_ID] = request.options[CLIENT_ID]  # RFC 6842
    order = dict.fromkeys((*own, *_ESSENTIAL, *request.options.get(WANTED, b""), *offered))
    values = {**offered, **own}
    for number in order:
        value = values.get(number, b"")
        if value and len(value) + 2 <= left:
            left -= len(value) + 2
            yield number, value


def answer4(frame: bytes, leases: Leases4) -> bytes | None:
    """Return the frame that answers *frame*; ``None``: it gets no answer."""
    datagram = parse_udp4(frame)
    request = None if datagram is None else parse_request4(datagram.payload)
    reply = None if request is None else choose_reply4(request, leases)
    if request is None or reply is None:
        return None
    message = render_reply4(request, reply)
    server = reply.lease.server
    return render_udp4(message, leases.server, leases.client, server, reply.destination)
