"""A server, one host with its L2 agent and its DHCP agent, and who asks for leases there.

Whoever asks is an instance that is plugged and wired before anything is measured, whose port may
say what it likes: it asks in the name of ports that are plugged nowhere.  So neither plugging nor
the pauses of a DHCP client are in what is measured.
"""

from __future__ import annotations

import json
import os
import random
import select
import socket
import struct
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from benchmarks.l2_rig import environment
from benchmarks.load import Client
from netfw.testing.lab.agent import PrivateAgent
from netfw.testing.lab.host import Host
from netfw.testing.lab.instance import Instance, Plug
from netfw.testing.lab.lab import Lab
from netfw.testing.lab.services.server import PrivateNetfw

PATIENCE = 60.0
OPTIONS = {
    "quotas": {"quota_network": -1, "quota_subnet": -1, "quota_port": -1},
    "scheduling": {"agent_down_time": 3600},
}
_AGAIN = 0.01
"""Seconds after which it is asked again."""
_BULK = 1000
_COOKIE = bytes([99, 130, 83, 99])
_DISCOVER, _OFFER, _REQUEST, _ACK = 1, 2, 3, 5
_TYPE, _ADDRESS, _SERVER, _END = 53, 50, 54, 255
_BROADCAST = 0x8000
_EVERYBODY = ("255.255.255.255", 67)
_INSTANCES = Path("/proc/sys/fs/inotify/max_user_instances")


class Rig:
    """The server's API, and the host."""

    def __init__(self, host: Host, server: PrivateNetfw, directory: Path) -> None:
        self.host, self.api = host, server
        self.client = Client(f"unix://{server.socket}")
        transport = {"connect": f"unix:{server.messages}"}
        switch = {"ovsdb_connection": host.ovs.remote, "ovsdb_timeout": 60}
        tunnels = {
            "datapath_type": "netdev",
            "local_ip": host.address.ip,
            "tunnel_types": "vxlan",
        }
        asking = {"agent": {"state_source": "server"}, "socket": transport}
        self.l2 = PrivateAgent(
            host,
            directory / "l2",
            "netfw.cli.agents.l2",
            {**asking, "openvswitch": {**switch, **tunnels}},
        )
        self.dhcp = PrivateAgent(
            host,
            directory / "dhcp",
            "netfw.cli.agents.dhcp",
            {**asking, "openvswitch": switch, "DEFAULT": {"log_file": directory / "dhcp.log"}},
        )

    def network(self, number: int) -> str:
        """A network with room for sixty thousand ports, which is served here."""
        made = self.client.made("/networks", {"network": {"name": f"net{number}"}})
        cidr = f"10.{number}.0.0/16"
        subnet = {"network_id": made["id"], "ip_version": 4, "cidr": cidr}
        self.client.made("/subnets", {"subnet": subnet})
        return str(made["id"])

    def ports(self, network: str, count: int) -> list[dict[str, Any]]:
        """So many ports, with as few requests as can be."""
        made: list[dict[str, Any]] = []
        while len(made) < count:
            some = [{"network_id": network}] * min(_BULK, count - len(made))
            status, content = self.client.request("POST", "/ports", {"ports": some})
            if status != 201:
                raise RuntimeError(f"ports: {status} {content[:300]!r}")
            made += json.loads(content)["ports"]
        return made

    def guest(self, network: str, name: str) -> Guest:
        """Who asks on a network."""
        body = {
            "network_id": network,
            "binding:host_id": self.host.name,
            "port_security_enabled": False,
        }
        port = self.client.made("/ports", {"port": body})
        plug = Plug(
            bridge="br-int",
            device=f"tap{port['id'][:11]}",
            mac=port["mac_address"],
            mtu=1450,
            external_ids={"iface-id": port["id"], "attached-mac": port["mac_address"]},
        )
        guest = Guest(self.host.instance(name, plug))
        guest.lease(port["mac_address"], port["fixed_ips"][0]["ip_address"])
        return guest

    def files(self, network: str) -> Path:
        """What dnsmasq reads and writes for a network."""
        return self.dhcp.directory / "dhcp" / network

    def server(self, network: str) -> Path | None:
        """The process of its dnsmasq, in ``/proc``, if one runs."""
        try:
            found = Path("/proc", (self.files(network) / "pid").read_text().strip())
        except FileNotFoundError:
            return None
        return found if found.name.isdigit() and found.exists() else None

    def servers(self) -> dict[str, Path]:
        """The dnsmasq of each network that has one."""
        folders = (self.dhcp.directory / "dhcp").glob("*/pid")
        found = {path.parent.name: self.server(path.parent.name) for path in folders}
        return {network: process for network, process in found.items() if process is not None}

    def cpu(self) -> float:
        """Seconds of CPU that the DHCP agent has used."""
        return cpu(Path("/proc", str(self.dhcp.pid)))


def cpu(process: Path) -> float:
    """Seconds of CPU that the threads of a process have used."""
    threads = (process / "task").glob("*/schedstat")
    return sum(int(path.read_text().split()[0]) for path in threads) / 1e9


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
        deadline = time.monotonic() + PATIENCE
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
        raise RuntimeError(f"{mac} got no answer in {PATIENCE:g} s")


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


@contextmanager
def rig() -> Iterator[Rig]:
    """All of it, ready, and with nothing in it."""
    before = dict(os.environ)
    os.environ.update(environment())
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        with tempfile.TemporaryDirectory(prefix="bench-dhcp-", dir="/var/tmp") as folder:
            Path(folder).chmod(0o755)  # dnsmasq reads as a user who may do nothing else
            with (
                PrivateNetfw(Path(folder) / "server", OPTIONS) as server,
                Lab(hosts=1, bridges=["br-int"]) as lab,
            ):
                (host,) = lab.hosts.values()
                made = Rig(host, server, Path(folder))
                try:
                    made.l2.start()
                    made.dhcp.start()
                    yield made
                finally:
                    made.dhcp.stop()
                    made.l2.stop()
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def many_watchers(count: int) -> Iterator[None]:
    """Have the kernel allow so many dnsmasq: each needs an inotify instance."""
    former = _INSTANCES.read_text()
    _INSTANCES.write_text(str(max(count, int(former))))
    try:
        yield
    finally:
        _INSTANCES.write_text(former)
