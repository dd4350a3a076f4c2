"""Namespaces with a guest each, for suites of metadata drivers on a real kernel."""

from __future__ import annotations

import os
import re
import resource
import socket
import subprocess
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv6Address, ip_address

from attrs import evolve

from netfw.drivers.metadata import MetadataProxy
from netfw.linux.netns import run_in
from netfw.model.values.address import IpAddress

OWN = IPv4Address("10.9.8.2")
"""The other address of the proxy's namespace."""
CLIENT = {4: ip_address("10.9.8.5"), 6: ip_address("fe80::5")}
_EVERYWHERE = IPv4Address("0.0.0.0")
_TIMEOUT = 15.0
"""How long to wait for the first word of an answer, in seconds."""
_SILENCE = 0.5
"""When to stop listening to a proxy that has answered and does not hang up."""

_SETUP = """
link add {device} netns {name} type veth peer eth0 netns {name}-guest
-n {name} link set {device} addrgenmode none
-n {name} link set {device} up
-n {name} addr add 10.9.8.2/24 dev {device}
-n {name} addr add 169.254.169.254/32 dev {device}
-n {name} addr add fd00::80/64 dev {device} nodad
-n {name} addr add fe80::a9fe:a9fe/64 dev {device} nodad
-n {name}-guest link set eth0 addrgenmode none
-n {name}-guest link set eth0 up
-n {name}-guest addr add 10.9.8.5/24 dev eth0
-n {name}-guest addr add fe80::5/64 dev eth0 nodad
-n {name}-guest route add 169.254.169.254 via 10.9.8.2
"""


def ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
    return done.stdout


class ClientNetns:
    """A namespace for a proxy, and one beside it for a guest that is connected to *device*."""

    def __init__(self, name: str, device: str) -> None:
        self.name, self.device = name, device
        self.make()

    def make(self) -> None:
        for name in (self.name, f"{self.name}-guest"):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        for line in _SETUP.format(name=self.name, device=self.device).split("\n"):
            if line:
                ip(*line.split())

    def remove(self) -> None:
        for name in (self.name, f"{self.name}-guest"):
            ip("netns", "delete", name)

    def renew(self) -> None:
        """Recreate the namespace under its name."""
        self.remove()
        self.make()

    def connect(self, address: IpAddress, port: int) -> socket.socket:
        """Open a connection from the guest."""
        return run_in(f"{self.name}-guest", _connect, address, port)

    def ask(self, address: IpAddress, port: int, request: bytes) -> bytes:
        """Return the answer to *request*; empty if no process listens."""
        try:
            connection = self.connect(address, port)
        except OSError:
            return b""
        with connection:
            return _exchange(connection, request)

    def listeners(self) -> list[tuple[IpAddress, str | None, int]]:
        """Return the listeners of other processes by ``ss``: address, device and port."""
        output = ip("netns", "exec", self.name, "ss", "-Hltnp")
        lines = (line for line in output.splitlines() if f"pid={os.getpid()}," not in line)
        return [_listener(line.split()[3]) for line in lines]


def _connect(address: IpAddress, port: int) -> socket.socket:
    if isinstance(address, IPv6Address) and address.is_link_local:
        return socket.create_connection((f"{address}%eth0", port), timeout=5)
    return socket.create_connection((str(address), port), timeout=5)


def _exchange(connection: socket.socket, request: bytes) -> bytes:
    answer = b""
    try:
        connection.sendall(request)
        connection.settimeout(_TIMEOUT)
        while more := connection.recv(65536):
            answer += more
            connection.settimeout(_SILENCE)
    except OSError:
        pass  # closed early, or silent
    return answer


def _listener(text: str) -> tuple[IpAddress, str | None, int]:
    """Parse ``169.254.169.254:80``, ``[fe80::1]%eth0:80`` or ``*:80``."""
    place, _, port = text.rpartition(":")
    host, _, device = place.partition("%")
    address = ip_address("::") if host == "*" else ip_address(host.strip("[]"))
    return address, device or None, int(port)


class MetadataLab:
    """Namespaces with a guest, by name, and foreign listeners in them."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._rooms: dict[str, ClientNetns] = {}
        self._foreign_listeners: dict[str, socket.socket] = {}

    def open(self, name: str) -> ClientNetns:
        if name not in self._rooms:
            self._rooms[name] = ClientNetns(name, self._device)
        return self._rooms[name]

    def close(self) -> None:
        self.expel()
        for room in self._rooms.values():
            room.remove()
        self._rooms.clear()

    def settle(self, proxy: MetadataProxy) -> None:
        """Make a foreign process listen where *proxy* is to listen, with a shared port."""
        address = str((proxy.addresses or (_EVERYWHERE,))[0])
        self._foreign_listeners[proxy.netns] = run_in(proxy.netns, _listen, address, proxy.port)

    def is_settled(self, proxy: MetadataProxy) -> bool:
        """Return whether a connection there reaches the foreign listener."""
        foreign_listener = self._foreign_listeners[proxy.netns]
        address = listen_points(proxy)[0]
        with self.open(proxy.netns).connect(address, proxy.port) as client:
            connection, source = foreign_listener.accept()
            connection.close()
            return bool(source[1] == client.getsockname()[1])

    def expel(self) -> None:
        for foreign_listener in self._foreign_listeners.values():
            foreign_listener.close()
        self._foreign_listeners.clear()


def _listen(address: str, port: int) -> socket.socket:
    foreign_listener = socket.socket()
    foreign_listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    foreign_listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    foreign_listener.bind((address, port))
    foreign_listener.listen()
    foreign_listener.settimeout(5)
    return foreign_listener


def listen_points(proxy: MetadataProxy) -> list[IpAddress]:
    """Return the addresses at which a guest reaches *proxy*."""
    addresses: list[IpAddress] = [*(proxy.addresses or (OWN,))]
    if proxy.device is not None:
        addresses.append(IPv6Address("fe80::a9fe:a9fe"))
    return addresses


def listening_proxy(room: ClientNetns, wanted: MetadataProxy) -> MetadataProxy | None:
    """Return the proxy that listens in *room*, of any owner; ``None`` if there is none.

    Addresses are in the order in which they are wanted.
    """
    listeners = room.listeners()
    if not listeners:
        return None
    ports = {port for *_, port in listeners}
    devices = {device for _, device, _ in listeners if device is not None}
    listed = {address for address, device, _ in listeners if device is None}
    if len(ports) > 1 or len(devices) > 1:
        return evolve(wanted, port=wanted.port % 65535 + 1)  # whatever it is, it is not that
    known = set(wanted.addresses) == listed
    plain = () if listed == {_EVERYWHERE} else tuple(sorted(listed, key=str))
    return MetadataProxy(
        netns=room.name,
        port=ports.pop(),
        addresses=wanted.addresses if known else plain,
        device=devices.pop() if devices else None,
    )


@contextmanager
def no_files_left() -> Iterator[None]:
    """Make every open of a file in this process fail, as on an exhausted machine."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def processes(pattern: str) -> Collection[int]:
    """Return the pids of processes with *pattern* in their command line."""
    pids = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().decode(errors="replace")
        except OSError:
            continue  # it has ended
        if re.search(pattern, words):
            pids.append(int(name))
    return pids


def wait_for_exit(pid: int, seconds: float = 60.0) -> None:
    """Wait until a process is no more, or a zombie.

    :raises AssertionError: it is still there.
    """
    deadline = time.monotonic() + seconds
    while _runs(pid):
        assert time.monotonic() < deadline, f"process {pid} does not end"
        time.sleep(0.002)


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
