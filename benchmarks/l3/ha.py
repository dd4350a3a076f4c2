"""L3: a highly available router: how long a failover takes, and what its copies cost.

Machines on one host send through a router on up to three others; all networks are tunnel networks.
A machine's frames for the router are copied to each host that has it.  Throughput is that of one
TCP connection, beside a plain router on the same hosts, by turns.  All hosts share the CPUs of this
machine, so that what a standby drops delays the sender, too; the bytes on the sender's NIC, which
are printed with the CPU of its switch, are not affected by that.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from statistics import median

from attrs import fields, frozen

from benchmarks.figure import Figure, milliseconds, ratio
from benchmarks.l2.rig import run_alone
from benchmarks.l3.rig import ADVERT, DEAD_INTERVAL, Rig, Router, reach, rig
from benchmarks.process_usage import process_cpu
from benchmarks.service_rig import HostAgents
from netfw.testing.lab.host import NIC, Host
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.wait import wait_until

HOSTS = 3
ROUNDS = 3
SECONDS = 2.0
"""Seconds of each transfer."""
REACTION = 0.2
"""Seconds that a failover may take beyond the dead interval."""
COPIES = 1.2
"""Times the throughput of a plain router over that of a highly available one, at most."""
_SUBNET, _GATEWAY = "10.0.0.0/24", "10.0.0.1"
_INTERVAL, _GRACE = 0.005, 0.5
_BLOCK = bytes(1 << 16)


@frozen
class Transfer:
    """What a transfer took for each byte: seconds, seconds of CPU of the sender's switch, bytes on
    its NIC."""

    wall: float
    cpu: float
    sent: float


@frozen
class Pair:
    """A highly available router, and a machine behind it."""

    found: Rig
    router: Router
    inside: Instance
    hosts: list[HostAgents]
    """The hosts that have the router."""

    def active(self) -> list[HostAgents]:
        """Return the hosts whose kernel has the address of the router."""
        show = ["ip", "-n", self.router.netns, "address", "show"]
        text = f" {self.router.gateway}/"
        return [on for on in self.hosts if text in on.host.attempt(show).output]

    def await_elected(self) -> tuple[HostAgents, HostAgents]:
        """Wait until one host is active and keepalived runs on all; return it and a standby."""
        wait_until(lambda: len(self.active()) == 1 and all(map(self.keepalived, self.hosts)))
        (active,) = self.active()
        return active, next(on for on in self.hosts if on is not active)

    def keepalived(self, on: HostAgents) -> list[int]:
        """Return the processes of keepalived on a host, parent first; none if one is missing."""
        conf = on.agent.directory / "routers" / "keepalived" / f"{self.router.id}.conf"
        try:
            pids = [int(Path(f"{conf}{end}").read_text()) for end in (".pid", ".vrrp.pid")]
        except (FileNotFoundError, ValueError):
            return []
        return pids if all(Path(f"/proc/{pid}").exists() for pid in pids) else []

    def leave(self, on: HostAgents) -> None:
        """Remove the router from a host."""
        self.found.request("DELETE", f"{self._path(on)}/{self.router.id}", None, 204)
        netns = on.host.directory / "netns" / self.router.netns
        wait_until(lambda: not netns.exists())
        self.hosts.remove(on)

    def join(self, on: HostAgents) -> None:
        """Add the router to a host."""
        self.found.request("POST", self._path(on), {"router_id": self.router.id}, 201)
        self.hosts.append(on)

    def _path(self, on: HostAgents) -> str:
        listed = self.found.request("GET", "/agents?agent_type=L3+agent", None, 200)
        (id,) = (each["id"] for each in listed["agents"] if each["host"] == on.host.name)
        return f"/agents/{id}/l3-routers"


def figures() -> Iterator[Figure]:
    """Yield the figures of this file."""
    with rig(hosts=HOSTS + 1) as found:
        print(f"    load of the machine: {os.getloadavg()[0]:.1f}", flush=True)
        plain, router = found.router(), found.router(ha=True)
        reach(found, [plain, router])
        inside = found.instance("plain", plain.network, _SUBNET, _GATEWAY)
        machine = found.instance("ha", router.network, _SUBNET, _GATEWAY)
        pair = Pair(found, router, machine, list(found.serving))
        yield _throughput(pair, inside)
        while len(pair.hosts) > 1:
            _, standby = pair.await_elected()
            pair.leave(standby)
            yield _throughput(pair, inside)
        pair.join(standby)
        yield from _failovers(pair)


def _throughput(pair: Pair, plain: Instance) -> Figure:
    own, raw = [], []
    for instance in (plain, pair.inside):
        wait_until(partial(_answers, instance, _world(pair.found)))
    for _ in range(ROUNDS):
        raw.append(_transfer(pair.found, plain))
        own.append(_transfer(pair.found, pair.inside))
    least, most = (_middle(each) for each in (raw, own))
    on = f"{len(pair.hosts)} host{'s' * (len(pair.hosts) > 1)}"
    print(
        f"    on {on}: {8e-6 / most.wall:.0f} Mbit/s, plain {8e-6 / least.wall:.0f}; for each byte "
        f"{most.sent / least.sent:.2f} x the bytes on the sender's NIC, "
        f"{most.cpu / least.cpu:.2f} x the CPU of its switch; load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    name = f"l3: seconds for 100 MB through a HA router on {on}"
    return ratio(name, own=most.wall * 1e8, raw=least.wall * 1e8, target=COPIES)


def _middle(transfers: list[Transfer]) -> Transfer:
    return Transfer(
        *(median(getattr(each, a.name) for each in transfers) for a in fields(Transfer))
    )


def _transfer(found: Rig, sender: Instance) -> Transfer:
    """Send to the machine outside for some seconds."""
    host = found.hosts[-1].host
    switch = int((host.ovs.directory / "ovs-vswitchd.pid").read_text())
    with found.world.call(socket.create_server, ("", 0)) as listener:
        port = listener.getsockname()[1]
        near = sender.call(socket.create_connection, (_world(found), port), 10.0)
        far, _ = listener.accept()
    with near, far, ThreadPoolExecutor(1) as pool:
        before = process_cpu(switch), _bytes_sent(host), time.monotonic()
        count = pool.submit(_receive, far)
        while time.monotonic() < before[2] + SECONDS:
            near.sendall(_BLOCK)
        near.shutdown(socket.SHUT_WR)
        received = count.result()
        wall = time.monotonic() - before[2]
    cpu, sent = process_cpu(switch) - before[0], _bytes_sent(host) - before[1]
    return Transfer(wall / received, cpu / received, sent / received)


def _receive(connection: socket.socket) -> int:
    """Receive until the other side ends; return how many bytes."""
    buffer, count = bytearray(len(_BLOCK)), 0
    while size := connection.recv_into(buffer):
        count += size
    return count


def _bytes_sent(host: Host) -> int:
    (link,) = json.loads(host.run(["ip", "-s", "-j", "link", "show", NIC]))
    return int(link["stats64"]["tx"]["bytes"])


def _world(found: Rig) -> str:
    """Return the address of the machine outside."""
    port = found.request("GET", f"/ports/{found.ports['world']}", None, 200)["port"]
    return str(port["fixed_ips"][0]["ip_address"])


def _answers(instance: Instance, address: str) -> bool:
    return not instance.ping(address, count=1, timeout=0.2).lost


def _failovers(pair: Pair) -> Iterator[Figure]:
    dead = (DEAD_INTERVAL + REACTION) * 1000
    for what, number, target in (
        ("killed", signal.SIGKILL, dead),
        ("stopped", signal.SIGTERM, ADVERT * 1000),
    ):
        outages = [_outage(pair, partial(_signal, pair, number)) for _ in range(ROUNDS)]
        yield milliseconds(f"l3: HA router, keepalived {what}", max(outages), target)
    outage = _outage(pair, lambda on: on.host.crash())
    yield milliseconds("l3: HA router, all processes of the host killed", outage, dead)


def _signal(pair: Pair, number: signal.Signals, on: HostAgents) -> None:
    """Send a signal to keepalived: to all its processes to kill, else to the parent."""
    pids = pair.keepalived(on)
    for pid in pids if number == signal.SIGKILL else pids[:1]:
        with suppress(ProcessLookupError):  # the child ends with its parent
            os.kill(pid, number)


def _outage(pair: Pair, fail: Callable[[HostAgents], None]) -> float:
    """Return for how many seconds machines get no answer after a fault of the active host."""
    active, _ = pair.await_elected()
    time.sleep(2 * ADVERT)  # the standby may have been started just now
    flows = ((pair.inside, _world(pair.found)), (pair.found.world, pair.router.gateway))
    with ExitStack() as stack:
        pings = [
            stack.enter_context(instance.pinging(address, _INTERVAL, _GRACE))
            for instance, address in flows
        ]
        fail(active)
        wait_until(lambda: pair.active() != [active])
        wait_until(pair.active)
        for instance, address in flows:
            wait_until(partial(_answers, instance, address))
        return max(ping.stop().outage_by_clock for ping in pings)


if __name__ == "__main__":
    run_alone("benchmarks.l3.ha", figures)
