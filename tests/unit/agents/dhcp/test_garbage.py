"""What a former agent left: removed once, without delay for networks that are served."""

import threading

import pytest

from netfw.drivers.metadata import MetadataProxy
from netfw.drivers.values.agent_requests import ReleaseDhcpPort
from netfw.drivers.values.keys import NetworkKey, PortKey
from netfw.errors import BackendUnavailable
from tests.unit.agents.dhcp.environment import (  # fmt: skip
    CLOUD,
    HERE,
    NET,
    ONE,
    OTHER,
    THREE,
    TWO,
    DhcpAgentEnvironment,
    make_environment,
    port,
    server_port,
)


@pytest.mark.spec("DHCP-09")
def test_what_a_former_agent_left_is_removed_before_anything_is_served():
    env = DhcpAgentEnvironment(*CLOUD, ONE)
    stray, proxy = NetworkKey(server_port(1, NET).id), NetworkKey(NET.id)
    env.machine.present[stray] = env.machine.present[PortKey(TWO.id)] = "old"
    place = env.dhcp.location(NET.id, server_port(2, NET))
    env.metadata.machine.present[proxy] = MetadataProxy(netns=place.netns)
    env.ready()
    assert env.served() == {1: {11}, 2: set()}
    assert all(line.startswith("remove") for line in env.machine.history[:2])
    assert stray not in env.machine.present
    assert not env.metadata.machine.present
    assert ReleaseDhcpPort(network=stray.network, host=HERE) in env.source.asked


def raise_unavailable():
    raise BackendUnavailable("unavailable")


def test_garbage_that_cannot_be_removed_is_degraded_and_delays_nothing():
    env = DhcpAgentEnvironment(*CLOUD, ONE)
    stray = NetworkKey(server_port(1, NET).id)
    env.machine.present[stray] = "old"
    env.dhcp.present = raise_unavailable
    status = env.until(lambda status: status.degraded)
    assert status.degraded == {"garbage": "unavailable"}
    assert env.served() == {1: {11}, 2: set()}
    del env.dhcp.present
    env.turn(after=1.0)
    env.ready()
    assert stray not in env.machine.present


def test_a_driver_that_crashes_in_an_audit_keeps_no_garbage_and_is_read_again(caplog):
    env = make_environment()
    stray = NetworkKey(server_port(1, NET).id)
    env.machine.present[stray] = "old"
    observe, rereads = env.dhcp.observe, env.metadata.machine.rereads

    def crash(scope):
        if scope is None:
            raise ValueError("an odd object")
        return observe(scope)

    env.dhcp.observe = crash
    env.loop.resync()
    status = env.until(lambda status: status.degraded)
    assert "ValueError: an odd object" in status.degraded["garbage"]
    assert stray not in env.machine.present
    assert env.metadata.machine.rereads == rereads + 1
    assert "Traceback" in caplog.text
    del env.dhcp.observe
    former = env.machine.rereads
    env.turn(after=1.0)
    env.ready()
    assert env.machine.rereads == former + 1


def test_a_complete_pass_waits_for_what_is_at_work_and_comes_alone():
    env = make_environment(wait_timeout=0.0)
    gate = env.dhcp.gates[NET.id] = threading.Event()
    calls = len(env.dhcp.calls)
    env.source.put(port(13, NET))
    env.turn()
    env.until_called(calls + 1)
    env.machine.present[NetworkKey(server_port(1, NET).id)] = "old"
    env.loop.resync()
    assert "garbage" in env.turn().waiting
    env.source.put(port(12, OTHER))
    env.turn()
    gate.set()
    env.ready()
    assert env.served() == {1: {11, 12, 13}, 2: {11, 12}}
    assert env.machine.present.keys() == {
        NetworkKey(NET.id), NetworkKey(OTHER.id), PortKey(port(12, OTHER).id),
        *(PortKey(each.id) for each in (ONE, TWO, THREE, port(13, NET))),
    }  # fmt: skip


def test_garbage_waits_for_a_slow_network_and_delays_nothing():
    env = make_environment(wait_timeout=0.0, pause=0.0)
    gate = env.dhcp.gates[NET.id] = threading.Event()
    calls = len(env.dhcp.calls)
    env.source.put(port(13, NET))
    env.turn()
    env.until_called(calls + 1)
    stray = NetworkKey(server_port(1, NET).id)
    env.machine.present[stray] = "old"
    env.loop.resync()
    env.source.put(port(12, OTHER))
    status = env.until(lambda status: 12 in env.served()[2])
    assert "is running" in status.degraded["garbage"]
    gate.set()
    env.ready(pace=1.0)
    assert stray not in env.machine.present
