"""Two hosts with a router, leases and traffic, whose server and agents change their release."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from ipaddress import IPv4Address
from itertools import count
from pathlib import Path

from netfw.cli.demo.server import Cloud, make_cloud
from netfw.testing.lab.agent import PrivateAgent
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.services.databases import PrivatePostgres
from netfw.testing.lab.temp_directory import temporary_directory
from netfw.testing.lab.wait import wait_until
from tests.system.dhcp.renewals import Renewals
from tests.system.file_hosts import start_all, stop_all
from tests.system.l3.edge_site import EdgeSite
from tests.system.l3.environment import is_reached, running
from tests.system.l3.routed_networks import VLAN_OPTIONS, Guest
from tests.system.releases.releases import Release

DATABASE_COMMAND = "netfw.cli.commands.db"


class ReleaseSite(EdgeSite):
    """The router *edge*, filtered and unfiltered machines around it, and DHCP on both hosts."""

    def __init__(self, cloud: Cloud, database: PrivatePostgres) -> None:
        super().__init__(cloud, database)
        self._numbers = count(1)
        self.filtered: list[Guest] = []
        """A machine on each host whose traffic the firewall of the switch filters."""
        for host in self.hosts:
            host.dhcp.options["agent"] |= {"report_interval": 1}
        for agent in self.agents:
            for option in ("extensions", "retry_interval"):  # of later releases
                agent.options["agent"].pop(option, None)

    @property
    def agents(self) -> tuple[PrivateAgent, ...]:
        return (*super().agents, *(host.dhcp for host in self.hosts))

    def build(self) -> None:
        super().build()
        group = self.network.create_security_group(name="open")
        for protocol in ("icmp", "tcp"):
            self.network.create_security_group_rule(
                security_group_id=group.id, direction="ingress", protocol=protocol
            )
        filtered = {"port_security_enabled": True, "security_groups": [group.id]}
        self.filtered = [
            self.guest(f"filtered{number}", self.green, host, **filtered)
            for number, host in enumerate(self.hosts, 1)
        ]
        self.await_reached()

    def targets(self) -> dict[str, tuple[Instance, str]]:
        found = super().targets()
        if self.filtered:
            one, two = self.filtered
            found["filtered"] = one.instance, two.address(4)
        return found

    def streams(self) -> dict[str, tuple[Instance, Instance, str]]:
        one, two = self.filtered
        return {**super().streams(), "filtered": (two.instance, one.instance, one.address(4))}

    def tables(self, release: Release, *words: str) -> str:
        """Run ``netfw-db`` of *release*."""
        conf = self.cloud.server.directory / "server.conf"
        return release.run(DATABASE_COMMAND, "--config-file", str(conf), *words)

    def restart(self, agents: Sequence[PrivateAgent], release: Release) -> None:
        """Start agents again, as *release*, and wait until their hosts match."""
        statuses = stop_all(*agents)
        assert not any(statuses), [agent.log_tail() for agent in agents]
        for agent in agents:
            release.use(agent)
        start_all(*agents)

    def replace_server(self, release: Release, by: Release, *words: str) -> float:
        """Stop the server, migrate by ``netfw-db`` of *by*, start *release*.

        Return the seconds without an API.
        """
        server, began = self.cloud.server, time.monotonic()
        assert server.stop() == 0, server.log_tail()
        self.tables(by, *words)
        release.use(server)
        server.start()
        return time.monotonic() - began

    def renewing(self) -> Renewals:
        """Return a client that requests its lease all the time."""
        address = IPv4Address(self.web.address(4))
        return Renewals(self.web.instance, self.web.port.mac_address, address)

    def come_and_go(self, name: str) -> None:
        """Make a port on each host, wait until they reach each other, and delete them."""
        guests = [
            self.guest(f"{name}{next(self._numbers)}", self.blue, host) for host in self.hosts
        ]
        wait_until(lambda: is_reached(guests[0].instance, guests[1].address(4)), name)
        for guest, host in zip(guests, self.hosts, strict=True):
            wait_until(lambda g=guest: self.network.get_port(g.port.id).status == "ACTIVE", name)
            host.unplug_port(guest.port)
            self.network.delete_port(guest.port.id)


@contextmanager
def release_site(release: Release) -> Iterator[ReleaseSite]:
    """Run server and agents of *release* on PostgreSQL, with a router and machines around it."""
    with ExitStack() as stack:
        home: Path = stack.enter_context(temporary_directory("netfw-releases."))
        home.chmod(0o755)
        database = PrivatePostgres(home / "postgres")
        stack.callback(database.stop)
        url = database.start().create("netfw")
        options: dict[str, Mapping[str, object]] = {**VLAN_OPTIONS, "database": {"connection": url}}
        cloud = stack.enter_context(make_cloud(options))
        server = cloud.server
        server.directory.mkdir()
        conf = server.directory / "server.conf"
        conf.write_text(server.configuration())
        release.run(DATABASE_COMMAND, "--config-file", str(conf), "upgrade")
        release.use(server)
        server.start()
        site = ReleaseSite(cloud, database)
        for agent in site.agents:
            release.use(agent)
        site.prefer_switches()
        site.router_host.service.start()
        stack.enter_context(running(*site.agents))
        wait_until(lambda: len(list(site.network.agents())) == len(site.agents))
        site.build()
        yield site
        assert "Traceback" not in server.log.read_text(), server.log.read_text()
