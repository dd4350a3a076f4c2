"""A netfw-server of its own, as an operator runs it, and clients for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from attrs import frozen

CONF = """
[DEFAULT]
state_path = {run}
[database]
connection = sqlite:///{run}/netfw.db
[api]
bind = {host}:{port}
socket = {run}/api.sock
{api}
[identity]
methods = noauth
noauth_on_loopback = true
[ml2]
type_drivers = local,flat,vlan,gre,vxlan,geneve
tenant_network_types = vxlan
[vlan]
network_vlan_ranges = physnet1:100:199
[flat]
flat_networks = physnet1,physnet2,physnet3
[local]
listen = unix:{run}/messages.sock
"""
CLOUDS = """
clouds:
  netfw:
    auth_type: none
    auth: {{endpoint: "{url}"}}
    network_endpoint_override: "{url}"
    verify: {verify}
"""


@frozen
class RunningServer:
    """A process that serves, and where."""

    process: subprocess.Popen[bytes]
    url: str
    run: Path

    @property
    def log(self) -> str:
        return (self.run / "log").read_text()

    def environment(self) -> dict[str, str]:
        """For clients that read ``clouds.yaml``."""
        return {
            **os.environ,
            "OS_CLIENT_CONFIG_FILE": str(self.run / "clouds.yaml"),
            "OS_CLOUD": "netfw",
        }


@contextmanager
def running_server(
    run: Path, port: int, *, host: str = "127.0.0.1", api: str = "", verify: str = "true"
) -> Iterator[RunningServer]:
    """Serve until the end of the block, and end without complaint."""
    run.mkdir(parents=True, exist_ok=True)
    scheme = "https" if "tls_key" in api else "http"
    url = f"{scheme}://{host}:{port}"
    (run / "netfw.conf").write_text(CONF.format(run=run, port=port, host=host, api=api))
    (run / "clouds.yaml").write_text(CLOUDS.format(url=url, verify=verify))
    program = Path(sys.executable).with_name("netfw-server")
    with (run / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, "--config-file", run / "netfw.conf"], stdout=log, stderr=log
        )
    server = RunningServer(process, url, run)
    try:
        _await(server, f"http://{host}:{port}/readyz" if scheme == "http" else None)
        yield server
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0, server.log


def _await(server: RunningServer, url: str | None) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert server.process.poll() is None, server.log
        try:
            if url is None:
                if "the API is on 127" in server.log:
                    return
            elif urlopen(url, timeout=5).status == 200:
                return
        except (URLError, OSError):
            pass
        time.sleep(0.05)
    raise AssertionError(f"it does not serve: {server.log}")
