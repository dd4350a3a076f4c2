"""Machines of the lab environment: an echo service in each, and real packets between them."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from ipaddress import ip_address
from typing import Any

from netfw.model.subnet import Ipv6Mode
from netfw.model.values.address import IpAddress, Mac
from netfw.testing.conformance.router.echo_service import EchoService, Handler
from netfw.testing.conformance.router.environment import (
    TCP,
    Machine,
    ReceivedAdvertisement,
    ReceivedEcho,
    Stream,
    Traffic,
)
from netfw.testing.lab.dhcp_client import solicit
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.ping import BackgroundPing, Pinger

HOP_LIMIT = 64
ANSWER = 1.0
"""Seconds within which an answer arrives on an idle machine."""
BUSY_ANSWER = 10 * ANSWER
"""Seconds within which an expected answer arrives on a busy machine."""
IP_PKTINFO, IP_MTU_DISCOVER, IP_MTU, IPV6_MTU_DISCOVER, IPV6_MTU = 8, 10, 14, 23, 24
DISCOVER = 2
ROUTER_ADVERTISEMENT = 134
_ECHO = {4: (8, 0), 6: (128, 129)}
_LEVEL = {4: socket.IPPROTO_IP, 6: socket.IPPROTO_IPV6}
_FAMILY = {4: socket.AF_INET, 6: socket.AF_INET6}


class LabStream(Stream):
    """A TCP connection to the echo service of another machine."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    def is_alive(self) -> bool:
        return self._is_echoed(ANSWER)

    def stays_alive(self) -> bool:
        return self._is_echoed(BUSY_ANSWER)

    def _is_echoed(self, seconds: float) -> bool:
        self._socket.settimeout(seconds)
        try:
            self._socket.sendall(b"?\n")
            return bool(self._socket.recv(4096))
        except OSError:
            return False

    def close(self) -> None:
        self._socket.close()


class LabTraffic(Traffic):
    """A pinger in the background."""

    def __init__(self, background: BackgroundPing) -> None:
        self._background = background

    def stop(self) -> int:
        return self._background.stop().lost


class LabMachine(Machine):
    """An instance with one device and an echo service."""

    def __init__(self, instance: Instance, mac: Mac, service: EchoService) -> None:
        self.name, self.mac, self.instance = instance.name, mac, instance
        self._service = service
        self._sockets: list[socket.socket] = []

    def open(self, ports: tuple[int, ...]) -> None:
        """Start the echo service on *ports*."""
        self.instance.call(self._open, ports)

    def close(self) -> None:
        """Stop the echo service."""
        while self._sockets:
            self._service.release(self._sockets.pop())

    def reach(
        self, address: IpAddress, protocol: str = "icmp", port: int = 0, source_port: int = 0
    ) -> ReceivedEcho | None:
        ask = self._ping if protocol == "icmp" else self._request
        try:
            return self.instance.call(ask, address, protocol, port, source_port)
        except (OSError, ValueError):
            return None

    def count_answers(self, address: IpAddress) -> int:
        return self.instance.call(
            lambda: len(list(self._echo_replies(address, os.urandom(16), BUSY_ANSWER)))
        )

    def connect(self, address: IpAddress, port: int) -> Stream | None:
        try:
            return LabStream(self.instance.call(self._connected, address, TCP, port, 0))
        except OSError:
            return None

    def traffic(self, address: IpAddress) -> Traffic:
        pinger = self.instance.call(Pinger, str(address), 0.01)
        return LabTraffic(BackgroundPing(pinger, 2 * ANSWER))

    def path_mtu(self, address: IpAddress, size: int) -> int | None:
        return self.instance.call(self._path_mtu, address, size)

    def announced(
        self, address: IpAddress, stale: Mac, action: Callable[[], None]
    ) -> tuple[Mac | None, ReceivedEcho | None]:
        self._forget_lock_time(address.version)
        self.instance.namespaces.ip(f"neigh replace {address} lladdr {stale} nud stale dev eth0")
        ended = threading.Event()
        found: list[tuple[Mac, ReceivedEcho | None]] = []

        def watch() -> None:
            until = time.monotonic() + 10 * ANSWER
            while not found and (not ended.is_set() or time.monotonic() < until):
                mac = self._neighbour(address)
                if mac not in (None, stale):
                    found.append((Mac(str(mac)), self._reach_late(address)))
                time.sleep(0.01)  # each look is a process

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            action()
        finally:
            ended.set()
            watcher.join()
        return found[0] if found else (None, None)

    def advertisement(self) -> ReceivedAdvertisement | None:
        found = solicit(self.instance, 3 * ANSWER)
        if found is None:
            return None
        mode = Ipv6Mode.STATEFUL if found.managed else None
        if mode is None:
            mode = Ipv6Mode.STATELESS if found.other else Ipv6Mode.SLAAC
        return ReceivedAdvertisement(
            prefixes=frozenset(map(str, found.prefixes.keys() - found.deprecated)),
            withdrawn=frozenset(map(str, found.deprecated)),
            mode=mode,
            mtu=found.mtu,
            name_servers=frozenset(found.dns),
            source=found.source,
        )

    def advertise_router(self) -> None:
        self.instance.call(self._advertise_router)

    def metadata(self, address: IpAddress) -> IpAddress | None:
        try:
            answer = self.instance.call(self._request, address, TCP, 80, 0)
        except (OSError, ValueError):
            return None
        return None if answer is None else answer.source

    def _advertise_router(self) -> None:
        message = struct.pack("!BBHBBHII", ROUTER_ADVERTISEMENT, 0, 0, HOP_LIMIT, 0, 1800, 0, 0)
        with self._raw(6) as raw:
            raw.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
            raw.sendto(message, ("ff02::1", 0, 0, socket.if_nametoindex("eth0")))

    def _forget_lock_time(self, version: int) -> None:
        self.instance.run(["sysctl", "-qw", f"net.ipv{version}.neigh.eth0.locktime=0"])

    def _neighbour(self, address: IpAddress) -> str | None:
        output = self.instance.run(["ip", "-j", "neigh", "show", str(address), "dev", "eth0"])
        entries: list[dict[str, Any]] = json.loads(output or "[]")
        return next((entry["lladdr"] for entry in entries if "lladdr" in entry), None)

    def _open(self, ports: tuple[int, ...]) -> None:
        for version in (4, 6):
            self._serve(self._raw(version), partial(self._take_echoes, version))
            for port in ports:
                datagrams = self._bound(version, socket.SOCK_DGRAM, port)
                self._serve(datagrams, partial(self._take_datagram, version))
                listener = self._bound(version, socket.SOCK_STREAM, port)
                listener.listen(16)
                self._serve(listener, self._accept)

    def _serve(self, opened: socket.socket, handler: Handler) -> None:
        self._sockets.append(opened)
        self._service.serve(opened, handler)

    def _raw(self, version: int) -> socket.socket:
        protocol = socket.IPPROTO_ICMP if version == 4 else socket.IPPROTO_ICMPV6
        raw = socket.socket(_FAMILY[version], socket.SOCK_RAW, protocol)
        if version == 6:
            raw.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, 1)
        return raw

    def _bound(self, version: int, kind: socket.SocketKind, port: int) -> socket.socket:
        opened = socket.socket(_FAMILY[version], kind)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if version == 6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
        else:
            opened.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
        opened.bind(("", port))
        return opened

    def _take_echoes(self, version: int, raw: socket.socket) -> None:
        """Record all requests that are queued: those of other senders may be ahead of a new one."""
        with contextlib.suppress(BlockingIOError):
            while True:
                self._take_echo(version, *raw.recvmsg(4096, 256, socket.MSG_DONTWAIT))

    def _take_echo(
        self, version: int, data: bytes, extra: list[tuple[int, int, bytes]], _: int, peer: Any
    ) -> None:
        if version == 4:
            limit, data = data[8], data[(data[0] & 15) * 4 :]
        else:
            limit = struct.unpack("i", extra[0][2])[0]
        if data[0] == _ECHO[version][0]:
            source = ip_address(peer[0].partition("%")[0])
            echo = ReceivedEcho(at=self.name, source=source, hops=HOP_LIMIT - limit)
            self._service.record(data[8:24], echo)

    def _take_datagram(self, version: int, datagrams: socket.socket) -> None:
        _, extra, _, peer = datagrams.recvmsg(4096, 256)
        info = [(level, kind, _as_source(data, version)) for level, kind, data in extra]
        datagrams.sendmsg([self._render_answer(peer)], info, 0, peer)

    def _accept(self, listener: socket.socket) -> None:
        connected, peer = listener.accept()
        self._serve(connected, lambda s: self._answer(s, peer))

    def _answer(self, connected: socket.socket, peer: tuple[Any, ...]) -> None:
        try:
            if connected.recv(4096):
                connected.send(self._render_answer(peer))
                return
        except OSError:
            pass
        self._service.release(connected)

    def _render_answer(self, peer: tuple[Any, ...]) -> bytes:
        source = peer[0].partition("%")[0]
        return json.dumps({"at": self.name, "source": source, "port": peer[1]}).encode() + b"\n"

    def _reach_late(self, address: IpAddress) -> ReceivedEcho | None:
        """Return how one echo request, which may be answered late, arrives."""
        try:
            return self.instance.call(self._ping_once, address, BUSY_ANSWER)
        except (OSError, ValueError):
            return None

    def _ping(self, address: IpAddress, *_: object) -> ReceivedEcho | None:
        return self._ping_once(address, ANSWER)

    def _ping_once(self, address: IpAddress, seconds: float) -> ReceivedEcho | None:
        token = os.urandom(16)
        if next(self._echo_replies(address, token, seconds), None) is None:
            return None
        return self._service.recorded(token) or ReceivedEcho(
            at="router", source=ip_address(self._own(address))
        )

    def _echo_replies(self, address: IpAddress, token: bytes, seconds: float) -> Iterator[bytes]:
        """Send an echo request; yield the first reply within *seconds*, then those of a second."""
        version = address.version
        request, reply = _ECHO[version]
        with self._raw(version) as raw:
            header = struct.pack("!BBHHH", request, 0, 0, 1, 1)
            header = struct.pack("!BBHHH", request, 0, _checksum(header + token), 1, 1)
            raw.sendto(header + token, (str(address), 0))
            until = time.monotonic() + seconds
            while (left := until - time.monotonic()) > 0:
                raw.settimeout(left)
                with contextlib.suppress(TimeoutError):
                    data = raw.recv(4096)
                    data = data[(data[0] & 15) * 4 :] if version == 4 else data
                    if data[0] == reply and data[8:24] == token:
                        yield data
                        until = min(until, time.monotonic() + ANSWER)

    def _own(self, address: IpAddress) -> str:
        with socket.socket(_FAMILY[address.version], socket.SOCK_DGRAM) as probe:
            probe.connect((str(address), 9))
            return str(probe.getsockname()[0])

    def _request(
        self, address: IpAddress, protocol: str, port: int, source_port: int
    ) -> ReceivedEcho | None:
        with self._connected(address, protocol, port, source_port) as connected:
            connected.sendall(b"?\n")
            answer = json.loads(connected.recv(4096))
        return ReceivedEcho(
            at=answer["at"], source=ip_address(answer["source"]), source_port=answer["port"]
        )

    def _connected(
        self, address: IpAddress, protocol: str, port: int, source_port: int
    ) -> socket.socket:
        kind = socket.SOCK_STREAM if protocol == TCP else socket.SOCK_DGRAM
        opened = socket.socket(_FAMILY[address.version], kind)
        try:
            opened.settimeout(ANSWER)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            opened.bind(("", source_port))
            opened.connect(_endpoint(address, port))
        except BaseException:
            opened.close()
            raise
        return opened

    def _path_mtu(self, address: IpAddress, size: int) -> int | None:
        level, four = _LEVEL[address.version], address.version == 4
        with self._connected(address, "udp", 80, 0) as connected:
            connected.setsockopt(level, IP_MTU_DISCOVER if four else IPV6_MTU_DISCOVER, DISCOVER)
            connected.settimeout(BUSY_ANSWER)
            with contextlib.suppress(OSError):
                connected.send(b"x" * (size - (28 if four else 48)))
                connected.recv(4096)
                return None
            return connected.getsockopt(level, IP_MTU if four else IPV6_MTU)


def _as_source(info: bytes, version: int) -> bytes:
    """Return packet information that has the answer leave from the address that was asked."""
    if version == 6:
        return info
    index, own, _ = struct.unpack("=I4s4s", info)
    return struct.pack("=I4s4s", index * 0, own, b"\0" * 4)


def _endpoint(address: IpAddress, port: int) -> tuple[Any, ...]:
    if address.version == 6 and address.is_link_local:
        return (str(address), port, 0, socket.if_nametoindex("eth0"))
    return (str(address), port)


def _checksum(data: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF
