"""DHCP: a large network by the driver, against writing the same files and starting dnsmasq by hand;
and what one port more costs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from statistics import median
from uuid import uuid4

from attrs import evolve, frozen

from benchmarks.figure import Figure, ratio
from benchmarks.l2.rig import run_alone
from netfw.drivers.dhcp import DhcpKey, DhcpPort, DhcpValue
from netfw.drivers.values.keys import PortKey
from netfw.linux.netns import run_in
from netfw.model.port import FixedIp
from netfw.model.values.address import Mac
from netfw.model.values.device_names import dhcp_namespace
from netfw.model.values.ids import PortId
from netfw.ovs.ovsdb.client import Ovsdb
from netfw.plan import Update
from netfw.testing.conformance.dhcp.factories import ServedNetwork, a_subnet, make_network
from netfw.testing.lab.openvswitch import PrivateOvs
from netfw_drivers.dnsmasq.config.paths import NetworkPaths
from netfw_drivers.dnsmasq.config.settings import Settings
from netfw_drivers.dnsmasq.driver import DnsmasqDhcpDriver
from netfw_drivers.ovs.interface.driver import OvsInterfaceDriver

SIZES = (10, 500, 2000, 5000)
SMALL, LARGE = min(SIZES), max(SIZES)
BY_HAND, FLAT = 2.0, 1.5
ROUNDS = 15
BLOCK = IPv4Network("10.128.0.0/16")


@frozen
class Cost:
    """Of one port more, seconds: until the driver is done, and of its CPU."""

    wall: float
    cpu: float


def figures(sizes: tuple[int, ...] = SIZES) -> Iterator[Figure]:
    """Yield the figures of this file."""
    times: dict[int, tuple[float, float]] = {}
    costs: dict[int, Cost] = {}
    for size in sizes:
        with _ground() as (settings, driver):
            net = make_network(evolve(a_subnet(), cidr=BLOCK, gateway=BLOCK[1]))
            put: dict[DhcpKey, DhcpValue] = {net.key: net.value}
            put |= {PortKey(PortId(uuid4())): _port(net, number) for number in range(size)}
            began = time.perf_counter()
            outcome = driver.converge(Update(put=put))
            own = time.perf_counter() - began
            if not outcome.ok:
                raise RuntimeError(str(outcome)[:500])
            costs[size] = _one_more(driver, net, size)
            times[size] = _by_hand(net, settings, driver), own
    raw, own = times[LARGE]
    yield ratio(
        f"dhcp: a network of {LARGE} ports served", own=own, raw=raw, target=BY_HAND, sizes=times
    )
    for what in ("wall", "cpu"):
        yield ratio(
            f"dhcp: one port more at {LARGE} over {SMALL}, {what}",
            own=getattr(costs[LARGE], what),
            raw=getattr(costs[SMALL], what),
            target=FLAT,
        )


def _port(net: ServedNetwork, number: int) -> DhcpPort:
    address = BLOCK[number + 100]
    mac = Mac(f"fa:16:3e:{number >> 16:02x}:{number >> 8 & 255:02x}:{number & 255:02x}")
    fixed = (FixedIp(subnet_id=net.subnets[0].id, address=IPv4Address(address)),)
    return DhcpPort(network=net.id, mac=mac, fixed_ips=fixed)


def _one_more(driver: DnsmasqDhcpDriver, net: ServedNetwork, size: int) -> Cost:
    walls, cpus = [], []
    for number in range(size, size + ROUNDS):
        put: dict[DhcpKey, DhcpValue] = {PortKey(PortId(uuid4())): _port(net, number)}
        update = Update(put=put)
        wall, cpu = time.perf_counter(), time.process_time()
        driver.converge(update)
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return Cost(median(walls), median(cpus))


def _by_hand(net: ServedNetwork, settings: Settings, driver: DnsmasqDhcpDriver) -> float:
    """Write the files that the driver wrote, and start what it started, in the same namespace."""
    files = NetworkPaths(settings.confs, net.id)
    pid = int(files.pid.read_text())
    argv = [
        word.decode() for word in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") if word
    ]
    texts = {path: path.read_text() for path in files.directory.rglob("*") if path.is_file()}
    driver.close()
    _kill(pid)
    elsewhere = Path(tempfile.mkdtemp(dir=settings.confs))
    elsewhere.chmod(0o755)
    for folder in (files.host, files.addn_hosts, files.opts):
        (elsewhere / folder.name).mkdir()
    began = time.perf_counter()
    for path, text in texts.items():
        (elsewhere / path.relative_to(files.directory)).write_text(text)
    again = [word.replace(str(files.directory), str(elsewhere)) for word in argv]
    run_in(dhcp_namespace(net.id), subprocess.run, again, check=True)
    took = time.perf_counter() - began
    _kill(int((elsewhere / "pid").read_text()))
    return took


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    while Path(f"/proc/{pid}").exists():
        time.sleep(0.01)


@contextmanager
def _ground() -> Iterator[tuple[Settings, DnsmasqDhcpDriver]]:
    """Yield the settings and a driver that plugs into a switch of its own."""
    folder = Path(tempfile.mkdtemp(prefix="bench-dhcp-", dir="/run"))
    folder.chmod(0o755)
    try:
        with ExitStack() as stack:
            ovs = PrivateOvs(folder / "ovs").start()
            stack.callback(ovs.stop)
            ovs.add_bridge("br-int")
            ovsdb = stack.enter_context(Ovsdb(ovs.remote, timeout=10))
            settings = Settings(confs=folder / "dhcp")
            driver = DnsmasqDhcpDriver(OvsInterfaceDriver(ovsdb, "br-int"), settings)
            yield settings, driver
            after = DnsmasqDhcpDriver(OvsInterfaceDriver(ovsdb, "br-int"), settings)
            after.gc(())
            after.close()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    run_alone("benchmarks.dhcp.driver", figures)
