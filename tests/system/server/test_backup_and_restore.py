"""The recipes of docs/backup.md, with requests under way and an agent that reads on."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import field, mutable

from netfw.cli.demo.server import Cloud, ServedHost, make_cloud
from netfw.server.db import Database, migration
from netfw.testing.lab import sandbox
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.services.databases import PrivateMariadb, PrivatePostgres
from netfw.testing.lab.temp_directory import temporary_directory
from netfw.testing.lab.wait import TIMEOUT, wait_until
from tests import ROOT
from tests.nightly import nightly

PAGE = ROOT / "docs/backup.md"
API_PORT = 9721
"""Another one than that of the server which the tests of this folder share."""
BACKENDS = ["postgresql", nightly("sqlite"), nightly("mariadb")]

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]


def page_commands(name: str) -> str:
    """Return the commands of the page that begin with the comment *name*."""
    (found,) = re.findall(rf"```sh\n# {name}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return str(found)


@mutable
class Stored:
    """A server on one database, its host, and the variables of the recipes."""

    backend: str
    cloud: Cloud
    variables: dict[str, str]
    net: Any = None
    instances: dict[str, Instance] = field(factory=dict)

    @property
    def host(self) -> ServedHost:
        return self.cloud.hosts[0]

    def run(self, what: str) -> None:
        """Run a recipe of the page as an operator would, and stop at the first error."""
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", page_commands(f"{self.backend} {what}")],
            env={**os.environ, **self.variables, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def make_port(self, name: str) -> Any:
        return self.cloud.network.create_port(
            network_id=self.net.id, name=name, binding_host_id=self.host.host.name,
            port_security_enabled=False, security_groups=[],
        )  # fmt: skip

    def boot(self, name: str) -> Any:
        port = self.make_port(name)
        self.instances[name] = self.host.plug_port(port, name)
        return port

    def logs(self) -> str:
        return self.host.agent.log_tail() + self.cloud.server.log_tail()

    def reaches(self, port: Any) -> bool:
        address = port.fixed_ips[0]["ip_address"]
        return self.instances["client"].ping(address, count=1, timeout=1).lost == 0


@contextmanager
def served(backend: str, directory: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Run a server of *backend*; yield the URL of its database, and variables for its tools."""
    if backend == "postgresql":
        postgres = PrivatePostgres(directory / "p")
        try:
            url = postgres.start().create("netfw")
            yield url, {"PGHOST": str(postgres.directory), "PGUSER": "netfw"}
        finally:
            postgres.stop()
    elif backend == "mariadb":
        mariadb = PrivateMariadb(directory / "m")
        try:
            url = mariadb.start().create("netfw")
            socket = url.rpartition("unix_socket=")[2]
            (directory / ".my.cnf").write_text(f"[client]\nsocket = {socket}\n")
            yield url, {"HOME": str(directory)}
        finally:
            mariadb.stop()
    else:
        yield f"sqlite:///{directory}/netfw.db", {"DB": f"{directory}/netfw.db"}


@pytest.fixture(params=BACKENDS)
def stored(request: pytest.FixtureRequest) -> Iterator[Stored]:
    sandbox.require()
    with ExitStack() as stack:
        directory = stack.enter_context(temporary_directory("netfw-backup."))
        url, variables = stack.enter_context(served(request.param, directory))
        database = Database(url)
        migration.upgrade(database)
        database.close()
        options = {"database": {"connection": url}}
        cloud = stack.enter_context(make_cloud(options, hosts=1, port=API_PORT))
        cloud.server.start()
        conf = str(cloud.server.directory / "server.conf")
        variables = {**variables, "BACKUP": str(directory), "CONF": conf}
        agent = cloud.hosts[0].agent
        agent.options["agent"]["report_interval"] = 1
        agent.start()
        made = Stored(request.param, cloud, variables)
        made.net = cloud.network.create_network(name="blue")
        cloud.network.create_subnet(network_id=made.net.id, cidr="10.0.0.0/24", ip_version=4)
        yield made
        agent.stop()
        for log in (agent.log, cloud.server.log):
            assert "Traceback" not in log.read_text(), log.read_text()


@contextmanager
def changes(stored: Stored) -> Iterator[None]:
    """Make and delete ports by the API, one after the other, while the block runs."""
    stopped, problems = threading.Event(), []

    def change() -> None:
        server = stored.cloud.server
        while not stopped.is_set():
            body = {"port": {"network_id": stored.net.id, "name": "passing"}}
            status, made = server.request("POST", "/v2.0/ports", body)
            if status != 201:
                problems.append(made)
                return
            gone, _ = server.request("DELETE", f"/v2.0/ports/{made['port']['id']}")
            if gone != 204:
                problems.append(gone)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
    assert not problems


def check_addresses(stored: Stored) -> None:
    """Check that no address is given twice, and that all can be deleted: nothing is half done."""
    network = stored.cloud.network
    for _ in range(5):
        stored.make_port("more")
    ports = list(network.ports(network_id=stored.net.id))
    addresses = [port.fixed_ips[0]["ip_address"] for port in ports]
    assert len(addresses) == len(set(addresses))
    for port in ports:
        network.delete_port(port.id, ignore_missing=False)
    network.delete_network(stored.net.id, ignore_missing=False)


@pytest.mark.spec("DRV-48")
def test_a_backup_under_way_is_one_moment_and_agents_return_to_it(stored: Stored) -> None:
    network, server = stored.cloud.network, stored.cloud.server
    stored.boot("client")
    kept, removed = stored.boot("kept"), stored.boot("removed")
    for port in (kept, removed):
        wait_until(lambda p=port: stored.reaches(p))
    with changes(stored):
        stored.run("backup")
    added = stored.boot("added")
    network.delete_port(removed.id)
    wait_until(lambda: stored.reaches(added) and not stored.reaches(removed))
    address = kept.fixed_ips[0]["ip_address"]
    with stored.instances["client"].pinging(address, timeout=TIMEOUT) as ping:
        server.stop()
        stored.run("restore")
        server.start()
        wait_until(lambda: stored.reaches(removed) and not stored.reaches(added), stored.logs)
        wait_until(lambda: network.get_port(removed.id).status == "ACTIVE")
        assert ping.stop().lost == 0
    assert network.find_port("added") is None
    check_addresses(stored)
