"""Demo section 2: agents on two hosts, desired state in a file, a restart without loss."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from attrs import frozen

from netfw.cli.demo.report import DemoReport
from netfw.testing.lab.agent import PrivateAgent
from netfw.testing.lab.host import Host
from netfw.testing.lab.ini import Groups
from netfw.testing.lab.instance import Instance, Plug
from netfw.testing.lab.lab import Lab
from netfw.testing.lab.temp_directory import temporary_directory
from netfw.testing.lab.wait import wait_until

PHYSICAL = "physnet1"
PHYSICAL_BRIDGE = "br-ex"
BRIDGE_MAPPINGS = f"{PHYSICAL}:{PHYSICAL_BRIDGE}"
TIMEOUT = 30.0


@frozen
class Vm:
    """An instance, and its port in the topology."""

    name: str
    number: int

    @property
    def network(self) -> str:
        return self.name[:-1]

    @property
    def host(self) -> str:
        return f"host{self.name[-1]}"

    @property
    def port(self) -> str:
        return f"00000000-0000-4000-8000-00000000000{self.number}"

    @property
    def mac(self) -> str:
        return f"fa:16:3e:00:00:0{self.number}"

    @property
    def address(self) -> str:
        return f"10.{0 if self.network == 'blue' else 1}.0.{self.number}"

    def line(self, group: str = "") -> str:
        more = f", security_groups: [{group}]" if group else ""
        return (
            f"  - {{name: {self.name}, id: {self.port}, network: {self.network}, "
            f'host: {self.host}, mac_address: "{self.mac}", fixed_ips: [{self.address}]{more}}}'
        )


VMS = {name: Vm(name, n) for n, name in enumerate(("blue1", "blue2", "green1", "green2"), 1)}
NETWORKS = """
networks:
  - {name: blue, network_type: vxlan, segmentation_id: 1001}
  - {name: green, network_type: vlan, physical_network: physnet1, segmentation_id: 101}
subnets:
  - {name: blue-v4, network: blue, cidr: 10.0.0.0/24}
  - {name: green-v4, network: green, cidr: 10.1.0.0/24}
"""


def topology_of(hosts: Iterable[Host], groups: Mapping[str, str], rules: Sequence[str] = ()) -> str:
    """Render the topology file for the agents of all *hosts*.

    *groups*: the security group of each instance that has one; *rules*: the lines of the rules
    of those groups.
    """
    lines = [
        f"  {host.name}: {{local_ip: {host.address.ip}, bridge_mappings: "
        f"{{{PHYSICAL}: {PHYSICAL_BRIDGE}}}}}"
        for host in hosts
    ]
    ports = [vm.line(groups.get(vm.name, "")) for vm in VMS.values()]
    return "\n".join(["hosts:", *lines, NETWORKS.strip(), *rules, "ports:", *ports, ""])


class AgentHost:
    """A host with its L2 agent and configuration."""

    def __init__(self, host: Host, directory: Path, options: Groups) -> None:
        self.host = host
        switch: dict[str, object] = {
            "datapath_type": "netdev",
            "ovsdb_connection": host.ovs.remote,
            "local_ip": host.address.ip,
            "tunnel_types": "vxlan",
        }
        groups = {**options, "openvswitch": {**switch, **options.get("openvswitch", {})}}
        self.agent = PrivateAgent(host, directory, "netfw.cli.agents.l2", groups)

    def filter_by(self, firewall: str) -> None:
        """Use the firewall driver *firewall* from the next start on."""
        self.agent.options["agent"]["firewall_driver"] = firewall

    def start(self) -> float:
        """Start the agent, wait until it is ready, and return the seconds that it took."""
        return self.agent.start()

    def stop(self) -> None:
        self.agent.stop()

    def plan(self) -> tuple[int, list[str]]:
        """Run ``netfw plan`` on this host; return its exit status and its lines."""
        return plan_of(self.agent, "l2")

    def plug(self, vm: Vm) -> Instance:
        """Plug an instance as a hypervisor does: a device on br-int that carries the port's id."""
        return self.host.instance(
            vm.name,
            Plug(
                bridge="br-int",
                device=f"tap-{vm.name}",
                mac=vm.mac,
                addresses=(f"{vm.address}/24",),
                mtu=1450,
                external_ids={"iface-id": vm.port, "attached-mac": vm.mac},
            ),
        )


def plan_of(agent: PrivateAgent, kind: str) -> tuple[int, list[str]]:
    """Run ``netfw plan`` for an agent of that kind; return its exit status and its lines."""
    argv = [sys.executable, "-m", "netfw.cli.commands.main", "plan", "--agent", kind]
    done = agent.host.attempt([*argv, "--config-file", str(agent.conf)])
    return done.status, done.output.splitlines() or done.error.splitlines()


def join_provider_network(host: Host) -> None:
    """Plug the host's NIC on the provider network into the bridge of that network."""
    host.ovs.vsctl("add-port", PHYSICAL_BRIDGE, PHYSICAL)
    host.namespaces.ip(f"link set {PHYSICAL} up")


@contextmanager
def two_agents() -> Iterator[tuple[AgentHost, AgentHost]]:
    """Yield two hosts whose agents, not started yet, read one file."""
    with Lab(hosts=2, bridges=[PHYSICAL_BRIDGE], provider=[PHYSICAL]) as lab, ExitStack() as stack:
        directory = stack.enter_context(temporary_directory("netfw-demo."))
        topology = directory / "topology.yaml"
        topology.write_text(topology_of(lab.hosts.values(), {}))
        one, two = (_on_file(host, directory, topology) for host in lab.hosts.values())
        for each in (one, two):
            stack.callback(each.stop)
        yield one, two


def _on_file(host: Host, directory: Path, topology: Path) -> AgentHost:
    """Make a host on the provider network, whose agent reads *topology*."""
    join_provider_network(host)
    options: Groups = {
        "agent": {"state_source": "file"},
        "file": {"path": topology, "status_path": directory / f"{host.name}.reported"},
        "openvswitch": {"bridge_mappings": BRIDGE_MAPPINGS},
    }
    return AgentHost(host, directory / host.name, options)


def demo_agents(report: DemoReport, one: AgentHost, two: AgentHost) -> None:
    """Run the L2 agent on two hosts with one file, a VXLAN and a VLAN network."""
    _wire(report, one, two)
    _restart(report, one)


def _wire(report: DemoReport, one: AgentHost, two: AgentHost) -> None:
    report.step("Write down what there should be", ["from topology.yaml, for both hosts:"])
    networks, _, _ = NETWORKS.strip().partition("subnets:")
    report.quote([*networks.splitlines(), "...", "ports:", VMS["blue1"].line(), "..."])
    seconds = [each.start() for each in (one, two)]
    times = f"{seconds[0]:.1f} s on host1, {seconds[1]:.1f} s on host2"
    report.say(f"netfw-ovs-agent is ready: {times}")
    for vm in VMS.values():
        (one if vm.host == one.host.name else two).plug(vm)
    blue, green = (one.host.instances[name] for name in ("blue1", "green1"))
    ok = reached(blue, VMS["blue2"].address)
    report.check("blue1 on host1 pings blue2 on host2: a VXLAN network", ok)
    ok = reached(green, VMS["green2"].address)
    report.check("green1 on host1 pings green2 on host2: a VLAN network", ok)
    lost = blue.ping(VMS["green1"].address, count=2, timeout=0.3)
    report.check("blue and green do not see each other", lost.received == 0)
    status, lines = one.plan()
    report.say("netfw plan, on host1:")
    report.quote(lines)
    report.check("the plan is empty", status == 0)


def _restart(report: DemoReport, one: AgentHost) -> None:
    report.step("Restart the agent under a ping", ["every 10 ms from blue1 to blue2, meanwhile:"])
    blue, target = one.host.instances["blue1"], VMS["blue2"].address
    with blue.pinging(target, interval=0.01) as running:
        one.stop()
        seconds = one.start()
        ping = running.stop()
    report.say(f"stopped, started, ready after {seconds:.1f} s: {ping.sent} sent, {ping.lost} lost")
    report.check("not one packet is lost", ping.lost == 0 and ping.sent > 0)
    one.host.ovs.ofctl("del-flows", one.host.ovs.management("br-tun"))
    report.check("flows deleted by hand are put back by the agent", reached(blue, target))


def reached(instance: Instance, address: str) -> bool:
    """Return whether a ping succeeds within the time that agents need to converge."""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        if instance.ping(address, count=3, timeout=0.5).lost == 0:
            return True
    return False


def files_named(directory: Path, word: str) -> list[str]:
    """Return the files and folders below *directory* with *word* in their name.

    Others may remove some meanwhile.
    """
    found = (name for _, folders, files in os.walk(directory) for name in (*folders, *files))
    return [name for name in found if word in name]


def becomes_true(condition: Callable[[], bool]) -> bool:
    """Return whether *condition* becomes true within the time that agents need to converge."""
    try:
        wait_until(condition, seconds=TIMEOUT)
    except TimeoutError:
        return False
    return True
