"""Distributed routers: what is planned again when something changes, and what is recorded."""

import pytest
from attrs import evolve

from netfw.drivers.values.keys import HostKey
from netfw.drivers.values.switch_values import (
    HostMac,
    LocalNetwork,
)
from netfw.errors import Conflict, InvalidInput
from netfw.model.router import MAX_ROUTER_INTERFACES
from netfw.model.values.address import Mac
from netfw.plan import Update
from netfw_drivers.ovs.switch.plan.outline import outline
from netfw_drivers.ovs.switch.plan.recovery import recover_state
from tests.unit.backends.ovs.switch.distributed.samples import (
    OTHER,
    H,
    R,
    flows_of,
    host,
    numbered,
    own,
    routed,
    router,
)
from tests.unit.backends.ovs.switch.plan_environment import PlanEnvironment
from tests.unit.backends.ovs.switch.samples import (
    SETTINGS,
    network,
    network_key,
    peer,
    port_key,
    rows,
    tunnel,
    wiring,
)

pytestmark = pytest.mark.spec("L2-60")


@pytest.fixture
def site(env: PlanEnvironment) -> PlanEnvironment:
    """Return a host with two routed networks, their ports, a peer, and the MACs of both hosts."""
    env.do(Update(put={**tunnel(2), **network(1, "vxlan", segmentation_id=101)}))
    for number, ofport in ((1, 11), (2, 12), (9, 19)):
        env.database.plug(number, ofport)
    env.do(Update(put={**routed(1, R), **routed(2, router(4)), **own(), **host(2)}))
    env.do(Update(put={**wiring(1, 1), **wiring(2, 2), **wiring(9, 1)}))
    return env


def all_flows(env: PlanEnvironment) -> dict[str, set]:
    return {bridge: {*flows.observed.items()} for bridge, flows in env.flows.items()}


def test_a_port_of_a_router_is_marked_and_one_of_an_instance_is_not(site):
    assert site.members.ports[port_key(9)].router
    assert not site.members.ports[port_key(1)].router
    assert site.members.ports[port_key(1)].gateway is None
    site.do(Update(put=routed(1, R, router(8, "10.0.8.1/24"))))
    assert site.members.ports[port_key(1)].gateway is not None


def test_removal_leaves_no_flow_and_no_record(site):
    site.do(Update(put={**network(1, "vxlan", segmentation_id=101), **network(2)}))
    site.do(Update(drop=frozenset({HostKey("here"), HostKey("host2")})))
    left = all_flows(site)
    records = site.database.bridges["br-int"].external_ids
    assert not [name for name in records if name.startswith(("netfw-host", "netfw-router"))]

    clean = PlanEnvironment()
    clean.do(Update(put={**tunnel(2), **network(1, "vxlan", segmentation_id=101)}))
    for number, ofport in ((1, 11), (2, 12), (9, 19)):
        clean.database.plug(number, ofport)
    clean.do(Update(put={**network(2), **wiring(1, 1), **wiring(2, 2), **wiring(9, 1)}))
    assert left == all_flows(clean)


def test_one_more_router_costs_its_own_group(site):
    before = {bridge: dict(flows.observed) for bridge, flows in site.flows.items()}
    more = router(5, "10.0.5.1/24")
    found = site.do(Update(put=routed(2, router(4), more)))
    after = site.flows["br-int"].observed
    changed = {key for key in after if before["br-int"].get(key) != after[key]}
    # Those of the interface without what stands for its network, and one for the port.
    assert len(changed) == len(flows_of(more)) - 3 + 1
    assert not before["br-int"].keys() - after.keys()
    assert before["br-tun"] == site.flows["br-tun"].observed
    assert not found.draft.refused


def test_a_new_mac_of_this_host_changes_the_flows_of_all_routers(site):
    site.do(Update(put=own(Mac("fa:16:3f:00:00:77"))))
    found = site.outline(Update(put=own(Mac("fa:16:3f:00:00:77"))))
    owners = site.do(Update(put=own())).groups.put["br-int"]
    routers = {owner[1] for owner in owners if "router" in owner}
    assert routers == {network_key(1), network_key(2)}
    assert not [owner for owner in found.groups.put["br-int"] if "router" in owner]


def test_without_its_mac_a_host_waits(site):
    found = site.do(Update(drop=frozenset({HostKey("here")})))
    assert {*found.draft.waiting} == {network_key(1), network_key(2)}


def test_a_host_waits_for_its_tunnel_and_gets_it(site):
    found = site.do(Update(put=host(3, Mac("fa:16:3f:00:00:03"))))
    assert found.draft.waiting == {HostKey("host3"): "there is no tunnel to vxlan 192.0.2.3 yet"}
    before = len(site.flows["br-tun"].observed)
    site.do(Update(put=tunnel(3)))
    assert len(site.flows["br-tun"].observed) == before + 2
    site.do(Update(drop=frozenset({peer(3)})))
    assert len(site.flows["br-tun"].observed) == before


def test_a_later_run_reads_hosts_and_routers_from_the_database(site):
    found = recover_state((), site.database.observed(), SETTINGS)
    for number, interface in ((1, R), (2, router(4))):
        value = found[network_key(number)]
        assert isinstance(value, LocalNetwork)
        assert value.router_interfaces == {interface}
    hosts = {key: value for key, value in found.items() if isinstance(key, HostKey)}
    assert hosts == {**own(), **host(2)}


@pytest.mark.parametrize("text", ["", "nonsense", "fa:16:3f:00:00:01 vxlan", "fa:16 x y"])
def test_records_that_are_none_are_not_read_and_removed(site, text):
    bridge = site.database.bridges["br-int"]
    names = {"netfw-host-other", "netfw-router-other", f"netfw-router-{port_key(77).port}"}
    ids = {**bridge.external_ids, **dict.fromkeys(names, text)}
    site.database.bridges["br-int"] = evolve(bridge, external_ids=ids)
    state = recover_state((), site.database.observed(), SETTINGS)
    assert HostKey("other") not in state
    put = dict(site.state.values)
    site.do(Update(put=put, complete=True))
    assert not names & site.database.bridges["br-int"].external_ids.keys()
    assert site.database.bridges["br-int"].external_ids == bridge.external_ids


def test_what_is_kept_stays(site):
    before = all_flows(site)
    keep = frozenset(site.state.values)
    site.do(Update(complete=True, keep=keep))
    assert all_flows(site) == before
    assert not rows(site.outline(Update(complete=True, keep=keep)))


def test_an_unchanged_state_plans_nothing(site):
    put = dict(site.state.values)
    before = all_flows(site)
    assert not rows(site.do(Update(put=put, complete=True)))
    assert all_flows(site) == before


@pytest.mark.parametrize(
    ("put", "text"),
    [
        (routed(1, R, evolve(R, mac=Mac("fa:16:3e:00:00:77"), addresses=frozenset())), "port"),
        (routed(1, R, evolve(router(8), mac=R.mac)), "MAC address"),
        (routed(1, R, router(8, "10.0.0.1/24")), "the address 10.0.0.1"),
        (
            routed(1, *(numbered(n) for n in range(MAX_ROUTER_INTERFACES + 1))),
            "at most",
        ),
        ({HostKey("here"): HostMac(H, own=True, endpoints=frozenset({peer(2)}))}, "itself"),
        ({HostKey("a"): HostMac(H, endpoints=frozenset({peer(2), peer(3)}))}, "one of each"),
    ],
    ids=["port", "MAC", "address", "many", "own", "endpoints"],
)
def test_bad_values_are_refused(env, put, text):
    (error,) = env.do(Update(put=put)).draft.refused.values()
    assert isinstance(error, InvalidInput)
    assert text in str(error)


def test_two_hosts_with_one_mac_are_a_conflict(site):
    twin = {HostKey("twin"): HostMac(OTHER)}
    observed = evolve(site.database.observed(site.state, site.members), flows=site.flows)
    found = outline(Update(put=twin), observed, SETTINGS, with_flows=True)
    assert {key: type(error) for key, error in found.draft.refused.items()} == {
        HostKey("twin"): Conflict
    }
