"""A lab host with an L3 agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

from netfw.testing.lab.host import Host
from netfw.testing.lab.instance import Instance, Plug
from tests.lab.agents.environment import TopologySite

ROUTER = str(UUID(int=9))
NAMESPACE = f"qrouter-{ROUTER}"
FLOATING_IP, FLOATING_ADDRESS = str(UUID(int=70)), "203.0.113.100"
SHARED_IP, SHARED_ADDRESS = str(UUID(int=71)), "203.0.113.101"
VM, OTHER_VM, WORLD = 11, 12, 99


def port_id(number: int) -> str:
    return f"{number:08x}-0000-0000-0000-000000000001"


def mac(number: int) -> str:
    return f"fa:16:3e:00:05:{number:02x}"


class RouterSite(TopologySite):
    """A host with a router to an outside network, and instances on both sides."""

    def __init__(self, host: Host, directory: Path) -> None:
        self.host = host
        content: dict[str, Any] = {
            "networks": [
                {"name": "blue", "network_type": "local"},
                {"name": "outside", "network_type": "local", "router:external": True},
            ],
            "subnets": [
                {"name": "blue", "network": "blue", "cidr": "10.0.1.0/24"},
                {"name": "outside", "network": "outside", "cidr": "203.0.113.0/24"},
            ],
            "routers": [
                {"name": "edge", "id": ROUTER, "external_gateway_info": {"network": "outside"}}
            ],
            "ports": [
                self._port(1, "blue", "10.0.1.1", router="edge"),
                self._port(10, "outside", "203.0.113.10", router="edge"),
                self._port(VM, "blue", "10.0.1.11"),
                self._port(OTHER_VM, "blue", "10.0.1.12"),
                self._port(WORLD, "outside", "203.0.113.1"),
            ],
            "floatingips": [self.floating_ip(VM)],
            "assignments": [{"service": "l3", "host": host.name, "router": "edge"}],
        }
        super().__init__(host, directory, "l3", content)
        self.l3 = self.agent

    def _port(self, number: int, network: str, address: str, **more: Any) -> dict[str, Any]:
        return {
            "name": f"port{number}", "id": port_id(number), "network": network,
            "host": self.host.name, "mac_address": mac(number), "fixed_ips": [address],
            "port_security_enabled": False, **more,
        }  # fmt: skip

    def floating_ip(self, number: int) -> dict[str, Any]:
        """Return the floating IP, for the port of an instance."""
        return {
            "id": FLOATING_IP, "floating_network": "outside", "port": port_id(number),
            "floating_ip_address": FLOATING_ADDRESS,
        }  # fmt: skip

    def add_port_forwarding(self) -> None:
        """Add a floating IP whose rules the extension of port forwardings contributes."""
        shared = {
            "id": SHARED_IP, "floating_network": "outside", "router": "edge",
            "floating_ip_address": SHARED_ADDRESS,
        }  # fmt: skip
        forwarding = {
            "floatingip": SHARED_IP, "protocol": "tcp", "external_port": 2222,
            "internal_port": 22, "internal_port_id": port_id(OTHER_VM),
        }  # fmt: skip
        self.content["floatingips"].append(shared)
        self.content["port_forwardings"] = [forwarding]
        self.write()

    def instance(self, number: int, address: str, gateway: str | None = None) -> Instance:
        plug = Plug(
            bridge="br-int",
            device=f"tap{number}",
            mac=mac(number),
            addresses=(address,),
            gateways=() if gateway is None else (gateway,),
            external_ids={"iface-id": port_id(number), "attached-mac": mac(number)},
        )
        return self.host.instance(f"vm{number}", plug)

    def vm(self, number: int = VM) -> Instance:
        """Make an instance behind the router."""
        return self.instance(number, f"10.0.1.{number}/24", "10.0.1.1")

    def world(self) -> Instance:
        """Make a machine on the outside network, without a route to the inside."""
        return self.instance(WORLD, "203.0.113.1/24")

    def namespaces(self) -> set[str]:
        return {line.split()[0] for line in self.host.run(["ip", "netns", "list"]).splitlines()}

    def router_devices(self) -> set[str]:
        ports = self.host.run(["ovs-vsctl", "list-ports", "br-int"]).split()
        return {port for port in ports if port.startswith(("qr-", "qg-"))}

    def reported(self) -> dict[str, str]:
        """Return the status that the L3 agent reported, by id of the resource."""
        resources = self.status_reports().get("resources", ())
        return {entry["id"]: entry["status"] for entry in resources}
