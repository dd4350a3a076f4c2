"""A real kea that delegates prefixes on an external network."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from netfw.errors import BackendBroken
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.wait import wait_until

IDENTIFIER = {"type": "EN", "enterprise-id": 32473, "identifier": "0A0B0C", "persist": False}


class PrefixServer:
    """A server on the device of an instance.  Its leases survive a restart."""

    def __init__(self, instance: Instance, subnet: str, directory: Path) -> None:
        self._instance, self._subnet, self._directory = instance, subnet, directory
        self._log = directory / "kea.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, pool: str, *, valid: int = 3600, renew: int = 2) -> None:
        """Start it anew: it delegates prefixes of *pool*, which has 48 bits, from now on."""
        self.stop()
        wait_until(self._has_link_local_address, "the address of the link is tentative")
        file = self._directory / "kea.json"
        file.write_text(json.dumps({"Dhcp6": self._config(pool, valid, renew)}))
        log = self._log
        places = {"KEA_PIDFILE_DIR": str(self._directory), "KEA_LOCKFILE_DIR": "none"}
        with log.open("wb") as output:
            self._process = self._instance.call(
                subprocess.Popen,
                ["kea-dhcp6", "-c", str(file)],
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **places},
            )
        wait_until(lambda: "DHCP6_STARTED" in self.log, log.read_text, seconds=60)
        if "OPEN_SOCKET_FAIL" in self.log:
            raise BackendBroken(f"kea cannot receive requests: {self.log}")

    @property
    def log(self) -> str:
        """What it has logged since its last start."""
        return self._log.read_text() if self._log.exists() else ""

    def stop(self) -> None:
        """Stop it; it releases nothing."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _has_link_local_address(self) -> bool:
        """Return whether kea can open its socket: it tries once, and starts all the same."""
        command = [
            "ip",
            "-6",
            "-o",
            "address",
            "show",
            "dev",
            "eth0",
            "scope",
            "link",
            "-tentative",
        ]
        return bool(self._instance.run(command).strip())

    def _config(self, pool: str, valid: int, renew: int) -> dict[str, Any]:
        prefix, _, length = pool.partition("/")
        pools = [{"prefix": prefix, "prefix-len": int(length), "delegated-len": 64}]
        database = {"type": "memfile", "name": str(self._directory / "leases"), "lfc-interval": 0}
        output = [{"output": "stdout", "flush": True}]
        return {
            "interfaces-config": {"interfaces": ["eth0"]},
            "server-id": IDENTIFIER,
            "lease-database": database,
            "preferred-lifetime": valid,
            "valid-lifetime": valid,
            "renew-timer": renew,
            "rebind-timer": 2 * renew,
            "subnet6": [{"id": 1, "subnet": self._subnet, "interface": "eth0", "pd-pools": pools}],
            "loggers": [{"name": "kea-dhcp6", "output_options": output, "severity": "INFO"}],
        }
