"""A broker that is away, and a database that is older than what the agent knows, under traffic."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from netfw.testing.lab import sandbox
from netfw.testing.lab.ping import BackgroundPing
from netfw.testing.lab.services.fault_proxy import FaultProxy
from netfw.testing.lab.services.rabbitmq import PORT, PrivateRabbitmq
from netfw.testing.lab.temp_directory import temporary_directory
from netfw.testing.lab.wait import TIMEOUT, wait_until
from tests.system.l3.environment import (
    EdgeRouter,
    RoutedCloud,
    make_edge_router,
    routed_cloud,
    suspended,
)

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]
DATABASE = "netfw.db"
COMMITS = 40
"""More than the test makes between the backup and its restoration."""


@pytest.fixture
def broker() -> Iterator[PrivateRabbitmq]:
    sandbox.require()
    with temporary_directory("netfw-broker.") as directory:
        made = PrivateRabbitmq(directory / "rabbitmq")
        try:
            yield made.start()
        finally:
            made.stop()


def use_broker(routed: RoutedCloud, broker: PrivateRabbitmq, socket: Path) -> None:
    """Have all agents use *broker*, which listens outside their hosts, by way of *socket*."""
    for served in routed.hosts:
        served.host.call(FaultProxy, ("127.0.0.1", PORT), str(socket))
    for agent in routed.agents:
        agent.options["agent"]["transport"] = "oslo"
        agent.options["oslo"] = {"transport_url": broker.url()}


def add_floating_ip(routed: RoutedCloud, edge: EdgeRouter) -> Any:
    """Create another floating IP, of a port without an instance."""
    port = routed.network.create_port(network_id=edge.blue.id)
    return routed.network.create_ip(floating_network_id=edge.outside.id, port_id=port.id)


def pinging_floating_ip(edge: EdgeRouter) -> AbstractContextManager[BackgroundPing]:
    """Ping the floating IP of the router from outside while the block runs."""
    return edge.world.pinging(edge.floating_ip.floating_ip_address, timeout=TIMEOUT)


def await_active(routed: RoutedCloud, floating_ip: Any) -> None:
    is_active = lambda: routed.network.get_ip(floating_ip.id).status == "ACTIVE"  # noqa: E731
    wait_until(is_active, routed.l3.status)


@pytest.mark.nightly
@pytest.mark.spec("L3-11", "RPC-01")
def test_a_broker_that_is_away_costs_nothing_and_loses_no_change(broker: PrivateRabbitmq) -> None:
    relay = broker.directory.with_name("relay.sock")
    outside = FaultProxy(str(relay), ("127.0.0.1", PORT))
    options = {"server": {"transport": "oslo"}, "oslo": {"transport_url": broker.url()}}
    with routed_cloud(options, lambda made: use_broker(made, broker, relay)) as routed:
        edge = make_edge_router(routed)
        with pinging_floating_ip(edge) as ping:
            broker.kill()
            routed.l3.wait_for(lambda status: bool(status.get("errors")))
            second = add_floating_ip(routed, edge)
            assert routed.network.get_ip(second.id).status == "DOWN"
            broker.start()
            await_active(routed, second)
            assert ping.stop().lost == 0
        routed.l3.wait_for(lambda status: bool(status.get("ready")))
    outside.close()


def addresses(routed: RoutedCloud) -> str:
    """Return the addresses in all namespaces of the host with the router."""
    return routed.hosts[1].host.run(["ip", "-all", "netns", "exec", "ip", "-4", "-o", "address"])


def copy_database(source: Path, target: Path) -> None:
    """Copy all files of an SQLite database that no process has open."""
    for former in target.glob(f"{DATABASE}*"):
        former.unlink()
    target.mkdir(exist_ok=True)
    for file in source.glob(f"{DATABASE}*"):
        shutil.copy(file, target)


def restore_database(routed: RoutedCloud, backup: Path) -> None:
    """Restore the database of the stopped server, as docs/server.md says."""
    server = routed.cloud.server
    copy_database(backup, server.directory)
    conf = ["--config-file", str(server.directory / "server.conf")]
    subprocess.run(
        [sys.executable, "-m", "netfw.cli.commands.db", *conf, "mark-restored"], check=True
    )


@pytest.mark.spec("L3-04", "L3-06")
def test_an_older_database_that_is_restored_is_read_in_full(tmp_path: Path) -> None:
    # Its journal is beyond the agent's position again when the agent reads it.
    sandbox.require()
    with routed_cloud() as routed:
        network, server, backup = routed.network, routed.cloud.server, tmp_path / "backup"
        edge = make_edge_router(routed)
        removed = add_floating_ip(routed, edge)
        await_active(routed, removed)
        with pinging_floating_ip(edge) as ping:
            server.stop()
            copy_database(server.directory, backup)
            server.start()
            added = add_floating_ip(routed, edge)
            await_active(routed, added)
            network.delete_ip(removed)
            wait_until(lambda: removed.floating_ip_address not in addresses(routed))
            server.stop()
            with suspended(routed.l3):
                restore_database(routed, backup)
                server.start()
                for number in range(COMMITS):
                    network.create_network(name=f"later-{number}")
            wait_until(lambda: f"{removed.floating_ip_address}/32" in addresses(routed))
            wait_until(lambda: f"{added.floating_ip_address}/32" not in addresses(routed))
            await_active(routed, removed)
            await_active(routed, edge.floating_ip)
            assert ping.stop().lost == 0
        routed.l3.wait_for(lambda status: bool(status.get("ready")))
