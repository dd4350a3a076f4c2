"""Any history of a distributed router ends with the machine as the source says.

The fake driver refuses an agent gateway that goes before its floating IPs.
"""

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from netfw.agents.common.loop_tasks import LoopTask
from netfw.drivers.values.keys import AgentGatewayKey, FloatingIpKey, RouterKey
from netfw.model.resource import ref
from tests.unit.agents.l3.distributed import (
    CENTRAL,
    DVR,
    LOCAL_ONE,
    OUT_HERE,
    OUT_THERE,
    SG_HERE,
    SG_THERE,
    GatewaySource,
    agent_gateway_port,
    instance,
)
from tests.unit.agents.l3.environment import (
    HERE,
    OUTSIDE,
    THERE,
    L3Environment,
    assigned,
    floating_ip,
)

KEYS = (RouterKey(DVR.id), AgentGatewayKey(OUTSIDE.id), FloatingIpKey(LOCAL_ONE.id))
numbers = st.integers(20, 22)
keys = st.sampled_from(KEYS)
steps = st.one_of(
    st.tuples(st.just("float"), numbers, st.sampled_from((HERE, HERE, THERE, None))),
    st.tuples(st.just("unfloat"), numbers),
    st.tuples(st.just("central"), st.sampled_from((HERE, THERE))),
    st.tuples(st.just("down"), st.booleans()),
    st.tuples(st.just("instance"), st.booleans()),
    st.tuples(st.just("refuse"), keys),
    st.tuples(st.just("recover"), keys),
    st.tuples(st.just("disturb"), keys),
    st.tuples(st.just("source"), st.booleans()),
    st.tuples(st.sampled_from(["restart", "kill", "turn"])),
)


def play(world, step):
    match step:
        case "float", number, host:
            fixed = f"10.1.0.{number}"
            world.source.put(evolved(world, floating_ip(number, DVR, fixed, host=host)))
        case "unfloat", number:
            world.source.remove(ref(floating_ip(number, DVR)))
        case "central", host:
            world.source.put(*((OUT_HERE, SG_HERE) if host == HERE else (OUT_THERE, SG_THERE)))
        case "down", is_down:
            world.source.put(evolved(world, evolve(DVR, admin_up=not is_down)))
        case "instance", True:
            world.source.put(instance(11, HERE))
        case "instance", False:
            world.source.remove(ref(instance(11, HERE)))
        case "source", refuses:
            world.source.refuses = refuses
        case _:
            play_fault(world, step)


def play_fault(world, step):
    match step:
        case "refuse", key:
            world.machine.refused[key] = "no"
        case "recover", key:
            world.machine.refused.pop(key, None)
        case "disturb", key:
            world.machine.disturb(key)
        case ("restart",):
            world.agent.close()
            world.begin()
        case ("kill",):
            world.machine.restart()
        case ("turn",):
            world.turn(after=1.0)


def evolved(world, item):
    present = world.source.resource(ref(item))
    return evolve(item, revision=item.revision if present is None else present.revision + 1)


def make_world(*items, **options):
    return L3Environment(source=GatewaySource(*items), agent_mode="dvr_snat", **options)


@given(st.lists(steps, max_size=14))
def test_machine_ends_as_the_source_says(history):
    world = make_world(*CENTRAL, instance(11, HERE), assigned(DVR), wait_timeout=0.0)
    world.turn()
    for step in history:
        play(world, step)
        world.turn()
    world.machine.refused.clear()
    world.source.refuses = False
    converge(world)
    wanted = make_world(*world.source.items())
    converge(wanted)
    assert world.machine.present == wanted.machine.present
    port = world.source.resource(ref(agent_gateway_port()))
    assert (port is not None) == (AgentGatewayKey(OUTSIDE.id) in world.machine.present)
    assert world.metadata.machine.present == wanted.metadata.machine.present
    for number in range(20, 23):
        floating = floating_ip(number, DVR)
        if FloatingIpKey(floating.id) in world.agent._desired.all_keys():
            assert world.report(floating) == wanted.report(floating)
    world.agent.close()
    wanted.agent.close()


def converge(world):
    """Turn until nothing is left to do; a job that began before a recovery may fail later."""
    status = world.until(is_healthy, pace=10.0)
    while not (is_healthy(status) and is_converged(world, status)):
        world.until(is_healthy, pace=10.0)
        status = world.until(lambda now: not is_healthy(now) or is_converged(world, now))


def is_healthy(status):
    return not status.degraded and not status.errors


def is_converged(world, status):
    return (
        not status.waiting
        and not world.agent._jobs.is_busy
        and not world.loop._events.ready.is_set()
        and LoopTask.EVERYTHING not in world.loop._tasks
    )
