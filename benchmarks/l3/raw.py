"""The routers of a host, made by the raw tools, as a script would that knows what is to be there.

One ``ovs-vsctl`` for all ports, one ``ip -batch`` for all namespaces and one within each,
parameters by one ``sysctl`` and rules by one restore for each family.  A highly available router
has the addresses of its HA port only, and keepalived with the configuration of the agent.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from attrs import frozen

from benchmarks.l3.rig import Router
from benchmarks.service_rig import HostAgents
from netfw.testing.lab.host import Host
from netfw.testing.lab.wait import wait_until

_HA_PREFIX = "ha-"
_PREFIXES = ("qr-", "qg-", "fg-", "sg-", _HA_PREFIX)
_AT_ONCE = 10
_SYSCTLS = (
    "net.ipv4.ip_forward",
    "net.ipv6.conf.all.forwarding",
    "net.ipv4.conf.all.promote_secondaries",
)
_INSIDE = """
cd "$0"
iptables-restore < iptables
ip6tables-restore < ip6tables
ip -batch ip
sysctl -q -p sysctl
[ ! -e keepalived.conf ] || keepalived --vrrp --use-file "$0/keepalived.conf" \\
    --pid "$0/keepalived.pid" --vrrp_pid "$0/vrrp.pid" > /dev/null 2>&1
"""


@frozen
class Script:
    """What the raw tools are given."""

    vsctl: Sequence[str]
    batch: str
    """Lines of ``ip -batch`` on the host: namespaces, and their devices."""
    inside: dict[str, str]
    """For each namespace, the directory with the files of its own tools."""

    def run(self, host: Host) -> None:
        """Make the routers on a host that has none."""
        host.ovs.vsctl(*self.vsctl)
        host.run(["ip", "-batch", "-"], input=self.batch)
        for netns, directory in self.inside.items():
            host.run(["nsenter", f"--net=/run/netns/{netns}", "sh", "-ec", _INSIDE, directory])


def record(on: HostAgents, routers: Iterable[Router]) -> Script:
    """Write down what is on a host, for the raw tools."""
    vsctl: list[str] = []
    batch: list[str] = []
    inside: dict[str, str] = {}
    rows = interface_rows(on.host)
    for router in routers:
        batch.append(f"netns add {router.netns}")
        output = on.host.run(["ip", "-n", router.netns, "-j", "address", "show"])
        devices = [link for link in json.loads(output) if link["ifname"].startswith(_PREFIXES)]
        for link in devices:
            vsctl += ["--", *render_port(rows[link["ifname"]])]
            batch.append(f"link set {link['ifname']} netns {router.netns}")
        directory = on.agent.directory / "raw" / router.id
        directory.mkdir(parents=True)
        _write_inside(on.host, router, devices, directory)
        conf = on.agent.directory / "routers" / "keepalived" / f"{router.id}.conf"
        if conf.exists():
            shutil.copy(conf, directory / "keepalived.conf")
        inside[router.netns] = str(directory)
    return Script(vsctl[1:], "\n".join(batch), inside)


def remove(on: HostAgents, namespaces: Iterable[str]) -> None:
    """Remove processes, namespaces and devices, as if the host had just been started."""
    wait_until(lambda: not _kill_keepalived(on.host), lambda: find_keepalived(on.host))
    shutil.rmtree(on.agent.directory / "routers", ignore_errors=True)
    for netns in namespaces:
        on.host.run(["ip", "netns", "delete", netns])
    names = _devices(on.host)
    for start in range(0, len(names), _AT_ONCE):
        words = [w for name in names[start : start + _AT_ONCE] for w in ("--", "del-port", name)]
        on.host.ovs.vsctl(*words[1:])
    wait_until(lambda: not _devices(on.host))


def find_keepalived(host: Host) -> list[int]:
    """Return the processes of all keepalived on a host, children included."""
    return [pid for pid in host.namespaces.processes() if _command(pid) == "keepalived"]


def _kill_keepalived(host: Host) -> list[int]:
    """Kill all keepalived of a host, and return their pids.

    A parent may start a child again before it is killed itself: call this until there is none.
    """
    pids = find_keepalived(host)
    for pid in pids:
        with suppress(ProcessLookupError):  # the child ends with its parent
            os.kill(pid, signal.SIGKILL)
    return pids


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):  # it ended
        return ""


def _devices(host: Host) -> list[str]:
    ports = host.ovs.vsctl("list-ports", "br-int").split()
    return [port for port in ports if port.startswith(_PREFIXES)]


def interface_rows(host: Host) -> dict[str, dict[str, object]]:
    """Return the rows of all interfaces of the switch, by name."""
    listed = json.loads(
        host.ovs.vsctl("--format=json", "--columns=name,mac,external_ids", "list", "Interface")
    )
    rows = (dict(zip(listed["headings"], row, strict=True)) for row in listed["data"])
    return {row["name"]: row for row in rows}


def render_port(row: dict[str, object]) -> list[str]:
    """Return the words of ``ovs-vsctl`` that add a port with its interface."""
    name, ids = str(row["name"]), row["external_ids"]
    assert isinstance(ids, list), "a map of OVSDB"
    words = ["add-port", "br-int", name, "--", "set", "Interface", name, "type=internal"]
    return [
        *words,
        f'mac="{row["mac"]}"',
        *(f'external_ids:{key}="{value}"' for key, value in ids[1]),
    ]


def _write_inside(
    host: Host, router: Router, devices: list[dict[str, Any]], directory: Path
) -> None:
    enter = ["nsenter", f"--net=/run/netns/{router.netns}"]
    for command in ("iptables", "ip6tables"):
        (directory / command).write_text(host.run([*enter, f"{command}-save"]))
    lines = ["link set lo up"]
    ha = any(link["ifname"].startswith(_HA_PREFIX) for link in devices)
    for link in devices:
        name, mode = link["ifname"], "addrgenmode none" if ha else ""
        lines.append(f"link set {name} mtu {link['mtu']} {mode} up")
        lines += [
            f"address add {info['local']}/{info['prefixlen']} dev {name}"
            for info in link["addr_info"]
            if info["scope"] == "global" and not (ha and _is_virtual(name, info))
        ]
    for version in ("-4", "-6"):
        routes = ["ip", version, "-n", router.netns, "route", "show", "proto", "static"]
        lines += [f"route add {line}" for line in host.run(routes).splitlines()]
    (directory / "ip").write_text("\n".join(lines) + "\n")
    values = host.run([*enter, "sysctl", *_SYSCTLS])
    (directory / "sysctl").write_text(values)


def _is_virtual(device: str, info: dict[str, Any]) -> bool:
    """Return whether an address of a highly available router is keepalived's."""
    return not device.startswith(_HA_PREFIX) or info["prefixlen"] == 32
