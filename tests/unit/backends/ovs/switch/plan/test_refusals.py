"""Keys that planning refuses: left out in one place, for rows and flows alike."""

from attrs import evolve

from netfw.drivers.values.keys import ExtensionKey
from netfw.drivers.values.pipeline_grant import GrantRequest, TableRequest
from netfw.errors import Conflict, NotSupported
from netfw.ovs.openflow.flow_diff import CookieSpace
from netfw.plan import Update
from netfw_drivers.ovs.pipeline.br_int import PlannedPort
from netfw_drivers.ovs.pipeline.extension_grants import ExtensionLayout
from netfw_drivers.ovs.switch.plan.outline import outline
from netfw_drivers.ovs.switch.plan.plan import plan_switch
from netfw_drivers.ovs.switch.plan.state import SwitchState
from tests.unit.backends.ovs.switch.samples import (
    SETTINGS,
    Database,
    network,
    network_key,
    port_key,
    wiring,
)


def host() -> Database:
    """Return a database with two ports of one network, as an earlier run left them."""
    database = Database()
    put = {**network(1), **wiring(1, 1), **wiring(2, 1)}
    database.run(plan_switch(Update(put=put), database.observed(), SETTINGS))
    for number in (1, 2):
        database.plug(number, ofport=number)
    plan = plan_switch(Update(put=put), database.observed(SwitchState(network(1))), SETTINGS)
    database.run(plan)
    return database


def same_mac() -> dict:
    """Return two ports of one network, the second with the MAC address of the first."""
    (first,), ((key, second),) = wiring(1, 1).values(), wiring(2, 1).items()
    return {**wiring(1, 1), key: evolve(second, mac=first.mac)}


def test_conflicting_flows_refuse_one_key_and_leave_the_other():
    update = Update(put={**network(1), **same_mac(), **network(2, "gre", segmentation_id=5)})
    plan = plan_switch(update, host().observed(SwitchState(network(1))), SETTINGS)
    assert {key: type(error) for key, error in plan.refused.items()} == {
        network_key(2): NotSupported,
        port_key(2): Conflict,
    }
    assert plan.outline.put.keys() == {network_key(1), port_key(1)}
    assert [type(port) for port in plan.outline.live.values()] == [PlannedPort]
    assert not plan.outline.refused_flows()


def test_conflicting_flows_are_found_with_flows_only():
    update = Update(put={**network(1), **same_mac()})
    observed = host().observed(SwitchState(network(1)))
    assert not outline(update, observed, SETTINGS).draft.refused
    refused = outline(update, observed, SETTINGS, with_flows=True).draft.refused
    assert refused.keys() == {port_key(2)}


def test_a_refusal_needs_the_flows_of_an_earlier_run():
    complete = Update(put={**network(1), **same_mac()}, complete=True)
    observed = host().observed()
    assert plan_switch(complete, observed, SETTINGS).needs_full_observation
    recovered = evolve(observed, recovered=True)
    assert not plan_switch(complete, recovered, SETTINGS).needs_full_observation
    fine = Update(put={**network(1), **wiring(1, 1), **wiring(2, 1)}, complete=True)
    assert not plan_switch(fine, observed, SETTINGS).needs_full_observation
    partial = evolve(complete, complete=False)
    assert not plan_switch(partial, observed, SETTINGS).needs_full_observation


def test_flows_can_be_planned_again_from_the_plan_alone():
    plan = plan_switch(Update(put=network(1)), Database().observed(), SETTINGS)
    planned = plan.outline.flows["br-int"]

    class Emptied:
        """A bridge that was made anew; records what is requested."""

        def plan(self, put, drop=(), *, complete=None, keep=(), erase=()):
            return put, drop, complete, keep, erase

    request = planned.request
    assert request.plan(Emptied()) == (
        request.put,
        request.drop,
        request.complete,
        request.keep,
        request.erase,
    )
    assert request.put.keys() == planned.flows.holds.keys()


def test_flows_of_all_extensions_that_are_dropped_unrecorded_are_erased():
    owners = ("ears", "eyes", "legs")
    observed, layout = Database().observed(), ExtensionLayout()
    for owner in owners:
        layout = layout.granted(GrantRequest(owner=owner, tables=(TableRequest(name="t"),)))
    drop = frozenset({ExtensionKey("ears"), ExtensionKey("legs")})
    plan = plan_switch(Update(drop=drop), evolve(observed, layout=layout), SETTINGS)
    grants = [layout.grants[owner] for owner in ("ears", "legs")]
    assert plan.outline.flows["br-int"].request.erase == tuple(
        CookieSpace(grant.cookie, grant.cookie_mask) for grant in grants
    )
