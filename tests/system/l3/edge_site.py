"""A router between two networks and an external one, both IP versions, with traffic through it.

The server is on PostgreSQL.  Instances are on the first host and the router is on the second;
networks are VLANs, since userspace tunnels lose packets whenever a device appears on a host.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from attrs import frozen

from netfw.cli.demo.agents import plan_of
from netfw.cli.demo.server import Cloud, ServedHost, make_cloud
from netfw.server.db import Database, migration
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.services.databases import PrivatePostgres
from netfw.testing.lab.temp_directory import temporary_directory
from netfw.testing.lab.wait import wait_until
from tests.system.l3.environment import RoutedCloud, is_reached, prefer_switch, running
from tests.system.l3.routed_networks import VLAN_OPTIONS, WORLD4, RoutedNetworks
from tests.system.pings import Pings, pinging_all
from tests.system.streams import Connection, SteadyConnections

AUDIT_INTERVAL = 86400
"""Seconds: whatever is repaired is repaired for another reason."""


@frozen
class Traffic:
    """Pings every 10 ms and TCP connections that nothing may interrupt."""

    pings: Pings
    connections: SteadyConnections

    def check(self) -> None:
        """Check that not one packet and not one connection was lost."""
        assert not self.pings.lost(), self.pings.report()
        self.connections.stop()
        assert not self.connections.problems, self.connections.problems
        assert self.connections.carried


class EdgeSite(RoutedCloud, RoutedNetworks):
    """The router *edge*, and machines behind it and outside."""

    def __init__(self, cloud: Cloud, database: PrivatePostgres) -> None:
        super().__init__(cloud)
        self.l3.options["agent"]["audit_interval"] = AUDIT_INTERVAL
        self.database = database

    @property
    def router_confs(self) -> Path:
        """The directory of the router driver, a small file system of its own."""
        return self.l3.directory / "routers"

    @property
    def router_host(self) -> ServedHost:
        return self.hosts[1]

    def build(self) -> None:
        """Make networks, router, machines and a floating IP, and wait until all is reached."""
        network = self.network
        self.blue, self.green = self.segment("blue", 1), self.segment("green", 2)
        self.outside = self.make_outside()
        gateway = {"network_id": self.outside.network.id}
        self.router = network.create_router(name="edge", external_gateway_info=gateway)
        for segment in (self.blue, self.green):
            self.connect(self.router, segment)
        host = self.hosts[0]
        self.web = self.guest("web", self.blue, host)
        self.db = self.guest("db", self.green, host)
        self.world = self.make_world(self.router, self.outside, host)
        self.floating_ip = network.create_ip(
            floating_network_id=self.outside.network.id, port_id=self.web.port.id
        )
        wait_until(lambda: network.get_ip(self.floating_ip.id).status == "ACTIVE")
        self.await_reached()
        wait_until(lambda: len(self.processes()) == 2, self.processes)

    def prefer_switches(self) -> None:
        """Run the switches in real time."""
        for each in self.hosts:
            prefer_switch(each.host)

    def targets(self) -> dict[str, tuple[Instance, str]]:
        """Return the sender and the target of each flow, by its name."""
        web, db, world = self.web, self.db, self.world
        return {
            "east-west IPv4": (web.instance, db.address(4)),
            "east-west IPv6": (db.instance, web.address(6)),
            "SNAT": (db.instance, WORLD4),
            "floating IP": (world, self.floating_ip.floating_ip_address),
            "gateway IPv6": (world, db.address(6)),
        }

    def await_reached(self) -> None:
        """Wait until every flow passes."""
        for name, (instance, address) in self.targets().items():
            wait_until(lambda i=instance, a=address: is_reached(i, a), name)

    def streams(self) -> dict[str, tuple[Instance, Instance, str]]:
        """Return the two ends of each TCP connection and the address of the second, by its name."""
        return {
            "east-west IPv4": (self.web.instance, self.db.instance, self.db.address(4)),
            "east-west IPv6": (self.db.instance, self.web.instance, self.web.address(6)),
            "SNAT": (self.db.instance, self.world, WORLD4),
            "floating IP": (
                self.world, self.web.instance, str(self.floating_ip.floating_ip_address)
            ),
        }  # fmt: skip

    @contextmanager
    def traffic(self) -> Iterator[Traffic]:
        """Ping and stream over all flows while the block runs."""
        with ExitStack() as stack:
            opened = {
                name: Connection(one, two, target, port)
                for port, (name, (one, two, target)) in enumerate(self.streams().items(), 7000)
            }
            connections = SteadyConnections(opened)
            stack.callback(connections.stop)
            yield Traffic(stack.enter_context(pinging_all(self.targets())), connections)

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Check that no packet, connection or process of the router is lost in the block."""
        before = self.processes()
        with self.traffic() as traffic:
            yield
            traffic.check()
        after = self.processes()
        assert after == before, (before, after)

    def processes(self, router: Any = None) -> dict[str, int]:
        """Return the processes of a router by program, without their children."""
        id = (router or self.router).id
        found = {}
        for program in ("radvd", "haproxy"):
            pattern = f"^[^ ]*{program} .*{id}"
            for pid in self.router_host.host.attempt(["pgrep", "-o", "-f", pattern]).output.split():
                found[program] = int(pid)
        return found

    def plan(self) -> list[str]:
        """Return the plan of the L3 agent without executing it, empty if nothing is to be done."""
        status, lines = plan_of(self.l3, "l3")
        return [] if status == 0 else lines

    def await_converged(self) -> None:
        """Wait until the agent is ready and its host is as the server wants it."""
        self.l3.wait_for(lambda status: bool(status.get("ready")))
        wait_until(lambda: not self.plan(), lambda: "\n".join(self.plan()), pause=0.2)

    def in_router(self, *words: str, router: Any = None) -> str:
        """Run a command in the namespace of a router; return its output."""
        netns = f"qrouter-{(router or self.router).id}"
        return self.router_host.host.run(["ip", "netns", "exec", netns, *words])


def _make_tables(url: str) -> None:
    database = Database(url)
    try:
        migration.upgrade(database)
    finally:
        database.close()


@contextmanager
def edge_site() -> Iterator[EdgeSite]:
    """Run the server, the agents and the router."""
    with ExitStack() as stack:
        home: Path = stack.enter_context(temporary_directory("netfw-edge."))
        home.chmod(0o755)
        database = PrivatePostgres(home / "postgres")
        stack.callback(database.stop)
        url = database.start().create("netfw")
        _make_tables(url)
        options: dict[str, Mapping[str, object]] = {**VLAN_OPTIONS, "database": {"connection": url}}
        cloud = stack.enter_context(make_cloud(options))
        cloud.server.start()
        site = EdgeSite(cloud, database)
        site.prefer_switches()
        site.router_confs.mkdir(parents=True)
        words = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=755", "tmpfs", str(site.router_confs)]
        site.router_host.host.run(words)
        site.router_host.service.start()
        stack.enter_context(running(*site.agents))
        wait_until(lambda: any(site.network.agents(agent_type="L3 agent")))
        site.build()
        yield site
