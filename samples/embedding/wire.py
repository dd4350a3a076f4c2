"""A controller on one page: the L2 agent in your own program, without a server.

    python wire.py unix:/run/openvswitch/db.sock

The program wires two plugged ports, prints their status, and leaves the switch as it is.
"""

import sys
from uuid import UUID

from netfw.agents.common.embed import run_in_thread
from netfw.agents.common.loop import Loop
from netfw.agents.l2.agent import L2Agent, L2AgentConfig
from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.switch import SwitchDriver
from netfw.drivers.values.reports import StatusReport
from netfw.model import Binding, Mac, Network, NetworkId, Port, PortId, Provider
from netfw.model.segment import NetworkType
from netfw.state.memory_source import MemorySource

HOST = "host1"
NETWORK = Network(
    id=NetworkId(UUID(int=1)), segments=[Provider(network_type=NetworkType.LOCAL)], mtu=1450
)


def port(number: int) -> Port:
    return Port(
        id=PortId(UUID(int=100 + number)),
        network_id=NETWORK.id,
        mac=Mac(f"fa:16:3e:00:00:{number:02x}"),
        port_security=False,
        binding=Binding(host=HOST),
    )


def main(remote: str) -> None:
    source = MemorySource(NETWORK, port(1))
    source.listen(show)
    with LocalHostResources() as host:
        options = {"ovsdb_connection": remote, "datapath_type": "netdev"}
        switch = create(SwitchDriver, "openvswitch", options, host)
        agent = L2Agent(L2AgentConfig(host=HOST), switch)
        with run_in_thread(Loop(source, agent)) as loop:
            loop.wait_for(lambda status: status.counts.get("ports") == 1, timeout=30)
            source.put(port(2))  # the controller adds a port
            loop.wait_for(lambda status: status.counts.get("ports") == 2, timeout=30)
            print(f"ready: {loop.status.ready}, in {loop.status.passes} passes")
        switch.close()


def show(report: object) -> None:
    """Print a status report of the agent."""
    if isinstance(report, StatusReport):
        print(f"{report.ref} is {report.status} {report.reason}".rstrip())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print("usage: python wire.py OVSDB, such as unix:/run/openvswitch/db.sock", file=sys.stderr)
        sys.exit(2)
    main(sys.argv[1])
