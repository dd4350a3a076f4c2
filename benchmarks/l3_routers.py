"""L3: 50 routers with a gateway and floating IPs, from nothing, against the raw tools.

The agent's clock runs from the start of its process, imports included, until every gateway answers
a machine outside and every floating IP is reported ACTIVE.  Then all of it is removed and made
again by the raw tools, as a script would that knows what is to be there: one ``ovs-vsctl`` for all
ports, one ``ip -batch`` for all namespaces and one within each, parameters by one ``sysctl`` and
rules by one restore for each family; until every gateway answers.  The switch and the L2 agent work
for both, and are in the time of both and in the CPU of neither.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from attrs import frozen

from benchmarks.figure import Figure, ratio
from benchmarks.l2_rig import run_alone
from benchmarks.l3_rig import Rig, Router, reach, rig
from benchmarks.process_usage import Cost, children_cpu, cpu_with_children
from netfw.testing.lab.wait import wait_until

ROUTERS = 50
ROUNDS = 2
TARGET = 3.0
NEUTRON, NEUTRON_CPU = 97.0, 102.0
_PREFIXES = ("qr-", "qg-")
_AT_ONCE = 10
_SYSCTLS = (
    "net.ipv4.ip_forward",
    "net.ipv6.conf.all.forwarding",
    "net.ipv4.conf.all.promote_secondaries",
)


@frozen
class Script:
    """What the raw tools are given."""

    vsctl: Sequence[str]
    batch: str
    """Lines of ``ip -batch`` on the host: namespaces, and their devices."""
    inside: dict[str, str]
    """For each namespace, the directory with the files of its own tools."""


def figures(routers: int = ROUTERS) -> Iterator[Figure]:
    """The figures of this file."""
    own, raw = [], []
    with rig() as found:
        found.l3.stop()
        made = found.routers(routers)
        print(f"    load of the machine: {os.getloadavg()[0]:.1f}", flush=True)
        for number in range(ROUNDS):
            own.append(_by_netfw(found, made))
            if not number:
                script = _record(found, made)
            _remove(found, made)
            raw.append(_by_tools(found, made, script))
            if number + 1 < ROUNDS:
                _remove(found, made)
        found.l3.begin()
    name = f"l3: {routers} routers, 2 floating IPs each, from nothing"
    least, most = (min(each, key=lambda cost: cost.wall) for each in (raw, own))
    print(f"    Neutron 29, for 50: {NEUTRON:g} s, {NEUTRON_CPU:g} s of CPU")
    yield ratio(name, own=most.wall, raw=least.wall, target=TARGET)
    cpu = (min(cost.cpu for cost in each) for each in (own, raw))
    yield ratio(f"{name}, CPU", own=next(cpu), raw=next(cpu), target=TARGET)


def _by_netfw(found: Rig, routers: list[Router]) -> Cost:
    began = time.monotonic()
    found.l3.start()
    reach(found, routers)
    found.await_active()
    ended = time.monotonic()
    cpu = cpu_with_children(found.l3.pid)
    found.l3.stop()
    return Cost(ended - began, cpu)


def _by_tools(found: Rig, routers: list[Router], script: Script) -> Cost:
    before, began = children_cpu(), time.monotonic()
    found.host.ovs.vsctl(*script.vsctl)
    found.host.run(["ip", "-batch", "-"], input=script.batch)
    for netns, directory in script.inside.items():
        found.host.run(["nsenter", f"--net=/run/netns/{netns}", "sh", "-ec", _INSIDE, directory])
    spent = children_cpu() - before
    reach(found, routers)
    return Cost(time.monotonic() - began, spent)


_INSIDE = """
cd "$0"
iptables-restore < iptables
ip6tables-restore < ip6tables
ip -batch ip
sysctl -q -p sysctl
"""


def _remove(found: Rig, routers: list[Router]) -> None:
    """Remove namespaces and devices, as if the host had just been started."""
    for router in routers:
        found.host.run(["ip", "netns", "delete", router.netns])
    names = _devices(found)
    for start in range(0, len(names), _AT_ONCE):
        words = [w for name in names[start : start + _AT_ONCE] for w in ("--", "del-port", name)]
        found.host.ovs.vsctl(*words[1:])
    wait_until(lambda: not _devices(found))
    found.await_rest(found.l2)


def _devices(found: Rig) -> list[str]:
    ports = found.host.ovs.vsctl("list-ports", "br-int").split()
    return [port for port in ports if port.startswith(_PREFIXES)]


def _record(found: Rig, routers: list[Router]) -> Script:
    """Write down what is there, for the raw tools."""
    vsctl: list[str] = []
    batch: list[str] = []
    inside: dict[str, str] = {}
    rows = {row["name"]: row for row in _rows(found)}
    for router in routers:
        batch.append(f"netns add {router.netns}")
        links = json.loads(found.host.run(["ip", "-n", router.netns, "-j", "address", "show"]))
        devices = [link for link in links if link["ifname"].startswith(_PREFIXES)]
        for link in devices:
            vsctl += ["--", *_plugged(rows[link["ifname"]])]
            batch.append(f"link set {link['ifname']} netns {router.netns}")
        directory = found.l3.directory / "raw" / router.id
        directory.mkdir(parents=True)
        _write_inside(found, router, devices, directory)
        inside[router.netns] = str(directory)
    return Script(vsctl[1:], "\n".join(batch), inside)


def _rows(found: Rig) -> Iterator[dict[str, object]]:
    listed = json.loads(
        found.host.ovs.vsctl(
            "--format=json", "--columns=name,mac,external_ids", "list", "Interface"
        )
    )
    for row in listed["data"]:
        yield dict(zip(listed["headings"], row, strict=True))


def _plugged(row: dict[str, object]) -> list[str]:
    name, ids = str(row["name"]), row["external_ids"]
    assert isinstance(ids, list), "a map of OVSDB"
    words = ["add-port", "br-int", name, "--", "set", "Interface", name, "type=internal"]
    return [
        *words,
        f'mac="{row["mac"]}"',
        *(f'external_ids:{key}="{value}"' for key, value in ids[1]),
    ]


def _write_inside(
    found: Rig, router: Router, devices: list[dict[str, object]], directory: Path
) -> None:
    enter = ["nsenter", f"--net=/run/netns/{router.netns}"]
    for command in ("iptables", "ip6tables"):
        (directory / command).write_text(found.host.run([*enter, f"{command}-save"]))
    lines = ["link set lo up"]
    for link in devices:
        lines.append(f"link set {link['ifname']} mtu {link['mtu']} up")
        infos = link["addr_info"]
        assert isinstance(infos, list), "a list of JSON"
        lines += [
            f"address add {info['local']}/{info['prefixlen']} dev {link['ifname']}"
            for info in infos
            if info["scope"] == "global"
        ]
    for version in ("-4", "-6"):
        shown = ["ip", version, "-n", router.netns, "route", "show", "proto", "static"]
        lines += [f"route add {line}" for line in found.host.run(shown).splitlines()]
    (directory / "ip").write_text("\n".join(lines) + "\n")
    values = found.host.run([*enter, "sysctl", *_SYSCTLS])
    (directory / "sysctl").write_text(values)


if __name__ == "__main__":
    run_alone("benchmarks.l3_routers", partial(figures, *map(int, sys.argv[1:])))
