"""Any history of changes, failures and restarts ends with the machine as the source says."""

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from netfw.agents.common.loop_tasks import LoopTask
from netfw.drivers.values.keys import FloatingIpKey, RouterKey
from netfw.model.resource import ref
from tests.unit.agents.l3.environment import (
    CLOUD,
    EDGE,
    EDGE_OUT,
    HERE,
    INNER,
    OUTSIDE,
    OUTSIDE_SUBNET,
    L3Environment,
    assigned,
    floating_ip,
    gateway_port,
    router,
)

GATED = router(2, OUTSIDE, revision=2)
INNER_OUT = gateway_port(GATED, OUTSIDE_SUBNET, 11)
KEYS = (RouterKey(EDGE.id), RouterKey(INNER.id), FloatingIpKey(floating_ip(20, EDGE).id))
FLOATING_IPS = tuple(ref(floating_ip(number, EDGE)) for number in (20, 21, 22))
routers = st.sampled_from((EDGE, GATED))
steps = st.one_of(
    st.tuples(st.just("put"), st.sampled_from((EDGE, GATED, EDGE_OUT, INNER_OUT))),
    st.tuples(st.just("down"), routers),
    st.tuples(st.just("remove"), st.sampled_from((EDGE_OUT, INNER_OUT))),
    st.tuples(st.just("assign"), routers),
    st.tuples(st.just("unassign"), routers),
    st.tuples(st.just("float"), st.integers(20, 22), routers),
    st.tuples(st.just("unfloat"), st.integers(20, 22)),
    st.tuples(st.just("refuse"), st.sampled_from(KEYS)),
    st.tuples(st.just("crash"), st.sampled_from(KEYS)),
    st.tuples(st.just("recover"), st.sampled_from(KEYS)),
    st.tuples(st.just("disturb"), st.sampled_from(KEYS)),
    st.tuples(st.sampled_from(["restart", "kill", "resync", "turn", "lose"])),
)


def play(world, step):  # noqa: PLR0912 - a table of steps
    match step:
        case "put", item:
            world.source.put(evolved(world, item))
        case "down", item:
            world.source.put(evolved(world, item, admin_up=False))
        case "remove", item:
            world.source.remove(ref(item))
        case "assign", item:
            world.source.put(assigned(item, HERE))
        case "unassign", item:
            world.source.remove(assigned(item, HERE))
        case "float", number, item:
            world.source.put(evolved(world, floating_ip(number, item, f"10.1.0.{number}")))
        case "unfloat", number:
            world.source.remove(ref(floating_ip(number, EDGE)))
        case "refuse", key:
            world.machine.refused[key] = "no"
        case "crash", key:
            world.machine.crashing.add(key)
        case "recover", key:
            world.machine.refused.pop(key, None)
            world.machine.crashing.discard(key)
        case "disturb", key:
            world.machine.disturb(key)
        case ("restart",):
            world.agent.close()
            world.begin()
        case ("kill",):
            world.machine.restart()
        case ("resync",):
            world.loop.resync()
        case ("lose",):
            world.source.forget_history()
        case ("turn",):
            world.turn(after=1.0)


def evolved(world, item, **more):
    present = world.source.resource(ref(item))
    revision = item.revision if present is None else present.revision + 1
    return evolve(item, revision=revision, **more)


@given(st.lists(steps, max_size=14))
def test_machine_ends_as_the_source_says(history):
    world = L3Environment(*CLOUD, wait_timeout=0.0)
    world.turn()
    for step in history:
        play(world, step)
        world.turn()
    world.machine.refused.clear()
    world.machine.crashing.clear()
    converge(world)
    wanted = L3Environment(*world.source.items())
    converge(wanted)
    assert world.metadata.machine.present == wanted.metadata.machine.present
    assert world.router.routers() == wanted.router.routers()
    assert world.router.floating_ips().keys() >= wanted.router.floating_ips().keys()
    for key in {*FLOATING_IPS, ref(EDGE), ref(INNER)}:
        found = [each.source.resource(key) for each in (world, wanted)]
        if found[0] is not None and is_here(world, found[0]):
            assert world.report(found[0]) == wanted.report(found[1])
    world.agent.close()
    wanted.agent.close()


def is_here(world, resource):
    """Return whether the agent has a key for a resource."""
    return any(world.agent._desired.reported(key) is not None for key in (
        RouterKey(resource.id), FloatingIpKey(resource.id)))  # fmt: skip


def converge(world):
    """Turn until only floating IPs without a gateway are left, which are retried for ever.

    A job that began before the machine recovered may fail later.
    """
    status = world.until(is_healthy, pace=10.0)
    while not (is_healthy(status) and is_converged(world, status)):
        world.until(is_healthy, pace=10.0)
        status = world.until(lambda now: not is_healthy(now) or is_converged(world, now))


def is_healthy(status):
    return not status.degraded and not status.errors


def is_converged(world, status):
    return (
        set(status.waiting.values()) <= {"its router has no gateway here"}
        and not world.agent._jobs.is_busy
        and not world.loop._events.ready.is_set()
        and LoopTask.EVERYTHING not in world.loop._tasks
    )
