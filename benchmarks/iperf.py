"""Bandwidth between two instances, by iperf3."""

from __future__ import annotations

import json
import subprocess

from benchmarks.figure import Figure
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.wait import wait_until

TARGET = 10.0
SECONDS, OMITTED = 10, 2
"""Seconds that are measured, and those before, in which the burst passes."""
DATAGRAM = 1400


def bandwidth(
    client: Instance, server: Instance, address: str, *, udp: bool, reverse: bool, limit: float
) -> float:
    """Return the megabits of payload that arrive in a second.

    Datagrams are sent at twice the *limit*.  With *reverse*, the server sends.
    """
    listening = server.spawn(["iperf3", "--server", "--one-off"], stdout=subprocess.DEVNULL)
    wait_until(lambda: b":1451 " in server.run(["cat", "/proc/net/tcp", "/proc/net/tcp6"]).encode())
    words = ["iperf3", "--client", address, "--json", "--time", str(SECONDS)]
    words += ["--omit", str(OMITTED)]
    words += ["--udp", "--length", str(DATAGRAM), "--bitrate", f"{2 * limit}M"] if udp else []
    words += ["--reverse"] if reverse else []
    end = json.loads(client.run(words, timeout=60))["end"]
    listening.wait(60)
    return float(end["sum_received"]["bits_per_second"]) / 1e6


def deviation(name: str, measured: float, limit: float) -> Figure:
    """Make a figure of by how much a bandwidth differs from its limit."""
    print(f"{name}: {measured:.2f} of {limit:g} Mbit/s")
    return Figure(
        name=name,
        measured=abs(measured / limit - 1) * 100,
        target=TARGET,
        unit="%",
        raw_seconds=0.0,
        own_seconds=0.0,
    )
