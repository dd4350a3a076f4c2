"""Two hosts with L2, L3 and metadata agents, on a file or on a server."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from attrs import frozen

from netfw.cli.demo.server import Cloud, ServedHost, make_cloud
from netfw.testing.lab.agent import PrivateAgent
from netfw.testing.lab.host import Host
from netfw.testing.lab.ini import Groups
from netfw.testing.lab.instance import Instance, Plug
from netfw.testing.lab.lab import Lab
from netfw.testing.lab.temp_directory import temporary_directory
from netfw.testing.lab.wait import TIMEOUT, suspend, wait_until
from tests import ROOT
from tests.system.file_hosts import FileHost, TopologyFile, start_all, stop_all

SAMPLE = ROOT / "samples/topologies/routers.yaml"
MTU = 1450


@contextmanager
def running(*agents: PrivateAgent) -> Iterator[None]:
    """Run *agents* within the ``with`` statement; none may log a traceback."""
    start_all(*agents)
    try:
        yield
    finally:
        stop_all(*agents)
    for agent in agents:
        assert "Traceback" not in agent.log.read_text(), agent.log.read_text()


@contextmanager
def suspended(agent: PrivateAgent) -> Iterator[None]:
    """Stop the process of *agent*, and continue it at the end: it reports no status by itself."""
    suspend(agent.pid)
    try:
        yield
    finally:
        os.kill(agent.pid, signal.SIGCONT)


def prefer_switch(host: Host) -> None:
    """Run a switch in real time: its sockets overflow if it waits for a core."""
    pid = int((host.ovs.directory / "ovs-vswitchd.pid").read_text())
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(PermissionError, ProcessLookupError):  # no privileges, or it has ended
            os.sched_setscheduler(int(thread.name), os.SCHED_RR, os.sched_param(1))


def crash(host: ServedHost) -> None:
    """Kill all processes of a host, agents and switch among them."""
    host.host.crash()
    host.end()


def revive(*hosts: ServedHost) -> None:
    """Start the switches, then all agents at once, of hosts that crashed."""
    for host in hosts:
        host.host.revive()
        prefer_switch(host.host)
        host.service.start()
    start_all(*(agent for host in hosts for agent in (host.agent, host.metadata, host.l3)))


def is_reached(instance: Instance, address: str, seconds: float = 1) -> bool:
    return instance.ping(address, count=1, timeout=seconds).lost == 0


def stays_reached(instance: Instance, address: str) -> bool:
    """Send one ping, and return whether it is answered, which may be late on a busy machine."""
    return is_reached(instance, address, TIMEOUT)


@contextmanager
def listening(instance: Instance, port: int) -> Iterator[None]:
    """Answer HTTP requests to a port of an instance."""
    command = [sys.executable, "-m", "http.server", str(port), "--directory", "/proc/self/task"]
    process = instance.spawn(command)
    try:
        wait_until(lambda: is_answered(instance, "127.0.0.1", port))
        yield
    finally:
        process.kill()
        process.wait()


def is_answered(instance: Instance, address: str, port: int, seconds: int = 2) -> bool:
    """Return whether an HTTP request of an instance is answered."""
    limit = ["-m", str(seconds)]
    url = f"http://{address}:{port}/"
    return instance.attempt(["curl", "-s", "-g", "-o", "/dev/null", *limit, url]).status == 0


def fetch(instance: Instance, headers: Mapping[str, str] | None = None) -> str:
    """Return the answer of the metadata service; empty: none."""
    url = "http://169.254.169.254/latest/meta-data/instance-id"
    words = [word for item in (headers or {}).items() for word in ("-H", ": ".join(item))]
    done = instance.attempt(["curl", "-sS", "--fail", "-m", "10", *words, url])
    return done.output if done.status == 0 else ""


class FileSite(TopologyFile):
    """Two hosts on a sample topology; its external network is a VXLAN network here."""

    def __init__(self, lab: Lab, directory: Path, sample: Path) -> None:
        super().__init__(directory / "topology.yaml", sample)
        self.content["hosts"] = {
            host.name: {"local_ip": str(host.address.ip)} for host in lab.hosts.values()
        }
        for network in self.content["networks"]:
            if network["name"] == "outside":
                del network["physical_network"]
                network |= {"network_type": "vxlan", "segmentation_id": 1003}
        self.content["ports"].append(
            {"name": "world", "network": "outside", "host": "host1",
             "fixed_ips": ["203.0.113.1"], "port_security_enabled": False}
        )  # fmt: skip
        for number, port in enumerate(self.content["ports"], 1):
            port |= {
                "id": f"{number:08x}-0000-0000-0000-000000000001",
                "mac_address": f"fa:16:3e:00:06:{number:02x}",
            }
            if "router" not in port:
                port["device_id"] = f"vm-{port['name']}"
        self.write()
        source: Groups = {
            "agent": {"retry_interval": 0.1},
            "file": {"path": self.path, "poll": 0.05, "debounce": 0},
        }
        self.hosts = {
            name: FileHost(host, directory / name, source, "l3") for name, host in lab.hosts.items()
        }

    def boot(self, name: str, gateway: str | None = None) -> Instance:
        """Start the instance of a port of the file, with the port's addresses."""
        port = self.port(name)
        plug = Plug(
            bridge="br-int",
            device=f"tap-{name}",
            mac=port["mac_address"],
            addresses=[f"{address}/24" for address in port["fixed_ips"]],
            gateways=() if gateway is None else (gateway,),
            mtu=MTU,
            external_ids={"iface-id": port["id"], "attached-mac": port["mac_address"]},
        )
        return self.hosts[port["host"]].host.instance(name, plug)


@contextmanager
def file_site(sample: Path = SAMPLE) -> Iterator[FileSite]:
    """Run two hosts on a file."""
    with Lab(hosts=2) as lab, temporary_directory("netfw-l3.") as directory:
        directory.chmod(0o755)
        site = FileSite(lab, directory, sample)
        for host in site.hosts.values():
            host.service.start()
        with running(*(agent for host in site.hosts.values() for agent in host.agents)):
            yield site


class RoutedCloud:
    """A server and two hosts, the second of which has an L3 agent."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud, self.network = cloud, cloud.network
        self.hosts = cloud.hosts
        self.l3 = cloud.hosts[1].l3
        self.l3.options["agent"] |= {"report_interval": 1, "retry_interval": 0.1}

    @property
    def agents(self) -> tuple[PrivateAgent, ...]:
        wiring = [host.agent for host in self.hosts]
        for agent in wiring:
            agent.options["agent"]["report_interval"] = 1
        return (*wiring, self.hosts[1].metadata, self.l3)

    def make_network(self, name: str, cidr: str, **more: Any) -> Any:
        network = self.network.create_network(name=name, **more)
        subnet = self.network.create_subnet(network_id=network.id, cidr=cidr, ip_version=4)
        return network, subnet

    def boot(self, name: str, network: Any, address: str, **more: Any) -> tuple[Any, Instance]:
        """Create a port without filters on the first host, and its instance."""
        host = self.hosts[0]
        port = self.network.create_port(
            network_id=network.id, name=name, binding_host_id=host.host.name,
            fixed_ips=[{"ip_address": address}], port_security_enabled=False, security_groups=[],
            **more,
        )  # fmt: skip
        return port, host.plug_port(port, name)

    def has_namespace(self, router: Any) -> bool:
        return f"qrouter-{router.id}" in self.hosts[1].host.run(["ip", "netns"])


@frozen
class EdgeRouter:
    """A router between an instance and the world, with a floating IP of the instance."""

    blue: Any
    outside: Any
    world: Instance
    floating_ip: Any


def make_edge_router(routed: RoutedCloud) -> EdgeRouter:
    """Make a router by the API, and wait until its floating IP is reached."""
    network = routed.network
    blue, subnet = routed.make_network("blue", "10.0.1.0/24")
    outside, _ = routed.make_network("outside", "203.0.113.0/24", is_router_external=True)
    router = network.create_router(name="edge", external_gateway_info={"network_id": outside.id})
    network.add_interface_to_router(router, subnet=subnet.id)
    port, vm = routed.boot("vm", blue, "10.0.1.11")
    _, world = routed.boot("world", outside, "203.0.113.200")
    vm.configure(["10.0.1.11/24"], ["10.0.1.1"])
    floating_ip = network.create_ip(floating_network_id=outside.id, port_id=port.id)
    wait_until(lambda: network.get_ip(floating_ip.id).status == "ACTIVE")
    wait_until(lambda: is_reached(world, floating_ip.floating_ip_address))
    return EdgeRouter(blue=blue, outside=outside, world=world, floating_ip=floating_ip)


@contextmanager
def routed_cloud(
    options: Groups | None = None, prepare: Callable[[RoutedCloud], None] = lambda made: None
) -> Iterator[RoutedCloud]:
    """Run a server with *options* and two hosts; *prepare* is called before agents start."""
    with make_cloud(options) as cloud:
        cloud.server.start()
        made = RoutedCloud(cloud)
        prepare(made)
        cloud.hosts[1].service.start()
        with running(*made.agents):
            wait_until(lambda: any(a.binary == "netfw-l3-agent" for a in made.network.agents()))
            yield made
        assert "Traceback" not in cloud.server.log.read_text()
