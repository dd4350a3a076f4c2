"""Pages of a snapshot: smaller after a time-out, larger again after a success."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from netfw.agents.common.replica import Replica
from netfw.drivers.transport import Caller, Message
from netfw.errors import BackendUnavailable, InvalidInput
from netfw.state.memory_source import MemorySource
from netfw.state.rpc import RemoteSource, StateRpcServer
from netfw.state.rpc.envelope import pack, unpack_request
from netfw.state.rpc.paging import LARGEST_PAGE, SMALLEST_PAGE
from netfw.testing.conformance.state_source import samples
from netfw.testing.fakes.transport import FakeBroker

PORTS = 240


class SlowServer:
    """A server that answers too late when a page has more than *most* resources."""

    def __init__(self, wire: FakeBroker, source: MemorySource) -> None:
        StateRpcServer(source, wire.transport(), budget=10**9).open()
        self.most = LARGEST_PAGE
        self.limits: list[int] = []
        self._handler = wire.handler("server")
        wire.serve("server", self.handle)

    def handle(self, message: Message, caller: Caller) -> Message:
        answer = self._handler(message, caller)
        if message.method == "snapshot":
            self.limits.append(unpack_request(message.body)["limit"])
            if len(unpack_request(answer.body)["put"]) > self.most:
                raise BackendUnavailable("no answer within 30 seconds")
        return answer


@pytest.fixture
def server(wire: FakeBroker) -> SlowServer:
    ports = [
        samples.port(number, samples.HERE, samples.NET, samples.WEB) for number in range(6, PORTS)
    ]
    return SlowServer(wire, MemorySource(*samples.BACKGROUND, *ports))


@pytest.fixture
def wire() -> Iterator[FakeBroker]:
    made = FakeBroker()
    yield made
    made.close()


@pytest.mark.spec("L3-04", "RPC-07")
def test_time_out_halves_the_pages_and_a_complete_snapshot_doubles_them(
    wire: FakeBroker, server: SlowServer
) -> None:
    server.most = LARGEST_PAGE // 4
    source = RemoteSource(wire.transport(), timeout=60)
    agent = Replica(source, samples.L2_HERE)
    for _ in range(2):
        with pytest.raises(BackendUnavailable):
            agent.pull()
        assert not agent.known, "an aborted full sync is repeated"
    assert len(agent.pull().changes) >= PORTS - 6
    assert server.limits[:3] == [LARGEST_PAGE, LARGEST_PAGE // 2, LARGEST_PAGE // 4]
    assert set(server.limits[2:]) == {LARGEST_PAGE // 4}, "the same for all pages of a snapshot"
    server.most = LARGEST_PAGE
    for limit in (LARGEST_PAGE // 2, LARGEST_PAGE, LARGEST_PAGE):
        agent.resync()
        agent.pull()
        assert server.limits[-1] == limit


@pytest.mark.spec("L3-04")
def test_pages_are_not_halved_for_ever(wire: FakeBroker, server: SlowServer) -> None:
    server.most = 0
    source = RemoteSource(wire.transport(), timeout=60)
    for _ in range(8):
        with pytest.raises(BackendUnavailable):
            list(source.snapshot(samples.L2_HERE))
    assert server.limits[-2:] == [SMALLEST_PAGE, SMALLEST_PAGE]


@pytest.mark.parametrize("limit", [0, -1, "many", True])
def test_limit_that_is_no_number_of_resources_is_refused(wire: FakeBroker, limit: object) -> None:
    StateRpcServer(MemorySource(), wire.transport()).open()
    content = {"subscription": {"host": "h", "services": []}, "limit": limit}
    message = Message(topic="server", method="snapshot", version="1.0", body=pack(content))
    with pytest.raises(InvalidInput, match="limit"):
        wire.transport().call(message, 5)
