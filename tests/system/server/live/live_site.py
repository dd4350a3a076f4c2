"""A site of three hosts for the live page: made by the API, with agents that report by messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.state_source import StateSource
from netfw.drivers.transport import Transport
from netfw.drivers.values.reports import StatusReport
from netfw.drivers.values.subscription import Service
from netfw.model.resource import Kind, Ref
from netfw.model.values.common_fields import Status
from netfw.server.agents.agents import L3_AGENT
from netfw.server.api.identity.headers import ClaimedIdentity
from netfw.server.api.identity.tokens import append_line, issue
from netfw.state.rpc import RemoteSource
from netfw.testing.lab.services.server import PrivateNetfw
from tests.server.core.agent_samples import beat
from tests.system.server.tenants import Tenant

HOSTS: Final = ("node1", "node2", "node3")
PORTS: Final = count(9797)
"""Ports of the API: a browser keeps connections to a server that has ended."""


class LiveSite:
    """Networks, a router and ports of one project, and the agents of three hosts."""

    def __init__(self, server: PrivateNetfw, source: StateSource, tokens: dict[str, str]) -> None:
        self.server, self.source, self.tokens = server, source, tokens
        self.shop = Tenant(server, "shop", "member")
        self.admin = Tenant(server, "ops", "admin")
        self.url = f"{server.url}/live/"
        self.ports: dict[str, str] = {}

    def build(self) -> None:
        """Make the site; every port and the router work."""
        self.beat()
        router = self.shop.make("routers", name="edge")["id"]
        for name, number in (("front", 1), ("back", 2)):
            network = self.shop.make("networks", name=name)["id"]
            body = {"network_id": network, "cidr": f"10.0.{number}.0/24", "ip_version": 4}
            subnet = self.shop.make("subnets", enable_dhcp=False, **body)["id"]
            path = f"routers/{router}/add_router_interface"
            assert self.shop.ask("PUT", path, {"subnet_id": subnet})[0] == 200
            for at, host in enumerate(HOSTS, 1):
                self.add_port(f"{'web' if name == 'front' else 'db'}{at}", network, host)
        self.report(Kind.ROUTER, router, Service.L3)
        for port in self.admin.ask("GET", f"ports?device_id={router}")[1]["ports"]:
            if port["binding:host_id"]:
                self.report(Kind.PORT, port["id"], Service.L2, host=port["binding:host_id"])

    def beat(self, **counts: int) -> None:
        """Let the agents send heartbeats; *counts* are those of node3."""
        for host in HOSTS:
            known: dict[str, Any] = {"tunnel_types": ["vxlan"], "bridge_mappings": {}}
            lag = counts if host == "node3" else {}
            self.source.report((beat(host, counts=lag, **known),))
        self.source.report((beat("node1", L3_AGENT),))

    def add_port(self, name: str, network: str, host: str, *, works: bool = True) -> str:
        """Make a port of the project on *host*."""
        port = self.shop.make("ports", name=name, network_id=network)["id"]
        body = {"port": {"binding:host_id": host, "device_owner": "compute:nova"}}
        assert self.admin.ask("PUT", f"ports/{port}", body)[0] == 200
        if works:
            self.report(Kind.PORT, port, Service.L2, host=host)
        self.ports[name] = port
        return str(port)

    def report(
        self,
        kind: Kind,
        id: str,
        service: Service,
        status: Status = Status.ACTIVE,
        *,
        host: str = "node1",
        reason: str = "",
    ) -> None:
        """Let an agent report the status of a resource as it is now."""
        path = "ports" if kind is Kind.PORT else "routers"
        body = self.admin.ask("GET", f"{path}/{id}")[1][path[:-1]]
        report = StatusReport(
            ref=Ref(kind, UUID(id)),
            revision=body["revision_number"],
            host=host,
            service=service,
            status=status,
            reason=reason,
        )
        self.source.report((report,))

    def add_many(self, count: int, *, down: int) -> None:
        """Make a network with *count* ports on the three hosts, of which *down* are down."""
        network = self.shop.make("networks", name="crowd")["id"]
        body = {"network_id": network, "cidr": "10.3.0.0/24", "ip_version": 4}
        self.shop.make("subnets", enable_dhcp=False, **body)
        ports = [
            {"name": f"vm{n}", "network_id": network, "binding:host_id": HOSTS[n % 3]}
            for n in range(count)
        ]
        status, made = self.admin.ask("POST", "ports", {"ports": ports})
        assert status == 201, made
        self.source.report(
            tuple(
                StatusReport(
                    ref=Ref(Kind.PORT, UUID(port["id"])),
                    revision=port["revision_number"],
                    host=port["binding:host_id"],
                    service=Service.L2,
                    status=Status.DOWN if at < down else Status.ACTIVE,
                    reason="no device" if at < down else "",
                )
                for at, port in enumerate(made["ports"])
            )
        )


@contextmanager
def live_site(directory: Path, **api: object) -> Iterator[LiveSite]:
    """Serve the API with tokens on loopback, and the page; *api*: options of that group."""
    directory.mkdir()
    file, tokens = directory / "tokens", {}
    for name, project, roles in (("ops", "ops", {"admin"}), ("shop", "shop", {"member", "reader"})):
        who = ClaimedIdentity(project_id=project, user=name, roles=frozenset(roles))
        tokens[name], line = issue(who)
        append_line(str(file), line)
    who = ClaimedIdentity(project_id="rival", user="rival", roles=frozenset({"member", "reader"}))
    tokens["rival"], line = issue(who)
    append_line(str(file), line)
    identity = {"methods": "tokens,noauth", "token_file": file, "noauth_on_loopback": False}
    server = PrivateNetfw(
        directory / "server", {"identity": identity, "api": api}, port=next(PORTS)
    )
    with server:
        address = {"connect": f"unix:{server.messages}"}
        transport = create(Transport, "socket", address, LocalHostResources())
        with closing(transport), closing(RemoteSource(transport)) as source:
            yield LiveSite(server, source, tokens)
        assert server.stop() == 0, server.log.read_text()
        assert "Traceback" not in server.log.read_text()
