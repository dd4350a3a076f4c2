"""When a router has a client for delegated prefixes, and which numbers subnets have."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from attrs import evolve

from netfw.drivers.values.router_values import CentralRouter, LocalRouter, RouterState
from netfw.linux.service_netns.values import ObservedNetns
from netfw.model.values.ids import SubnetId
from netfw_drivers.linux_router.config.dhclient import MAX_PREFIXES, parse_client
from netfw_drivers.linux_router.config.settings import RouterSettings
from netfw_drivers.linux_router.distributed.router_parts import part_states
from netfw_drivers.linux_router.plan.daemons.daemon_steps import RunDaemon, StopDaemon
from netfw_drivers.linux_router.plan.daemons.delegation_plan import (
    SERVICE,
    left_out_prefixes,
    make_client,
    make_program,
    plan_delegation,
)
from netfw_drivers.linux_router.plan.names import CentralPart, PartId, router_namespace
from netfw_drivers.linux_router.plan.observed import FoundDaemon, FoundRouter
from tests.unit.backends.linux_router.samples import CONTEXT, GATEWAY, INSIDE, QG, ROUTER, state

SUBNETS = [SubnetId(UUID(int=number)) for number in range(1, MAX_PREFIXES + 3)]
SETTINGS = RouterSettings()
pytestmark = pytest.mark.spec("L3-27")


def delegating(*numbers: int, **values: Any) -> RouterState:
    return state(evolve(INSIDE, delegated=frozenset(SUBNETS[n] for n in numbers)), **values)


def steps(wanted: RouterState, found: FoundDaemon | None = None) -> list[RunDaemon | StopDaemon]:
    return [*plan_delegation(CONTEXT.desired(ROUTER, wanted), observed(found), SETTINGS)]


def observed(found: FoundDaemon | None = None, part: PartId = ROUTER) -> FoundRouter:
    netns = ObservedNetns(netns=router_namespace(part))
    return FoundRouter(netns=netns, dhclient=found or FoundDaemon())


def run(step: RunDaemon | StopDaemon) -> FoundDaemon:
    """Return the client as it is after a step."""
    assert isinstance(step, RunDaemon)
    digest = None if step.program is None else step.program.digest()
    return FoundDaemon(text=step.text_of_file, digest=digest)


def numbers(found: FoundDaemon) -> dict[int, SubnetId]:
    client = parse_client(found.text or "")
    assert client is not None
    return dict(client.subnets)


def test_a_client_runs_while_there_are_a_gateway_and_a_delegated_subnet() -> None:
    (step,) = steps(delegating(0))
    present = run(step)
    assert present.digest is not None
    assert isinstance(step, RunDaemon)
    assert step.program is not None
    assert step.program.argv[-1] == QG
    assert step.program.argv.count("-P") == 1
    assert steps(delegating(0), present) == []
    assert steps(delegating(0), evolve(present, digest=None)) == [step]


@pytest.mark.spec("L3-33")
@pytest.mark.parametrize("wanted", [delegating(), delegating(0, gateway=None), state()])
def test_without_either_of_them_it_ends_with_its_files(wanted: RouterState) -> None:
    assert steps(wanted) == []
    (step,) = steps(delegating(0))
    assert steps(wanted, run(step)) == [StopDaemon(SERVICE, ROUTER)]


def test_subnets_keep_their_numbers() -> None:
    (step,) = steps(delegating(0, 1, 2))
    present = run(step)
    assert numbers(present) == {0: SUBNETS[0], 1: SUBNETS[1], 2: SUBNETS[2]}
    (step,) = steps(delegating(0, 2), present)
    present = run(step)
    assert numbers(present) == {0: SUBNETS[0], 2: SUBNETS[2]}
    (step,) = steps(delegating(0, 2, 3, 4), present)
    assert numbers(run(step)) == {
        0: SUBNETS[0], 1: SUBNETS[3], 2: SUBNETS[2], 3: SUBNETS[4],
    }  # fmt: skip


def test_what_is_too_much_is_left_out() -> None:
    wanted = CONTEXT.desired(ROUTER, delegating(*range(MAX_PREFIXES + 2)))
    client = make_client(wanted, "")
    assert client is not None
    assert client.count == MAX_PREFIXES
    left_out = left_out_prefixes(wanted)
    assert list(left_out) == [f"prefix of subnet {id}" for id in SUBNETS[MAX_PREFIXES:]]
    assert not left_out_prefixes(CONTEXT.desired(ROUTER, delegating(0)))


def test_the_central_part_of_a_distributed_router_has_it() -> None:
    port = evolve(INSIDE, delegated=frozenset({SUBNETS[0]}))
    whole = RouterState(
        local=LocalRouter(interfaces=(port,)), central=CentralRouter(ports=(port,), gateway=GATEWAY)
    )
    states = part_states(ROUTER, whole)
    central = CentralPart(ROUTER)
    clients = {part: make_client(CONTEXT.desired(part, each), "") for part, each in states.items()}
    assert clients[ROUTER] is None
    client = clients[central]
    assert client is not None
    assert make_program(central, client, SETTINGS).namespace == router_namespace(central)
