"""`make bench [ONLY=core]`: print every figure, write them as JSON, exit 1 when one is short."""

from __future__ import annotations

import importlib
import json
import os
import platform
import sys
import time
from pathlib import Path

from attrs import asdict

from benchmarks.figure import Figure
from benchmarks.plot import plot_sizes
from netfw.testing.lab import sandbox

SUITES = {
    "core": ("import_time", "flows", "ovsdb", "netlink", "filter"),
    "l2": ("plug", "unplug", "restart", "switch_killed", "steady"),
    "firewall": ("openflow", "iptables", "nftables"),
    "server": ("api", "agents", "scale"),
    "dhcp": ("driver", "agent", "restart"),
    "l3": (
        "routers",
        "restart",
        "floating_ip",
        "ha",
        "ha_routers",
        "distributed",
        "distributed_changes",
    ),
    "metadata": ("relay",),
    "qos": ("ports", "addresses"),
}
"""The modules of each suite, a package of this one, in the order in which they run."""
RESULTS = Path(__file__).parent / "results"


def main(only: list[str]) -> int:
    unknown = [name for name in only if name not in SUITES]
    if unknown:
        print(f"no such suite: {', '.join(unknown)}; there are: {', '.join(SUITES)}")
        return 2
    if not sandbox.inside():
        sandbox.enter([sys.executable, "-m", "benchmarks", *only])
    short = 0
    for suite in only or SUITES:
        figures = list(_measure(suite))
        _write(suite, figures)
        short += sum(not figure.ok for figure in figures)
    return 1 if short else 0


def _measure(suite: str) -> list[Figure]:
    figures: list[Figure] = []
    for module in SUITES[suite]:
        for figure in importlib.import_module(f"benchmarks.{suite}.{module}").figures():
            print(figure.line(), flush=True)
            figures.append(figure)
    return figures


def _write(suite: str, figures: list[Figure]) -> None:
    RESULTS.mkdir(exist_ok=True)
    content = {
        "suite": suite,
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "figures": [{**asdict(figure), "ok": figure.ok} for figure in figures],
    }
    path = RESULTS / f"{suite}.json"
    path.write_text(json.dumps(content, indent=2) + "\n")
    for figure in figures:
        if figure.sizes:
            plot_sizes(figure, RESULTS)
    print(f"written to {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
