"""A host of a lab: namespaces, an Open vSwitch unless it has none, and instances."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Interface, IPv6Interface
from pathlib import Path

from netfw.errors import ConfigError, Conflict
from netfw.linux import syscalls
from netfw.testing.lab import lab_syscalls
from netfw.testing.lab.instance import Instance, Plug
from netfw.testing.lab.namespaces import NamespaceContext, NamespaceOwner, make_namespaces
from netfw.testing.lab.openvswitch import PrivateOvs, bridge_setup

NIC = "eth0"
"""The NIC on the underlay."""
UNDERLAY = "br-phy"
"""The bridge with the NIC and the host's addresses; userspace tunnels need them there."""


class Host(NamespaceOwner):
    """A separate machine, as far as networking goes.

    It has its own devices, its own ``/run`` (so its own ``/run/netns`` and ``/run/openvswitch``),
    ``/sys`` and host name.  ``directory`` is that ``/run``, by a path that is the same file inside
    and outside, so that sockets in it can be reached from both.
    """

    def __init__(
        self,
        name: str,
        directory: Path,
        *,
        address: IPv4Interface,
        address6: IPv6Interface,
        switch: bool = True,
    ) -> None:
        self.name = name
        self.directory = directory
        self.address = address
        self.address6 = address6
        self.namespaces = NamespaceContext()
        self._ovs = PrivateOvs(directory / "openvswitch") if switch else None
        self.instances: dict[str, Instance] = {}

    @property
    def ovs(self) -> PrivateOvs:
        """Its switch.

        :raises ConfigError: the lab was made without switches.
        """
        if self._ovs is None:
            raise ConfigError(
                f"{self.name} has no Open vSwitch: its lab was made with switch=False"
            )
        return self._ovs

    def open(self) -> None:
        """Create the namespaces; nothing runs in them yet."""
        self.directory.mkdir(parents=True)
        self.namespaces = make_namespaces(["mnt", "uts", "net"], self._settle)
        if self._ovs is not None:
            self._ovs = PrivateOvs(self.directory / "openvswitch", self.namespaces)

    def start(self, bridges: Sequence[str] = ()) -> None:
        """Start the switch with *bridges*, and set up the underlay on ``br-phy``.

        A host without a switch has the underlay on its NIC.
        """
        if self._ovs is None:
            self.address_underlay()
            return
        setup = [*bridge_setup(UNDERLAY), "--", "add-port", UNDERLAY, NIC]
        for bridge in bridges:
            setup += ["--", *bridge_setup(bridge)]
        setup += ["--", "set", "Open_vSwitch", ".", f"external_ids:system-id={self.name}"]
        self.ovs.start(*setup)
        # The kernel receives on the NIC what is meant for the bridge, and would answer as well.
        self.call(Path(f"/proc/sys/net/ipv4/conf/{NIC}/arp_ignore").write_text, "1")
        self.address_underlay()

    def address_underlay(self) -> None:
        """Add the underlay's addresses; they vanish when the switch that has the device ends."""
        device = NIC if self._ovs is None else UNDERLAY
        v6 = f"addr replace {self.address6} dev {device} nodad"
        self.namespaces.ip(
            f"link set {NIC} up",
            f"link set {device} up",
            f"addr replace {self.address} dev {device}",
            *([v6] if lab_syscalls.has_ipv6() else []),
        )

    def instance(self, name: str, plug: Plug | None = None) -> Instance:
        """Create an instance on this host, with the device of *plug*, or none yet.

        :raises Conflict: a namespace of that name exists.
        """
        instance = Instance(name, self.namespaces, self._ovs)
        try:
            instance.open()
        except Conflict as error:
            raise Conflict(f"{self.name} has an instance or namespace {name} already") from error
        self.instances[name] = instance
        if plug is not None:
            instance.plug(plug)
        return instance

    def restart_switch(self) -> None:
        """Stop ``ovs-vswitchd`` and start it again."""
        self.ovs.stop_switch()
        self.ovs.start_switch()
        self.address_underlay()

    def crash(self) -> None:
        """Kill every process of this host at once; devices and namespaces stay."""
        self.namespaces.kill_processes()
        if self._ovs is not None:
            self._ovs.kill_switch()
            self._ovs.kill_database()

    def revive(self) -> None:
        """Start the switch again after :meth:`crash`, with the database as it was."""
        if self._ovs is not None:
            self._ovs.start_database()
            self._ovs.start_switch()
        self.address_underlay()

    def close(self) -> None:
        """End every process of the host and release everything."""
        if self.namespaces.spaces:
            self.namespaces.kill_processes()
        for instance in self.instances.values():
            instance.close()
        self.namespaces.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _settle(self) -> None:
        syscalls.mount("", "/", syscalls.MS_REC | syscalls.MS_PRIVATE)
        syscalls.mount(str(self.directory), "/run", syscalls.MS_BIND)
        os.makedirs(self.directory)
        syscalls.mount("/run", str(self.directory), syscalls.MS_BIND)
        # The layout of `ip netns`, so that it finds what the lab creates there.
        os.makedirs("/run/netns")
        syscalls.mount("/run/netns", "/run/netns", syscalls.MS_BIND)
        syscalls.mount("", "/run/netns", syscalls.MS_SHARED)
        lab_syscalls.show_own_devices()
        lab_syscalls.use_addresses_at_once()
        socket.sethostname(self.name)


def write_enter_script(hosts: Iterable[Host], path: Path) -> None:
    """Write a program that runs the command after a host's name on that host, as ssh does."""
    cases = [
        f"{host.name}) pid={(host.ovs.directory / 'ovs-vswitchd.pid').read_text().strip()};;"
        for host in hosts
    ]
    lines = ["#!/bin/sh", "case $1 in", *cases, "*) exit 255;;", "esac", "shift"]
    path.write_text("\n".join([*lines, 'exec nsenter -t "$pid" -m -n "$@"', ""]))
    path.chmod(0o755)
