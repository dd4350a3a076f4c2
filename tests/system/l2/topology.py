"""The topology file that all agents of a site read, and what is in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any
from uuid import UUID

from attrs import define, field

from netfw.model.network import Network
from netfw.state.file import read_topology

EVERYTHING = "everything"
"""The group of ports of which nothing else is said."""
ALL_RULES = [
    {"direction": direction, "ethertype": ethertype}
    for direction in ("ingress", "egress")
    for ethertype in ("IPv4", "IPv6")
]
CIDR4, CIDR6 = "10.0.0.0/16", "fd00:a::/64"


@define(eq=False)
class Net:
    """A network.  All have the same addresses: whatever leaks is answered by a stranger."""

    name: str
    body: dict[str, Any]
    ports: int = 0


@define(eq=False)
class Port:
    """A port of the file, the *index*-th of its network."""

    net: Net
    index: int
    number: int
    host: str
    more: dict[str, Any] = field(factory=dict)
    kind: str = "tap"
    """What its device's name begins with."""

    @property
    def id(self) -> str:
        return str(UUID(int=0xE1_0000_0000 + self.number))

    @property
    def device(self) -> str:
        return f"{self.kind}{self.number}"

    @property
    def mac(self) -> str:
        text = (0xFA163E000000 + self.number).to_bytes(6).hex(":")
        return str(self.more.get("mac_address", text))

    @property
    def v4(self) -> str:
        return str(IPv4Address("10.0.0.0") + self.index)

    @property
    def v6(self) -> str:
        return str(IPv6Address("fd00:a::") + self.index)


class Topology:
    """What hosts should be: changed here, in force once it is written."""

    def __init__(self, path: Path, hosts: dict[str, Any]) -> None:
        self.path = path
        self.hosts = hosts
        self.nets: list[Net] = []
        self.ports: list[Port] = []
        self.devices = "tap"
        """What the names of devices begin with."""
        self.groups: dict[str, list[dict[str, Any]]] = {}
        """Security groups by name, with their rules."""
        self.address_groups: dict[str, list[str]] = {}
        self.logs: list[dict[str, Any]] = []
        self.policies: dict[str, list[dict[str, Any]]] = {}
        """QoS policies by name, with their rules."""
        self._numbers = 0

    def network(self, kind: str, **provider: Any) -> Net:
        self._numbers += 1
        body = {"network_type": kind, **provider}
        if kind not in ("flat", "local"):
            body.setdefault("segmentation_id", self._numbers + 100)
        net = Net(f"net{self._numbers}", body)
        self.nets.append(net)
        return net

    def port(self, net: Net, host: str, **more: Any) -> Port:
        self._numbers += 1
        net.ports += 1
        port = Port(net, net.ports, self._numbers, host, more, self.devices)
        self.ports.append(port)
        return port

    def clear(self) -> None:
        self.nets, self.ports, self.groups, self.policies = [], [], {}, {}
        self.address_groups, self.logs = {}, []

    def write(self) -> None:
        """Put it in force, all at once."""
        fresh = self.path.with_suffix(".new")
        fresh.write_text(json.dumps(self._content()))
        fresh.rename(self.path)

    def mtu(self, net: Net) -> int:
        """Return the MTU that the file source gives the network."""
        found = [
            item.mtu
            for item in read_topology(self.path).items
            if isinstance(item, Network) and item.name == net.name
        ]
        return found[0]

    @contextmanager
    def away(self) -> Iterator[None]:
        """Hide the file in the block."""
        hidden = self.path.with_suffix(".hidden")
        self.path.rename(hidden)
        try:
            yield
        finally:
            hidden.rename(self.path)

    def _content(self) -> dict[str, Any]:
        return {
            "hosts": self.hosts,
            "networks": [{"name": net.name, **net.body} for net in self.nets],
            "subnets": [
                {"name": f"{net.name}-v{version}", "network": net.name, "cidr": cidr}
                for net in self.nets
                for version, cidr in ((4, CIDR4), (6, CIDR6))
            ],
            "security_groups": [
                {"name": name, "rules": rules}
                for name, rules in {EVERYTHING: ALL_RULES, **self.groups}.items()
            ],
            "address_groups": [
                {"name": name, "addresses": addresses}
                for name, addresses in self.address_groups.items()
            ],
            "logs": self.logs,
            "qos_policies": [
                {"name": name, "rules": rules} for name, rules in self.policies.items()
            ],
            "ports": [
                {
                    "name": f"port{port.number}", "id": port.id, "network": port.net.name,
                    "host": port.host, "mac_address": port.mac, "fixed_ips": [port.v4, port.v6],
                    **_groups(port), **port.more,
                }
                for port in self.ports
            ],
        }  # fmt: skip


def _groups(port: Port) -> dict[str, Any]:
    unfiltered = port.more.get("port_security_enabled") is False or "device_owner" in port.more
    return {} if unfiltered else {"security_groups": [EVERYTHING]}
