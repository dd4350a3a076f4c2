"""Replies to DHCPv6 requests, and to router solicitations.  Pure."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from ipaddress import IPv6Address
from struct import Struct
from typing import Final, cast

from attrs import frozen

from netfw_drivers.ovs.dhcp.plan.frames import (
    parse_icmpv6,
    parse_udp6,
    render_icmpv6,
    render_udp6,
)
from netfw_drivers.ovs.dhcp.plan.leases import (
    Leases6,
    PortAdvertisement,
    decode_options6,
    encode_options6,
    octets,
)


class Message6(enum.IntEnum):
    """The types of messages."""

    SOLICIT = 1
    ADVERTISE = 2
    REQUEST = 3
    CONFIRM = 4
    RENEW = 5
    REBIND = 6
    REPLY = 7
    RELEASE = 8
    DECLINE = 9
    INFORMATION_REQUEST = 11


CLIENT_ID, SERVER_ID, IA_NA, IA_ADDRESS, PREFERENCE, STATUS, RAPID_COMMIT = 1, 2, 3, 5, 7, 13, 14
WANTED: Final = 6
"""The option that lists those which the client requests."""
SUCCESS, NO_ADDRESSES, NOT_ON_LINK = 0, 2, 4
_DUID_LL: Final = bytes((0, 3, 0, 1))
"""A DUID of the type link-layer address, on Ethernet."""
_IA, _ADDRESS, _STATUS = Struct("!III"), Struct("!16sII"), Struct("!H")
_HEAD, _OPTION_HEAD = 4, 4
_MOST: Final = 1280 - 40 - 8
"""Octets of a message that every link of IPv6 carries; a reply is one packet."""
_FIRST: Final = 255
"""The preference by which a client does not wait for other servers."""
_TO_THIS_SERVER: Final = frozenset(
    {Message6.REQUEST, Message6.RENEW, Message6.RELEASE, Message6.DECLINE}
)
_TO_ANY_SERVER: Final = frozenset({Message6.SOLICIT, Message6.CONFIRM, Message6.REBIND})
_GIVING: Final = frozenset({Message6.SOLICIT, Message6.REQUEST, Message6.RENEW, Message6.REBIND})
_ALL_NODES: Final = IPv6Address("ff02::1")
_SOLICITATION: Final = 133

Option6 = tuple[int, bytes]


@frozen(kw_only=True)
class Request6:
    """A message of a client on the same link."""

    kind: Message6
    xid: bytes
    options: tuple[Option6, ...]

    def first(self, number: int) -> bytes | None:
        """Return the value of an option; ``None``: it is missing."""
        return next((value for each, value in self.options if each == number), None)

    def associations(self) -> Iterator[tuple[bytes, tuple[IPv6Address, ...]]]:
        """Yield the id of each identity association, and the addresses that the client has."""
        for number, value in self.options:
            if number == IA_NA and len(value) >= _IA.size:
                options = decode_options6(value[_IA.size :])
                held = [each for code, each in options if code == IA_ADDRESS and len(each) >= 16]
                yield value[:4], tuple(IPv6Address(each[:16]) for each in held)


def parse_request6(data: bytes) -> Request6 | None:
    """Return the request in *data*; ``None``: it is none, or a relay sent it."""
    if len(data) < 4 or data[0] not in {*_TO_THIS_SERVER, *_TO_ANY_SERVER, 11}:
        return None
    options = tuple(decode_options6(data[4:]))
    return Request6(kind=Message6(data[0]), xid=data[1:4], options=options)


def render_reply6(request: Request6, leases: Leases6) -> bytes | None:
    """Return the message that answers *request*; ``None``: none is due."""
    client, server = request.first(CLIENT_ID), _DUID_LL + octets(leases.server)
    addressed = request.first(SERVER_ID)
    is_information = request.kind is Message6.INFORMATION_REQUEST
    if is_information:
        is_ours = addressed in (None, server)
    else:
        is_ours = client is not None and bool(leases.addresses)
        is_ours &= addressed == (server if request.kind in _TO_THIS_SERVER else None)
    if not is_ours:
        return None
    rapid = request.kind is Message6.SOLICIT and request.first(RAPID_COMMIT) is not None
    is_advertised = request.kind is Message6.SOLICIT and not rapid
    options: list[Option6] = [] if client is None else [(CLIENT_ID, client)]
    options.append((SERVER_ID, server))
    if request.kind in _GIVING:
        options += _given(request, leases)
        options += [(PREFERENCE, bytes((_FIRST,)))] if is_advertised else []
        options += [(RAPID_COMMIT, b"")] if rapid else []
    elif not is_information:
        status = _confirmed(request, leases)
        if status is None:
            return None
        options.append((STATUS, _STATUS.pack(status)))
    if request.kind in _GIVING or is_information:
        options += _fitting(request, leases, _MOST - _HEAD - len(encode_options6(options)))
    kind = Message6.ADVERTISE if is_advertised else Message6.REPLY
    return bytes((kind,)) + request.xid + encode_options6(options)


def _fitting(request: Request6, leases: Leases6, left: int) -> Iterator[Option6]:
    """Yield the options of the port that fit into *left* octets, requested ones first."""
    wanted = request.first(WANTED) or b""
    requested = {int.from_bytes(wanted[at : at + 2]) for at in range(0, len(wanted), 2)}
    ordered = sorted(leases.options, key=lambda number: (number not in requested, number))
    for number in ordered:
        value = leases.options[number]
        if len(value) + _OPTION_HEAD <= left:
            left -= len(value) + _OPTION_HEAD
            yield number, value


def _confirmed(request: Request6, leases: Leases6) -> int | None:
    """Return the status of a message that requests no address; ``None``: no reply is due."""
    if request.kind is not Message6.CONFIRM:
        return SUCCESS
    held = {address for _, addresses in request.associations() for address in addresses}
    if not held:
        return None
    return SUCCESS if held <= set(leases.addresses) else NOT_ON_LINK


def _given(request: Request6, leases: Leases6) -> Iterator[Option6]:
    """Yield the identity associations: the first one gets all addresses of the port.

    Addresses that the client has and the port has not end at once.
    """
    for at, (id, held) in enumerate(request.associations()):
        given = leases.addresses if at == 0 else ()
        parts = [(IA_ADDRESS, _address(each, leases.seconds)) for each in given]
        parts += [(IA_ADDRESS, _address(each, 0)) for each in held if each not in given]
        if not given:
            parts.append((STATUS, _STATUS.pack(NO_ADDRESSES)))
        head = _IA.pack(int.from_bytes(id, "big"), leases.renewal, leases.rebinding)
        yield IA_NA, head + encode_options6(parts)


def _address(address: IPv6Address, seconds: int) -> bytes:
    return _ADDRESS.pack(address.packed, seconds, seconds)


def answer6(frame: bytes, leases: Leases6) -> bytes | None:
    """Return the frame that answers *frame*; ``None``: it gets no answer."""
    datagram = parse_udp6(frame)
    if datagram is None or datagram.mac != octets(leases.client):
        return None
    request = parse_request6(datagram.payload)
    message = None if request is None else render_reply6(request, leases)
    if message is None:
        return None
    return render_udp6(message, leases.server, leases.client, cast(IPv6Address, datagram.source))


def answer_solicitation(frame: bytes, advertisement: PortAdvertisement) -> bytes | None:
    """Return the frame that answers a router solicitation; ``None``: *frame* is none."""
    datagram = parse_icmpv6(frame)
    if datagram is None or datagram.payload[:1] != bytes((_SOLICITATION,)):
        return None
    source = cast(IPv6Address, datagram.source)
    destination = _ALL_NODES if source.is_unspecified else source
    server, client = advertisement.server, advertisement.client
    return render_icmpv6(advertisement.message, server, client, destination)


@frozen
class AdvertisedPrefix:
    """A prefix, and whether hosts derive their addresses from it."""

    network: bytes
    length: int
    autonomous: bool


def render_advertisement(
    prefixes: Iterable[AdvertisedPrefix], *, managed: bool, other: bool, mtu: int, mac: bytes
) -> bytes:
    """Return a router advertisement without its checksum, by which its sender is no router.

    Prefixes last for ever, since nothing repeats the advertisement.
    """
    flags = (0x80 if managed else 0) | (0x40 if other else 0)
    head = Struct("!BBHBBHII").pack(134, 0, 0, 64, flags, 0, 0, 0)
    options = [b"\x01\x01" + mac]
    if mtu >= 1280:
        options.append(Struct("!BBHI").pack(5, 1, 0, mtu))
    for each in prefixes:
        on_link = 0x80 | (0x40 if each.autonomous else 0)
        forever = 0xFFFFFFFF
        options.append(
            Struct("!BBBBIII").pack(3, 4, each.length, on_link, forever, forever, 0) + each.network
        )
    return head + b"".join(options)
