"""Extensions of the L2 agent."""

import pytest
from attrs import evolve

from netfw.drivers.values.events import FeedLost, KeysChanged
from netfw.drivers.values.keys import ExtensionKey, PortKey
from netfw.drivers.values.switch_contribution import SwitchContribution
from netfw.errors import BackendUnavailable, ConfigError, Conflict, NotSupported
from netfw.model.resource import ref
from netfw.model.values.device_owner import DISTRIBUTED_DHCP_DEVICE
from tests.unit.agents.common.environment import L2AgentEnvironment
from tests.unit.agents.l2.environment import (
    NET,
    ONE,
    SEGMENT,
    TWO,
    Marker,
    port,
)


def extended(*extensions):
    env = L2AgentEnvironment(NET, SEGMENT, ONE, TWO, extensions=extensions)
    for each in (ONE, TWO):
        env.switch.plug(each.id, quiet=True)
    env.turn()
    return env


def levels(env, port):
    additions = env.machine.present[PortKey(port.id)].contributions
    return {each.owner: each.flows[0].priority for each in additions}


@pytest.mark.spec("L2-25")
def test_what_extensions_add_goes_with_the_port_in_the_order_of_the_configuration():
    env = extended(Marker("b"), Marker("a"))
    assert env.status.ready
    assert list(levels(env, ONE)) == ["b", "a"]
    assert {ExtensionKey("a"), ExtensionKey("b")} <= env.machine.present.keys()
    tables = {flow.table for each in env.machine.present[PortKey(ONE.id)].contributions
              for flow in each.flows}  # fmt: skip
    assert len(tables) == 2


@pytest.mark.spec("L2-25", "L2-80")
def test_no_pass_puts_a_port_before_its_extensions_were_called():
    env = L2AgentEnvironment(NET, SEGMENT, ONE, extensions=[Marker()])
    env.switch.plug(ONE.id, quiet=True)
    devices, converge, put = env.switch.devices, env.switch.converge, []

    def read_slowly():
        env.clock.time += 0.01
        return devices()

    def record(update):
        put.extend(value for key, value in update.put.items() if key == PortKey(ONE.id))
        return converge(update)

    env.switch.devices, env.switch.converge = read_slowly, record
    env.turn()
    env.turn(1)
    assert put
    assert all(value.contributions for value in put)


def test_an_extension_is_called_when_what_it_is_shown_has_changed_and_only_then():
    marker = Marker()
    env = extended(marker)
    assert sorted(marker.calls) == [ONE.id, TWO.id]
    env.machine.disturb(PortKey(ONE.id))
    env.loop.resync()
    env.turn()
    assert len(marker.calls) == 2
    env.source.put(evolve(ONE, name="renamed", revision=2))
    env.turn()
    assert marker.calls[2:] == [ONE.id]


@pytest.mark.spec("L2-16", "L2-25")
@pytest.mark.parametrize("error", [Conflict("no mark is left"), RuntimeError("a defect")])
def test_a_raising_extension_degrades_its_part_of_that_port_alone(error):
    marker, other = Marker(), Marker("other")
    marker.error[ONE.id] = error
    env = extended(marker, other)
    assert env.switch.live() == {ONE.id, TWO.id}
    assert levels(env, ONE) == {"other": 1}
    assert levels(env, TWO) == {"marker": 1, "other": 1}
    (what,) = env.status.degraded
    assert what == f"extension marker on port {ONE.id}"
    assert str(error) in env.status.degraded[what]
    marker.error.clear()
    calls = len(marker.calls)
    assert env.turn(1).ready
    assert len(marker.calls) == calls + 1
    assert levels(env, ONE) == {"marker": 1, "other": 1}


@pytest.mark.spec("L2-16", "L2-25")
@pytest.mark.parametrize(
    "nonsense",
    [
        "a text",
        SwitchContribution(owner="other"),
        SwitchContribution(owner="marker", flows=("a text",)),
        SwitchContribution(owner="marker", flows=[]),
    ],
)
def test_an_extension_that_returns_nonsense_degrades_its_part_alone(nonsense):
    marker, other = Marker(), Marker("other")
    contribute = marker.contribute
    marker.contribute = lambda key, value, grant: (
        nonsense if key == ONE.id else contribute(key, value, grant)
    )
    env = extended(marker, other)
    assert env.switch.live() == {ONE.id, TWO.id}
    assert levels(env, ONE) == {"other": 1}
    assert levels(env, TWO) == {"marker": 1, "other": 1}
    assert list(env.status.degraded) == [f"extension marker on port {ONE.id}"]


def test_what_an_extension_added_before_stays_while_it_fails():
    marker = Marker()
    env = extended(marker)
    marker.error[ONE.id], marker.level = Conflict("not now"), 2
    marker.sink(KeysChanged("the operator wants another level", {ONE.id, TWO.id}))
    env.turn()
    assert (levels(env, ONE), levels(env, TWO)) == ({"marker": 1}, {"marker": 2})
    assert not env.status.ready
    marker.error.clear()
    assert env.turn(1).ready
    assert levels(env, ONE) == {"marker": 2}


def test_extension_that_lost_its_feed_is_called_for_every_port():
    marker = Marker()
    env = extended(marker)
    marker.level = 3
    marker.sink(FeedLost("its store was restarted"))
    env.turn()
    assert (levels(env, ONE), levels(env, TWO)) == ({"marker": 3}, {"marker": 3})
    assert env.status.ready


def test_extension_whose_event_comes_while_the_switch_is_away_is_called_later():
    marker = Marker()
    env = extended(marker)
    devices = env.switch.devices

    def unanswered():
        env.switch.devices = devices
        raise BackendUnavailable("the switch does not answer")

    env.switch.devices = unanswered
    marker.level = 3
    marker.sink(KeysChanged("its store has changed", {ONE.id}))
    env.switch.unplug(TWO.id)
    env.turn()
    assert levels(env, ONE) == {"marker": 3}
    calls = len(marker.calls)
    env.loop.resync()
    env.turn()
    assert len(marker.calls) == calls


def test_a_port_that_goes_and_a_switch_that_restarts_need_nothing_from_an_extension():
    marker = Marker()
    env = extended(marker)
    calls = len(marker.calls)
    env.machine.restart()
    env.switch.unplug(TWO.id)
    env.turn()
    assert levels(env, ONE) == {"marker": 1}
    assert len(marker.calls) == calls


def test_an_extension_that_the_switch_cannot_serve_stops_the_agent():
    env = L2AgentEnvironment(extensions=[Marker()])

    def grant(request):
        raise NotSupported("this switch has no tables")

    env.switch.grant = grant
    with pytest.raises(ConfigError, match="this switch has no tables"):
        env.turn()


@pytest.mark.spec("DHCP-81")
def test_ports_see_the_distributed_dhcp_port_of_their_network_as_it_comes_and_goes():
    marker = Marker()
    env = extended(marker)
    server = port(9, NET, "", device_owner="network:dhcp", device_id=DISTRIBUTED_DHCP_DEVICE)
    agents_own = port(8, NET, "there", device_owner="network:dhcp", device_id="dhcp-of-a-host")
    env.source.put(agents_own)
    env.turn()
    marker.calls.clear()
    env.source.put(server)
    env.turn()
    assert sorted(marker.calls) == [ONE.id, TWO.id]
    assert marker.related[ONE.id] == marker.related[TWO.id] == (server,)
    env.source.remove(ref(server))
    env.turn()
    assert sorted(marker.calls) == sorted([ONE.id, TWO.id] * 2)
    assert marker.related[ONE.id] == ()
