"""Attacks of one instance on another, for the section on security groups."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from ipaddress import IPv4Address

from netfw.cli.demo.agents import VMS
from netfw.cli.demo.report import DemoReport
from netfw.linux.sockets.arp_nd_frames import announcement
from netfw.model.values.address import Mac
from netfw.testing.conformance.common.raw_socket import drain, open_wire
from netfw.testing.lab.instance import Instance

CLAIMED = IPv4Address("10.0.0.254")
"""An address that neither instance has."""
OFFER = b"a DHCP offer of an instance"
_SERVER_PORT, _CLIENT_PORT = 67, 68
_BUFFER = 1 << 20


def demo_attacks(report: DemoReport, attacker: Instance, victim: Instance) -> None:
    """Claim an address and offer leases from an instance; the other one must receive neither."""
    report.step(
        "Attack a neighbour",
        [f"from blue1: an ARP announcement of {CLAIMED}, and a DHCP offer to everybody"],
    )
    with (
        victim.call(open_wire, "eth0", _BUFFER) as wire,
        attacker.call(open_wire, "eth0", _BUFFER) as raw,
        attacker.call(socket.socket, socket.AF_INET, socket.SOCK_DGRAM) as server,
    ):
        for frame in announcement(Mac(VMS["blue1"].mac), CLAIMED):
            raw.send(frame)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        server.bind(("", _SERVER_PORT))
        server.sendto(OFFER, ("10.0.0.255", _CLIENT_PORT))
        # What is sent after them arrives: so would they.
        passes = not attacker.ping(VMS["blue2"].address, count=3, timeout=5).lost
        received = list(drain(wire))
    report.check("blue1 still pings blue2", passes)
    report.check(f"blue2 does not see blue1 claim {CLAIMED}", not _has(received, CLAIMED.packed))
    report.check("nor the DHCP offer", not _has(received, OFFER))


def _has(frames: Iterable[bytes], content: bytes) -> bool:
    return any(content in frame for frame in frames)
