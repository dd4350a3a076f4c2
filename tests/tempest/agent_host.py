"""The host of a Tempest run: an Open vSwitch and real L2, DHCP and L3 agents in the lab."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from netfw.cli.demo.agents import PHYSICAL, PHYSICAL_BRIDGE, join_provider_network
from netfw.cli.demo.server import ServedHost
from netfw.testing.lab.agent import PrivateAgent
from netfw.testing.lab.lab import Lab
from netfw.testing.lab.temp_directory import temporary_directory
from tests.system.file_hosts import start_all, stop_all

ZONE = "nova"
"""The availability zone that tempest.conf names."""


@contextmanager
def running_agents(messages: Path, logs: Path) -> Iterator[dict[str, PrivateAgent]]:
    """Run the agents of one host on the server behind the socket *messages*.

    Their logs are copied to the directory *logs* at the end.
    """
    with ExitStack() as stack:
        lab = stack.enter_context(Lab(hosts=1, bridges=[PHYSICAL_BRIDGE], provider=[PHYSICAL]))
        directory = stack.enter_context(temporary_directory("netfw-tempest."))
        directory.chmod(0o755)  # dnsmasq reads its files as a user who may do nothing else
        (host,) = lab.hosts.values()
        join_provider_network(host)
        served = ServedHost(host, directory, messages)
        served.agent.options["openvswitch"]["tunnel_types"] = "vxlan,gre,geneve"
        served.agent.options["agent"]["extensions"] = "qos,packet_log"
        served.dhcp.options["agent"] |= {
            "availability_zone": ZONE,
            "enable_isolated_metadata": False,  # no test reads metadata
        }
        served.l3.options["agent"] |= {
            "availability_zone": ZONE,
            "extensions": "router_firewall,port_forwarding,conntrack_helper,ndp_proxy,"
            "fip_qos,gateway_ip_qos",
        }
        agents = {"l2": served.agent, "dhcp": served.dhcp, "l3": served.l3}
        stack.callback(_copy_logs, agents, logs)
        stack.callback(stop_all, *agents.values())
        start_all(*agents.values())
        yield agents


def _copy_logs(agents: dict[str, PrivateAgent], logs: Path) -> None:
    for name, agent in agents.items():
        shutil.copy(agent.log, logs / f"{name}-agent.log")
