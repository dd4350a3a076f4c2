"""The state RPC server: message sizes, restarts, credentials."""

from __future__ import annotations

import random

import pytest
from attrs import evolve

from netfw.agents.common.replica import Replica
from netfw.drivers.transport import Caller, Message
from netfw.drivers.values.agent_requests import (
    EnsureDhcpPort,
)
from netfw.drivers.values.reports import Heartbeat
from netfw.errors import BackendUnavailable, RequestError
from netfw.model.resource import ref
from netfw.state.dependencies import reachable
from netfw.state.memory_source import MemorySource
from netfw.state.rpc import RemoteSource, StateRpcServer
from netfw.testing.conformance.state_source import samples
from netfw.testing.conformance.state_source.environment import Follower
from netfw.testing.conformance.state_source.reader_steps import up
from netfw.testing.fakes.transport import FakeBroker
from tests.unit.state.rpc.environment import offered

CLOUD = (*samples.BACKGROUND, samples.WEB_HERE)


# Sizes.


@pytest.mark.spec("RPC-02")
def test_reconnecting_after_a_short_absence_costs_the_changes_and_not_the_whole(
    wire: FakeBroker,
) -> None:
    ports = [
        samples.port(number, samples.HERE, samples.NET, samples.WEB) for number in range(6, 200)
    ]
    memory = MemorySource(*CLOUD, *ports)
    agent = Replica(offered(wire, memory), samples.L2_HERE)
    agent.pull()
    whole, calls = wire.bytes, sum(wire.calls.values())
    assert whole > 100_000
    memory.put(evolve(ports[0], name="renamed"))  # while it is away
    assert agent.pull().changes
    assert sum(wire.calls.values()) - calls == 1
    assert wire.bytes - whole < 2_500
    spent = wire.bytes
    agent.pull()
    assert wire.bytes - spent < 400


@pytest.mark.spec("RPC-02", "RPC-07")
def test_no_message_is_much_larger_than_its_budget(wire: FakeBroker) -> None:
    largest = 0
    ports = [
        samples.port(number, samples.HERE, samples.NET, samples.WEB) for number in range(6, 60)
    ]
    memory = MemorySource(*CLOUD)
    source = offered(wire, memory, budget=4_000)
    handler = wire.handler("server")

    def measured(message: Message, caller: Caller) -> Message:
        nonlocal largest
        answer = handler(message, caller)
        largest = max(largest, len(answer.body))
        return answer

    wire.serve("server", measured)
    agent = Follower(source, samples.L2_HERE)
    agent.catch_up()
    memory.put(*ports)
    assert agent.catch_up() == reachable(memory.items(), samples.L2_HERE)
    assert wire.calls["changes"] > 10
    assert largest < 6_000


@pytest.mark.spec("RPC-02")
def test_changes_between_the_parts_of_a_large_answer_are_not_lost(wire: FakeBroker) -> None:
    memory = MemorySource(*samples.BACKGROUND, page=50)
    source = offered(wire, memory, budget=1_500)
    agent = Follower(source, samples.L2_HERE)
    agent.catch_up()
    memory.put(*(samples.port(number, samples.HERE) for number in range(6, 40)))
    handler = wire.handler("server")
    chance = random.Random(1)

    def busy(message: Message, caller: Caller) -> Message:
        answer = handler(message, caller)
        if wire.calls["changes"] < 40:
            number = chance.randrange(6, 40)
            moved = samples.port(number, chance.choice([samples.HERE, samples.THERE]))
            memory.put(evolve(moved, name=str(wire.calls["changes"])))
        return answer

    wire.serve("server", busy)
    assert agent.catch_up() == reachable(memory.items(), samples.L2_HERE)


# Restarts.


@pytest.mark.spec("RPC-02")
def test_a_snapshot_goes_on_with_another_process_of_the_server(wire: FakeBroker) -> None:
    memory = MemorySource(*CLOUD)
    source = offered(wire, memory, budget=1_000)
    agent = Follower(source, samples.L2_HERE)
    agent.step()
    agent.step()
    StateRpcServer(memory, wire.transport(), budget=1_000).open()
    assert agent.catch_up() == reachable(memory.items(), samples.L2_HERE)
    assert wire.calls["snapshot"] < 20


@pytest.mark.spec("RPC-02")
def test_a_server_that_comes_back_with_another_history_is_read_from_the_beginning(
    wire: FakeBroker,
) -> None:
    old, new = MemorySource(*CLOUD), MemorySource(samples.WEB_HERE, samples.OTHER_NET)
    source = offered(wire, old, budget=1_000)
    handler = wire.handler("server")

    def restarted(message: Message, caller: Caller) -> Message:
        if wire.calls["snapshot"] == 3:
            StateRpcServer(new, wire.transport(), budget=1_000).open()
        return handler(message, caller)

    wire.serve("server", restarted)
    agent = Replica(source, samples.L2_HERE)
    agent.pull()
    assert agent.resources == reachable(new.items(), samples.L2_HERE)


def test_a_server_that_goes_away_in_a_snapshot_leaves_the_agent_as_it_was(
    wire: FakeBroker,
) -> None:
    agent = Replica(offered(wire, MemorySource(*CLOUD), budget=1_000), samples.L2_HERE)
    handler = wire.handler("server")

    def dying(message: Message, caller: Caller) -> Message:
        if wire.calls["snapshot"] == 3:
            raise BackendUnavailable("going down")
        return handler(message, caller)

    wire.serve("server", dying)
    with pytest.raises(BackendUnavailable):
        agent.pull()
    assert not agent.resources
    wire.calls["snapshot"] = 100
    agent.pull()
    assert ref(samples.WEB_HERE) in agent.resources


# Credentials.


@pytest.mark.spec("RPC-06")
def test_whose_credentials_are_those_of_a_host_speaks_for_that_host_alone(
    wire: FakeBroker,
) -> None:
    memory = MemorySource(*CLOUD)
    StateRpcServer(memory, wire.transport()).open()
    here = RemoteSource(wire.transport(Caller("agent", host=samples.HERE)), timeout=60)
    next(here.snapshot(samples.L2_HERE))
    here.report([Heartbeat(agent=evolve(samples.AGENT_THERE, host=samples.HERE))])
    port = memory.resource(ref(samples.DB_THERE))
    cursor = next(memory.snapshot(samples.L2_HERE)).cursor
    subnets = frozenset({samples.SUBNET.id})
    for forbidden in (
        lambda: next(here.snapshot(samples.L2_THERE)),
        lambda: here.changes(samples.L2_THERE, cursor),
        lambda: here.report([up(port, samples.THERE)]),
        lambda: here.report([Heartbeat(agent=samples.AGENT_THERE)]),
        lambda: here.request(
            EnsureDhcpPort(network=samples.NET.id, host=samples.THERE, subnets=subnets)
        ),
    ):
        with pytest.raises(RequestError, match="may speak for host here and not for host there"):
            forbidden()
    assert memory.status(ref(samples.DB_THERE)) is None
