"""The metadata agent on a real server: ports of the API are the instances that ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from netfw.testing.lab.services.server import PrivateNetfw
from netfw.testing.lab.wait import wait_until
from tests.lab.agents.metadata.environment import Agent
from tests.lab.agents.metadata.recording_service import RecordingService

Make = Callable[..., Agent]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PrivateNetfw]:
    made = PrivateNetfw(tmp_path / "server")
    with made:
        yield made


def create(server: PrivateNetfw, kind: str, **body: object) -> dict[str, Any]:
    status, answer = server.request("POST", f"/v2.0/{kind}s", {kind: body})
    assert status == 201, answer
    return dict(answer[kind])


@pytest.mark.nightly
@pytest.mark.spec("MD-05", "MD-06", "MD-09")
def test_ports_of_the_api_are_found_on_networks_and_behind_routers(
    make_agent: Make, server: PrivateNetfw, service: RecordingService
) -> None:
    network = create(server, "network", name="n")
    subnet = create(server, "subnet", network_id=network["id"], cidr="10.9.0.0/24", ip_version=4)
    router = create(server, "router", name="r")
    inside = {"subnet_id": subnet["id"]}
    path = f"/v2.0/routers/{router['id']}/add_router_interface"
    assert server.request("PUT", path, inside)[0] == 200
    port = create(
        server,
        "port",
        network_id=network["id"],
        device_id="instance-1",
        device_owner="compute:nova",
        fixed_ips=[{"ip_address": "10.9.0.77"}],
    )
    agent = _agent(make_agent, server, service)
    agent.start()
    assert agent.ask(of="10.9.0.77", network=network["id"]).status == 200
    behind = {"X-Neutron-Router-ID": router["id"]}
    assert agent.ask(of="10.9.0.77", network=None, headers=behind).status == 200
    for seen in service.seen:
        assert seen.values("X-Instance-ID") == ["instance-1"]
        assert seen.values("X-Tenant-ID") == [port["project_id"]]
    wait_until(lambda: _is_alive(server))
    assert server.request("DELETE", f"/v2.0/ports/{port['id']}")[0] == 204
    wait_until(lambda: agent.ask(of="10.9.0.77", network=network["id"]).status == 404)
    server.kill()
    wait_until(lambda: agent.ask(of="10.9.0.77", network=network["id"]).status == 503)
    agent.wait(lambda status: "the source" in status["warnings"])
    server.start()
    wait_until(lambda: agent.ask(of="10.9.0.77", network=network["id"]).status == 404)
    assert "Traceback" not in agent.log.read_text()


def _agent(make: Make, server: PrivateNetfw, service: RecordingService) -> Agent:
    """Return an agent that reads from *server* and forgets soon."""
    return make(
        service.port,
        agent={"state_source": "server", "transport": "socket", "retry_interval": 0.1},
        socket={"connect": f"unix:{server.messages}"},
        metadata={"metadata_cache_seconds": 0.2, "metadata_cache_negative_seconds": 0.2},
        server={"timeout": 5},
    )


def _is_alive(server: PrivateNetfw) -> bool:
    """Return whether the server knows the agent as alive."""
    _, answer = server.request("GET", "/v2.0/agents")
    found = [each for each in answer["agents"] if each["binary"] == "netfw-metadata-agent"]
    return bool(found) and found[0]["alive"] and found[0]["agent_type"] == "Metadata agent"
