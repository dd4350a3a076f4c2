"""A server on TCP with tokens of hosts, and clients with the credentials of one host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_DNS, UUID, uuid5

from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.transport import Transport
from netfw.drivers.values.reports import Heartbeat
from netfw.model.agent import Agent
from netfw.model.values.ids import AgentId
from netfw.model.values.json_document import JsonDocument
from netfw.state.rpc import RemoteSource
from netfw.testing.lab.services.server import PrivateNetfw

SECRETS: Mapping[str, str] = {
    name: f"{name}-0123456789abcdef" for name in ("all", "one", "two", "net", "old", "any")
}
TOKENS = (
    f"all {SECRETS['all']}",
    f"one {SECRETS['one']} l2",
    f"two {SECRETS['two']} l2",
    f"net {SECRETS['net']} dhcp,l3,metadata",
    f"old {SECRETS['old']}",
    f"{SECRETS['any']}",
)


def write_tokens(path: Path, *lines: str) -> Path:
    """Write a token file that only its owner can read."""
    path.touch(mode=0o600)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


class HostClient:
    """The state source as a host with these credentials reaches it."""

    def __init__(self, address: str, tokens: Path, host: str) -> None:
        self.host = host
        options = {
            "connect": address,
            "token_file": str(tokens),
            "reconnect_interval": 0.05,
            "reconnect_interval_max": 0.2,
        }
        self.transport = create(Transport, "socket", options, LocalHostResources())
        self.source = RemoteSource(self.transport, timeout=20)

    def beat(self, agent_type: str, *, host: str = "", **options: Any) -> None:
        """Send the first heartbeat of an agent."""
        host = host or self.host
        agent = Agent(
            id=AgentId(uuid5(NAMESPACE_DNS, f"{agent_type}.{host}")),
            agent_type=agent_type,
            binary="netfw-agent",
            host=host,
            configurations=JsonDocument({"bridge_mappings": {}, **options}),
        )
        self.source.report([Heartbeat(agent=agent, start=True)])

    def close(self) -> None:
        self.source.close()
        self.transport.close()


class TokenServer:
    """A running server, its API and its token file."""

    def __init__(self, server: PrivateNetfw, tokens: Path, address: str) -> None:
        self.server, self.tokens, self.address = server, tokens, address
        self._clients: list[HostClient] = []

    @property
    def log(self) -> str:
        return self.server.log.read_text()

    def client(self, host: str) -> HostClient:
        """Return a client with the token of *host*."""
        secret = SECRETS[host]
        line = secret if host == "any" else f"{host} {secret}"
        path = write_tokens(self.server.directory / f"token-{host}", line)
        made = HostClient(self.address, path, host)
        self._clients.append(made)
        return made

    def create(self, resource: str, **body: Any) -> dict[str, Any]:
        """Create a resource by the API as an administrator."""
        status, answer = self.server.request("POST", f"/v2.0/{resource}s", {resource: body})
        assert status == 201, answer
        made: dict[str, Any] = answer[resource]
        return made

    def network(self, **more: Any) -> tuple[UUID, UUID]:
        """Create a network with a subnet; return the ids of both."""
        network = self.create("network", **more)
        self._cidr = getattr(self, "_cidr", 0) + 1
        subnet = self.create(
            "subnet", network_id=network["id"], ip_version=4, cidr=f"10.{self._cidr}.0.0/24"
        )
        return UUID(network["id"]), UUID(subnet["id"])

    def agents(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.server.request("GET", "/v2.0/agents")[1]["agents"]
        return found

    def close(self) -> None:
        for each in self._clients:
            each.close()


@contextmanager
def token_server(directory: Path, port: int, **options: Any) -> Iterator[TokenServer]:
    """Run a server with `TOKENS` until the end of the block."""
    directory.mkdir(exist_ok=True)
    tokens = write_tokens(directory / "tokens", *TOKENS)
    address = f"tcp:127.0.0.1:{port}"
    listen = f"unix:{directory}/messages.sock,{address}"
    groups = {"socket": {"listen": listen, "token_file": tokens}, **options}
    with PrivateNetfw(directory, groups) as server:
        running = TokenServer(server, tokens, address)
        try:
            yield running
        finally:
            running.close()
