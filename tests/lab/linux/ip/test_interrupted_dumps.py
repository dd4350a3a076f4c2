"""Dumps that the kernel marks as interrupted by a change."""

from __future__ import annotations

import socket
import subprocess

import pytest

from netfw.linux import netns
from netfw.linux.ip import netlink_encode
from netfw.linux.ip.netlink_client import NetlinkClient
from netfw.linux.ip.netlink_decode import address
from netfw.linux.ip.netlink_socket import Netlink
from netfw.linux.netlink.raw_socket import RawNetlinkSocket

COUNT = 3000
"""Addresses that fill many datagrams: the kernel prepares a few ahead."""
FIRST, NEW = "10.7.0.1", "10.8.0.1"


class InterruptedSocket(RawNetlinkSocket):
    """A socket that changes the addresses after the first datagram of the first dump."""

    datagrams = 0
    requests = 0

    def send(self, data: bytes) -> None:
        self.requests += 1
        super().send(data)

    def receive(self) -> bytes:
        received = super().receive()
        self.datagrams += 1
        if self.datagrams == 1:
            shell(f"ip address del {FIRST}/32 dev e0; ip address add {NEW}/32 dev e0")
        return received


def shell(line: str, text: str = "") -> None:
    subprocess.run(line, shell=True, check=True, input=text, text=True, timeout=60)


@pytest.fixture
def crowded(blue: NetlinkClient) -> NetlinkClient:
    """Return a namespace whose device has many addresses."""
    numbers = (divmod(number, 250) for number in range(COUNT))
    added = "\n".join(f"address add 10.7.{a}.{b + 1}/32 dev e0" for a, b in numbers)
    netns.run_in("blue", shell, "ip -batch -", added)
    return blue


def test_an_interrupted_dump_is_read_again(crowded: NetlinkClient) -> None:
    def read() -> tuple[set[str], int]:
        netlink = Netlink()
        netlink._netlink.close()
        netlink._netlink = InterruptedSocket(socket.NETLINK_ROUTE, strict=True, timeout=30)
        try:
            found = [address(each, netlink.name) for each in netlink.dump(REQUEST)]
            return {str(each.address.interface.ip) for each in found if each}, requests(netlink)
        finally:
            netlink.close()

    found, count = netns.run_in("blue", read)
    assert count == 2, "it was not repeated"
    assert NEW in found
    assert FIRST not in found
    assert found == {str(each.address.interface.ip) for each in crowded.addresses()}


REQUEST = netlink_encode.read_addresses(0)


def requests(netlink: Netlink) -> int:
    used = netlink._netlink
    assert isinstance(used, InterruptedSocket)
    return used.requests
