"""Checks of a host: what it has, whether that is enough for netfw, and what to do.  Pure."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import asdict, field, frozen

from netfw.linux.clock_sync import ClockState

CAPABILITIES: Final = {"CAP_NET_ADMIN": 12, "CAP_NET_RAW": 13, "CAP_SYS_ADMIN": 21}
"""Capabilities that L2, DHCP and L3 agents need, and their bits."""
_OLDEST_OVS = (2, 10)
_OLDEST_KERNEL = (4, 18)
_FEW_FILES = 4096
_FEW_BYTES = 256 << 20
_CONNTRACK_WARNING = 0.8


class CheckLevel(enum.StrEnum):
    """How serious the result of a check is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@frozen(kw_only=True)
class Check:
    """One check of a host."""

    name: str
    level: CheckLevel = CheckLevel.OK
    text: str
    todo: str = ""
    """What to do, unless it is ok."""

    def to_dict(self) -> dict[str, Any]:
        """Return the check as plain data."""
        return asdict(self)


@frozen(kw_only=True)
class RequiredProgram:
    """A program that drivers use."""

    version: str = ""
    problem: str = ""
    """Why it cannot be run, and what to do; empty: it can."""
    needed_for: str = ""


@frozen(kw_only=True)
class HostFacts:
    """What was read from a host."""

    kernel: str = ""
    capabilities: int = 0
    """Effective capabilities of this process."""
    switch: str = ""
    """Reply of ``ovs-vswitchd`` to ``version``."""
    datapaths: str = ""
    """Its reply to ``dpctl/dump-dps``."""
    switch_problem: str = ""
    megaflows_outlive: bool = False
    """Whether megaflows of this switch can outlive their flows."""
    programs: Mapping[str, RequiredProgram] = field(factory=dict)
    has_netns: bool = True
    has_ipv6: bool = True
    conntrack: tuple[int, int] | None = None
    """Entries and their limit; ``None``: the kernel has no connection tracking loaded."""
    files: tuple[int, int] = (1 << 20, 1 << 20)
    """Soft and hard limit of open files."""
    clock: ClockState = ClockState.SYNCHRONISED
    directories: Mapping[str, str] = field(factory=dict)
    """Directories, and what is wrong with each."""
    free_bytes: int | None = None
    """Free space below ``state_path``."""
    configurations: Mapping[str, Sequence[str]] = field(factory=dict)
    """Problems of the drivers of each agent that is configured here."""


def check_host(facts: HostFacts) -> list[Check]:
    """Return all checks of a host."""
    return [
        _kernel(facts),
        _privileges(facts),
        _namespaces(facts),
        _ipv6(facts),
        _switch(facts),
        *_datapaths(facts),
        *(_program(name, program) for name, program in facts.programs.items()),
        *_iptables_variant(facts),
        _conntrack(facts),
        _files(facts),
        _clock(facts),
        *_directories(facts),
        *_configurations(facts),
    ]


def release_of(text: str) -> tuple[int, ...]:
    """Return the first release number in *text*; empty: there is none."""
    found = re.search(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else ()


def _check(name: str, level: CheckLevel, text: str, todo: str = "") -> Check:
    return Check(name=name, level=level, text=text, todo=todo)


def _expect(
    holds: bool, name: str, text: str, *, otherwise: CheckLevel, why: str, todo: str
) -> Check:
    """Return a check that is ok with *text* if it *holds*, and *otherwise* says *why*."""
    return _check(name, CheckLevel.OK, text) if holds else _check(name, otherwise, why, todo)


def _kernel(facts: HostFacts) -> Check:
    return _expect(
        release_of(facts.kernel) >= _OLDEST_KERNEL,
        "kernel",
        f"Linux {facts.kernel}",
        otherwise=CheckLevel.WARN,
        why=f"Linux {facts.kernel} is older than 4.18",
        todo="packet limits by meters do not work on the kernel datapath; use a newer kernel",
    )


def _privileges(facts: HostFacts) -> Check:
    missing = [name for name, bit in CAPABILITIES.items() if not facts.capabilities >> bit & 1]
    return _expect(
        not missing,
        "privileges",
        "this process may change networks",
        otherwise=CheckLevel.FAIL,
        why=f"this process lacks {', '.join(missing)}",
        todo="run this command, and the agents, as root; what follows may be wrong otherwise",
    )


def _namespaces(facts: HostFacts) -> Check:
    return _expect(
        facts.has_netns,
        "network namespaces",
        "the kernel has network namespaces",
        otherwise=CheckLevel.FAIL,
        why="the kernel has no network namespaces",
        todo="use a kernel with CONFIG_NET_NS: DHCP and routers run in namespaces",
    )


def _ipv6(facts: HostFacts) -> Check:
    return _expect(
        facts.has_ipv6,
        "IPv6",
        "the kernel has IPv6",
        otherwise=CheckLevel.WARN,
        why="the kernel has no IPv6: networks of this host are IPv4 only",
        todo="start the kernel without ipv6.disable=1 if networks use IPv6",
    )


def _switch(facts: HostFacts) -> Check:
    name = "Open vSwitch"
    if facts.switch_problem:
        return _check(
            name,
            CheckLevel.FAIL,
            facts.switch_problem,
            "start openvswitch-switch, or name the directory of its sockets (--ovs-directory)",
        )
    if release_of(facts.switch) < _OLDEST_OVS:
        return _check(name, CheckLevel.WARN, facts.switch, "use 2.10 or later: meters need it")
    return _check(name, CheckLevel.OK, facts.switch)


def _datapaths(facts: HostFacts) -> Iterator[Check]:
    if facts.switch_problem:
        return
    kinds = sorted({line.partition("@")[0] for line in facts.datapaths.split() if "@" in line})
    if not kinds:
        yield _check(
            "datapath",
            CheckLevel.WARN,
            "the switch has no datapath",
            "it gets one with the first agent",
        )
    elif facts.megaflows_outlive:
        yield _check(
            "datapath",
            CheckLevel.WARN,
            f"{', '.join(kinds)}: megaflows of this release can outlive their flows, so that "
            "agents delete them after each change",
            "use Open vSwitch 3.3 or later where many connections pass (decision 66)",
        )
    else:
        yield _check("datapath", CheckLevel.OK, ", ".join(kinds))


def _program(name: str, program: RequiredProgram) -> Check:
    if program.problem:
        return _check(
            name, CheckLevel.WARN, f"it is needed for {program.needed_for}", program.problem
        )
    return _check(name, CheckLevel.OK, program.version)


def _iptables_variant(facts: HostFacts) -> Iterator[Check]:
    variants = {
        name: "nf_tables" if "nf_tables" in program.version else "legacy"
        for name, program in facts.programs.items()
        if name in ("iptables", "ip6tables") and program.version
    }
    if len(set(variants.values())) > 1:
        shown = ", ".join(f"{name}: {variant}" for name, variant in sorted(variants.items()))
        yield _check(
            "iptables variant",
            CheckLevel.WARN,
            f"the two families use different variants ({shown})",
            "choose one with update-alternatives: rules of the other one stay in force unseen",
        )


def _conntrack(facts: HostFacts) -> Check:
    name = "connection tracking"
    if facts.conntrack is None:
        return _check(
            name,
            CheckLevel.WARN,
            "the kernel has no connection tracking loaded",
            "modprobe nf_conntrack; security groups and NAT in the kernel need it (a switch with "
            "datapath_type = netdev has its own)",
        )
    entries, limit = facts.conntrack
    text = f"{entries} of {limit} entries"
    if limit and entries >= limit * _CONNTRACK_WARNING:
        return _check(name, CheckLevel.WARN, text, "raise net.netfilter.nf_conntrack_max")
    return _check(name, CheckLevel.OK, text)


def _files(facts: HostFacts) -> Check:
    soft, hard = facts.files
    text = f"{soft} open files for this process, {hard} at most"
    todo = "raise LimitNOFILE of the agents to 65536 or more"
    return _expect(
        hard >= _FEW_FILES, "open files", text, otherwise=CheckLevel.WARN, why=text, todo=todo
    )


def _clock(facts: HostFacts) -> Check:
    return _expect(
        facts.clock is not ClockState.UNSYNCHRONISED,
        "clock",
        "synchronised" if facts.clock is ClockState.SYNCHRONISED else "the kernel does not say",
        otherwise=CheckLevel.WARN,
        why="no time service keeps the clock right",
        todo="run chrony or another one: tokens, certificates and logs of hosts need equal clocks",
    )


def _directories(facts: HostFacts) -> Iterator[Check]:
    for path, problem in facts.directories.items():
        if problem:
            yield _check(
                f"directory {path}", CheckLevel.FAIL, problem, "correct it as the text says"
            )
        else:
            yield _check(f"directory {path}", CheckLevel.OK, "agents can use it")
    if facts.free_bytes is not None and facts.free_bytes < _FEW_BYTES:
        text = f"{facts.free_bytes >> 20} MiB are free below state_path"
        yield _check("disk", CheckLevel.WARN, text, "free some: leases and status files are there")


def _configurations(facts: HostFacts) -> Iterator[Check]:
    if not facts.configurations:
        yield _check(
            "configuration",
            CheckLevel.WARN,
            "no configuration of an agent was given or found in /etc/netfw",
            "repeat with --config-file and --agent, so that drivers can check this host",
        )
    for agent, problems in facts.configurations.items():
        for problem in problems:
            todo = "the text says what to do; the agent may start and be degraded until then"
            yield _check(f"drivers of {agent}", CheckLevel.FAIL, problem, todo)
        if not problems:
            yield _check(f"drivers of {agent}", CheckLevel.OK, "they have what they need")
