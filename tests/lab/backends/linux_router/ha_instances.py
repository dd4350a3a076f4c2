"""Instances of a highly available router in a lab: their roles, processes and frames."""

from __future__ import annotations

import os
import signal
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv6Address, ip_interface
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from netfw.drivers.router import RouterDriver
from netfw.drivers.values.router_values import HighAvailability, RouterPort
from netfw.linux import netns
from netfw.model.router import HaRole
from netfw.model.values.address import IpAddress
from netfw.model.values.ids import NetworkId, PortId
from netfw.testing.conformance.router.environment import Machine
from netfw.testing.conformance.router.factories import Site, next_mac
from netfw.testing.conformance.router.lab_machine import LabMachine
from netfw.testing.lab.ping import BackgroundPing, Ping, Pinger
from netfw.testing.lab.wait import TIMEOUT, wait_until
from netfw_drivers.linux_router.plan.names import HA, router_namespace
from tests.lab.backends.linux_router.environment import VRRP, LinuxRouterEnvironment, bring

ETH_P_ALL, SO_TIMESTAMPNS = 3, 35
DNS = 53
ICMPV6, NEIGHBOUR_ADVERTISEMENT = 58, 136
Pair = tuple[Site, Site]


def instance(site: Site, network: NetworkId, number: int) -> Site:
    port = RouterPort(
        id=PortId(uuid4()),
        network=network,
        mac=next_mac(),
        addresses=(ip_interface(f"169.254.192.{number}/18"),),
    )
    return site.with_full(ha=HighAvailability(port=port, vrid=7))


def ha_port(site: Site) -> RouterPort:
    assert site.full.ha is not None
    return site.full.ha.port


def role(driver: RouterDriver, site: Site) -> HaRole | None:
    return driver.status(site.router).role


def wait_roles(driver: RouterDriver, *sites: Site) -> Pair:
    """Wait until one of them is active, and return it and the other one."""

    def roles() -> list[HaRole | None]:
        return [role(driver, site) for site in sites]

    wait_until(lambda: sorted(map(str, roles())) == ["active", "standby"], roles, seconds=60)
    first, second = sites
    return (first, second) if role(driver, first) is HaRole.ACTIVE else (second, first)


def wait_active(driver: RouterDriver, site: Site) -> None:
    wait_until(lambda: role(driver, site) is HaRole.ACTIVE, seconds=60)


def bring_active(driver: RouterDriver, site: Site) -> None:
    """Bring the first instance of a router, which becomes active."""
    bring(driver, site)
    wait_active(driver, site)


def bring_pair(driver: RouterDriver, pair: Pair) -> Pair:
    for site in pair:
        bring(driver, site)
    return wait_roles(driver, *pair)


def reached(machine: Machine, site: Site, version: int = 4) -> bool:
    return machine.reach(site.external.address(1, version)) is not None


@contextmanager
def pinged(machine: LabMachine, address: object) -> Iterator[Callable[[], Ping]]:
    """Ping *address* meanwhile; yield what stops that."""
    pinger = machine.instance.call(Pinger, str(address), 0.01)
    background = BackgroundPing(pinger, 2.0)
    yield background.stop


def pids(site: Site, program: str = "keepalived") -> list[int]:
    """Return the pids of a daemon of an instance and of its children."""
    every = (int(name) for name in os.listdir("/proc") if name.isdigit())
    return sorted(pid for pid in every if _runs(pid, program.encode(), site))


def _runs(pid: int, program: bytes, site: Site) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return words[0] == program and any(str(site.router).encode() in each for each in words)


def kill_all(site: Site) -> None:
    for pid in pids(site):
        os.kill(pid, signal.SIGKILL)


class SentFrame(NamedTuple):
    """A frame that was sent in a namespace."""

    device: str
    at: float
    """Seconds by the clock of the machine."""
    data: bytes

    @property
    def is_advertisement(self) -> bool:
        """Whether it is an advertisement of VRRP."""
        return self.data[12:14] == b"\x08\x00" and self.data[23] == VRRP

    @property
    def is_name_query(self) -> bool:
        """Whether it is a query of DNS, by IPv4 without options."""
        is_udp = self.data[12:14] == b"\x08\x00" and self.data[23] == socket.IPPROTO_UDP
        return is_udp and int.from_bytes(self.data[36:38]) == DNS

    @property
    def announced(self) -> IpAddress | None:
        """The address that it announces without a question; None: it announces none."""
        kind, packet = self.data[12:14], self.data[14:]
        if kind == b"\x08\x06" and packet[14:18] == packet[24:28]:
            return IPv4Address(packet[14:18])
        if kind == b"\x86\xdd" and (packet[6], packet[40]) == (ICMPV6, NEIGHBOUR_ADVERTISEMENT):
            return IPv6Address(packet[48:64])
        return None


@contextmanager
def sent_frames(namespace: str) -> Iterator[Callable[[], list[SentFrame]]]:
    """Listen in a namespace; yield what returns the frames sent there since the last call."""

    def listen() -> socket.socket:
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        opened.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        return opened

    with netns.run_in(namespace, listen) as opened:
        opened.setblocking(False)

        def sent() -> list[SentFrame]:
            found: list[SentFrame] = []
            while True:
                try:
                    data, extra, _, source = opened.recvmsg(2048, 64)
                except BlockingIOError:
                    return found
                if source[2] == socket.PACKET_OUTGOING:
                    seconds, nanoseconds = struct.unpack("qq", extra[0][2])
                    found.append(SentFrame(source[0], seconds + nanoseconds / 1e9, data))

        yield sent


@contextmanager
def frames(site: Site) -> Iterator[Callable[[], list[bytes]]]:
    """Listen to an instance; yield what returns the frames it sent by interfaces and gateway."""
    with sent_frames(router_namespace(site.router)) as sent:
        yield lambda: [each.data for each in sent() if each.device.startswith(("qr-", "qg-"))]


@contextmanager
def ha_packets(site: Site) -> Iterator[Callable[[], bytes]]:
    """Listen on the HA network; yield what waits for the next IPv4 packet of another instance.

    Those about memberships of multicast groups are skipped.
    """

    def listen() -> socket.socket:
        return socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))

    with netns.run_in(router_namespace(site.router), listen) as opened:
        opened.settimeout(TIMEOUT)

        def receive() -> bytes:
            while True:
                packet, source = opened.recvfrom(2048)
                is_foreign = source[2] != socket.PACKET_OUTGOING and source[0].startswith(HA)
                if is_foreign and packet[9] != socket.IPPROTO_IGMP:
                    return packet

        yield receive


def addresses(environment: LinuxRouterEnvironment, site: Site) -> str:
    return environment.run(site.router, ["ip", "-o", "address"])


def assert_bare(environment: LinuxRouterEnvironment, site: Site) -> None:
    """Check that a standby has neither an address nor a route but those of the HA network."""
    text = addresses(environment, site)
    assert "qr-" not in text, text
    assert "qg-" not in text, text
    for family in ("-4", "-6"):
        devices = {str(each.get("dev")) for each in environment.routes(site.router, family)}
        assert not any(each.startswith(("qr-", "qg-")) for each in devices), devices
