"""Demo section 4: a server; networks and ports by the public API, with an unchanged client."""

from __future__ import annotations

import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from attrs import define

from netfw.cli.demo.agents import (
    BRIDGE_MAPPINGS,
    PHYSICAL,
    PHYSICAL_BRIDGE,
    TIMEOUT,
    AgentHost,
    join_provider_network,
    reached,
)
from netfw.cli.demo.qos_limit import demo_limits
from netfw.cli.demo.report import DemoReport
from netfw.testing.lab.agent import PrivateAgent
from netfw.testing.lab.host import Host
from netfw.testing.lab.ini import Groups
from netfw.testing.lab.instance import Instance, Plug
from netfw.testing.lab.lab import Lab
from netfw.testing.lab.services.metadata_service import MetadataService
from netfw.testing.lab.services.server import PrivateNetfw
from netfw.testing.lab.temp_directory import temporary_directory
from netfw.testing.lab.wait import wait_until

PORT = 9696
SECRET = "known to the metadata service"
CLIENT = """
cloud = openstack.connection.Connection(auth_type="none", endpoint="{url}")
red = cloud.network.create_network(name="red")
cloud.network.create_subnet(network_id=red.id, cidr="10.2.0.0/24", ip_version=4)
cloud.network.create_port(network_id=red.id, name="red1", binding_host_id="host1")
cloud.network.create_port(network_id=red.id, name="red2", binding_host_id="host2")
"""
COMMANDS = ("network list", "port list", "network agent list")


class ServedHost(AgentHost):
    """A host with L2, DHCP, L3 and metadata agents that read from the server."""

    def __init__(self, host: Host, directory: Path, messages: Path) -> None:
        source: Groups = {
            "agent": {"state_source": "server"},
            "socket": {"connect": f"unix:{messages}"},
        }
        agent = {**source["agent"], "firewall_driver": "openflow", "extensions": "qos"}
        switch = {"bridge_mappings": BRIDGE_MAPPINGS}
        super().__init__(host, directory / "l2", {**source, "agent": agent, "openvswitch": switch})
        proxy_socket = directory / "metadata.sock"
        plugging: Groups = {
            "socket": source["socket"],
            "openvswitch": {"ovsdb_connection": host.ovs.remote},
            "haproxy": {"metadata_proxy_socket": proxy_socket},
        }
        self.dhcp = PrivateAgent(
            host,
            directory / "dhcp",
            "netfw.cli.agents.dhcp",
            {**plugging, "agent": {**source["agent"], "enable_isolated_metadata": True}},
        )
        self.l3 = PrivateAgent(
            host, directory / "l3", "netfw.cli.agents.l3", {**plugging, "agent": source["agent"]}
        )
        self.metadata = PrivateAgent(
            host,
            directory / "metadata",
            "netfw.cli.agents.metadata",
            {
                **source,
                "metadata": {
                    "metadata_proxy_socket": proxy_socket,
                    "metadata_proxy_shared_secret": SECRET,
                },
            },
        )
        self.service = MetadataService(host, directory, SECRET)

    @property
    def agents(self) -> tuple[PrivateAgent, ...]:
        """All agents of the host, started or not."""
        return self.agent, self.dhcp, self.metadata, self.l3

    def end(self) -> None:
        """Stop all agents and the metadata service."""
        for agent in self.agents:
            agent.kill()
        self.service.stop()

    def plug_port(self, port: Any, name: str = "", *, addressed: bool = True) -> Instance:
        """Plug an instance for a port of the API, named like the port unless *name* is given.

        An instance that is not *addressed* gets its address by DHCP.
        """
        addresses = (f"{port.fixed_ips[0]['ip_address']}/24",) if addressed else ()
        return self.host.instance(
            name or port.name,
            Plug(
                bridge="br-int",
                device=_device(port),
                mac=port.mac_address,
                addresses=addresses,
                mtu=1450,
                external_ids={"iface-id": port.id, "attached-mac": port.mac_address},
            ),
        )

    def router_namespaces(self) -> set[str]:
        """Return the namespaces of routers and agent gateways on the host."""
        names = (line.split()[0] for line in self.host.run(["ip", "netns"]).splitlines() if line)
        return {name for name in names if name.startswith(("qrouter-", "snat-", "fip-"))}

    def unplug_port(self, port: Any) -> None:
        """Remove the device, as a hypervisor does."""
        self.host.ovs.vsctl("--if-exists", "del-port", "br-int", _device(port))


def _device(port: Any) -> str:
    return f"tap{port.id[:11]}"


@define
class Cloud:
    """A server, its client, and hosts."""

    server: PrivateNetfw
    hosts: list[ServedHost]
    client: Any
    lab: Lab

    @property
    def logs(self) -> list[Path]:
        """Log files of server and agents."""
        return [self.server.log, *(agent.log for each in self.hosts for agent in each.agents)]

    @property
    def network(self) -> Any:
        return self.client.network

    def named(self, name: str) -> Any:
        """Return the port of that name from the API."""
        return self.network.find_port(name, ignore_missing=False)

    def status(self, name: str) -> str:
        return str(self.named(name).status)

    def ha_states(self, router: Any) -> dict[str, str]:
        """Return the role of each host of a highly available router, as the API shows it."""
        answer = self.network.get(f"/routers/{router.id}/l3-agents").json()
        return {each["host"]: each["ha_state"] for each in answer["agents"]}

    @contextmanager
    def cut(self, host: ServedHost, *, provider: bool = True) -> Iterator[None]:
        """Cut a host off from the underlay, and from the provider network."""
        fabrics = [self.lab.fabric]
        fabrics += [self.lab.provider[PHYSICAL]] if provider else []
        with ExitStack() as stack:
            for fabric in fabrics:
                fabric.disconnect(host.host.name, silently=True)
                stack.callback(fabric.connect, host.host.name)
            yield


@contextmanager
def make_cloud(options: Groups | None = None, hosts: int = 2, port: int = PORT) -> Iterator[Cloud]:
    """Yield a server with *options*, and hosts with agents; nothing is started yet."""
    with ExitStack() as stack:
        lab = stack.enter_context(Lab(hosts=hosts, bridges=[PHYSICAL_BRIDGE], provider=[PHYSICAL]))
        directory = stack.enter_context(temporary_directory("netfw-demo."))
        directory.chmod(0o755)  # dnsmasq reads its files as a user who may do nothing else
        server = PrivateNetfw(directory / "server", options, port=port)
        stack.callback(server.stop)
        served = [ServedHost(h, directory / h.name, server.messages) for h in lab.hosts.values()]
        for each in served:
            join_provider_network(each.host)
            stack.callback(each.end)
        yield Cloud(server, served, _client(server.url), lab)


def demo_server(report: DemoReport, cloud: Cloud) -> None:
    """Go from an empty database to a ping by the API alone; then kill the server."""
    _start(report, cloud)
    _make(report, cloud)
    _limit(report, cloud)
    _kill(report, cloud)
    _look_around(report, cloud)
    _remove(report, cloud)


def _start(report: DemoReport, cloud: Cloud) -> None:
    report.step("Start a server", ["netfw-server on SQLite; agents reach it by a unix socket"])
    began = time.monotonic()
    cloud.server.start()
    report.say(f"it made its tables, and is ready: {time.monotonic() - began:.1f} s")
    for each in cloud.hosts:
        each.start()
    wait_until(lambda: len(list(cloud.network.agents())) == 2, "the agents are known")
    alive = all(agent.is_alive for agent in cloud.network.agents())
    report.check("the agents of both hosts report to it, and are alive", alive)


def _make(report: DemoReport, cloud: Cloud) -> None:
    report.step("Make a network by the API", ["with openstacksdk, as it comes from PyPI:"])
    report.quote(CLIENT.format(url=cloud.server.url).strip().splitlines())
    red = cloud.network.create_network(name="red")
    cloud.network.create_subnet(network_id=red.id, cidr="10.2.0.0/24", ip_version=4)
    ports = [
        cloud.network.create_port(
            network_id=red.id, name=f"red{number}", binding_host_id=each.host.name
        )
        for number, each in enumerate(cloud.hosts, 1)
    ]
    report.say(f"red is {red.provider_network_type} {red.provider_segmentation_id}, MTU {red.mtu}")
    bound = {port.name: port.binding_vif_type for port in ports}
    report.check("both ports are bound in the answer itself", set(bound.values()) == {"ovs"})
    group = cloud.network.find_security_group("default", ignore_missing=False)
    cloud.network.create_security_group_rule(
        security_group_id=group.id, direction="ingress", protocol="icmp"
    )
    began = time.monotonic()
    for each, port in zip(cloud.hosts, ports, strict=True):
        each.plug_port(port)
    names = [port.name for port in ports]
    wait_until(lambda: {cloud.status(name) for name in names} == {"ACTIVE"}, "ports are ACTIVE")
    seconds = time.monotonic() - began
    report.check(f"plugged, and both ACTIVE {seconds:.1f} s later", seconds < TIMEOUT)
    target = ports[1].fixed_ips[0]["ip_address"]
    ok = reached(cloud.hosts[0].host.instances["red1"], target)
    report.check("red1 on host1 pings red2 on host2, through security groups", ok)


def _limit(report: DemoReport, cloud: Cloud) -> None:
    red1, red2 = (each.host.instances[f"red{number}"] for number, each in enumerate(cloud.hosts, 1))
    demo_limits(report, cloud.network, red1, red2)


def _kill(report: DemoReport, cloud: Cloud) -> None:
    report.step("Kill the server", ["kill -9 under a ping every 10 ms; then start it again:"])
    target = cloud.named("red2").fixed_ips[0]["ip_address"]
    with cloud.hosts[0].host.instances["red1"].pinging(target, interval=0.01) as running:
        cloud.server.kill()
        cloud.server.start()
        cloud.network.update_port(cloud.named("red1").id, description="after the crash")
        ping = running.stop()
    report.say(f"{ping.sent} sent, {ping.lost} lost; agents go on with what changed, nothing else")
    report.check("a killed server costs no packet", ping.lost == 0 and ping.sent > 0)


def _look_around(report: DemoReport, cloud: Cloud) -> None:
    environment = f"export OS_AUTH_TYPE=none OS_ENDPOINT={cloud.server.url}"
    ends = "(this server ends with the demo; one of your own: docs/getting-started.md)"
    report.step("Look around with the openstack command", [ends, environment])
    command = [str(Path(sys.executable).with_name("openstack")), "--os-auth-type", "none"]
    command += ["--os-endpoint", cloud.server.url]
    for words in COMMANDS[:-1]:
        report.say(f"openstack {words}")
    report.say(f"openstack {COMMANDS[-1]}")
    columns = [part for name in ("Agent Type", "Host", "Alive", "State") for part in ("-c", name)]
    done = subprocess.run(
        [*command, *COMMANDS[-1].split(), *columns],
        capture_output=True,
        text=True,
        check=False,
    )
    report.quote((done.stdout or done.stderr).splitlines())
    alive = done.stdout.count(":-)")
    report.check("an unchanged client shows both agents", done.returncode == 0 and alive == 2)


def _remove(report: DemoReport, cloud: Cloud) -> None:
    report.step("Delete it all", ["ports, then the network, by the API:"])
    red1 = cloud.hosts[0].host.instances["red1"]
    target = cloud.named("red2").fixed_ips[0]["ip_address"]
    for port in list(cloud.network.ports(device_owner="")):
        cloud.network.delete_port(port.id)
    began = time.monotonic()
    wait_until(lambda: red1.ping(target, count=1, timeout=0.1).received == 0, "the wire is cut")
    report.say(f"{time.monotonic() - began:.1f} s later the instances no longer hear each other")
    for network in list(cloud.network.networks()):
        cloud.network.delete_network(network.id)
    left = [*cloud.network.ports(), *cloud.network.subnets(), *cloud.network.networks()]
    report.check("nothing is left", not left)


def _client(url: str) -> Any:
    """Return an unchanged openstacksdk connection to the server."""
    import openstack

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the SDK's own, of parts that are not used
        return openstack.connection.Connection(
            auth_type="none", endpoint=url, network_endpoint_override=url
        )
