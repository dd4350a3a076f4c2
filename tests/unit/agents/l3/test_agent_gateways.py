"""Agent gateways: their ports at the source, their order with floating IPs, their removal."""

import pytest
from attrs import evolve

from netfw.agents.common.jobs.jobs import Job
from netfw.agents.l3.agent_gateway import UnusedAgentGateway
from netfw.agents.l3.agent_gateway_executor import IN_USE, AgentGatewayExecutor
from netfw.agents.l3.agent_gateway_users import AgentGatewayUsers
from netfw.agents.l3.executor import NO_PORT, L3JobExecutor
from netfw.drivers.values.agent_requests import EnsureGatewayPort, ReleaseGatewayPort
from netfw.drivers.values.events import KeysChanged
from netfw.drivers.values.keys import AgentGatewayKey, FloatingIpKey, RouterKey
from netfw.drivers.values.router_values import RouterPart
from netfw.errors.ports import IpAddressGenerationFailure
from netfw.model.resource import ref
from netfw.testing.fakes.router import FakeRouter
from tests.unit.agents.l3.distributed import (
    DVR,
    ELSEWHERE,
    LOCAL_ONE,
    LOCAL_TWO,
    PLAIN,
    GatewaySource,
    agent_gateway_port,
    desired,
    distributed_environments,
    instance,
)
from tests.unit.agents.l3.environment import HERE, INNER, OUTSIDE, assigned

MINE = instance(11, HERE)
GATEWAY = AgentGatewayKey(OUTSIDE.id)
ONE, TWO = FloatingIpKey(LOCAL_ONE.id), FloatingIpKey(LOCAL_TWO.id)
WAITS = "its router has no gateway here"


@pytest.fixture
def environment():
    with distributed_environments() as make:
        yield make


def make_executor(source):
    driver = FakeRouter()
    return driver, L3JobExecutor(driver, AgentGatewayExecutor(HERE, source, driver))


@pytest.mark.spec("L3-62")
def test_first_floating_ip_makes_the_agent_gateway_and_the_next_costs_itself(environment):
    found = environment(*ELSEWHERE, MINE)
    found.ready()
    assert not found.asked(EnsureGatewayPort)
    found.source.put(LOCAL_ONE)
    found.ready()
    assert found.asked(EnsureGatewayPort) == [EnsureGatewayPort(network=OUTSIDE.id, host=HERE)]
    assert found.router.agent_gateways().keys() == {OUTSIDE.id}
    assert found.router.floating_ips()[LOCAL_ONE.id].part is RouterPart.LOCAL
    assert found.report(LOCAL_ONE) == ("ACTIVE", "")
    calls = len(found.router.calls)
    found.source.put(LOCAL_TWO)
    assert found.ready().counts["agent_gateways"] == 1
    (call,) = found.router.calls[calls:]
    assert set(call) == {FloatingIpKey(LOCAL_TWO.id)}
    assert len(found.asked(EnsureGatewayPort)) == 1


@pytest.mark.spec("L3-62")
def test_agent_gateway_to_make_goes_before_routers_and_one_to_remove_does_not():
    found = desired(*ELSEWHERE, MINE, LOCAL_ONE)
    assert found.goes_first(GATEWAY)
    assert not found.goes_first(DVR.id)
    assert not desired(*ELSEWHERE, MINE, agent_gateway_port()).goes_first(GATEWAY)


@pytest.mark.spec("L3-69")
def test_agent_gateway_goes_after_the_last_floating_ip_and_its_port_is_released(environment):
    found = environment(*ELSEWHERE, MINE, LOCAL_ONE, LOCAL_TWO)
    found.ready()
    found.source.remove(ref(LOCAL_TWO))
    found.ready()
    assert not found.asked(ReleaseGatewayPort)
    found.source.remove(ref(LOCAL_ONE))
    assert found.ready().counts["agent_gateways"] == 0
    assert not found.router.agent_gateways()
    assert found.asked(ReleaseGatewayPort) == [ReleaseGatewayPort(network=OUTSIDE.id, host=HERE)]
    history = found.machine.history
    removed = [f"remove {FloatingIpKey(LOCAL_ONE.id)}", f"remove {GATEWAY}"]
    assert [line for line in history if line in removed] == removed


@pytest.mark.spec("L3-62")
def test_slow_source_delays_its_floating_ips_and_nothing_else(environment):
    found = environment(*ELSEWHERE, MINE, LOCAL_ONE, wait_timeout=0.0)
    found.source.gate.clear()
    found.until(lambda status: found.report(LOCAL_ONE) is not None)
    assert found.report(LOCAL_ONE) == ("DOWN", f"it waits: {WAITS}")
    assert found.report(DVR) == ("ACTIVE", "")
    assert found.source.requested.wait(60)
    assert not found.router.agent_gateways()
    found.source.gate.set()
    found.ready()
    assert found.report(LOCAL_ONE) == ("ACTIVE", "")
    assert found.clock.now() == 1000.0, "it was not a retry that found the gateway"


@pytest.mark.spec("L3-62", "L3-69")
def test_failed_requests_are_retried(environment):
    found = environment(*ELSEWHERE, MINE, LOCAL_ONE)
    found.source.refuses = True
    status = found.until(lambda status: status.degraded.get(str(GATEWAY)))
    assert "the source does not answer" in status.degraded[str(GATEWAY)]
    reason = f"it waits: {WAITS}: the source does not answer"
    found.until(lambda status: found.report(LOCAL_ONE) == ("DOWN", reason), pace=1.0)
    found.source.refuses = False
    found.until(lambda status: found.report(LOCAL_ONE) == ("ACTIVE", ""), pace=1.0)
    found.source.refuses = True
    found.source.remove(ref(LOCAL_ONE))
    found.until(lambda status: status.degraded.get(str(GATEWAY)))
    assert not found.router.agent_gateways()
    found.source.refuses = False
    found.ready(pace=1.0)
    count = len(found.asked(ReleaseGatewayPort))
    found.turn(100.0)
    assert len(found.asked(ReleaseGatewayPort)) == count


@pytest.mark.spec("L3-62")
def test_external_subnet_without_a_free_address_concerns_its_floating_ips_alone(
    environment, caplog
):
    found = environment(*ELSEWHERE, *PLAIN, MINE, LOCAL_ONE, assigned(INNER), agent_mode="dvr_snat")
    exhausted = IpAddressGenerationFailure("no address is left in 203.0.113.0/24 (subnet s)")
    found.source.refusal = exhausted
    status = found.until(lambda status: status.degraded.get(str(GATEWAY)), pace=1.0)
    assert status.degraded[str(GATEWAY)] == str(exhausted)
    assert f"{GATEWAY}: {exhausted}; retrying later" in caplog.text
    reason = f"it waits: {WAITS}: {exhausted}"
    found.until(lambda status: found.report(LOCAL_ONE) == ("DOWN", reason), pace=1.0)
    assert found.report(DVR) == found.report(INNER) == ("ACTIVE", "")
    found.source.refusal = None
    found.until(lambda status: found.report(LOCAL_ONE) == ("ACTIVE", ""), pace=1.0)
    assert str(GATEWAY) not in found.ready().degraded


@pytest.mark.spec("L3-62")
def test_floating_ips_of_a_gateway_without_an_address_are_not_active(environment):
    # Its port may be published: an administrator can take its addresses.
    bare = evolve(agent_gateway_port(), fixed_ips=())
    found = environment(*ELSEWHERE, MINE, LOCAL_ONE, bare)
    reason = f"it waits: {WAITS}: port {bare.id} of the agent gateway has no address"
    found.until(lambda status: found.report(LOCAL_ONE) == ("DOWN", reason), pace=1.0)
    assert not found.router.agent_gateways()
    found.source.put(evolve(agent_gateway_port(), revision=2))
    found.until(lambda status: found.report(LOCAL_ONE) == ("ACTIVE", ""), pace=1.0)


@pytest.mark.spec("L3-69")
def test_agent_gateway_waits_for_a_floating_ip_that_cannot_be_removed(environment):
    found = environment(*ELSEWHERE, MINE, LOCAL_ONE)
    found.ready()
    key = FloatingIpKey(LOCAL_ONE.id)
    found.machine.unremovable[key] = "it is in use"
    found.source.remove(ref(LOCAL_ONE))
    found.until(lambda status: str(key) in status.degraded)
    found.until(lambda status: status.waiting.get(str(GATEWAY)) == IN_USE)
    assert found.router.agent_gateways()
    assert not found.asked(ReleaseGatewayPort)
    found.machine.unremovable.clear()
    found.ready(pace=1.0)
    assert not found.router.agent_gateways()
    assert len(found.asked(ReleaseGatewayPort)) == 1


@pytest.mark.spec("L3-62")
def test_restart_of_the_agent_changes_nothing_and_reports_no_other_status(environment):
    found = environment(*ELSEWHERE, MINE, LOCAL_ONE)
    found.ready()
    history, sent = list(found.machine.history), []
    report = found.source.report
    found.source.report = lambda reports: (sent.extend(reports), report(reports))[1]
    found.agent.close()
    found.begin()
    found.ready()
    assert found.machine.history == history
    statuses = {each.status.value for each in sent if getattr(each, "ref", None) == ref(LOCAL_ONE)}
    assert statuses == {"ACTIVE"}


@pytest.mark.spec("L3-69")
def test_agent_gateway_of_a_former_agent_that_nothing_needs_is_removed(environment):
    found = environment(*ELSEWHERE, MINE, LOCAL_ONE)
    found.ready()
    found.agent.close()
    found.source.remove(ref(LOCAL_ONE))
    found.begin()
    found.ready()
    assert found.machine.present.keys() == {RouterKey(DVR.id)}


@pytest.mark.spec("L3-62")
def test_agent_gateway_that_is_lost_is_made_again_before_its_floating_ips(environment):
    found = environment(*ELSEWHERE, MINE, LOCAL_ONE)
    found.ready()
    del found.machine.present[GATEWAY], found.machine.present[FloatingIpKey(LOCAL_ONE.id)]
    found.machine.notify(KeysChanged("lost", {GATEWAY, FloatingIpKey(LOCAL_ONE.id)}))
    found.ready()
    assert found.router.agent_gateways()
    assert found.router.floating_ips()


@pytest.mark.spec("L3-69")
def test_published_port_that_nothing_needs_is_released_after_the_gateway_is_removed():
    source = GatewaySource(*ELSEWHERE, agent_gateway_port())
    driver, executor = make_executor(source)
    spec = desired(*ELSEWHERE, LOCAL_ONE, agent_gateway_port()).value(GATEWAY)
    driver.machine.present[GATEWAY] = spec.value(spec.own)
    job = Job(group=GATEWAY, put={GATEWAY: UnusedAgentGateway(port=spec.own.id)})
    driver.machine.unremovable[GATEWAY] = "it is in use"
    assert executor.execute(job).failed.keys() == {GATEWAY}
    assert not source.asked, "the driver has it"
    driver.machine.unremovable.clear()
    assert executor.execute(job).ok
    assert source.asked == [ReleaseGatewayPort(network=OUTSIDE.id, host=HERE)]
    assert executor.execute(Job(group=GATEWAY, drop=frozenset({GATEWAY}))).ok
    assert len(source.asked) == 1, "the port was released already"


@pytest.mark.spec("L3-62")
def test_published_port_is_not_requested():
    source = GatewaySource(*ELSEWHERE)
    driver, executor = make_executor(source)
    spec = desired(*ELSEWHERE, LOCAL_ONE, agent_gateway_port()).value(GATEWAY)
    assert executor.execute(Job(group=GATEWAY, put={GATEWAY: spec})).ok
    assert driver.agent_gateways()[OUTSIDE.id].port.id == agent_gateway_port().id
    assert not source.asked


@pytest.mark.spec("L3-62")
def test_dry_run_requests_no_port():
    source = GatewaySource(*ELSEWHERE)
    _, executor = make_executor(source)
    (update,) = executor.everything(desired(*ELSEWHERE, LOCAL_ONE).values)
    assert update.waiting == {GATEWAY: NO_PORT}
    assert update.update.keep == {GATEWAY}
    (update,) = executor.everything(desired(*ELSEWHERE, LOCAL_ONE, agent_gateway_port()).values)
    assert update.update.put.keys() == {RouterKey(DVR.id), GATEWAY, ONE}
    assert not source.asked


@pytest.mark.spec("L3-62")
def test_floating_ip_is_not_added_to_a_gateway_that_is_being_removed():
    users = AgentGatewayUsers()
    assert users.begin_removal(OUTSIDE.id)
    assert users.acquire({ONE: OUTSIDE.id}) == {ONE}
    users.end_removal(OUTSIDE.id)
    assert users.begin_removal(OUTSIDE.id), "the floating IP waits, and does not use it"
    users.end_removal(OUTSIDE.id)
    assert users.record_gateway(OUTSIDE.id) == {ONE}
    assert users.acquire({ONE: OUTSIDE.id}) == set()
    users.record_in_force(ONE)
    assert users.record_gateway(OUTSIDE.id) == set()


@pytest.mark.spec("L3-69")
def test_removal_of_a_gateway_goes_on_after_its_last_floating_ip():
    users = AgentGatewayUsers()
    users.acquire({ONE: OUTSIDE.id, TWO: OUTSIDE.id})
    assert not users.begin_removal(OUTSIDE.id)
    assert [users.release(key) for key in (ONE, ONE, TWO)] == [None, None, OUTSIDE.id]
    assert users.begin_removal(OUTSIDE.id)
    users.end_removal(OUTSIDE.id)
    users.acquire({ONE: OUTSIDE.id})
    assert users.release(ONE) is None, "its gateway is not to be removed"
