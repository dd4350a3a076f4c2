"""The site of the compose file: containers that podman-compose starts."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests import ROOT
from tests.packaging.machine import REQUEST

COMPOSE: Final = ROOT / "packaging" / "containers" / "compose.yaml"
SECRETS: Final = ("NETFW_DATABASE_PASSWORD", "NETFW_BROKER_PASSWORD", "NETFW_METADATA_SECRET")
SETTINGS: Final = """\
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
[network]
network_backend = "netavark"
"""


class Site:
    """Containers of the site; images and containers are below *directory*."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.podman = directory / "podman"
        where = f"--root {directory}/root --runroot /run/netfw-containers"
        self.podman.write_text(f'#!/bin/sh\nexec podman {where} "$@"\n')
        self.podman.chmod(0o755)
        settings = directory / "containers.conf"
        settings.write_text(SETTINGS)
        self._environment = {
            **os.environ,
            **dict.fromkeys(SECRETS, "of-this-test"),
            "CONTAINERS_CONF": str(settings),
            "PODMAN": str(self.podman),
        }

    def build(self) -> None:
        """Build the images."""
        self._run(str(ROOT / "tools" / "build-containers"), str(ROOT / ".netfw" / "packaging"))

    def compose(self, *words: str) -> None:
        """Run a command of podman-compose."""
        path = ("--podman-path", str(self.podman), "--file", str(COMPOSE))
        self._run("podman-compose", *path, *words)

    def try_on(
        self, name: str, *argv: str, text: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the container of a service."""
        command = [str(self.podman), "exec", "-i", f"containers_{name}_1", *argv]
        return subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            check=False,
            env=self._environment,
        )

    def on(self, name: str, *argv: str, text: str | None = None) -> str:
        """Run a command that must succeed in the container of a service; return its output."""
        done = self.try_on(name, *argv, text=text)
        assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
        return done.stdout

    def api(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request to the server's socket; return the parsed answer."""
        text = json.dumps({"method": method, "path": path, "body": body})
        return json.loads(self.on("server", "python3", "-c", REQUEST, text=text))

    def _run(self, *argv: str) -> None:
        done = subprocess.run(
            argv, capture_output=True, text=True, check=False, env=self._environment, cwd=ROOT
        )
        assert done.returncode == 0, f"{argv}: {done.stdout[-2000:]}{done.stderr[-2000:]}"


@contextmanager
def running(directory: Path) -> Iterator[Site]:
    """Build the images and run the site; at the end its containers and volumes are removed."""
    site = Site(directory)
    site.build()
    try:
        site.compose("up", "-d")
        yield site
    finally:
        site.compose("down", "--volumes")
