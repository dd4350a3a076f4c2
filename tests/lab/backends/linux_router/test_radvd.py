"""A real radvd with rendered configurations, and what hosts are told."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from ipaddress import IPv6Address, IPv6Network
from pathlib import Path

import pytest

from netfw.drivers.dhcp import METADATA_ADDRESSES
from netfw.errors import OperationRefused
from netfw.linux import netns
from netfw.linux.fs.atomic_files import WriteFile
from netfw.linux.ip.netlink_client import NetlinkClient
from netfw.linux.ip.operations import AddAddress, AddVeth, DelAddress, SetMac, SetSysctl, SetUp
from netfw.linux.ip.values import addresses
from netfw.linux.process import ProcessKey, Program, StartedProcess, Supervisor
from netfw.linux.process.reload import change_and_reload
from netfw.linux.sockets.prefix_withdrawal import withdraw_prefixes
from netfw.model.values.address import Mac
from netfw.testing.lab import sandbox
from netfw.testing.lab.wait import wait_until
from netfw_drivers.linux_router.config.radvd import RadvdInterface, RadvdPrefix, render_radvd

ROUTER_ADVERTISEMENT = 134
KEY = ProcessKey("radvd", "router")
MAC = Mac("fa:16:3e:00:00:01")
OWN = IPv6Address("fe80::f816:3eff:fe00:1")
FIRST, SECOND = IPv6Network("2001:db8:1::/64"), IPv6Network("2001:db8:2::/64")


def configuration(*prefixes: RadvdPrefix) -> str:
    interface = RadvdInterface(
        device="qr-1",
        source=OWN,
        mtu=1400,
        prefixes=prefixes,
        dns_servers=(IPv6Address("2001:db8::53"),),
        other_config=True,
    )
    return render_radvd([interface])


def slaac(network: IPv6Network, *, removed: bool = False) -> RadvdPrefix:
    return RadvdPrefix(prefix=network, autonomous=True, removed=removed)


@pytest.fixture
def namespaces() -> Iterator[None]:
    """Make a router with qr-1, which also has the metadata address, and a host with its peer e0."""
    sandbox.require()
    for name in ("router", "host"):
        netns.create(name)
    with NetlinkClient("router") as router, NetlinkClient("host") as host:
        quick = SetSysctl("net.ipv6.conf.default.accept_dad", "0")
        host.apply([quick, SetSysctl("net.ipv6.conf.default.accept_ra", "0")])
        router.apply(
            [
                quick,
                SetSysctl("net.ipv6.conf.all.forwarding", "1"),
                AddVeth(name="qr-1", peer="e0", peer_namespace="host"),
                SetMac("qr-1", MAC),
            ]
        )
        host.apply([SetUp("e0")])
        router.apply([SetUp("qr-1")])  # with a carrier, so that it sends at once
        wait_until(lambda: can_send_from(router, OWN))
        router.apply([AddAddress(each) for each in addresses("qr-1", [METADATA_ADDRESSES[6]])])
    yield
    for name in ("router", "host"):
        netns.delete(name)


def can_send_from(router: NetlinkClient, address: IPv6Address) -> bool:
    """Return whether an address is there; it is tentative at first, also without a detection."""
    return any(
        each.address.interface.ip == address and not each.tentative for each in router.addresses()
    )


def advertised() -> str:
    """Return the advertisement that a host gets when it asks."""
    return netns.run_in(
        "host",
        subprocess.run,
        ["rdisc6", "-1", "-q", "-w", "200", "-v", "e0"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout


@pytest.fixture
def supervisor(tmp_path: Path, namespaces: None) -> Iterator[Supervisor]:
    with Supervisor(tmp_path / "pids", lambda event: None) as made:
        yield made
        made.stop(KEY)


def start(supervisor: Supervisor, file: Path) -> StartedProcess:
    argv = ("radvd", "-n", "-C", str(file), "-p", f"{file}.own-pid", "-m", "stderr")
    return supervisor.start(KEY, Program(argv=argv, namespace="router"))


@pytest.mark.spec("L3-26")
def test_changed_prefixes_are_advertised_by_the_same_process(supervisor, tmp_path):
    file = tmp_path / "conf" / "radvd.conf"

    def change(text: str) -> bool:
        changes = [WriteFile(str(file), text)]
        return change_and_reload(supervisor, KEY, changes, tmp_path / "scratch")

    assert change(configuration(slaac(FIRST))) is False  # it does not run yet
    started = start(supervisor, file)
    wait_until(lambda: str(FIRST) in advertised())
    text = advertised()
    assert f"from {OWN}\n" in text
    assert "1400 bytes" in text
    assert "2001:db8::53" in text
    assert change(configuration(slaac(FIRST, removed=True), slaac(SECOND))) is True
    wait_until(lambda: str(SECOND) in advertised())
    gone = advertised().split(str(FIRST))[1].split("Prefix")[0]
    assert "(0x00000000)" in gone
    assert supervisor.pid(KEY) == started.pid


@pytest.mark.spec("L3-26")
def test_advertisements_begin_when_the_link_local_address_appears(supervisor, tmp_path):
    # The kernel gives it to a device some time after the device is up.
    file = tmp_path / "radvd.conf"
    file.write_text(configuration(slaac(FIRST)))
    (late,) = addresses("qr-1", [f"{OWN}/64"])
    with NetlinkClient("router") as router:
        router.apply([DelAddress(late)])
        started = start(supervisor, file)
        assert str(FIRST) not in advertised()
        router.apply([AddAddress(late)])
    wait_until(lambda: f"from {OWN}\n" in advertised())
    assert supervisor.pid(KEY) == started.pid


@pytest.mark.spec("L3-26")
def test_prefixes_are_withdrawn_from_the_address_they_were_advertised_from(namespaces):
    def listen() -> socket.socket:
        raw = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
        raw.settimeout(10)
        return raw

    with netns.run_in("host", listen) as raw:
        withdraw_prefixes("qr-1", OWN, [FIRST], "router")
        received = (raw.recvfrom(4096) for _ in range(100))
        data, sender = next(each for each in received if each[0][0] == ROUTER_ADVERTISEMENT)
    assert FIRST.network_address.packed in data
    assert IPv6Address(sender[0].partition("%")[0]) == OWN


def test_file_that_cannot_be_written_sends_no_signal(supervisor, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OperationRefused):
        change_and_reload(
            supervisor, KEY, [WriteFile(str(tmp_path / "file" / "x"), "")], tmp_path / "scratch"
        )
