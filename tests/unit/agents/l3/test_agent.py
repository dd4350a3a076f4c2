"""The L3 agent on drivers in memory: what it converges, in what order, and what it reports."""

import threading
from ipaddress import ip_address

import pytest
from attrs import evolve

from netfw.agents.common.loop import Intervals, Loop
from netfw.agents.l3.agent import L3Agent, L3AgentConfig
from netfw.drivers.values.agent_requests import EnabledServices
from netfw.drivers.values.events import FeedLost
from netfw.drivers.values.keys import FloatingIpKey, RouterKey
from netfw.drivers.values.subscription import Service, Subscription
from netfw.errors import ConfigError, NotSupported
from netfw.model.resource import ref
from netfw.model.values.route import Route
from netfw.testing.fakes.router import FakeRouter
from tests.thread_limit import no_threads
from tests.unit.agents.l3.environment import (
    EDGE,
    EDGE_OUT,
    HERE,
    INNER,
    INNER_RED,
    OUTSIDE,
    OUTSIDE_SUBNET,
    RED_SUBNET,
    THERE,
    assigned,
    environments,
    floating_ip,
    gateway_port,
    router,
    router_port,
)

ONE, TWO = floating_ip(20, EDGE), floating_ip(21, EDGE, "10.1.0.12")
ROUTE = Route(destination="10.99.0.0/24", nexthop="10.1.0.99")
DOWN = "the router is administratively down"


@pytest.fixture
def environment():
    with environments() as make:
        yield make


def test_assigned_routers_are_on_the_machine_with_their_floating_ips(environment):
    found = environment(ONE, router(3), assigned(router(3), THERE))
    assert found.ready().counts == {
        "routers": 2, "interfaces": 2, "ex_gw_ports": 1, "floating_ips": 1,
        "agent_gateways": 0, "ha_routers": 0, "active_ha_routers": 0,
    }  # fmt: skip
    assert found.router.routers().keys() == {EDGE.id, INNER.id}
    assert found.router.floating_ips().keys() == {ONE.id}
    found.source.remove(assigned(EDGE))
    found.ready()
    assert found.machine.present.keys() == {RouterKey(INNER.id)}
    found.source.remove(ref(INNER))
    assert found.ready().counts["routers"] == 0
    assert not found.metadata.machine.present


@pytest.mark.spec("L3-02")
def test_change_of_one_router_is_one_call_for_it(environment):
    found = environment(ONE)
    found.ready()
    calls = len(found.router.calls)
    found.source.put(TWO)
    found.ready()
    (call,) = found.router.calls[calls:]
    assert set(call) == {FloatingIpKey(TWO.id)}


@pytest.mark.spec("L3-10")
def test_statuses_of_routers_and_floating_ips_are_reported_with_reasons(environment):
    found = environment(ONE, TWO)
    found.machine.refused[FloatingIpKey(TWO.id)] = "the rule is refused"
    found.until(lambda status: found.report(TWO) is not None)
    assert found.report(EDGE) == found.report(INNER) == ("ACTIVE", "")
    assert found.report(ONE) == ("ACTIVE", "")
    assert found.report(TWO) == ("ERROR", "the rule is refused")
    found.machine.refused.clear()
    found.until(lambda status: found.report(TWO) == ("ACTIVE", ""), pace=1.0)
    found.source.put(evolve(EDGE, admin_up=False, revision=2))
    assert found.ready().counts == {
        "routers": 1, "interfaces": 1, "ex_gw_ports": 0, "floating_ips": 0,
        "agent_gateways": 0, "ha_routers": 0, "active_ha_routers": 0,
    }  # fmt: skip
    assert found.report(EDGE) == found.report(ONE) == ("DOWN", DOWN)
    assert found.machine.present.keys() == {RouterKey(INNER.id)}


def test_floating_ips_come_with_the_gateway_that_they_wait_for(environment):
    found = environment(ONE)
    found.source.remove(ref(EDGE_OUT))
    found.until(lambda status: found.report(ONE) is not None)
    assert "no gateway" in found.report(ONE)[1]
    found.source.put(EDGE_OUT)
    found.ready()
    assert found.report(ONE) == ("ACTIVE", "")
    found.source.remove(ref(EDGE_OUT))
    status = found.until(lambda status: found.report(ONE)[0] == "DOWN")
    assert status.counts["floating_ips"] == 0
    found.source.put(EDGE_OUT)
    found.ready()
    assert set(found.router.calls[-1].put) == {RouterKey(EDGE.id), FloatingIpKey(ONE.id)}


@pytest.mark.spec("L3-08")
def test_refused_router_is_removed_and_degraded_with_the_reason(environment):
    found = environment()
    found.ready()
    found.source.put(evolve(EDGE, distributed=True, revision=2))
    status = found.until(lambda status: status.degraded)
    assert "is distributed" in status.degraded[f"router {EDGE.id}"]
    assert found.router.routers().keys() == {INNER.id}
    found.until(lambda status: found.report(EDGE)[0] == "ERROR")
    assert "is distributed" in found.report(EDGE)[1]


@pytest.mark.spec("L3-03")
def test_slow_router_delays_no_other_and_only_its_last_state_is_made(environment):
    found = environment(wait_timeout=0.0)
    gate = found.router.gates[EDGE.id] = threading.Event()
    found.until(lambda status: INNER.id in found.router.routers())
    found.until(lambda status: found.router.at_gate == {EDGE.id})
    assert found.turn().waiting[f"router {EDGE.id}"] == "its job"
    calls = len(found.router.calls)
    for revision in (2, 3):
        found.source.put(evolve(EDGE, name=str(revision), revision=revision))
        found.source.put(floating_ip(20, EDGE, f"10.1.0.{revision}", revision=revision))
        found.turn()
    gate.set()
    found.ready()
    assert found.router.floating_ips()[ONE.id].fixed_address == ip_address("10.1.0.3")
    assert len(found.router.calls) == calls + 1


@pytest.mark.spec("L3-03")
def test_removal_and_change_go_before_background_sync(environment):
    many = [router(number) for number in range(10, 20)]
    found = environment(*many, *map(assigned, many), threads=1, wait_timeout=0.0)
    gate = threading.Event()
    found.router.gates.update(dict.fromkeys((each.id for each in (EDGE, INNER, *many)), gate))
    found.until(lambda status: bool(found.router.at_gate))
    changed, gone = [each for each in many if each.id not in found.router.at_gate][:2]
    found.source.put(evolve(changed, routes=(ROUTE,), revision=2))
    found.source.remove(ref(gone))
    found.turn()
    calls = len(found.router.calls)
    gate.set()
    found.ready()
    concerned = [{key.router for key in call} for call in found.router.calls[calls:]]
    assert concerned[:2] == [{gone.id}, {changed.id}]


@pytest.mark.spec("L3-03")
def test_no_two_calls_concern_one_router_when_a_floating_ip_moves(environment):
    # The fake refuses such calls.
    gateway = router(2, OUTSIDE)
    out = gateway_port(gateway, OUTSIDE_SUBNET, 11)
    found = environment(gateway, out, ONE)
    found.ready()
    moved = floating_ip(20, INNER, "10.2.0.11", revision=2)
    found.source.put(moved)
    found.ready()
    assert found.router.floating_ips()[ONE.id].router == INNER.id
    found.agent.close()
    found.source.put(floating_ip(20, EDGE, revision=3))
    calls = len(found.router.calls)
    found.begin()
    found.ready()
    assert set(found.router.calls[calls + 1]) == {FloatingIpKey(ONE.id)}, "before any job"
    assert found.router.floating_ips()[ONE.id].router == EDGE.id
    assert found.report(ONE) == ("ACTIVE", "")


@pytest.mark.spec("L3-03")
def test_agent_without_threads_is_degraded_and_goes_on_when_it_gets_them(environment):
    found = environment(ONE, wait_timeout=0.0)
    with no_threads():
        status = found.until(lambda status: status.degraded)
        assert "0 of 8 worker threads" in status.degraded["worker threads"]
        assert status.waiting[f"router {EDGE.id}"] == "its job"
        assert found.report(EDGE) is None
    found.ready(pace=1.0)
    assert found.report(EDGE) == found.report(ONE) == ("ACTIVE", "")


@pytest.mark.spec("L3-11")
def test_restart_changes_nothing(environment):
    found = environment(ONE)
    found.ready()
    present, history = dict(found.machine.present), list(found.machine.history)
    found.agent.close()
    found.begin()
    found.ready()
    assert (found.machine.present, found.machine.history) == (present, history)
    assert found.report(ONE) == ("ACTIVE", "")


@pytest.mark.spec("L3-06")
def test_revived_agent_compares_everything(environment):
    found = environment(ONE)
    found.ready()
    del found.machine.present[FloatingIpKey(ONE.id)]
    report = found.source.report

    def revive(reports):
        return evolve(report(reports), resync=True)

    found.source.report = revive
    found.loop._heartbeat()
    found.source.report = report
    found.ready()
    assert found.router.floating_ips().keys() == {ONE.id}


@pytest.mark.spec("L3-04")
def test_router_that_a_full_sync_does_not_list_is_removed(environment):
    found = environment(ONE)
    found.ready()
    found.source.remove(assigned(EDGE))
    found.loop.resync()
    found.ready()
    assert found.machine.present.keys() == {RouterKey(INNER.id)}


def test_lost_feed_is_a_complete_pass_and_an_event_repairs_its_key(environment):
    found = environment(ONE)
    found.ready()
    found.machine.disturb(FloatingIpKey(ONE.id))
    found.ready()
    assert found.router.floating_ips().keys() == {ONE.id}
    found.machine.present.clear()
    found.machine.notify(FeedLost("restarted"))
    found.ready()
    assert found.router.routers().keys() == {EDGE.id, INNER.id}


@pytest.mark.spec("L3-28", "MD-03")
def test_proxy_starts_after_its_router_and_goes_before_it(environment):
    found = environment()
    found.ready()
    assert found.metadata.machine.present.keys() == {RouterKey(EDGE.id), RouterKey(INNER.id)}
    proxy = found.metadata.machine.present[RouterKey(EDGE.id)]
    assert (proxy.netns, proxy.port) == (f"qrouter-{EDGE.id}", 9697)
    assert proxy.addresses == (ip_address("0.0.0.0"), ip_address("::"))
    found.source.remove(assigned(EDGE))
    found.ready()
    assert found.metadata.machine.present.keys() == {RouterKey(INNER.id)}
    found.agent.close()
    found.settings["enable_metadata_proxy"] = False
    found.begin()
    found.ready()
    assert not found.metadata.machine.present
    assert found.router.routers()[INNER.id].metadata_port is None


def test_proxy_that_cannot_run_degrades_its_router_and_not_its_floating_ips(environment):
    found = environment(ONE)
    found.metadata.machine.refused[RouterKey(EDGE.id)] = "no haproxy"
    found.until(lambda status: found.report(ONE) is not None and found.report(EDGE) is not None)
    assert found.report(ONE) == ("ACTIVE", "")
    assert found.report(EDGE) == ("ERROR", "no haproxy")


@pytest.mark.spec("L3-25")
def test_router_of_which_a_part_is_left_out_is_degraded_and_served(environment):
    found = environment(ONE)
    found.router.left_out[RouterKey(EDGE.id)] = "impossible"
    found.until(lambda status: found.report(ONE) is not None and found.report(EDGE) is not None)
    assert found.report(EDGE) == ("DEGRADED", "part: impossible")
    assert found.report(ONE) == ("ACTIVE", "")
    assert RouterKey(EDGE.id) in found.metadata.machine.present
    found.router.left_out.clear()
    found.until(lambda status: found.report(EDGE) == ("ACTIVE", ""), pace=1.0)


@pytest.mark.spec("L3-12")
def test_first_full_sync_is_marked_once_every_router_was_tried(environment):
    found = environment(ONE, wait_timeout=0.0)
    found.machine.refused[RouterKey(INNER.id)] = "no"
    gate = found.router.gates[EDGE.id] = threading.Event()
    found.until(lambda status: "mark of the first full sync" in status.waiting)
    found.until(lambda status: bool(found.router.at_gate))
    assert not found.interface.initialized
    found.interface.machine.online = False
    gate.set()
    found.until(lambda status: "mark of the first full sync" in status.degraded)
    found.interface.machine.online = True
    found.until(lambda status: found.interface.initialized == {Service.L3}, pace=1.0)


@pytest.mark.spec("L3-01")
def test_agent_starts_once_the_server_answers_and_names_a_missing_service(environment):
    found = environment()
    found.source.away = True
    assert "does not answer" in str(found.turn().errors)
    assert not found.router.calls
    found.source.away = False
    found.ready(pace=1.0)
    assert found.asked(EnabledServices)
    assert found.turn().warnings == {}
    found.source.request = lambda request: frozenset({"security_groups"})
    found.begin()
    assert "service_plugins" in found.ready().warnings["server"]


@pytest.mark.spec("L3-13")
def test_source_that_offers_no_list_of_services_is_tolerated(environment):
    found = environment()
    found.source.request = _raise_not_supported
    assert found.ready().warnings == {}


@pytest.mark.spec("L3-01", "L3-13")
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ipv6_gateway": ip_address("2001:db8::1")}, "ipv6_gateway: 2001:db8::1 is not"),
        ({}, "enable_metadata_proxy needs a metadata_driver"),
    ],
)
def test_impossible_settings_are_refused_with_a_sentence(environment, settings, words):
    with pytest.raises(ConfigError, match=words):
        L3Agent(L3AgentConfig(host=HERE, **settings), environment().source, FakeRouter())


@pytest.mark.spec("L3-13")
def test_state_report_has_what_operators_know(environment):
    found = environment(ONE, availability_zone="zone1")
    found.ready()
    heartbeat = found.agent.heartbeat(start=True)
    assert heartbeat.agent.agent_type == "L3 agent"
    assert heartbeat.agent.topic == "l3_agent"
    assert heartbeat.agent.availability_zone == "zone1"
    assert found.agent.subscription == Subscription(HERE, {Service.L3})
    content = heartbeat.agent.configurations.content()
    assert content["agent_mode"] == "legacy"
    assert content["handle_internal_only_routers"] is True
    assert (content["routers"], content["floating_ips"], content["ex_gw_ports"]) == (2, 1, 1)


@pytest.mark.spec("L3-13")
@pytest.mark.parametrize(("is_logged", "lines"), [(False, []), (True, [True, False])])
def test_heartbeats_are_logged_if_the_option_says_so(environment, caplog, is_logged, lines):
    found = environment(ONE)
    caplog.set_level("INFO")
    intervals = Intervals(report=30, log_reports=is_logged)
    found.loop = Loop(found.source, found.agent, lambda: intervals, clock=found.clock)
    found.agent.watch(found.loop._events.event)
    found.ready()
    found.turn(after=30)
    logged = [each for each in caplog.messages if each.startswith("heartbeat")]
    assert [line.split(", ")[1] for line in logged] == [f"start={start}" for start in lines]
    assert all("routers 2" in line for line in logged[1:])


def test_interface_on_another_network_reaches_the_router_of_this_host(environment):
    found = environment()
    found.ready()
    found.source.put(router_port(EDGE, RED_SUBNET, 254))
    found.ready()
    assert len(found.router.routers()[EDGE.id].full.interfaces) == 2
    assert len(found.router.routers()[INNER.id].full.interfaces) == 1
    found.source.remove(ref(INNER_RED))
    found.ready()
    assert found.router.routers()[INNER.id].full.interfaces == ()


def _raise_not_supported(request):
    raise NotSupported("no list")
