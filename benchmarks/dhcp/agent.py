"""DHCP: one port more, from the request to the API until a client has its lease.

Measured on networks of several sizes, with one lease in the lease file and with as many as there
are ports: for every file that it reads, dnsmasq looks at every port for every lease that it knows.
What it used of the processor itself is the raw limit.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from functools import partial
from statistics import median
from typing import Any

from attrs import frozen

from benchmarks.dhcp.rig import Guest, Rig, rig
from benchmarks.figure import Figure, megabytes, milliseconds, ratio
from benchmarks.l2.rig import run_alone
from benchmarks.process_usage import process_cpu, resident
from netfw.testing.lab.wait import wait_until

SIZES = (10, 1000, 5000)
ROUNDS = 15
TARGET, FLAT, MEMORY = 300.0, 1.5, 100.0
_LEASE = 86_400
_LITTLE = 0.01
"""Seconds of CPU in half a second."""


@frozen
class Cost:
    """Of one port more, seconds: until it has its lease, and of the CPU of agent and dnsmasq."""

    wall: float
    agent: float
    dnsmasq: float


def figures(sizes: tuple[int, ...] = SIZES) -> Iterator[Figure]:
    """Yield the figures of this file."""
    few: dict[int, Cost] = {}
    with rig() as found:
        for number, size in enumerate(sizes, 1):
            print(f"    load of the machine: {os.getloadavg()[0]:.1f}", flush=True)
            network = found.network(number)
            guest = found.guest(network, f"guest{number}")
            ports = _served(found, guest, network, size)
            few[size] = _one_more(found, guest, network)
            yield _leased(f"{size:,} ports", few[size])
            if size > min(sizes):
                _have_leases(found, network, ports)
                yield _leased(f"{size:,} ports and leases", _one_more(found, guest, network))
        used = resident(found.dhcp.pid)
    small, large = few[min(sizes)], few[max(sizes)]
    name = f"dhcp: one port more at {max(sizes):,} over {min(sizes):,}"
    yield ratio(f"{name}, leased", own=large.wall, raw=small.wall, target=FLAT)
    own, raw = (cost.wall - cost.dnsmasq for cost in (large, small))
    yield ratio(f"{name}, but for dnsmasq's CPU", own=own, raw=raw, target=FLAT)
    yield ratio(f"{name}, CPU of the agent", own=large.agent, raw=small.agent, target=FLAT)
    yield megabytes(f"dhcp: memory of the agent with {sum(sizes):,} ports", used, MEMORY)


def _leased(where: str, cost: Cost) -> Figure:
    print(f"    {where}: {cost.agent * 1000:.1f} ms of the agent's CPU each")
    name = f"dhcp: from the API to the lease, {where}"
    return milliseconds(name, cost.wall, TARGET, cost.dnsmasq)


def _served(found: Rig, guest: Guest, network: str, size: int) -> list[dict[str, Any]]:
    """Create that many ports, and wait until the last of them gets its lease."""
    began = time.monotonic()
    ports = found.ports(network, size)
    made = time.monotonic()
    guest.lease(*identity(ports[-1]))
    print(
        f"    {size:,} ports: made by the API in {made - began:.1f} s, "
        f"leased {time.monotonic() - made:.1f} s later",
        flush=True,
    )
    _rest(found, network)
    return ports


def _one_more(found: Rig, guest: Guest, network: str) -> Cost:
    walls = []
    agent, dnsmasq = _used(found, network)
    for _ in range(ROUNDS):
        began = time.monotonic()
        port = found.client.create("/ports", {"port": {"network_id": network}})
        walls.append(guest.lease(*identity(port)) - began)
    after = _rest(found, network)
    return Cost(median(walls), (after[0] - agent) / ROUNDS, (after[1] - dnsmasq) / ROUNDS)


def _have_leases(found: Rig, network: str, ports: list[dict[str, Any]]) -> None:
    """Have dnsmasq begin with a lease file in which all *ports* are."""
    files, expiry = found.files(network), int(time.time()) + _LEASE
    lines = (" ".join((str(expiry), *identity(port), "*", "*\n")) for port in ports)
    (files / "leases").write_text("".join(lines))
    former = found.dnsmasq(network)
    if former is not None:
        os.kill(int(former.name), signal.SIGKILL)
    wait_until(lambda: found.dnsmasq(network) not in (former, None), "another dnsmasq")
    _rest(found, network)


def _rest(found: Rig, network: str) -> tuple[float, float]:
    """Wait until agent and dnsmasq have nothing to do any more; the CPU that they have used."""
    former, now = (0.0, 0.0), _used(found, network)
    while sum(now) - sum(former) > _LITTLE:
        time.sleep(0.5)
        former, now = now, _used(found, network)
    return now


def _used(found: Rig, network: str) -> tuple[float, float]:
    dnsmasq = found.dnsmasq(network)
    return process_cpu(found.dhcp.pid), 0.0 if dnsmasq is None else process_cpu(int(dnsmasq.name))


def identity(port: dict[str, Any]) -> tuple[str, str]:
    """Return the MAC address of a port, and the address that it is to get."""
    return port["mac_address"], port["fixed_ips"][0]["ip_address"]


if __name__ == "__main__":
    chosen = tuple(map(int, sys.argv[1:]))
    run_alone("benchmarks.dhcp.agent", partial(figures, chosen or SIZES))
