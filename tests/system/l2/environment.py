"""A site: lab hosts that run the console script ``netfw-ovs-agent``, as an operator has them.

Instances are plugged by ``ovs-vsctl`` as a hypervisor does it, and the state comes from a file.
Whether a host has converged is read from a plan of a second, fresh set of drivers, not from the
agent's own status.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import frozen

from netfw.testing.lab.instance import Instance, InstanceDevice, Plug
from netfw.testing.lab.lab import Lab
from netfw.testing.lab.wait import TIMEOUT, wait_until
from tests.system.l2.agent_host import PHYSNET, PROVIDER, TUNNELS, AgentHost, Flavour
from tests.system.l2.topology import Net, Port, Topology

SOON = 0.2
"""Seconds after which what did not come back is asked for again, where that is allowed."""


class Site:
    """Hosts ``host1``, ``host2``, ... with agents, and the file that they share."""

    def __init__(self, lab: Lab, directory: Path, flavour: Flavour, agents: int) -> None:
        self.lab, self.flavour = lab, flavour
        hosts = list(lab.hosts.values())
        self.topology = Topology(directory / "topology.json", {})
        self.topology.devices = "qvo" if flavour.hybrid else "tap"
        self.hosts: dict[str, AgentHost] = {}
        for host in hosts[:agents]:
            for bridge, nic in ((PROVIDER, PHYSNET),):
                host.ovs.add_bridge(bridge)
                host.ovs.vsctl("add-port", bridge, nic)
                host.namespaces.ip(f"link set {nic} up")
            agent = AgentHost(host, self.topology, flavour)
            self.hosts[host.name] = agent
            self.topology.hosts[host.name] = {
                "local_ip": agent.local_ip,
                "tunnel_types": list(TUNNELS),
                "bridge_mappings": {PHYSNET: PROVIDER},
            }
        self.topology.write()

    def __getitem__(self, name: str) -> AgentHost:
        return self.hosts[name]

    def start(self) -> None:
        for host in self.hosts.values():
            host.start()
        for host in self.hosts.values():
            host.await_ready()

    # What is wanted, and what is plugged.

    def network(self, kind: str, **provider: Any) -> Net:
        if kind in ("flat", "vlan"):
            provider.setdefault("physical_network", PHYSNET)
        return self.topology.network(kind, **provider)

    def port(self, net: Net, host: str, **more: Any) -> Port:
        return self.topology.port(net, host, **more)

    def plug(
        self,
        port: Port,
        *,
        host: str | None = None,
        mtu: int | None = None,
        unknown: bool = False,
    ) -> Instance:
        """Start an instance for *port*, as a hypervisor does; by default on the port's host.

        The device of an *unknown* instance does not carry the id of its port.
        """
        on = self.hosts[host or port.host].host
        instance = on.instance(
            f"vm{port.number}{'-' + host if host else ''}",
            Plug(
                bridge="br-int",
                device=port.device,
                kind=InstanceDevice.HYBRID if port.kind == "qvo" else InstanceDevice.VETH,
                mac=port.mac,
                addresses=(f"{port.v4}/16", f"{port.v6}/64"),
                mtu=mtu or self.topology.mtu(port.net),
                external_ids={
                    "attached-mac": port.mac, "iface-status": "active",
                    **({} if unknown else {"iface-id": port.id}),
                },
            ),
        )  # fmt: skip
        # The host's end of the pair is no neighbour of anybody; hypervisors see to that as well.
        on.call(Path(f"/proc/sys/net/ipv6/conf/{port.device}/disable_ipv6").write_text, "1")
        return instance

    def plug_mute(self, ports: Sequence[Port]) -> None:
        """Add devices without an instance, all of one host at once."""
        words: list[str] = []
        for port in ports:
            words += [
                "--", "add-port", "br-int", port.device,
                "--", "set", "Interface", port.device, "type=internal",
                f"external_ids:iface-id={port.id}",
                f'external_ids:attached-mac="{port.mac}"', "external_ids:iface-status=active",
            ]  # fmt: skip
        for host in {port.host for port in ports}:
            self.hosts[host].vsctl(*words[1:])

    def unplug(self, *ports: Port, host: str | None = None) -> None:
        """Take devices away, as a hypervisor does when an instance ends."""
        for name in {host or port.host for port in ports}:
            here = [port for port in ports if (host or port.host) == name]
            words = [
                word for port in here for word in ("--", "--if-exists", "del-port", port.device)
            ]
            self.hosts[name].vsctl(*words[1:])
            for port in here:
                self.hosts[name].host.attempt(["ip", "link", "del", port.device])

    def couple(self, kind: str, first: str, second: str, **provider: Any) -> Couple:
        """Create two instances on a new network, on these hosts; wired once ``settle`` returns."""
        net = self.network(kind, **provider)
        ports = self.port(net, first), self.port(net, second)
        self.topology.write()
        return Couple(self, ports, (self.plug(ports[0]), self.plug(ports[1])))

    def settle(self) -> None:
        """Write the file, and wait until all hosts are so."""
        self.topology.write()
        for host in self.hosts.values():
            host.await_settled()

    @contextmanager
    def tidy(self) -> Iterator[None]:
        """Take away what the block made, and see that the agents leave nothing of it behind."""
        nets, ports = list(self.topology.nets), list(self.topology.ports)
        groups = dict(self.topology.groups)
        before = {name: (host.flows().keys(), host.rows()) for name, host in self.hosts.items()}
        yield
        self.unplug_all(keep=ports)
        self.topology.nets, self.topology.ports = nets, ports
        self.topology.groups = groups
        self.settle()
        for name, host in self.hosts.items():
            assert (host.flows().keys(), host.rows()) == before[name]

    def unplug_all(self, keep: Sequence[Port] = ()) -> None:
        kept = {port.device for port in keep}
        for host in self.hosts.values():
            there = host.vsctl("list-ports", "br-int").split()
            gone = [name for name in there if name.startswith(("tap", "qvo")) and name not in kept]
            for at in range(0, len(gone), 10):
                words = [word for name in gone[at : at + 10] for word in ("--", "del-port", name)]
                host.vsctl(*words[1:])
            lines = "\n".join(f"link del {name}" for name in gone)
            host.host.attempt(["ip", "-force", "-batch", "-"], input=lines)


@frozen
class Couple:
    """Two instances that should reach each other."""

    site: Site
    ports: tuple[Port, Port]
    instances: tuple[Instance, Instance]

    @property
    def net(self) -> Net:
        return self.ports[0].net

    def reach(self, version: int = 4, count: int = 3, timeout: float = TIMEOUT) -> bool:
        """Return whether every one of some pings came back, both ways."""
        one, two = self.ports
        there, back = (two.v4, one.v4) if version == 4 else (two.v6, one.v6)
        return all(
            not instance.ping(address, count, timeout=timeout).lost
            for instance, address in zip(self.instances, (there, back), strict=True)
        )

    def await_reach(self) -> None:
        """Wait until both reach each other; neighbour discovery may lose the first packets."""
        for version in (4, 6):
            wait_until(lambda version=version: self.reach(version, timeout=SOON), self._underlay)

    def _underlay(self) -> str:
        """Return what the switches of both ends know of the path between them."""
        asked = ("tnl/neigh/show", "tnl/ports/show -v", "ovs/route/show", "dpctl/dump-flows")
        hosts = {port.host: self.site[port.host].host.ovs for port in self.ports}
        return "\n".join(
            f"{name} {ask}: {ovs.appctl(*ask.split())}"
            for name, ovs in hosts.items()
            for ask in asked
        )
