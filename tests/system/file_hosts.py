"""Hosts whose agents read a topology file, and agents that are started and stopped together."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from netfw.testing.lab.agent import PrivateAgent
from netfw.testing.lab.host import Host
from netfw.testing.lab.ini import Groups
from netfw.testing.lab.services.metadata_service import MetadataService

_SECRET = "of the service"


def start_all(*agents: PrivateAgent) -> None:
    """Start *agents*, all at once, and wait until they are ready."""
    for agent in agents:
        agent.spawn()
    for agent in agents:
        agent.wait_for(lambda status: bool(status.get("ready")))


def stop_all(*agents: PrivateAgent) -> list[int]:
    """Stop *agents*, all at once; their exit statuses."""
    with ThreadPoolExecutor() as pool:
        return list(pool.map(lambda agent: agent.stop(), agents))


class FileHost:
    """A host with a metadata service and agents that read a file.

    *service* is the kind of the agent beside the L2 and the metadata agent: ``dhcp`` or ``l3``; it
    has *options*.
    """

    def __init__(
        self, host: Host, directory: Path, source: Groups, service: str, **options: object
    ) -> None:
        self.host, self.directory = host, directory
        directory.mkdir()
        socket = directory / "metadata.sock"
        switch: dict[str, object] = {"ovsdb_connection": host.ovs.remote}
        wiring = {"datapath_type": "netdev", "local_ip": host.address.ip, "tunnel_types": "vxlan"}
        self.wiring = self._agent("l2", {**source, "openvswitch": switch | wiring})
        own: Groups = {
            "agent": {**source["agent"], **options},
            "openvswitch": switch,
            "haproxy": {"metadata_proxy_socket": socket},
        }
        self.serving = self._agent(service, {**source, **own})
        metadata = {"metadata_proxy_socket": socket, "metadata_proxy_shared_secret": _SECRET}
        self.metadata = self._agent("metadata", {**source, "metadata": metadata})
        self.service = MetadataService(host, directory, _SECRET)

    def _agent(self, kind: str, options: Groups) -> PrivateAgent:
        return PrivateAgent(self.host, self.directory / kind, f"netfw.cli.agents.{kind}", options)

    @property
    def agents(self) -> tuple[PrivateAgent, ...]:
        return self.wiring, self.serving, self.metadata


class TopologyFile:
    """A topology file whose content a test changes."""

    def __init__(self, path: Path, sample: Path) -> None:
        self.path = path
        self.content: dict[str, Any] = yaml.safe_load(sample.read_text())

    def write(self) -> None:
        """Replace the file by the present content."""
        temporary = self.path.with_suffix(".new")
        temporary.write_text(yaml.safe_dump(self.content))
        temporary.rename(self.path)

    def port(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = next(p for p in self.content["ports"] if p["name"] == name)
        return found
