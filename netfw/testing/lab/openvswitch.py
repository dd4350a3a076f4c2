"""A private Open vSwitch: its own database, daemons and sockets in one directory."""

from __future__ import annotations

import fcntl
import functools
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self
from weakref import WeakSet

from netfw.errors import BackendError
from netfw.testing.lab import prerequisites, sandbox
from netfw.testing.lab.namespaces import CommandFailed, NamespaceContext

_SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
DATABASE = "ovsdb-server"
SWITCH = "ovs-vswitchd"
_DOOMED = 0x6C6162
_TUNSETIFF = 0x400454CA
_TAP = 0x1002  # a tap, without a header before every packet
_started: WeakSet[PrivateOvs] = WeakSet()


class PrivateOvs:
    """``ovsdb-server`` and ``ovs-vswitchd`` in one namespace, by default that of the caller.

    The switch works on its userspace datapath: bridges need ``datapath_type=netdev``.  That has one
    device, ``ovs-netdev``: of the switches in one namespace, a single one can have bridges.
    """

    def __init__(self, directory: Path, namespaces: NamespaceContext | None = None) -> None:
        self.directory = directory
        self._namespaces = namespaces or NamespaceContext()
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._foreign: frozenset[str] = frozenset()

    @property
    def remote(self) -> str:
        """The connection method of OVSDB."""
        return f"unix:{self.directory}/db.sock"

    def management(self, bridge: str) -> str:
        """Return the OpenFlow management socket of *bridge*."""
        return f"unix:{self.directory}/{bridge}.mgmt"

    def start(self, *setup: str) -> Self:
        """Create the database if there is none, and start both daemons.

        *setup* are arguments of ``ovs-vsctl`` that are in effect when this returns.

        :raises BackendBroken: something is not installed, or not accessible.
        """
        sandbox.require()
        prerequisites.require_tools()
        self._foreign = self._namespaces.call(_taps)
        self.directory.mkdir(parents=True, exist_ok=True)
        database = self.directory / "conf.db"
        if not database.exists():
            database.write_bytes(_empty_database())
        self.start_database()
        self.start_switch(*setup)
        _started.add(self)
        return self

    def start_database(self) -> None:
        listening = self.directory / "db.sock"
        listening.unlink(missing_ok=True)
        self._spawn(DATABASE, f"{self.directory}/conf.db", f"--remote=punix:{listening}")
        self._await(DATABASE, lambda: _accepts(listening))

    def start_switch(self, *setup: str) -> None:
        self.vsctl("--no-wait", "init", *(["--", *setup] if setup else []))
        self._spawn(SWITCH, self.remote)
        # ovs-vsctl waits until the switch has applied a change of the database.
        pid = self._daemons[SWITCH].pid
        self.vsctl("set", "Open_vSwitch", ".", f"external_ids:netfw-lab={pid}")

    def stop_database(self) -> None:
        self._end(DATABASE, signal.SIGTERM)

    def stop_switch(self) -> None:
        self._end(SWITCH, signal.SIGTERM)

    def kill_database(self) -> None:
        """Kill ``ovsdb-server``, as a crash would."""
        self._end(DATABASE, signal.SIGKILL)

    def kill_switch(self) -> None:
        """Kill ``ovs-vswitchd``.  Its devices stay, with their addresses, but nothing passes."""
        self._end(SWITCH, signal.SIGKILL)

    def stop(self) -> None:
        """End both daemons, and remove the directory and the devices that they leave behind."""
        _started.discard(self)
        for name in (SWITCH, DATABASE):
            self._end(name, signal.SIGKILL)
        left = self._namespaces.call(_taps) - self._foreign
        if left:
            # In one batch: one by one, the kernel pauses after each.
            self._namespaces.ip(*(f"link set {name} group {_DOOMED}" for name in left))
            self._namespaces.ip(f"link delete group {_DOOMED}")
        shutil.rmtree(self.directory, ignore_errors=True)

    def vsctl(self, *arguments: str) -> str:
        return self.run("ovs-vsctl", f"--db={self.remote}", *arguments)

    def ofctl(self, *arguments: str) -> str:
        return self.run("ovs-ofctl", *arguments)

    def appctl(self, *arguments: str) -> str:
        control = f"{self.directory}/{SWITCH}.{self._daemons[SWITCH].pid}.ctl"
        return self.run("ovs-appctl", "-t", control, *arguments)

    def add_bridge(self, name: str) -> None:
        self.vsctl(*bridge_setup(name))

    def leaves_by(self, bridge: str, packet: str, *options: str) -> frozenset[str]:
        """Return the devices by which the switch would send *packet*, through all bridges.

        *packet* is in the syntax of ``ovs-ofctl``, ``in_port`` a number or a name.  A packet that
        enters a tunnel leaves by the tunnel's device (``vxlan_sys_4789``) and by the NIC below.
        Further *options* are those of ``ofproto/trace``, such as ``"--ct-next", "est,trk"``.
        """
        traced = self.appctl("ofproto/trace", "--names", bridge, packet, *options)
        return outputs_of(traced, self.devices())

    def devices(self) -> frozenset[str]:
        """Return the devices of the datapath, of all bridges."""
        output = self.appctl("dpctl/show", "netdev@ovs-netdev")
        return frozenset(re.findall(r"^ +port \d+: (\S+)", output, re.MULTILINE))

    def run(self, *argv: str) -> str:
        """Run a command of OVS against this switch; return its standard output.

        :raises CommandFailed: it failed; the message is its output.
        """
        completed = NamespaceContext().attempt(argv, env=self._environment())
        if completed.status:
            raise CommandFailed(completed)
        return completed.output

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "OVS_RUNDIR": str(self.directory),
            "OVS_LOGDIR": str(self.directory),
            "OVS_DBDIR": str(self.directory),
        }

    def _spawn(self, name: str, *arguments: str) -> None:
        pid_file = self.directory / f"{name}.pid"
        pid_file.unlink(missing_ok=True)
        log = self.directory / f"{name}.log"
        with log.open("ab") as output:
            daemon = self._namespaces.spawn(
                [name, *arguments, "-vsyslog:off", "-vconsole:off", "-vfile:info",
                 f"--log-file={log}", f"--pidfile={pid_file}", "--no-chdir"],
                env=self._environment(), stdout=output, stderr=output, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        self._daemons[name] = daemon
        self._await(name, lambda: pid_file.exists() and bool(pid_file.read_text().strip()))

    def _await(self, name: str, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and self._daemons[name].poll() is None:
            if ready():
                return
            time.sleep(0.002)
        log = (self.directory / f"{name}.log").read_text(errors="replace")[-2000:]
        raise BackendError(f"{name} did not start:\n{log}")

    def _end(self, name: str, number: int) -> None:
        daemon = self._daemons.pop(name, None)
        if daemon is None:
            return
        daemon.send_signal(number)
        try:
            daemon.wait(10)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()


def running() -> tuple[PrivateOvs, ...]:
    """Return the switches of this process that were started and not stopped, nor their labs."""
    return tuple(switch for switch in _started if switch.directory.exists())


def _accepts(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(path)) == 0


def _taps() -> frozenset[str]:
    """Return the devices of internal ports whose switch has ended; they outlive it."""
    names = (path.parent.name for path in Path("/sys/class/net").glob("*/tun_flags"))
    return frozenset(name for name in names if _is_abandoned(name))


def _is_abandoned(tap: str) -> bool:
    with open(prerequisites.TUN, "r+b", buffering=0) as attached:
        try:
            fcntl.ioctl(attached, _TUNSETIFF, struct.pack("16sH22x", tap.encode(), _TAP))
        except OSError:  # another process has it
            return False
    return True


def bridge_setup(name: str) -> Sequence[str]:
    """Return arguments of ``ovs-vsctl`` that add a bridge on the userspace datapath."""
    return ("add-br", name, "--", "set", "Bridge", name, "datapath_type=netdev")


def outputs_of(trace: str, devices: frozenset[str]) -> frozenset[str]:
    """Return the *devices* that a packet leaves by, from output of ``ofproto/trace --names``.

    Of every pass (``ct`` recirculates) the actions of the datapath count: they are what
    remains after all bridges, patch ports and learned addresses.
    """
    left: set[str] = set()
    for actions in re.findall(r"^Datapath actions: (.*)$", trace, re.MULTILINE):
        # The bridge that a tunnel is routed by sends nothing; its NIC does, and is named as well.
        routed = re.sub(r"out_port\([^)]*\)", "", actions)
        left.update(re.split(r"[(),]+", routed))
    return frozenset(left & devices)


@functools.cache
def _empty_database() -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "conf.db")
        NamespaceContext().run(["ovsdb-tool", "create", str(file), _SCHEMA])
        return file.read_bytes()
