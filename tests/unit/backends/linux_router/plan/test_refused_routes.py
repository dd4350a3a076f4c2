"""Routes that the kernel refused.  Values only."""

from __future__ import annotations

import pytest
from attrs import evolve

from netfw.drivers.values.router_values import RouterDriverKey, RouterState
from netfw.errors import BackendBroken, InvalidInput, NetfwError, OperationRefused, PartlyInvalid
from netfw.linux.ip.operations import AddRoute, DelRoute, NetworkOperation
from netfw.linux.ip.values import route
from netfw.linux.service_netns.steps import ChangeNetwork
from netfw.model.values.address import as_address, as_network
from netfw.model.values.route import Route
from netfw.plan import Operation, Outcome, Update
from netfw_drivers.linux_router.plan.refused_routes import PossibleUpdate, left_out_routes
from tests.unit.backends.linux_router.samples import KEY
from tests.unit.backends.linux_router.samples import STATE as ROUTER_STATE

BAD = Route(destination="2001:db8:77::/48", nexthop="fd00::20")
GOOD = Route(destination="2001:db8:78::/48", nexthop="fd00::20")
STATE = evolve(ROUTER_STATE, routes=(BAD, GOOD))
UPDATE = PossibleUpdate(update=Update(put={KEY: STATE}))
TEXT = f"route to {BAD.destination} via {BAD.nexthop}"


def refusal(operation: NetworkOperation) -> OperationRefused:
    step = ChangeNetwork(netns="qrouter-1", operation=operation)
    return OperationRefused({Operation(step.backend, step.text, frozenset({KEY}), step): "no"})


ADDED = AddRoute(route(BAD.destination, via=BAD.nexthop, device="qr-1"))


@pytest.mark.spec("L3-25")
def test_a_route_that_the_kernel_refused_is_left_out() -> None:
    rest = UPDATE.without_refused({KEY: refusal(ADDED)})
    state = rest.update.put[KEY]
    assert isinstance(state, RouterState)
    assert state.routes == (GOOD,)
    assert rest.left_out == {KEY: {TEXT: "no"}}


@pytest.mark.spec("L3-25")
def test_a_route_of_the_gateway_that_the_kernel_refused_is_left_out() -> None:
    four, six = map(as_address, ("203.0.113.1", "2001:db8::1"))
    subnet = as_network("198.51.100.0/24")
    assert STATE.full is not None
    assert STATE.full.gateway is not None
    gateway = evolve(STATE.full.gateway, next_hops=(four, six), onlink_subnets=(subnet,))
    state = evolve(STATE, full=evolve(STATE.full, gateway=gateway))
    rest = PossibleUpdate(update=Update(put={KEY: state}))
    for refused in (route("default", via=six, device="qg-1"), route(subnet, device="qg-1")):
        rest = rest.without_refused({KEY: refusal(AddRoute(refused))})
    after = rest.update.put[KEY]
    assert isinstance(after, RouterState)
    assert after.full is not None
    assert after.full.gateway == evolve(gateway, next_hops=(four,), onlink_subnets=())
    assert after.routes == state.routes
    texts = {f"default route via {six}", f"route to {subnet} of the external network"}
    assert rest.left_out[KEY].keys() == texts


@pytest.mark.spec("L3-25")
def test_a_refused_route_of_a_user_leaves_the_subnet_of_the_same_destination() -> None:
    subnet = as_network("198.51.100.0/24")
    assert STATE.full is not None
    assert STATE.full.gateway is not None
    gateway = evolve(STATE.full.gateway, onlink_subnets=(subnet,))
    state = evolve(STATE, full=evolve(STATE.full, gateway=gateway), routes=())
    update = PossibleUpdate(update=Update(put={KEY: state}))
    refused = route(subnet, via="10.0.0.66", device="qr-1")
    assert update.without_refused({KEY: refusal(AddRoute(refused))}) is update


@pytest.mark.spec("L3-25")
@pytest.mark.parametrize(
    "error",
    [
        refusal(DelRoute(ADDED.route)),
        refusal(AddRoute(route("default", via=BAD.nexthop, device="qr-1"))),
        OperationRefused({"a port": "no"}),
        BackendBroken("no"),
    ],
)
def test_other_refusals_leave_the_update_as_it_is(error: NetfwError) -> None:
    assert UPDATE.without_refused({KEY: error}) is UPDATE


@pytest.mark.spec("L3-25")
def test_the_routes_that_are_left_out_are_reported_with_those_of_the_plan() -> None:
    rest = UPDATE.without_refused({KEY: refusal(ADDED)})
    outcome = rest.report(Outcome(done=frozenset({KEY})))
    assert not outcome.done
    error = outcome.failed[KEY]
    assert isinstance(error, PartlyInvalid)
    assert error.problems == {TEXT: "no"}
    error = rest.report(Outcome(failed={KEY: PartlyInvalid({"other": "why"})})).failed[KEY]
    assert isinstance(error, PartlyInvalid)
    assert error.problems == {"other": "why", TEXT: "no"}
    failed: Outcome[RouterDriverKey] = Outcome(failed={KEY: InvalidInput({"whole": "why"})})
    assert rest.report(failed) == failed


@pytest.mark.spec("L3-25")
def test_routes_that_keepalived_could_not_add_are_named_like_those_of_the_driver() -> None:
    refused = route(BAD.destination, via=BAD.nexthop, device="qr-1")
    assert left_out_routes(STATE, {refused: "no"}) == {TEXT: "no"}
    assert left_out_routes(STATE, {}) == {}
