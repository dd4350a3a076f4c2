"""A dnsmasq that hangs is noticed, though nothing is asked of it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from netfw.drivers.values.events import ProcessDied
from netfw.linux.sockets.dns_probe import DnsServer, silent_servers
from netfw.model.subnet import Ipv6Mode
from netfw.model.values.device_names import dhcp_namespace
from netfw.testing.conformance.dhcp.factories import (
    ServedNetwork,
    a_subnet,
    a_subnet6,
    make_network,
)
from netfw_drivers.dnsmasq.runtime import health_check
from tests.lab.backends.dnsmasq.environment import DnsmasqHost

LOOP = {"aarch64": b"\x00\x00\x00\x14", "x86_64": b"\xeb\xfe"}
"""An instruction that leads to itself."""


def server(net: ServedNetwork) -> DnsServer:
    return DnsServer(dhcp_namespace(net.id), net.value.server.addresses[0].ip)


@pytest.mark.spec("DHCP-47")
@pytest.mark.parametrize("adopted", [False, True])
def test_one_that_hangs_is_replaced_and_it_is_said(host: DnsmasqHost, adopted: bool) -> None:
    host.driver.close()
    host.driver = host.make_driver(check_interval=0.5)
    net, other = make_network(), make_network()
    port = net.tenant(20)
    assert host.put(net, other, port).ok
    pid, well = host.pid(net), host.pid(other)
    if adopted:
        host.driver.close()
    os.kill(pid, signal.SIGSTOP)
    if adopted:
        host.driver = host.make_driver(check_interval=0.5)
        assert host.put(net, other, port).ok
    deadline = time.monotonic() + 20
    while not any(isinstance(e, ProcessDied) and net.key in e.keys for e in host.events):
        assert time.monotonic() < deadline, "nobody noticed"
        time.sleep(0.02)
    lease = host.lease(port, 20)
    assert lease is not None
    assert lease.ip == port.ip
    assert host.pid(net) != pid
    assert host.pid(other) == well


def spin(pid: int) -> None:
    """Make a process loop for ever at the place where it waits, so that it serves no client."""
    words = Path(f"/proc/{pid}/syscall").read_text().split()
    while len(words) < 2:
        words = Path(f"/proc/{pid}/syscall").read_text().split()
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        memory.seek(int(words[-1], 16))
        memory.write(LOOP[os.uname().machine])


@pytest.mark.nightly
@pytest.mark.spec("DHCP-47")
def test_one_that_works_for_ever_without_an_answer_is_replaced(
    host: DnsmasqHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health_check, "BUSY_LIMIT", 3.0)
    host.driver.close()
    host.driver = host.make_driver(check_interval=0.5)
    net, other = make_network(), make_network()
    port = net.tenant(20)
    assert host.put(net, other, port).ok
    pid, well = host.pid(net), host.pid(other)
    since = time.monotonic()
    spin(pid)
    deadline = since + 40
    while not any(isinstance(e, ProcessDied) and net.key in e.keys for e in host.events):
        assert time.monotonic() < deadline, "nobody noticed"
        time.sleep(0.02)
    assert time.monotonic() - since > health_check.BUSY_LIMIT
    lease = host.lease(port, 20)
    assert lease is not None
    assert lease.ip == port.ip
    assert host.pid(net) != pid
    assert host.pid(other) == well


@pytest.mark.parametrize("subnet", [a_subnet(), a_subnet6(Ipv6Mode.STATEFUL)], ids=["4", "6"])
def test_only_a_listening_server_without_answers_is_silent(host: DnsmasqHost, subnet) -> None:
    net = make_network(subnet)
    assert host.put(net).ok
    there = server(net)
    nowhere = DnsServer("no-such-namespace", there.address)
    assert silent_servers({1: there, 2: nowhere}, 5.0) == frozenset()
    pid = host.pid(net)
    os.kill(pid, signal.SIGSTOP)
    assert silent_servers({1: there, 2: nowhere}, 0.3) == {1}
    os.kill(pid, signal.SIGCONT)
    assert silent_servers({1: there}, 5.0) == frozenset()
    host.driver.close()
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while silent_servers({1: there}, 0.3):  # until he has ended, and listens no more
        assert time.monotonic() < deadline, "who does not listen is taken for one who hangs"
