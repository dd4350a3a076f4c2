"""Sets and rules by the thousand: netfw against the raw restore of the same.

Both ways in one run and by turns, in a namespace of their own each time; medians.  Ours is from
values to applied: reading what is there, planning, rendering, restoring.  Run it with
``python -m benchmarks.core.filter``.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv4Network

from benchmarks.figure import Figure, ratio
from netfw.linux import netns
from netfw.linux.ipset import IpSet, IpSets, Member, SetKind
from netfw.linux.iptables import (
    ACCEPT,
    DROP,
    Backend,
    Chain,
    ChainKey,
    Family,
    Iptables,
    IptablesBinaries,
    IptablesRule,
    Jump,
    match,
)
from netfw.plan import Update
from netfw.testing.lab import sandbox

CHAINS, RULES = 200, 50
MEMBERS = 10_000
RUNS = 9
SET_RUNS = 25
BACKENDS = (Backend.NFT, Backend.LEGACY)


def figures() -> Iterator[Figure]:
    """Yield every figure of this module."""
    sandbox.require()
    yield _sets()
    for backend in BACKENDS:
        yield _all_rules(backend)
    for backend in BACKENDS:
        yield _one_chain(backend)


def _sets() -> Figure:
    members: frozenset[Member] = frozenset(
        IPv4Network((0x0A000000 + number * 8, 29 + number % 4)) for number in range(MEMBERS)
    )
    wanted = Update({"group": IpSet(SetKind(), members)})
    words = [str(each).removesuffix("/32") for each in members]
    text = "create nfw-group hash:net family inet maxelem 65536\n" + "".join(
        f"add nfw-group {word}\n" for word in words
    )

    def raw(space: str) -> Callable[[], object]:
        return lambda: _feed(space, ["ipset", "restore"], text)

    def ours(space: str) -> Callable[[], object]:
        return lambda: IpSets("nfw", namespace=space).converge(wanted)

    _same(raw, ours, "ipset save | cut -d' ' -f1-3 | sort")
    return _compare(f"core: {MEMBERS} ipset entries", raw, ours, 1.3, SET_RUNS)


def _all_rules(backend: Backend) -> Figure:
    wanted, text, tool = Update(_chains()), _text(), IptablesBinaries(backend)

    def raw(space: str) -> Callable[[], object]:
        return lambda: _restore(space, backend, text)

    def ours(space: str) -> Callable[[], object]:
        return lambda: Iptables("nfw", namespace=space, tool=tool).converge(wanted)

    _same(raw, ours, f"iptables{backend.value}-save | grep -v '^#'")
    name = f"core: {CHAINS * RULES} iptables rules, {backend.name.lower()}"
    return _compare(name, raw, ours, 1.3)


def _one_chain(backend: Backend) -> Figure:
    """Measure the change of one chain of fifty rules among ten thousand rules."""
    everything = Update(_chains())
    changed = {_key(7): Chain(tuple(reversed(_rules(7))))}
    lines = _chain_lines("port-7", list(reversed(_rule_lines(7))))
    text = "\n".join(["*filter", ":nfw-port-7 - [0:0]", *lines, "COMMIT", ""])

    def raw(space: str) -> Callable[[], object]:
        _restore(space, backend, _text())
        return lambda: _restore(space, backend, text)

    def ours(space: str) -> Callable[[], object]:
        tables = Iptables("nfw", namespace=space, tool=IptablesBinaries(backend))
        tables.converge(everything)
        return lambda: tables.converge(Update(changed))

    _same(raw, ours, f"iptables{backend.value}-save | grep -v '^#'")
    name = f"core: one changed chain of {RULES} rules, {backend.name.lower()}"
    return _compare(name, raw, ours, 2.0)


Way = Callable[[str], Callable[[], object]]
"""Prepares a namespace, and returns what is to be measured."""


def _compare(name: str, raw: Way, ours: Way, target: float, runs: int = RUNS) -> Figure:
    times: dict[Way, list[float]] = {raw: [], ours: []}
    for _ in range(runs):
        for way, taken in times.items():
            with _space() as space:
                work = way(space)
                begin = time.perf_counter()
                work()
                taken.append(time.perf_counter() - begin)
    by_raw, by_ours = (statistics.median(taken) for taken in times.values())
    return ratio(name, own=by_ours, raw=by_raw, target=target)


def _same(raw: Way, ours: Way, command: str) -> None:
    """Refuse to compare what does not do the same."""
    seen = []
    for way in (raw, ours):
        with _space() as space:
            way(space)()
            seen.append(_feed(space, ["sh", "-c", command], ""))
    if seen[0] != seen[1]:
        raise RuntimeError(f"the two do not do the same: {command}")


@contextmanager
def _space() -> Iterator[str]:
    name = "bench-filter"
    netns.create(name)
    try:
        yield name
    finally:
        netns.delete(name)


def _restore(space: str, backend: Backend, text: str) -> None:
    _feed(space, [f"iptables{backend.value}-restore", "--noflush", "-w", "5"], text)


def _feed(space: str, argv: list[str], text: str) -> bytes:
    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.seek(0)
        done = netns.run_in(
            space, subprocess.run, argv, stdin=file, capture_output=True, check=True
        )
    return bytes(done.stdout)


def _key(number: int) -> ChainKey:
    return ChainKey(family=Family.IPV4, table="filter", name=f"port-{number}")


def _rules(number: int) -> tuple[IptablesRule, ...]:
    """Return rules as the security groups of a port may have them."""
    rules = [
        IptablesRule(
            source=IPv4Network((0x0A000000 + (number * RULES + each) * 256, 24)),
            protocol="tcp",
            matches=(match("tcp", dport=1024 + each), match("conntrack", ctstate="NEW")),
            target=ACCEPT,
        )
        for each in range(RULES - 1)
    ]
    return (*rules, IptablesRule(target=DROP, comment=f"port {number}"))


def _rule_lines(number: int) -> list[str]:
    lines = [
        f"-s {IPv4Address(0x0A000000 + (number * RULES + each) * 256)}/24 -p tcp "
        f"-m tcp --dport {1024 + each} -m conntrack --ctstate NEW -j ACCEPT"
        for each in range(RULES - 1)
    ]
    return [*lines, f'-m comment --comment "port {number}" -j DROP']


def _chains() -> dict[ChainKey, Chain]:
    top = ChainKey(family=Family.IPV4, table="filter", name="FORWARD")
    jumps = tuple(
        IptablesRule(target=Jump(_key(number).name), in_device=f"tap{number}")
        for number in range(CHAINS)
    )
    ports = {_key(number): Chain(_rules(number)) for number in range(CHAINS)}
    return {top: Chain(jumps, frozenset({"FORWARD"})), **ports}


def _chain_lines(name: str, lines: list[str]) -> list[str]:
    return [f"-A nfw-{name} {line}" for line in lines]


def _text() -> str:
    names = ["FORWARD", *(f"port-{number}" for number in range(CHAINS))]
    lines = ["*filter", *(f":nfw-{name} - [0:0]" for name in names)]
    jumps = [f"-i tap{number} -j nfw-port-{number}" for number in range(CHAINS)]
    lines += _chain_lines("FORWARD", jumps)
    for number in range(CHAINS):
        lines += _chain_lines(f"port-{number}", _rule_lines(number))
    return "\n".join([*lines, "-I FORWARD -j nfw-FORWARD", "COMMIT", ""])


if __name__ == "__main__":
    if not sandbox.inside():
        sandbox.enter([sys.executable, "-m", "benchmarks.core.filter"])
    for figure in figures():
        print(figure.line(), flush=True)
