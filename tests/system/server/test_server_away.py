"""A server that is away: all agents say so at once, and go on without delay when it is back."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from netfw.cli.demo.server import Cloud, make_cloud
from netfw.testing.lab import sandbox
from netfw.testing.lab.agent import PrivateAgent
from netfw.testing.lab.ini import Groups
from netfw.testing.lab.services.fault_proxy import FaultProxy
from netfw.testing.lab.services.rabbitmq import PORT, PrivateRabbitmq
from netfw.testing.lab.temp_directory import temporary_directory
from netfw.testing.lab.wait import wait_until
from tests.nightly import nightly
from tests.system.file_hosts import start_all, stop_all

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]
CALL_TIMEOUT = 30.0
"""Seconds between two pulls, between two heartbeats, and that each call waits by default."""
OUTAGES = (0.0, 10.0)
"""Seconds for which the server stays away after all agents said so: pauses grow meanwhile."""
API_PORT = 9720
"""Another one than that of the server which the tests of this folder share."""
NUMBERS = itertools.count(1)


@contextmanager
def socket_transport() -> Iterator[Groups]:
    yield {}


@contextmanager
def rabbitmq_transport() -> Iterator[Groups]:
    with temporary_directory("netfw-broker.") as directory:
        broker = PrivateRabbitmq(directory / "rabbitmq")
        relay = directory / "relay.sock"
        outside = FaultProxy(str(relay), ("127.0.0.1", PORT))
        try:
            broker.start()
            yield {"oslo": {"transport_url": broker.url()}, "relay": {"path": relay}}
        finally:
            outside.close()
            broker.stop()


@contextmanager
def ready_cloud(transport: Groups) -> Iterator[Cloud]:
    """Yield a server and one host with all agents, with default intervals."""
    options = {"server": {"transport": "oslo"}, "oslo": transport["oslo"]} if transport else {}
    with make_cloud(options, hosts=1, port=API_PORT) as cloud:
        (host,) = cloud.hosts
        if transport:
            host.host.call(FaultProxy, ("127.0.0.1", PORT), str(transport["relay"]["path"]))
            for agent in host.agents:
                agent.options["agent"]["transport"] = "oslo"
                agent.options["oslo"] = dict(transport["oslo"])
        cloud.server.start()
        host.service.start()
        start_all(*host.agents)
        try:
            wait_until(lambda: sum(each.is_alive for each in cloud.network.agents()) == 4)
            yield cloud
        finally:
            stop_all(*host.agents)
        for agent in host.agents:
            assert "Traceback" not in agent.log.read_text(), agent.log.read_text()


def source_error(agent: PrivateAgent) -> str:
    return str(agent.status().get("errors", {}).get("the source", ""))


def check_status_of_outage(agent: PrivateAgent, killed_at: datetime) -> None:
    """Check that an agent says that the server is away, why, and since when."""
    status = agent.wait_for(lambda _: bool(source_error(agent)))
    assert "the server is away" in status["errors"]["the source"]
    since = datetime.fromisoformat(status["errors_since"]["the source"])
    assert 0 <= (since - killed_at).total_seconds() < CALL_TIMEOUT, "a call had to time out"
    assert status["ready"], "the host does not match what it should"


def boot(cloud: Cloud, network: Any) -> Any:
    """Create the port of an instance, and plug it at once."""
    (host,) = cloud.hosts
    port = cloud.network.create_port(network_id=network.id, binding_host_id=host.host.name)
    host.plug_port(port, f"i{next(NUMBERS)}", addressed=False)
    return port


@pytest.mark.spec("RPC-01", "ML2-07")
@pytest.mark.parametrize("transport", [nightly(socket_transport), rabbitmq_transport])
def test_all_agents_say_that_the_server_is_away_and_wire_a_port_when_it_is_back(
    transport: Any, record_property: Any
) -> None:
    sandbox.require()
    with transport() as options, ready_cloud(options) as cloud:
        (host,) = cloud.hosts
        network = cloud.network.create_network(name="red")
        cloud.network.create_subnet(network_id=network.id, cidr="10.0.0.0/24", ip_version=4)
        first = boot(cloud, network)
        wait_until(lambda: cloud.network.get_port(first.id).status == "ACTIVE")
        for agent in host.agents:
            agent.wait_for(lambda status: bool(status["ready"]) and not status["errors"])
        for seconds in OUTAGES:
            killed_at = datetime.now(UTC)
            cloud.server.kill()
            for agent in host.agents:
                check_status_of_outage(agent, killed_at)
            time.sleep(seconds)
            cloud.server.start()
            began = time.monotonic()
            port = boot(cloud, network)
            wait_until(lambda port=port: cloud.network.get_port(port.id).status == "ACTIVE")
            record_property(f"active_after_{seconds:g}", round(time.monotonic() - began, 2))
            for agent in host.agents:
                agent.wait_for(lambda status: not status["errors"] and not status["errors_since"])
