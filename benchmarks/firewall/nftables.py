"""The nftables firewall: many ports at once, one member more, one rule more.

The driver alone, as an agent calls it.  The raw limit is libnftables itself: it loads the text of
what the driver made, as ``nft -f`` does, into a host that has nothing yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.figure import Figure
from benchmarks.firewall.iptables import bridge_figures
from benchmarks.l2.rig import run_alone, seconds
from netfw.linux.nftables.library import NftContext
from netfw.testing.lab.host import Host
from netfw.testing.lab.lab import Lab

LISTED = 3.0
"""Target of what changes with the host: the library lists chains and sets in each transaction."""


def figures() -> Iterator[Figure]:
    """Return the figures of this file."""
    return bridge_figures("nftables", "nft -f", _raw, LISTED)


def _raw(host: Host) -> float:
    """Return the seconds to load the rules of the host into an empty one."""
    text = _run(host, "list ruleset")
    with Lab(hosts=1) as lab:
        (other,) = lab.hosts.values()
        return seconds(partial(_run, other, text))


def _run(host: Host, commands: str) -> str:
    context = NftContext(Path(host.namespaces.space("net")), json=False)
    answer = context.run(commands)
    context.close()
    if not answer.ok:
        raise RuntimeError(answer.errors)
    return answer.output


if __name__ == "__main__":
    run_alone("benchmarks.firewall.nftables", figures)
