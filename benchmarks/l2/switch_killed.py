"""A killed ovs-vswitchd: until a ping passes again, by the agent and by the raw tools.

The raw side restores the dumped flows of both bridges by ``ovs-ofctl --bundle replace-flows`` as
soon as the bridge has a socket.  On both sides the clock runs from the start of the new process,
which makes all ports first.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from attrs import frozen

from benchmarks.figure import Figure, ratio
from benchmarks.l2.rig import Rig, rig, run_alone
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.wait import wait_until

SIZES = (200, 1000)
FILTERED = 500
"""Ports that the ``openflow`` firewall filters."""
ROUNDS = 3
TARGET = 1.5
_BRIDGES = ("br-int", "br-tun")


@frozen(kw_only=True)
class Gap:
    """The shortest gaps of either side, and the least CPU of the agent for one, in seconds."""

    raw: float
    own: float
    cpu: float


def figures(sizes: tuple[int, ...] = SIZES) -> Iterator[Figure]:
    """Yield the figures of this file."""
    for size in sizes:
        yield _figure(f"{size} ports", _measure(size))
    yield _figure(f"{FILTERED} filtered ports", _measure(FILTERED, firewall="openflow"))


def _figure(ports: str, gap: Gap) -> Figure:
    name = f"l2: ovs-vswitchd killed with {ports} until a ping passes"
    print(f"    {ports}: CPU of the agent until it is ready {gap.cpu:.2f} s", flush=True)
    return ratio(name, own=gap.own, raw=gap.raw, target=TARGET)


def _measure(size: int, firewall: str = "") -> Gap:
    numbers = range(1, size + 1)
    raw, own, cpu = [], [], []
    with rig(firewall=firewall) as (host, instance, target):
        host.want(numbers)
        start = host.mark()
        host.plug(numbers)
        wait_until(lambda: host.passed(start)[0] >= size, "the wiring")
        wait_until(lambda: host.status().get("ready"), "the agent is ready")
        for _ in range(ROUNDS):
            before = host.cpu()
            own.append(_gap(host, instance, target))
            wait_until(lambda: host.status().get("ready"), "the agent is ready")
            cpu.append(host.cpu() - before)
            host.stop()
            with _restoring(host):
                raw.append(_gap(host, instance, target))
            host.start()
    return Gap(raw=min(raw), own=min(own), cpu=min(cpu))


def _gap(host: Rig, instance: Instance, target: str) -> float:
    """Kill the switch and start it again; return the seconds until a ping passes."""
    host.host.ovs.kill_switch()
    began = time.perf_counter()
    starting = threading.Thread(target=host.host.ovs.start_switch)
    starting.start()
    wait_until(
        lambda: instance.ping(target, count=1, timeout=0.1).received, "a ping passes", pause=0
    )
    seconds = time.perf_counter() - began
    starting.join()
    return seconds


@contextmanager
def _restoring(host: Rig) -> Iterator[None]:
    """Restore the flows of both bridges once their sockets accept after they did not."""
    files = {bridge: _saved(host, bridge) for bridge in _BRIDGES}
    threads = [
        threading.Thread(target=_restore, args=(host, bridge, file))
        for bridge, file in files.items()
    ]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join()


def _saved(host: Rig, bridge: str) -> Path:
    file = host.directory / f"{bridge}.flows"
    management = host.host.ovs.management(bridge)
    output = host.host.ovs.ofctl(
        "-O", "OpenFlow14", "--no-stats", "--no-names", "dump-flows", management
    )
    file.write_text("".join(f"{line}\n" for line in output.splitlines() if "actions=" in line))
    return file


def _restore(host: Rig, bridge: str, file: Path) -> None:
    ovs = host.host.ovs
    path = ovs.directory / f"{bridge}.mgmt"
    while _accepts(path):
        time.sleep(0.002)
    while not _accepts(path):
        time.sleep(0.005)
    ovs.ofctl("-O", "OpenFlow14", "--bundle", "replace-flows", ovs.management(bridge), str(file))


def _accepts(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(path)) == 0


if __name__ == "__main__":
    chosen = tuple(map(int, sys.argv[1:]))
    run_alone("benchmarks.l2.switch_killed", partial(figures, chosen or SIZES))
