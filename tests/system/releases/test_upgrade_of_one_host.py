"""Upgrade and rollback of a server on SQLite and of one host, while instances talk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from netfw.cli.demo.server import Cloud, make_cloud
from netfw.testing.lab import sandbox
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.wait import wait_until
from tests.system.l3.environment import is_reached, prefer_switch, running
from tests.system.pings import pinging_all
from tests.system.releases.environment import DATABASE_COMMAND
from tests.system.releases.releases import Release, present_release, previous_release
from tests.system.streams import Connection, SteadyConnections

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]


class SmallSite:
    """Filtered instances on one host, one of which is pinged and streamed to."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud, self.host = cloud, cloud.hosts[0]
        self.ports: dict[str, Any] = {}
        self.instances: dict[str, Instance] = {}

    def build(self) -> None:
        network = self.cloud.network
        self.net = network.create_network(name="blue")
        network.create_subnet(network_id=self.net.id, cidr="10.0.0.0/24", ip_version=4)
        self.group = network.create_security_group(name="open")
        for protocol in ("icmp", "tcp"):
            network.create_security_group_rule(
                security_group_id=self.group.id, direction="ingress", protocol=protocol
            )
        for name in ("client", "server"):
            self.boot(name)

    def boot(self, name: str) -> None:
        """Start an instance, and wait until the first one reaches it."""
        port = self.cloud.network.create_port(
            network_id=self.net.id, name=name, binding_host_id=self.host.host.name,
            security_groups=[self.group.id],
        )  # fmt: skip
        self.ports[name], self.instances[name] = port, self.host.plug_port(port, name)
        if name != "client":
            wait_until(lambda: is_reached(self.instances["client"], self.address(name)), name)

    def address(self, name: str) -> str:
        return str(self.ports[name].fixed_ips[0]["ip_address"])

    def change_agent(self, release: Release) -> None:
        agent = self.host.agent
        assert agent.stop() == 0, agent.log_tail()
        release.use(agent)
        agent.start()

    @contextmanager
    def unharmed(self) -> Iterator[None]:
        """Check that no packet and no connection is lost in the block."""
        client, server = self.instances["client"], self.instances["server"]
        stream = Connection(client, server, self.address("server"), 7000)
        steady = SteadyConnections({"stream": stream})
        try:
            with pinging_all({"ping": (client, self.address("server"))}) as pings:
                yield
                assert not pings.lost(), pings.report()
        finally:
            steady.stop()
        assert not steady.problems, steady.problems


@pytest.fixture
def site() -> Iterator[SmallSite]:
    sandbox.require()
    with make_cloud(hosts=1) as cloud:
        old, made = previous_release(), SmallSite(cloud)
        agent = made.host.agent
        agent.options["agent"] |= {"report_interval": 1}
        agent.options["agent"].pop("extensions", None)  # of later releases
        for daemon in (cloud.server, agent):
            old.use(daemon)
        cloud.server.start()
        prefer_switch(made.host.host)
        with running(agent):
            made.build()
            yield made
        assert "Traceback" not in cloud.server.log.read_text(), cloud.server.log_tail()


@pytest.mark.spec("RPC-05", "DRV-48")
def test_one_host_is_upgraded_and_rolled_back_without_a_lost_packet(site: SmallSite) -> None:
    old, new, server = previous_release(), present_release(), site.cloud.server
    conf = ("--config-file", str(server.directory / "server.conf"))
    former = old.run(DATABASE_COMMAND, *conf, "current").split()[1].rstrip(";")
    with site.unharmed():
        server.stop()
        new.use(server)
        server.start()
        site.boot("old-agent")
        site.change_agent(new)
        site.boot("new-agent")
    with site.unharmed():
        site.change_agent(old)
        server.stop()
        new.run(DATABASE_COMMAND, *conf, "downgrade", former)
        old.use(server)
        server.start()
        site.boot("rolled-back")
