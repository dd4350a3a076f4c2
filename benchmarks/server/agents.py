"""What a thousand agents cost one server: at rest, on a change, and when all come back at once."""

from __future__ import annotations

import logging
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from uuid import UUID, uuid5

from benchmarks.figure import Figure
from benchmarks.load import Client
from benchmarks.process_usage import process_cpu, resident
from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.state_source import Cursor
from netfw.drivers.transport import Transport
from netfw.drivers.values.reports import Heartbeat
from netfw.drivers.values.subscription import Service, Subscription
from netfw.errors import BackendUnavailable
from netfw.model import Agent, AgentId, JsonDocument
from netfw.state.rpc import RemoteSource
from netfw.testing.lab.services.server import PrivateNetfw

AGENTS = 1_000
CONNECTIONS = 50
"""Agents share them here, for the sake of this process."""
REPORT_INTERVAL = 30.0
REST = 15.0
CHANGES = 40
SOME = 20
OPTIONS = {
    "ml2": {
        "type_drivers": "vxlan",
        "tenant_network_types": "vxlan",
        "mechanism_drivers": "openvswitch",
    }
}


def figures() -> Iterator[Figure]:
    logging.getLogger("netfw_drivers.transports.sockets").setLevel(
        logging.ERROR
    )  # the server goes away
    with (
        tempfile.TemporaryDirectory(dir="/var/tmp") as folder,
        PrivateNetfw(Path(folder) / "server", OPTIONS) as server,
    ):
        yield from _measured(server)


def _measured(server: PrivateNetfw) -> Iterator[Figure]:
    client = Client(f"unix://{server.socket}")
    made = client.create("/networks", {"network": {"name": "n"}})
    block = {"network_id": made["id"], "ip_version": 4, "cidr": "10.0.0.0/16"}
    client.create("/subnets", {"subnet": block})
    fleet = Fleet(f"unix:{server.messages}")
    fleet.report_all()
    began = process_cpu(server.pid)
    cold = AGENTS / fleet.read_some() * (process_cpu(server.pid) - began)
    yield _figure("CPU at rest, heartbeats every 30 s", _rest(server.pid, fleet), 20.0, "%")
    yield _reached(client, fleet, made["id"])
    client.close()
    server.stop()
    server.start()
    began, clock = process_cpu(server.pid), time.monotonic()
    fleet.pull_all()
    back = process_cpu(server.pid) - began
    print(f"    all were back {time.monotonic() - clock:.1f} s after the server was")
    name = f"all come back to a new server after {CHANGES} changes, CPU"
    yield _figure(name, back, 5.0, "s", raw=cold)
    yield _figure("resident", resident(server.pid), 100.0, "MB")
    fleet.close()


def _figure(name: str, measured: float, target: float, unit: str, raw: float = 0.0) -> Figure:
    return Figure(
        name=f"server, 1,000 agents: {name}",
        measured=measured,
        target=target,
        raw_seconds=raw,
        own_seconds=measured if unit == "s" else 0.0,
        unit=unit,
    )


def _rest(server: int, fleet: Fleet) -> float:
    """Return the percentage of a core that is used while agents only send heartbeats."""
    began, used = time.monotonic(), process_cpu(server)
    pause = REPORT_INTERVAL / AGENTS
    turn = 0
    while time.monotonic() - began < REST:
        fleet.report(turn % AGENTS)
        turn += 1
        time.sleep(max(0.0, began + turn * pause - time.monotonic()))
    return 100 * (process_cpu(server) - used) / (time.monotonic() - began)


def _reached(client: Client, fleet: Fleet, network: str) -> Figure:
    """Measure the time from a request for a port until its agent has the port and all it needs."""
    times = []
    for number in range(CHANGES):
        began = time.monotonic()
        body = {"network_id": network, "binding:host_id": f"host{number}"}
        port = client.create("/ports", {"port": body})
        fleet.await_port(number, UUID(port["id"]))
        times.append(time.monotonic() - began)
    return _figure("a port reaches its agent", median(times) * 1000, 100.0, "ms", raw=max(times))


class Fleet:
    """The agents."""

    def __init__(self, address: str) -> None:
        self._transports = [
            create(Transport, "socket", {"connect": address}, LocalHostResources())
            for _ in range(CONNECTIONS)
        ]
        self._sources = [RemoteSource(self._transports[n % CONNECTIONS]) for n in range(AGENTS)]
        self._interests = [Subscription(f"host{n}", {Service.L2}) for n in range(AGENTS)]
        self._cursors: list[Cursor] = []
        self._hints = [threading.Event() for _ in range(AGENTS)]

    def report(self, number: int, *, start: bool = False) -> None:
        """Say that one is alive."""
        host = f"host{number}"
        tunnel = f"192.0.{number // 250}.{number % 250 + 1}"
        agent = Agent(
            id=AgentId(uuid5(UUID(int=0), host)),
            agent_type="Open vSwitch agent",
            binary="netfw-ovs-agent",
            host=host,
            configurations=JsonDocument({"tunneling_ip": tunnel, "tunnel_types": ["vxlan"]}),
        )
        self._sources[number].report([Heartbeat(agent=agent, start=start)])

    def report_all(self) -> None:
        """Say for the first time that all are there, and listen from then on."""
        for number in range(AGENTS):
            self.report(number, start=True)
        for number, source in enumerate(self._sources):
            source.watch(self._interests[number], self._hints[number].set)

    def read_some(self) -> int:
        """Have some read everything for the first time; the rest take their cursor as known.

        What all would read is a million tunnel ends, which says little about the server.
        """
        for number in range(SOME):
            *_, last = self._sources[number].snapshot(self._interests[number])
        self._cursors = [last.cursor] * AGENTS
        return SOME

    def pull_all(self) -> None:
        """Have all ask at once for what changed, as they do when their server is back."""
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            list(pool.map(self._pull_when_connected, range(AGENTS)))

    def await_port(self, number: int, port: UUID) -> None:
        """Have one agent hear of *port*, by a hint and the question that follows it."""
        while port not in self._pull(number):
            if not self._hints[number].wait(10):
                raise RuntimeError(f"no hint for port {port}")

    def _pull_when_connected(self, number: int) -> None:
        """Read changes; a source that is not connected to its server refuses until it is."""
        end = time.monotonic() + 60
        while True:
            try:
                self._pull(number)
                return
            except BackendUnavailable:
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)

    def _pull(self, number: int) -> set[UUID]:
        self._hints[number].clear()
        found: set[UUID] = set()
        more = True
        while more:
            source, interest = self._sources[number], self._interests[number]
            delta = source.changes(interest, self._cursors[number])
            found |= {each.id for each in delta.put}
            self._cursors[number], more = delta.cursor, delta.more
        return found

    def close(self) -> None:
        for each in (*self._sources, *self._transports):
            each.close()
