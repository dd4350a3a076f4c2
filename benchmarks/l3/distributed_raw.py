"""The distributed routers of a compute host, made by the raw tools.

As in :mod:`benchmarks.l3.raw`: one ``ovs-vsctl`` for all ports, one ``ip -batch`` for all
namespaces and devices, and within each namespace one ``sysctl``, one restore for each family, and
one ``ip -batch`` for addresses, routes and policy rules.  Routers have IPv4 alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.l3.raw import Script, interface_rows, render_port
from benchmarks.service_rig import HostAgents
from netfw.testing.lab.host import Host

_FRESH = "raw-fresh"
_LINKS = ("rfp-", "fpr-")
"""Ends of the link between a router and the agent gateway: the router's is first."""
_TABLES = ("0:", "32766:", "32767:")
"""Policy rules that the kernel makes."""
_PARAMETERS = (
    r"^net\.(ipv[46]\.(conf|neigh)\..*|ipv4\.ip_forward|ipv[46]\.fib_multipath_hash_policy)"
)
_DERIVED = ("mc_forwarding", "stable_secret", "mtu")
"""Parameters that follow from others."""
Parameters = dict[str, str]


def record(on: HostAgents, namespaces: Iterable[str]) -> Script:
    """Write down what is in the namespaces of a host, for the raw tools."""
    vsctl: list[str] = []
    made: list[str] = []
    batch: list[str] = []
    inside: dict[str, str] = {}
    rows = interface_rows(on.host)
    on.host.run(["ip", "netns", "add", _FRESH])
    fresh = _parameters(on.host, _FRESH)
    on.host.run(["ip", "netns", "delete", _FRESH])
    for netns in namespaces:
        made.append(f"netns add {netns}")
        links = json.loads(on.host.run(["ip", "-n", netns, "-j", "address", "show"]))
        for link in (each for each in links if each["ifname"] != "lo"):
            name = link["ifname"]
            if name in rows:
                vsctl += ["--", *render_port(rows[name])]
                batch.append(f"link set {name} netns {netns}")
            elif name.startswith(_LINKS[0]):
                batch.append(_pair(netns, link, namespaces))
        directory = on.agent.directory / "raw" / netns
        directory.mkdir(parents=True)
        _write_inside(on.host, netns, links, fresh, directory)
        inside[netns] = str(directory)
    return Script(vsctl[1:], "\n".join([*made, *batch]), inside)


def _pair(netns: str, link: dict[str, Any], namespaces: Iterable[str]) -> str:
    """Return the command that makes the link between a router and the agent gateway."""
    (gateway,) = (name for name in namespaces if name.startswith("fip-"))
    peer = link["ifname"].replace(*_LINKS)
    return f"link add {link['ifname']} netns {netns} type veth peer name {peer} netns {gateway}"


def _write_inside(
    host: Host, netns: str, links: list[dict[str, Any]], fresh: Parameters, directory: Path
) -> None:
    enter = ["nsenter", f"--net=/run/netns/{netns}"]
    for command in ("iptables", "ip6tables"):
        (directory / command).write_text(host.run([*enter, f"{command}-save"]))
    lines = [line for link in links for line in _device(link)]
    routes = host.run(["ip", "-4", "-n", netns, "route", "show", "table", "all"]).splitlines()
    lines += [f"route add {line}" for line in routes if _is_own(line)]
    rules = host.run(["ip", "-4", "-n", netns, "rule", "show"]).splitlines()
    lines += [_rule(line) for line in rules if not line.startswith(_TABLES)]
    (directory / "ip").write_text("\n".join(lines) + "\n")
    found = _parameters(host, netns)
    changed = (f"{k}={v}" for k, v in found.items() if v != fresh.get(_default(k)))
    (directory / "sysctl").write_text("\n".join(changed) + "\n")


def _device(link: dict[str, Any]) -> Iterator[str]:
    name = link["ifname"]
    yield f"link set {name} mtu {link['mtu']} up"
    for info in link["addr_info"]:
        if name != "lo" and (info["family"] == "inet" or info["scope"] == "global"):
            yield f"address add {info['local']}/{info['prefixlen']} dev {name}"


def _is_own(route: str) -> bool:
    """Return whether a route is not one that the kernel makes with an address."""
    return "proto kernel" not in route and "table local" not in route


def _rule(line: str) -> str:
    priority, _, rest = line.partition(":")
    return f"rule add priority {priority} {rest.strip()}"


def _parameters(host: Host, netns: str) -> Parameters:
    enter = ["nsenter", f"--net=/run/netns/{netns}"]
    output = host.attempt([*enter, "sysctl", "-a", "--pattern", _PARAMETERS]).output
    found = (line.partition(" = ") for line in output.splitlines())
    return {key: value for key, _, value in found if not key.endswith(_DERIVED)}


def _default(parameter: str) -> str:
    """Return the parameter of a fresh namespace that *parameter* is compared with."""
    words = parameter.split(".")
    if words[2] in ("conf", "neigh") and words[3] not in ("all", "default", "lo"):
        words[3] = "default"
    return ".".join(words)
