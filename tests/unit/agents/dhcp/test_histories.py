"""Whatever happens in whatever order, with the agent killed at any time, the machine ends as it
should be, and everybody was told."""

import threading

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from netfw.agents.dhcp.metadata_proxy import MetadataPolicy
from netfw.drivers.values.keys import NetworkKey, PortKey
from netfw.drivers.values.subscription import Service
from netfw.model.resource import ref
from netfw.model.values.common_fields import Status
from netfw.state.dependencies import Assignment
from tests.unit.agents.dhcp.environment import (
    NET,
    OTHER,
    OTHER_SUBNET,
    SUBNET,
    DhcpAgentEnvironment,
    assigned,
    port,
    router_interface,
    server_port,
    subnet,
)

ITEMS = [
    NET, evolve(NET, admin_up=False), evolve(NET, mtu=9000), OTHER, SUBNET, OTHER_SUBNET,
    evolve(SUBNET, enable_dhcp=False), subnet(NET, 7), assigned(NET), assigned(OTHER),
    *(port(number, NET) for number in (11, 12, 13)), port(11, OTHER), port(12, OTHER),
    evolve(port(11, NET), mac="fa:16:3e:99:99:99"), router_interface(1, NET), server_port(2, NET),
    evolve(port(14, OTHER), id=port(13, NET).id),
]  # fmt: skip
KEYS = [NetworkKey(NET.id), NetworkKey(OTHER.id), *(PortKey(port(n, NET).id) for n in (11, 12))]


ITEMS = [
    item if isinstance(item, Assignment) else evolve(item, revision=0) for item in ITEMS
]  # the source numbers them


def key_of(item):
    return item if isinstance(item, Assignment) else ref(item)


steps = st.one_of(
    st.tuples(st.just("put"), st.lists(st.sampled_from(ITEMS), min_size=1, max_size=4)),
    st.tuples(st.just("remove"), st.lists(st.sampled_from(ITEMS), min_size=1, max_size=3)),
    st.tuples(st.just("turn"), st.just(None)),
    st.tuples(st.just("hold"), st.sampled_from([NET.id, OTHER.id])),
    st.tuples(st.just("let go"), st.sampled_from([NET.id, OTHER.id])),
    st.tuples(st.just("refuse"), st.sampled_from(KEYS)),
    st.tuples(st.just("crash"), st.sampled_from(KEYS)),
    st.tuples(st.just("disturb"), st.sampled_from(KEYS)),
    st.tuples(st.just("away"), st.booleans()),
    st.tuples(st.just("resync"), st.just(None)),
    st.tuples(st.just("kill"), st.just(None)),
)


def play(env, step):
    kind, what = step
    machine = env.machine
    match kind:
        case "put":
            env.source.commit(put=list({key_of(each): each for each in what}.values()))
        case "remove":
            env.source.commit(remove=tuple({key_of(each) for each in what}))
        case "turn":
            env.turn(after=1.0)
        case "hold":
            env.dhcp.gates.setdefault(what, threading.Event())
        case "let go":
            if what in env.dhcp.gates:
                env.dhcp.gates.pop(what).set()
        case "refuse":
            machine.refused[what] = "no"
        case "crash":
            machine.crashing.add(what)
        case "disturb":
            machine.disturb(what)
        case "away":
            env.source.away = what
        case "resync":
            env.loop.resync()
        case "kill":
            let_all_go(env)
            env.agent.close()
            env.begin()


def let_all_go(env):
    for gate in env.dhcp.gates.values():
        gate.set()
    env.dhcp.gates.clear()


@given(st.lists(steps, max_size=14))
def test_the_machine_ends_as_it_should_be(history):
    begin = (NET, SUBNET, assigned(NET), OTHER, OTHER_SUBNET, port(11, NET))
    env = DhcpAgentEnvironment(*begin, rules=MetadataPolicy(isolated=True), wait_timeout=0.0)
    env.turn()
    for step in history:
        play(env, step)
    let_all_go(env)
    env.machine.refused.clear()
    env.machine.crashing.clear()
    env.source.away = False
    env.ready(pace=10.0)
    wanted = DhcpAgentEnvironment(*env.source.items(), rules=MetadataPolicy(isolated=True))
    wanted.ready()
    assert env.machine.present == wanted.machine.present
    assert env.metadata.machine.present == wanted.metadata.machine.present
    for key in env.machine.present:
        if isinstance(key, PortKey):
            result = env.source.status(ref(env.agent._desired.reported(key)), Service.DHCP)
            assert result is not None
            assert result.status is Status.ACTIVE
    env.agent.close()
    wanted.agent.close()
