"""Routes in the namespace of a router, read from the kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attrs import asdict, frozen

from netfw.cli.trace.router_listings import RouteReply, parse_route, parse_translations
from netfw.errors import NetfwError, NotFound
from netfw.linux import netns
from netfw.linux.process.command import run_command


@frozen(kw_only=True)
class RouteQuestion:
    """A packet that entered a router by a device."""

    device: str
    source: str
    target: str


def read_route(question: RouteQuestion) -> dict[str, Any]:
    """Return where the router with a device sends a packet, as plain data.

    :raises NotFound: no namespace of this host has the device, or it has no route.
    """
    namespace = next(filter(lambda name: _has(name, question.device), sorted(netns.names())), None)
    if namespace is None:
        raise NotFound(f"no network namespace of this host has the device {question.device}")
    argv = ["ip", "route", "get", question.target, "from", question.source]
    done = run_command([*argv, "iif", question.device], namespace=namespace)
    device, via = parse_route(done.output)
    if not device:
        raise NotFound(
            f"{namespace} has no route from {question.source} to {question.target}: {done.message}"
        )
    mac = netns.run_in(namespace, _mac, device)
    rules = _translations(namespace, question)
    return asdict(
        RouteReply(namespace=namespace, device=device, mac=mac, via=via, translations=rules)
    )


def _has(namespace: str, device: str) -> bool:
    try:
        return netns.run_in(namespace, _device_names, device)
    except NetfwError:  # it was removed meanwhile
        return False


def _device_names(device: str) -> bool:
    lines = Path("/proc/thread-self/net/dev").read_text().splitlines()
    return device in {line.partition(":")[0].strip() for line in lines if ":" in line}


def _mac(device: str) -> str:
    done = run_command(["ip", "-o", "link", "show", "dev", device])
    words = done.output.split()
    return words[words.index("link/ether") + 1] if "link/ether" in words else ""


def _translations(namespace: str, question: RouteQuestion) -> tuple[str, ...]:
    """Return the rules of address translation that name the source or the target."""
    command = "ip6tables-save" if ":" in question.target else "iptables-save"
    try:
        done = run_command([command, "-t", "nat"], namespace=namespace)
    except NetfwError:
        return ()
    return parse_translations(done.output, (question.source, question.target))
