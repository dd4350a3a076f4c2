"""The process that holds a detached lab: while it lives, the lab is up.

It runs in the sandbox and answers the clients of its socket, one at a time.  A request
and its answer are one JSON packet each; descriptors of namespaces travel with the answer.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from netfw.errors import NetfwError, NotFound, nearest
from netfw.testing.lab import topology
from netfw.testing.lab.host import Host
from netfw.testing.lab.lab import Lab

PACKET = 1 << 17
_TIMEOUT = 5.0
KEEP = b"keep"
"""The starter's message once the lab is registered; an unregistered lab does not stay."""


def main(argv: Sequence[str]) -> int:
    """Start a lab and hold it: ``LISTENING-FD STARTER-FD TOPOLOGY-AS-JSON``."""
    listening = socket.socket(fileno=int(argv[0]))
    with socket.socket(fileno=int(argv[1])) as starter:
        wanted = topology.read(json.loads(argv[2]))
        lab = wanted.lab()
        try:
            lab.__enter__()
            wanted.populate(lab)
        except NetfwError as error:
            starter.send(json.dumps({"error": str(error)}).encode())
            return 1
        starter.send(json.dumps({"error": None}).encode())
        if starter.recv(PACKET) != KEEP:
            return 1
    while True:
        connection, _ = listening.accept()
        connection.settimeout(_TIMEOUT)
        # A client that disconnects or sends nothing must not end the lab.
        with connection, contextlib.suppress(OSError):
            _answer(lab, connection)


def _answer(lab: Lab, connection: socket.socket) -> None:
    spaces: Mapping[str, int] = {}
    try:
        request = json.loads(connection.recv(PACKET))
        if request["ask"] == "show":
            answer: dict[str, Any] = {"hosts": [_show(lab, host) for host in lab.hosts.values()]}
        else:
            spaces = _spaces(lab, request["host"], request["namespace"])
            answer = {"kinds": list(spaces)}
    except (NetfwError, ValueError, KeyError, TypeError) as error:
        answer = {"error": str(error)}
    try:
        socket.send_fds(connection, [json.dumps(answer).encode()], list(spaces.values()))
    finally:
        for descriptor in spaces.values():
            os.close(descriptor)


def _show(lab: Lab, host: Host) -> dict[str, Any]:
    # A user's experiment may have stopped the switch.
    bridges = host.attempt(["ovs-vsctl", f"--db={host.ovs.remote}", "list-br"])
    return {
        "name": host.name,
        "address": str(host.address.ip),
        "address6": str(host.address6.ip),
        "connected": lab.fabric.connected(host.name),
        "bridges": bridges.output.split(),
        "namespaces": sorted(host.call(os.listdir, "/run/netns")),
        "processes": len(host.namespaces.processes()),
    }


def _spaces(lab: Lab, name: str, namespace: str | None) -> dict[str, int]:
    """Return descriptors of all namespaces of a host, or of one of its network namespaces."""
    host = lab.hosts.get(name)
    if host is None:
        known = ", ".join(lab.hosts)
        raise NotFound(f"no host {name!r}{nearest(name, lab.hosts)}; there are {known}")
    spaces = {kind: os.dup(descriptor) for kind, descriptor in host.namespaces.spaces.items()}
    for kind in ("user", "pid"):
        spaces[kind] = os.open(f"/proc/self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
    if namespace is not None:
        os.close(spaces["net"])
        spaces["net"] = _open_namespace(host, namespace)
    return spaces


def _open_namespace(host: Host, namespace: str) -> int:
    names = host.call(os.listdir, "/run/netns")
    if namespace not in names:
        raise NotFound(
            f"{host.name} has no instance or namespace {namespace!r}{nearest(namespace, names)}; "
            f"it has {', '.join(sorted(names)) or 'none'}"
        )
    return host.call(os.open, f"/run/netns/{namespace}", os.O_RDONLY | os.O_CLOEXEC)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
