"""Pings under a VLAN tag, by raw frames: the kernel of the tests may have no VLAN devices."""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from ipaddress import IPv4Address

from attrs import frozen

from netfw.model.values.address import Mac
from netfw.testing.conformance.common.raw_socket import drain
from netfw.testing.conformance.common.vlan_socket import open_vlan
from netfw.testing.conformance.switch import frames
from netfw.testing.lab.instance import Instance

_BUFFER_SIZE = 1 << 20
_RESEND = 0.2
_ECHO_REPLY, _ECHO = 0, 8


@frozen(kw_only=True)
class TaggedHost:
    """An address of an instance under a tag."""

    instance: Instance
    tag: int
    mac: Mac
    address: IPv4Address

    def ping(self, target: str, seconds: float = 1.0, nested: int | None = None) -> bool:
        """Return whether *target* answers ARP and an echo request; *nested*: a tag behind it."""
        assert self.instance.device is not None
        with self.instance.call(open_vlan, self.instance.device, _BUFFER_SIZE, self.tag) as wire:
            until = time.monotonic() + seconds
            return self._ping(wire, IPv4Address(target), until, nested)

    def _ping(
        self, wire: socket.socket, target: IPv4Address, until: float, nested: int | None
    ) -> bool:
        token = os.urandom(8)
        question = frames.question(self.mac, self.address, target)
        neighbour: bytes | None = None
        while time.monotonic() < until:
            first = question if neighbour is None else self._echo(neighbour, target, token)
            tag = b"" if nested is None else struct.pack("!HH", 0x8100, nested)
            wire.send(first[:12] + tag + first[12:])
            select.select([wire], [], [], _RESEND)
            for packet in drain(wire):
                answer = frames.answer(packet, target)
                if answer is not None:
                    neighbour = frames.raw(answer)
                elif token in packet and packet[34:35] == bytes([_ECHO_REPLY]):
                    return True
        return False

    def _echo(self, to: bytes, target: IPv4Address, token: bytes) -> bytes:
        body = struct.pack("!BBHHH", _ECHO, 0, 0, 7, 1) + token
        body = body[:2] + struct.pack("!H", _checksum(body)) + body[4:]
        head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0, 64, 1, 0)
        head += self.address.packed + target.packed
        head = head[:10] + struct.pack("!H", _checksum(head)) + head[12:]
        return (to + frames.raw(self.mac) + struct.pack("!H", 0x0800) + head + body).ljust(
            60, b"\0"
        )


def _checksum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return int(~(total + (total >> 16)) & 0xFFFF)
