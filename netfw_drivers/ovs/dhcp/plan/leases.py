"""Leases of a port as values and as bytes, which the flows of the port carry.  Pure.

The switch returns the bytes with each request: the answer depends on nothing else, so an agent that
has just started answers from the flows that it finds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address
from struct import Struct
from typing import Final

from attrs import frozen

from netfw.model.values.address import Mac

DHCPV4, DHCPV6, ADVERTISEMENT = 4, 6, 134
"""The first byte: the protocol of the request."""
_HEAD: Final = Struct("!B6s6s")
_LEASE4: Final = Struct("!4s4sHH")
_LEASES6: Final = Struct("!IIIB")
_OPTION6: Final = Struct("!HH")

Options = Mapping[int, bytes]
"""Encoded values by number."""


@frozen(kw_only=True)
class Lease4:
    """An IPv4 address of a port, the server that offers it, and the options with it."""

    address: IPv4Address
    server: IPv4Address
    options: Options
    ipxe_options: Options
    """The options for clients that boot by iPXE."""


@frozen(kw_only=True)
class Leases4:
    """The IPv4 leases of a port."""

    client: Mac
    server: Mac
    leases: tuple[Lease4, ...]


@frozen(kw_only=True)
class Leases6:
    """The IPv6 addresses of a port, if DHCPv6 provides them, and the options of DHCPv6."""

    client: Mac
    server: Mac
    addresses: tuple[IPv6Address, ...]
    seconds: int
    renewal: int
    rebinding: int
    options: Options


@frozen(kw_only=True)
class PortAdvertisement:
    """The router advertisement for a port: the ICMPv6 message without its checksum."""

    client: Mac
    server: Mac
    message: bytes


Answers = Leases4 | Leases6 | PortAdvertisement


def encode_answers(answers: Answers) -> bytes:
    """Return *answers* as bytes."""
    match answers:
        case Leases4():
            kind, body = DHCPV4, b"".join(map(_encode_lease4, answers.leases))
        case Leases6():
            times = (answers.seconds, answers.renewal, answers.rebinding)
            packed = b"".join(address.packed for address in answers.addresses)
            head = _LEASES6.pack(*times, len(answers.addresses))
            kind, body = DHCPV6, head + packed + encode_options6(answers.options.items())
        case PortAdvertisement():
            kind, body = ADVERTISEMENT, answers.message
    return _HEAD.pack(kind, octets(answers.client), octets(answers.server)) + body


def decode_answers(data: bytes) -> Answers | None:
    """Return the answers that *data* encodes; ``None``: it encodes none."""
    if len(data) < _HEAD.size:
        return None
    kind, client, server = _HEAD.unpack_from(data)
    macs, body = {"client": Mac(client.hex(":")), "server": Mac(server.hex(":"))}, data[13:]
    if kind == DHCPV4:
        return Leases4(**macs, leases=tuple(_decode_leases4(body)))
    if kind == DHCPV6 and len(body) >= _LEASES6.size:
        return _decode_leases6(macs, body)
    return PortAdvertisement(**macs, message=body) if kind == ADVERTISEMENT else None


def octets(mac: Mac) -> bytes:
    """Return the six bytes of *mac*."""
    return bytes.fromhex(mac.replace(":", ""))


def encode_options4(options: Iterable[tuple[int, bytes]]) -> bytes:
    """Return options as DHCP sends them; a value has at most 255 bytes."""
    return b"".join(bytes((number, len(value))) + value for number, value in options)


def decode_options4(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the options in *data*, up to the end option or to what is cut short."""
    at = 0
    while at + 1 < len(data) and data[at] != 255:
        if data[at] == 0:
            at += 1
            continue
        end = at + 2 + data[at + 1]
        if end > len(data):
            return
        yield data[at], data[at + 2 : end]
        at = end


def encode_options6(options: Iterable[tuple[int, bytes]]) -> bytes:
    """Return options as DHCPv6 sends them."""
    return b"".join(_OPTION6.pack(number, len(value)) + value for number, value in options)


def decode_options6(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the options in *data*, up to what is cut short."""
    at = 0
    while at + _OPTION6.size <= len(data):
        number, length = _OPTION6.unpack_from(data, at)
        at += _OPTION6.size
        if at + length > len(data):
            return
        yield number, data[at : at + length]
        at += length


def _encode_lease4(lease: Lease4) -> bytes:
    options, ipxe = (_store_options4(each) for each in (lease.options, lease.ipxe_options))
    head = _LEASE4.pack(lease.address.packed, lease.server.packed, len(options), len(ipxe))
    return head + options + ipxe


def _decode_leases4(data: bytes) -> Iterator[Lease4]:
    at = 0
    while at + _LEASE4.size <= len(data):
        address, server, length, ipxe_length = _LEASE4.unpack_from(data, at)
        at += _LEASE4.size
        options, ipxe = data[at : at + length], data[at + length : at + length + ipxe_length]
        at += length + ipxe_length
        yield Lease4(
            address=IPv4Address(address),
            server=IPv4Address(server),
            options=dict(_load_options4(options)),
            ipxe_options=dict(_load_options4(ipxe)),
        )


def _store_options4(options: Options) -> bytes:
    """Return options in the order of their numbers; 255 is one of them here, and not the end."""
    return encode_options4(sorted(options.items()))


def _load_options4(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 1 < len(data):
        end = at + 2 + data[at + 1]
        yield data[at], data[at + 2 : end]
        at = end


def _decode_leases6(macs: Mapping[str, Mac], body: bytes) -> Leases6:
    seconds, renewal, rebinding, count = _LEASES6.unpack_from(body)
    end = _LEASES6.size + 16 * count
    packed = body[_LEASES6.size : end]
    return Leases6(
        client=macs["client"],
        server=macs["server"],
        addresses=tuple(IPv6Address(packed[at : at + 16]) for at in range(0, len(packed), 16)),
        seconds=seconds,
        renewal=renewal,
        rebinding=rebinding,
        options=dict(decode_options6(body[end:])),
    )
