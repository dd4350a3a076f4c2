"""Agents of one host that do nothing and say that all of it works, for tests of the API.

    python tests/tempest/simulated_agents.py unix:/path/to/messages.sock

They speak the real protocol over the real transport: heartbeats, a port for DHCP on each network
that has it, and for each port and router that concerns the host a report that it is ready.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from uuid import NAMESPACE_DNS, uuid5

from netfw.drivers.registry.local_host import LocalHostResources
from netfw.drivers.state_source import Delta
from netfw.drivers.values.agent_requests import EnsureDhcpPort
from netfw.drivers.values.reports import Heartbeat, Report, StatusReport
from netfw.drivers.values.subscription import Service, Subscription
from netfw.errors import BackendUnavailable, CursorLost, RequestError
from netfw.model.agent import Agent
from netfw.model.resource import Kind, Ref, Resource, kind_of, ref
from netfw.model.subnet import Subnet
from netfw.model.values.common_fields import Status
from netfw.model.values.json_document import JsonDocument
from netfw.state.rpc import RemoteSource
from netfw_drivers.transports.sockets.transport import SocketTransport

HOST = "tempest"
PULSE = 10.0
L2 = {
    "tunnel_types": ["vxlan", "gre", "geneve"],
    "tunneling_ip": "192.0.2.10",
    "bridge_mappings": {"physnet1": "br-physnet1"},
}
AGENTS = (
    ("Open vSwitch agent", "netfw-ovs-agent", None, L2),
    ("DHCP agent", "netfw-dhcp-agent", "nova", {}),
    ("L3 agent", "netfw-l3-agent", "nova", {"agent_mode": "legacy"}),
)
READY = {Kind.PORT: (Service.L2, Service.DHCP), Kind.ROUTER: (Service.L3,)}


def heartbeats(start: bool) -> Iterator[Report]:
    for type, binary, zone, configurations in AGENTS:
        agent = Agent(
            id=uuid5(NAMESPACE_DNS, f"{binary}.{HOST}"),
            agent_type=type,
            binary=binary,
            host=HOST,
            topic="N/A",
            availability_zone=zone,
            configurations=JsonDocument(configurations),
        )
        yield Heartbeat(agent=agent, start=start)


class Dhcp:
    """Has a port on each network with subnets that want DHCP."""

    def __init__(self, source: RemoteSource) -> None:
        self._source = source
        self._subnets: dict[Ref, Subnet] = {}

    def serve(self, delta: Delta) -> None:
        found = {ref(each): each for each in delta.put if isinstance(each, Subnet)}
        gone = {each: self._subnets.pop(each) for each in delta.drop if each in self._subnets}
        self._subnets |= found
        for network in {each.network_id for each in (*found.values(), *gone.values())}:
            of = [each for each in self._subnets.values() if each.network_id == network]
            wanted = frozenset(each.id for each in of if each.enable_dhcp)
            if wanted:
                with contextlib.suppress(RequestError):  # it changed once more meanwhile
                    self._source.request(EnsureDhcpPort(network=network, host=HOST, subnets=wanted))


def ready(resource: Resource) -> Iterator[Report]:
    works = getattr(resource, "admin_up", True)
    for service in READY.get(kind_of(resource), ()):
        yield StatusReport(
            ref=ref(resource),
            revision=resource.revision,
            host=HOST,
            service=service,
            status=Status.ACTIVE if works else Status.DOWN,
        )


def work(source: RemoteSource, news: threading.Event) -> None:
    """Report what is there and whatever comes, for ever."""
    interest = Subscription(HOST, {Service.L2, Service.DHCP, Service.L3})
    source.report([*heartbeats(start=True)])
    source.watch(interest, news.set)
    cursor, dhcp = None, Dhcp(source)
    while True:
        try:
            if cursor is None:
                deltas = [*source.snapshot(interest)]
            else:
                deltas = [source.changes(interest, cursor)]
        except CursorLost:
            cursor = None
            continue
        cursor = deltas[-1].cursor
        reports = [each for delta in deltas for found in delta.put for each in ready(found)]
        if reports:
            source.report(reports)
        for delta in deltas:
            dhcp.serve(delta)
        if deltas[-1].more:
            continue
        if not news.wait(PULSE):
            source.report([*heartbeats(start=False)])
        news.clear()


def main() -> int:
    options = {option.dest: option.default for option in SocketTransport.OPTIONS}
    with LocalHostResources() as host:
        transport = SocketTransport.from_conf({**options, "connect": [sys.argv[1]]}, host)
        try:
            while True:
                with contextlib.suppress(BackendUnavailable):
                    work(RemoteSource(transport), threading.Event())
                time.sleep(0.5)
        except KeyboardInterrupt:
            return 0
        finally:
            transport.close()


if __name__ == "__main__":
    sys.exit(main())
