"""A private Open vSwitch: its own database, daemons and sockets in one directory."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Self

from netfw.testing.lab import sandbox

_SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"


class PrivateOvs:
    """``ovsdb-server`` and ``ovs-vswitchd`` in the network namespace of whoever starts them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def remote(self) -> str:
        """Where OVSDB listens, as connection methods say it."""
        return f"unix:{self.directory}/db.sock"

    def management(self, bridge: str) -> str:
        """The OpenFlow management socket of *bridge*."""
        return f"unix:{self.directory}/{bridge}.mgmt"

    def start(self) -> Self:
        """Create the database where there is none, and start both daemons."""
        sandbox.require()
        self.directory.mkdir(parents=True, exist_ok=True)
        if not (self.directory / "conf.db").exists():
            self.run("ovsdb-tool", "create", f"{self.directory}/conf.db", _SCHEMA)
        self.start_database()
        self.start_switch()
        return self

    def start_database(self) -> None:
        self._spawn(
            "ovsdb-server",
            f"{self.directory}/conf.db",
            f"--remote=punix:{self.directory}/db.sock",
        )

    def start_switch(self) -> None:
        self.vsctl("--no-wait", "init")
        self._spawn("ovs-vswitchd", self.remote)
        # A change of the database is what ovs-vsctl waits for the switch to have taken in.
        pid = self._daemons["ovs-vswitchd"].pid
        self.vsctl("set", "Open_vSwitch", ".", f"external_ids:netfw-lab={pid}")

    def stop_database(self) -> None:
        self._end("ovsdb-server")

    def stop_switch(self) -> None:
        self._end("ovs-vswitchd")

    def stop(self) -> None:
        """End both daemons and remove the directory."""
        for name in list(self._daemons):
            self._end(name)
        shutil.rmtree(self.directory, ignore_errors=True)

    def vsctl(self, *arguments: str) -> str:
        return self.run("ovs-vsctl", f"--db={self.remote}", *arguments)

    def ofctl(self, *arguments: str) -> str:
        return self.run("ovs-ofctl", *arguments)

    def appctl(self, *arguments: str) -> str:
        control = f"{self.directory}/ovs-vswitchd.{self._daemons['ovs-vswitchd'].pid}.ctl"
        return self.run("ovs-appctl", "-t", control, *arguments)

    def add_bridge(self, name: str) -> None:
        self.vsctl("add-br", name, "--", "set", "Bridge", name, "datapath_type=netdev")

    def run(self, *argv: str) -> str:
        """Run a command of OVS against this switch; its standard output.

        :raises RuntimeError: it failed; the message is what it said.
        """
        done = subprocess.run(argv, env=self._environment(), capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(argv)}: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout.decode()

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
            daemon = subprocess.Popen(
                [name, *arguments, "-vsyslog:off", "-vconsole:off", "-vfile:info",
                 f"--log-file={log}", f"--pidfile={pid_file}", "--no-chdir"],
                env=self._environment(), stdout=output, stderr=output, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        self._daemons[name] = daemon
        self._await_pid_file(name, daemon, pid_file)

    def _await_pid_file(self, name: str, daemon: subprocess.Popen[bytes], pid_file: Path) -> None:
        for _ in range(1000):
            if pid_file.exists() and pid_file.read_text().strip():
                return
            if daemon.poll() is not None:
                break
            time.sleep(0.005)
        log = (self.directory / f"{name}.log").read_text(errors="replace")[-2000:]
        raise RuntimeError(f"{name} did not start:\n{log}")

    def _end(self, name: str) -> None:
        daemon = self._daemons.pop(name, None)
        if daemon is None:
            return
        daemon.terminate()
        try:
            daemon.wait(5)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()
