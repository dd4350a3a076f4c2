"""Projects of a real server, and their requests."""

from __future__ import annotations

from typing import Any

from netfw.testing.lab.services.server import PrivateNetfw

Reply = tuple[int, Any]


class Tenant:
    """A project with some rights, and what it has behind its router."""

    def __init__(self, server: PrivateNetfw, project: str, role: str = "member") -> None:
        self._server, self.project = server, project
        self._headers = {"X-Project-Id": project, "X-User-Id": project, "X-Roles": role}

    def ask(self, method: str, path: str, body: Any = None) -> Reply:
        return self._server.request(method, f"/v2.0/{path}", body, headers=self._headers)

    def make(self, collection: str, **body: Any) -> Any:
        status, answer = self.ask("POST", collection, {collection[:-1]: body})
        assert status == 201, answer
        return answer[collection[:-1]]

    def settle(self, outside: str) -> None:
        """Make a network behind a router, with a port, and a floating IP."""
        self.network = self.make("networks")["id"]
        body = {"network_id": self.network, "cidr": "10.0.0.0/24", "ip_version": 4}
        self.subnet = self.make("subnets", **body)["id"]
        gateway = {"network_id": outside}
        self.router = self.make("routers", external_gateway_info=gateway)["id"]
        assert self.act("add_router_interface", subnet_id=self.subnet)[0] == 200
        self.port = self.make("ports", network_id=self.network)["id"]
        self.floating = self.make("floatingips", floating_network_id=outside)["id"]

    def act(self, action: str, **body: str) -> Reply:
        return self.ask("PUT", f"routers/{self.router}/{action}", body)

    def forward(self, port: str | None = None, floating: str | None = None, **more: Any) -> Reply:
        inside = {"internal_port_id": port or self.port, "protocol": "tcp"}
        body = {"external_port": 80, "internal_port": 80, **inside, **more}
        path = f"floatingips/{floating or self.floating}/port_forwardings"
        return self.ask("POST", path, {"port_forwarding": body})

    def forwardings(self) -> list[Any]:
        path = f"floatingips/{self.floating}/port_forwardings"
        return list(self.ask("GET", path)[1]["port_forwardings"])
