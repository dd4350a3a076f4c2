"""A Debian machine in namespaces: its own file system and network, with systemd as process 1."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from netfw.testing.lab.wait import wait_until
from tests import ROOT

CACHE: Final = ROOT / ".netfw" / "packaging"
SERVICES: Final = ("haproxy", "keepalived", "conntrackd", "radvd")
"""Services of these packages that do not run: agents start the programs themselves."""
_NAMESPACES: Final = ("--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup")


def file_system() -> Path:
    """Return the archive of a file system with the packages of hosts; mmdebstrap makes it once."""
    subprocess.run([ROOT / "tools" / "make-base", CACHE, "machine"], check=True, cwd=ROOT)
    return CACHE / "machine.tar"


class Machine:
    """A machine that was booted; commands run on it as root."""

    def __init__(self, root: Path, leader: int) -> None:
        self.root = root
        self._enter = ["nsenter", "--target", str(leader), *_NAMESPACES, "--root", "--wd=/", "--"]

    def try_run(
        self, argv: Sequence[str], text: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command; return what it printed and its status."""
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"}
        return subprocess.run(
            [*self._enter, *argv],
            input=text,
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )

    def run(self, *argv: str, text: str | None = None) -> str:
        """Run a command that must succeed; return its output."""
        done = self.try_run(argv, text)
        assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
        return done.stdout

    def write(self, path: str, text: str) -> None:
        """Write a file of the machine; its owner and mode stay."""
        file = self.root / path.removeprefix("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def property(self, unit: str, name: str) -> str:
        """Return a property of a unit."""
        return self.run("systemctl", "show", "--value", "--property", name, unit).strip()

    def state(self) -> str:
        """Return the state of systemd."""
        return self.try_run(["systemctl", "is-system-running"]).stdout.strip()

    def journal(self, unit: str) -> str:
        """Return the log of a unit."""
        return self.run("journalctl", "--no-pager", "--unit", unit)

    def api(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request to the server's socket as root; return the parsed answer."""
        text = json.dumps({"method": method, "path": path, "body": body})
        return json.loads(self.run("python3", "-c", REQUEST, text=text))


REQUEST: Final = """
import http.client, json, socket, sys
asked = json.load(sys.stdin)
connection = http.client.HTTPConnection("localhost")
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect("/run/netfw/api.sock")
body = None if asked["body"] is None else json.dumps(asked["body"])
connection.request(asked["method"], asked["path"], body, {"Content-Type": "application/json"})
answer = connection.getresponse()
text = answer.read().decode()
if answer.status >= 300:
    sys.exit(f"{answer.status} {text}")
print(text or "null")
"""


@contextmanager
def booted(archive: Path) -> Iterator[Machine]:
    """Boot a machine from *archive*; at the end it is removed with all that it wrote."""
    root = Path(tempfile.mkdtemp(prefix="netfw-machine."))
    try:
        subprocess.run(["tar", "-C", root, "-xf", archive, "--exclude=./dev/*"], check=True)
        for name in SERVICES:
            (root / f"etc/systemd/system/{name}.service").symlink_to("/dev/null")
        with _nspawn(root) as leader:
            machine = Machine(root, leader)
            wait_until(lambda: machine.state() in ("running", "degraded"), machine.state)
            yield machine
    finally:
        shutil.rmtree(root)


@contextmanager
def _nspawn(root: Path) -> Iterator[int]:
    """Run systemd of *root*; yield its process id, as it is outside."""
    command = [
        *(
            "systemd-nspawn",
            "--quiet",
            "--directory",
            str(root),
            "--machine",
            f"netfw{os.getpid()}",
        ),
        *("--private-network", "--register=no", "--keep-unit", "--boot", "--bind=/dev/net/tun"),
        *("--resolv-conf=off", "--timezone=off", "--console=pipe"),
    ]
    with (root.parent / f"{root.name}.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield wait_until(lambda: _leader(process.pid), lambda: Path(log.name).read_text())
    finally:
        process.terminate()
        process.wait(120)
        os.unlink(log.name)


def _leader(pid: int) -> int:
    """Return the process 1 of the machine that *pid* runs; 0: not there yet."""
    try:
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            status = Path(f"/proc/{child}/status").read_text()
            if "Name:\tsystemd\n" in status:
                return int(child)
    except FileNotFoundError:
        return 0
    return 0
