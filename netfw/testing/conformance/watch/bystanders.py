"""Objects of other programs: a device of the sandbox, and a port on every bridge."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from netfw.errors import NetfwError
from netfw.testing.lab import openvswitch, sandbox

_PORT, _DEVICE = "bystander-{}", "bystander"


@contextmanager
def made_bystanders() -> Iterator[None]:
    """Create them, and remove them at the end; nothing outside of a sandbox."""
    with ExitStack() as stack:
        if sandbox.inside():
            _ip("link", "add", _DEVICE, "type", "veth", "peer", "name", f"{_DEVICE}-peer")
            stack.callback(_ip, "link", "delete", _DEVICE)
            for switch in openvswitch.running():
                for number, bridge in enumerate(_bridges(switch)):
                    port = _PORT.format(number)
                    interface = ("--", "set", "Interface", port, "type=internal")
                    switch.vsctl("add-port", bridge, port, *interface)
                    stack.callback(switch.vsctl, "--if-exists", "del-port", bridge, port)
        yield


def _bridges(switch: openvswitch.PrivateOvs) -> list[str]:
    try:
        return switch.vsctl("list-br").split()
    except NetfwError:  # its lab has ended
        return []


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
