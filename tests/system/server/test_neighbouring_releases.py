"""Agents of other releases, over a real socket, with a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.transport import Message, Transport
from netfw.errors import NotSupported
from netfw.testing.lab import sandbox
from netfw.testing.lab.services.server import PrivateNetfw
from tests.nightly import nightly


class OtherAgent:
    """Speaks to the server as another release would: by hand."""

    def __init__(self, transport: Transport, version: str) -> None:
        self._transport, self._version = transport, version

    def say(self, method: str, content: dict[str, Any]) -> dict[str, Any]:
        message = Message(
            topic="server",
            method=method,
            version=self._version,
            body=json.dumps(content).encode(),
        )
        answer: dict[str, Any] = json.loads(self._transport.call(message, 10).body)
        return answer

    def beat(self, **more: Any) -> None:
        agent = {
            "id": str(uuid4()),
            "agent_type": "Open vSwitch agent",
            "binary": "netfw-ovs-agent",
            "host": "host1",
            "alive": True,
            "configurations": {"tunneling_ip": "192.0.2.1", "new_word": {"of": "later"}},
            **more,
        }
        report = {"type": "heartbeat", "agent": agent, "counts": {"devices": 1}, "start": True}
        self.say("report", {"reports": [report, {"type": "of a later release", "x": 1}]})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateNetfw]:
    sandbox.require()
    with PrivateNetfw(tmp_path_factory.mktemp("releases") / "server") as running:
        yield running


@pytest.fixture
def transport(server: PrivateNetfw) -> Iterator[Transport]:
    made = create(Transport, "socket", {"connect": f"unix:{server.messages}"}, LocalHostResources())
    yield made
    made.close()


def subscription() -> dict[str, Any]:
    return {"host": "host1", "services": ["l2"]}


@pytest.mark.spec("RPC-05")
@pytest.mark.parametrize("version", [nightly("1.0"), "1.9"])
def test_an_agent_that_says_more_is_understood_as_far_as_the_server_goes(
    server: PrivateNetfw, transport: Transport, version: str
) -> None:
    agent = OtherAgent(transport, version)
    agent.beat(mood="of a later release")
    _, found = server.request("GET", "/v2.0/agents?host=host1")
    assert [each["host"] for each in found["agents"]] == ["host1"]
    assert found["agents"][0]["configurations"]["new_word"] == {"of": "later"}
    answer = agent.say("snapshot", {"subscription": subscription(), "asked_for": "later"})
    assert {"put", "cursor"} <= answer.keys()


@pytest.mark.spec("RPC-05")
def test_agent_of_another_major_version_is_refused_with_the_remedy(transport: Transport) -> None:
    with pytest.raises(NotSupported, match="releases next to each other"):
        OtherAgent(transport, "2.0").say("snapshot", {"subscription": subscription()})


@pytest.mark.spec("RPC-05")
def test_unknown_method_is_refused_and_the_server_stays_ready(
    server: PrivateNetfw, transport: Transport
) -> None:
    with pytest.raises(NotSupported, match="dance"):
        OtherAgent(transport, "1.0").say("dance", {})
    assert server.ready()
    assert "Traceback" not in server.log.read_text()
