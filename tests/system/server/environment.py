"""A netfw-server of its own, as an operator runs it, and where clients find it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from netfw.testing.lab.services.server import PrivateNetfw

OPTIONS: dict[str, dict[str, object]] = {
    "vlan": {"network_vlan_ranges": "physnet1:100:199"},
    "flat": {"flat_networks": "physnet1,physnet2,physnet3"},
}
CLOUDS = """
clouds:
  netfw:
    auth_type: none
    auth: {{endpoint: "{url}"}}
    network_endpoint_override: "{url}"
    verify: {verify}
"""


def make_network(server: PrivateNetfw, name: str) -> int:
    """Create a network; return the status of the answer."""
    status, _ = server.request("POST", "/v2.0/networks", {"network": {"name": name}})
    return status


@frozen
class RunningServer:
    """A server, and where its API is."""

    server: PrivateNetfw
    url: str
    run: Path

    @property
    def log(self) -> str:
        return self.server.log.read_text()

    def environment(self) -> dict[str, str]:
        """Return the environment for clients that read ``clouds.yaml``."""
        return {
            **os.environ,
            "OS_CLIENT_CONFIG_FILE": str(self.run / "clouds.yaml"),
            "OS_CLOUD": "netfw",
        }


@contextmanager
def running_server(
    run: Path, port: int, *, api: Mapping[str, object] | None = None, verify: str = "true"
) -> Iterator[RunningServer]:
    """Serve until the end of the block, and end without complaint; *api*: options of that group."""
    scheme = "https" if api and "tls_key" in api else "http"
    url = f"{scheme}://127.0.0.1:{port}"
    server = PrivateNetfw(run, {**OPTIONS, "api": api or {}}, port=port)
    with server:
        (run / "clouds.yaml").write_text(CLOUDS.format(url=url, verify=verify))
        yield RunningServer(server, url, run)
        assert server.stop() == 0, server.log.read_text()
