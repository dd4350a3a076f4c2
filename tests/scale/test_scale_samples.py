"""The files of samples/scale, with the programs that read them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from attrs import frozen

from netfw.cli.demo.server import Cloud, make_cloud
from netfw.server.db import Database, migration
from netfw.testing.lab import sandbox
from netfw.testing.lab.agent import PrivateAgent
from netfw.testing.lab.services.databases import PrivatePostgres
from netfw.testing.lab.services.fault_proxy import FaultProxy
from netfw.testing.lab.services.rabbitmq import PORT, PrivateRabbitmq
from netfw.testing.lab.services.server import PrivateNetfw
from netfw.testing.lab.temp_directory import temporary_directory
from netfw.testing.lab.wait import wait_until
from tests import ROOT

FILES = ROOT / "samples/scale"
API_PORT = 9696
WORKERS, CONNECTIONS = 2, 10
"""Of the server here, and of each of its processes as the file has it."""
LAB_SETTINGS = {"max_connections", "shared_buffers"}
"""Settings that the lab gives its small database itself."""

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]


class ScaleBroker(PrivateRabbitmq):
    """RabbitMQ with the file, and with addresses and directories of its own."""

    def _configuration(self) -> str:
        return (FILES / "rabbitmq.conf").read_text() + super()._configuration()


class ScaleAgent(PrivateAgent):
    """An agent with the file, and then with its own."""

    def run(self, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        conf = ("--config-file", str(FILES / "agent.conf"))
        return super().run([*argv[:3], *conf, *argv[3:]])


@frozen
class Site:
    """Server, agent, database and broker."""

    cloud: Cloud
    agent: PrivateAgent
    database: PrivatePostgres
    broker: PrivateRabbitmq

    def query(self, statement: str) -> list[str]:
        """Return the rows of a statement of PostgreSQL, as text."""
        words = ("-h", str(self.database.directory), "-U", "netfw", "-d", "netfw", "-Atc")
        done = subprocess.run(
            ["psql", *words, statement], check=True, capture_output=True, text=True
        )
        return done.stdout.splitlines()


def scale_database(directory: Path) -> PrivatePostgres:
    """Return PostgreSQL with the file included."""
    database = PrivatePostgres(directory)
    database.start()
    database.stop(keep=True)
    with (directory / "data/postgresql.conf").open("a") as conf:
        conf.write(f"include = '{FILES / 'postgresql.conf'}'\n")
    return database.start()


@pytest.fixture
def site() -> Iterator[Site]:
    sandbox.require()
    with ExitStack() as stack:
        directory = stack.enter_context(temporary_directory("netfw-scale."))
        database = scale_database(directory / "p")
        stack.callback(database.stop)
        broker = ScaleBroker(directory / "rabbitmq").start()
        stack.callback(broker.stop)
        url = database.create("netfw")
        made = Database(url)
        migration.upgrade(made)
        made.close()
        cloud = stack.enter_context(make_cloud(hosts=1, port=API_PORT))
        oslo = {"transport_url": broker.url()}
        own = {"server": {"workers": WORKERS}, "database": {"connection": url}, "oslo": oslo}
        at = cloud.server.directory
        files = ("--config-file", FILES / "server.conf", "--config-file", at / "server.conf")
        cloud.server = PrivateNetfw(at, own, port=API_PORT, arguments=[*map(str, files)])
        stack.callback(cloud.server.stop)
        cloud.server.start()
        (host,) = cloud.hosts
        relay = directory / "relay.sock"
        outside = FaultProxy(str(relay), ("127.0.0.1", PORT))
        stack.callback(outside.close)
        host.host.call(FaultProxy, ("127.0.0.1", PORT), str(relay))
        options = {**host.agent.options, "oslo": oslo}
        del options["agent"]["state_source"], options["socket"]  # the file has another transport
        agent = ScaleAgent(host.host, host.agent.directory, "netfw.cli.agents.l2", options)
        stack.callback(agent.stop)
        agent.start()
        yield Site(cloud, agent, database, broker)
        assert cloud.server.stop() == 0
        for log in (agent.log, cloud.server.log):
            assert "Traceback" not in log.read_text(), log.read_text()


@pytest.mark.spec("DRV-48", "RPC-01")
def test_every_file_is_accepted_and_a_port_becomes_active_within_the_limits(site: Site) -> None:
    cloud, (host,) = site.cloud, site.cloud.hosts
    settings = "FROM pg_file_settings WHERE sourcefile LIKE '%/samples/scale/%'"
    refused = site.query(f"SELECT name {settings} AND error IS NOT NULL")
    assert set(refused) <= LAB_SETTINGS
    lines = (FILES / "postgresql.conf").read_text().splitlines()
    stated = sum("=" in line for line in lines if not line.startswith("#"))
    assert site.query(f"SELECT count(*) {settings}") == [str(stated)]
    network = cloud.network.create_network(name="blue")
    cloud.network.create_subnet(network_id=network.id, cidr="10.0.0.0/24", ip_version=4)
    port = cloud.network.create_port(network_id=network.id, binding_host_id=host.host.name)
    host.plug_port(port, "web")
    wait_until(lambda: cloud.network.get_port(port.id).status == "ACTIVE", site.agent.log_tail)
    sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'netfw'"
    (used,) = site.query(sessions)
    assert int(used) - 1 <= WORKERS * (2 * CONNECTIONS + 2), "more than docs/scale.md says"
    clients = site.broker.run("rabbitmqctl -q list_connections pid").split()
    assert len(clients) <= 5 * (WORKERS + 1), "more than docs/scale.md says"
