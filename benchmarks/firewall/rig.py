"""A host with the L2 agent in this process, a firewall driver, and one large security group.

The state comes from memory: what a source spends on telling the agent is none of the firewall's
business, and that of a file would hide it.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from ipaddress import IPv4Address
from typing import Any
from uuid import UUID

from netfw.agents.common.embed import run_in_thread
from netfw.agents.common.loop import Intervals, Loop
from netfw.agents.l2.agent import L2Agent, L2AgentConfig
from netfw.drivers.firewall import FirewallDriver
from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.switch import SwitchDriver
from netfw.model.binding import Binding
from netfw.model.network import Network
from netfw.model.port import FixedIp, Port
from netfw.model.security_group import Direction, Ethertype, SecurityGroup, SecurityGroupRule
from netfw.model.segment import NetworkType, Provider
from netfw.model.values.ids import NetworkId, PortId, SecurityGroupId, SecurityGroupRuleId, SubnetId
from netfw.state.memory_source import MemorySource
from netfw.testing.lab.host import Host
from netfw.testing.lab.lab import Lab
from netfw.testing.lab.wait import TIMEOUT

ELSEWHERE = "elsewhere"
NETWORK = Network(
    id=NetworkId(UUID(int=1)), segments=[Provider(network_type=NetworkType.LOCAL)], mtu=1450
)
GROUP = SecurityGroup(id=SecurityGroupId(UUID(int=2)))
_SETTLED = 0.3


def rule(number: int, **content: Any) -> SecurityGroupRule:
    return SecurityGroupRule(
        id=SecurityGroupRuleId(UUID(int=number)), security_group_id=GROUP.id, **content
    )


DEFAULT_RULES = tuple(
    rule(10 + number, direction=direction, ethertype=ethertype, **more)
    for number, (direction, ethertype, more) in enumerate(
        (direction, ethertype, more)
        for direction, more in (
            (Direction.EGRESS, {}),
            (Direction.INGRESS, {"remote_group_id": GROUP.id}),
        )
        for ethertype in Ethertype
    )
)
"""Everything out, and in whatever comes from the group itself; both IP versions."""


def port(number: int, host: str) -> Port:
    return Port(
        id=PortId(UUID(int=number << 96)),
        network_id=NETWORK.id,
        mac=f"fa:16:3e:{number >> 16:02x}:{number >> 8 & 255:02x}:{number & 255:02x}",
        fixed_ips=(
            FixedIp(subnet_id=SubnetId(UUID(int=3)), address=IPv4Address("10.0.0.0") + number),
        ),
        security_groups=frozenset({GROUP.id}),
        binding=Binding(host=host),
    )


def plug(host: Host, numbers: Iterable[int]) -> None:
    """Plug them all by one ``ovs-vsctl``, as a hypervisor would."""
    words: list[str] = []
    for number in numbers:
        words += ["--", "add-port", "br-int", f"tap{number}"]
        words += ["--", "set", "Interface", f"tap{number}", "type=internal"]
        words += [f"external_ids:iface-id={UUID(int=number << 96)}"]
    host.ovs.vsctl(*words[1:])


class FirewallRig:
    """An agent at work in this process; seconds and CPU of what it is asked to do."""

    def __init__(self, host: Host, loop: Loop[Any], source: MemorySource, spent: list[float]):
        self.host, self.loop, self.source = host, loop, source
        self.spent = spent
        """Seconds of each call of the firewall driver."""

    def await_ports(self, count: int) -> None:
        self._await(lambda status: status.ready and status.counts.get("ports") == count)

    def cost(self, change: Callable[[], object]) -> tuple[float, set[str], set[str]]:
        """Return the CPU seconds that one change costs, and the flows that go and that come."""
        before = self.flows()
        gc.collect()
        passes, start = self.loop.status.passes, time.process_time()
        change()
        self._await(lambda status: status.ready and status.passes > passes)
        time.sleep(_SETTLED)  # what the switch says of it is heard
        spent = time.process_time() - start
        after = self.flows()
        return spent, before - after, after - before

    def flows(self, *, firewall: bool = False) -> set[str]:
        """Return the flows of br-int without statistics, or only those of the firewall."""
        ovs = self.host.ovs
        cookie = [f"cookie={_space()}"] if firewall else []
        arguments = ["-O", "OpenFlow13", "--no-stats", "--no-names", "dump-flows"]
        text = ovs.ofctl(*arguments, ovs.management("br-int"), *cookie)
        return {line.strip() for line in text.splitlines() if "actions=" in line}

    def _await(self, condition: Any) -> None:
        if not self.loop.wait_for(condition, TIMEOUT):
            raise RuntimeError(f"it did not happen: {self.loop.status}")


def _space() -> str:
    from netfw_drivers.ovs.pipeline.tables import FIREWALL_SPACE, SPACE_MASK

    return f"{FIREWALL_SPACE:#x}/{SPACE_MASK:#x}"


@contextmanager
def firewall_rig(plugged: range, elsewhere: range = range(0)) -> Iterator[FirewallRig]:
    """Yield a host whose agent is ready, with ports here and *elsewhere*, all in one group.

    They were plugged before the agent began: their filters are its first call of the driver.
    """
    with Lab(hosts=1, bridges=["br-int"]) as lab, ExitStack() as stack:
        (host,) = lab.hosts.values()
        plug(host, plugged)
        local = stack.enter_context(LocalHostResources())
        options = {"ovsdb_connection": host.ovs.remote, "datapath_type": "netdev"}
        switch = host.call(create, SwitchDriver, "openvswitch", options, local)
        stack.callback(switch.close)
        local.add(switch)
        where = {"ovsdb_connection": host.ovs.remote}
        firewall = host.call(create, FirewallDriver, "openflow", where, local)
        stack.callback(firewall.close)
        local.add(firewall)
        spent = _timed(firewall)
        ports = [*(port(n, host.name) for n in plugged), *(port(n, ELSEWHERE) for n in elsewhere)]
        source = MemorySource(NETWORK, GROUP, *DEFAULT_RULES, *ports)
        agent = L2Agent(L2AgentConfig(host=host.name), switch, firewall=firewall)
        quiet = Intervals(report=0, audit=0, pull=0)
        loop = Loop(source, agent, lambda: quiet)
        host.call(stack.enter_context, run_in_thread(loop))  # its thread is made in the host
        rig = FirewallRig(host, loop, source, spent)
        rig.await_ports(len(plugged))
        yield rig


def _timed(firewall: FirewallDriver) -> list[float]:
    """Have the seconds of each call of the driver noted."""
    spent: list[float] = []
    converge = firewall.converge

    def timed(update: Any) -> Any:
        start = time.perf_counter()
        try:
            return converge(update)
        finally:
            spent.append(time.perf_counter() - start)

    firewall.converge = timed  # type: ignore[method-assign]
    return spent
