"""A server, one host with its L2 agent and its DHCP agent, and who asks for leases there.

Whoever asks is an instance that is plugged and wired before anything is measured, whose port may
say what it likes: it asks in the name of ports that are plugged nowhere.  So neither plugging nor
the pauses of a DHCP client are in what is measured.
"""

from __future__ import annotations

import random
import select
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from benchmarks.service_rig import ServiceRig, service_rig
from netfw.testing.lab.host import Host
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.services.server import PrivateNetfw

TIMEOUT = 60.0
QUOTAS = ("network", "subnet", "port")
_AGAIN = 0.01
"""Seconds after which it is asked again."""
_COOKIE = bytes([99, 130, 83, 99])
_DISCOVER, _OFFER, _REQUEST, _ACK = 1, 2, 3, 5
_TYPE, _ADDRESS, _SERVER, _END = 53, 50, 54, 255
_BROADCAST = 0x8000
_EVERYBODY = ("255.255.255.255", 67)
_INSTANCES = Path("/proc/sys/fs/inotify/max_user_instances")


class Rig(ServiceRig):
    """The server's API, and the host."""

    def __init__(self, hosts: Sequence[Host], server: PrivateNetfw, directory: Path) -> None:
        options = {"DEFAULT": {"log_file": directory / "dhcp.log"}}
        super().__init__(hosts, server, directory, "netfw.cli.agents.dhcp", options)
        self.dhcp = self.agent

    def network(self, number: int) -> str:
        """Create a network for sixty thousand ports; its DHCP is served here."""
        made = self.client.create("/networks", {"network": {"name": f"net{number}"}})
        self.create_subnet(made["id"], f"10.{number}.0.0/16")
        return str(made["id"])

    def ports(self, network: str, count: int) -> list[dict[str, Any]]:
        """Create ports with few requests."""
        return self.create_many("ports", [{"network_id": network}] * count)

    def guest(self, network: str, name: str) -> Guest:
        """Plug an instance that requests leases on a network."""
        port, instance = self.plug(name, network)
        guest = Guest(instance)
        guest.lease(port["mac_address"], port["fixed_ips"][0]["ip_address"])
        return guest

    def files(self, network: str) -> Path:
        """Return the directory of the files of dnsmasq for a network."""
        return self.dhcp.directory / "dhcp" / network

    def dnsmasq(self, network: str) -> Path | None:
        """Return the process of its dnsmasq, in ``/proc``, if one runs."""
        try:
            found = Path("/proc", (self.files(network) / "pid").read_text().strip())
        except FileNotFoundError:
            return None
        return found if found.name.isdigit() and found.exists() else None

    def all_dnsmasq(self) -> dict[str, Path]:
        """Return the dnsmasq of each network that has one."""
        folders = (self.dhcp.directory / "dhcp").glob("*/pid")
        found = {path.parent.name: self.dnsmasq(path.parent.name) for path in folders}
        return {network: process for network, process in found.items() if process is not None}


class Guest:
    """Asks for leases by plain sockets."""

    def __init__(self, instance: Instance) -> None:
        self._socket = instance.call(_open, instance.device or "")

    def lease(self, mac: str, address: str) -> float:
        """Ask in the name of *mac* until it has *address*; when that was.

        :raises RuntimeError: it gets none, or another one.
        """
        number, chaddr = random.getrandbits(32), bytes.fromhex(mac.replace(":", ""))
        wanted = IPv4Address(address)
        deadline = time.monotonic() + TIMEOUT
        asking = _packet(number, chaddr, bytes([_TYPE, 1, _DISCOVER]))
        awaited = _OFFER
        while time.monotonic() < deadline:
            self._socket.sendto(asking, _EVERYBODY)
            until_again = time.monotonic() + _AGAIN
            while (left := until_again - time.monotonic()) > 0:
                if not select.select([self._socket], [], [], left)[0]:
                    continue
                answer = _Answer(self._socket.recv(2000))
                if answer.number != number or answer.kind != awaited:
                    continue
                if answer.address != wanted:
                    raise RuntimeError(f"{mac} is told {answer.address}, and not {wanted}")
                if awaited == _ACK:
                    return time.monotonic()
                awaited = _ACK
                options = bytes([_TYPE, 1, _REQUEST, _ADDRESS, 4]) + wanted.packed
                options += bytes([_SERVER, 4]) + answer.server
                asking = _packet(number, chaddr, options)
                self._socket.sendto(asking, _EVERYBODY)
                until_again = time.monotonic() + _AGAIN
        raise RuntimeError(f"{mac} got no answer in {TIMEOUT:g} s")


class _Answer:
    def __init__(self, packet: bytes) -> None:
        (self.number,) = struct.unpack_from("!I", packet, 4)
        self.address = IPv4Address(packet[16:20])
        options = dict(_options(packet[240:]))
        self.kind = options.get(_TYPE, b"\0")[0]
        self.server = options.get(_SERVER, b"")


def _options(words: bytes) -> Iterator[tuple[int, bytes]]:
    while words and words[0] != _END:
        if words[0]:
            yield words[0], words[2 : 2 + words[1]]
            words = words[2 + words[1] :]
        else:
            words = words[1:]


def _packet(number: int, chaddr: bytes, options: bytes) -> bytes:
    head = struct.pack("!4BIHH16x16s192x", 1, 1, 6, 0, number, 0, _BROADCAST, chaddr)
    return head + _COOKIE + options + bytes([_END])


def _open(device: str) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
    made.bind(("0.0.0.0", 68))
    return made


def rig() -> AbstractContextManager[Rig]:
    """Start all of it, without networks."""
    return service_rig(Rig, "dhcp", QUOTAS)


@contextmanager
def many_watchers(count: int) -> Iterator[None]:
    """Have the kernel allow so many dnsmasq: each needs an inotify instance."""
    former = _INSTANCES.read_text()
    _INSTANCES.write_text(str(max(count, int(former))))
    try:
        yield
    finally:
        _INSTANCES.write_text(former)
