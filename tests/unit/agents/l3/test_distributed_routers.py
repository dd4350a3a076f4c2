"""The L3 agent and distributed routers, on drivers in memory."""

import pytest
from attrs import evolve

from netfw.agents.l3.agent import L3Agent, L3AgentConfig
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.router import RouterCapability
from netfw.drivers.values.agent_requests import EnsureGatewayPort
from netfw.drivers.values.keys import AgentGatewayKey, RouterKey
from netfw.drivers.values.router_values import RouterPart
from netfw.errors import ConfigError
from netfw.model.binding import Binding
from netfw.model.resource import ref
from netfw.model.router import HaRole
from netfw.testing.fakes.router import FakeRouter
from tests.unit.agents.l3.distributed import (
    CENTRAL,
    CENTRAL_ONE,
    DVR,
    ELSEWHERE,
    LOCAL_ONE,
    OUT_HERE,
    OUT_THERE,
    ROUTER,
    SG_HERE,
    GatewaySource,
    distributed_environments,
    instance,
)
from tests.unit.agents.l3.environment import (
    HA_NETWORK,
    HA_SUBNET,
    HERE,
    OUTSIDE,
    RED_SUBNET,
    THERE,
    assigned,
    ha_port,
)

MINE = instance(11, HERE)
GATEWAY = AgentGatewayKey(OUTSIDE.id)
WAITS = "its router has no gateway here"


@pytest.fixture
def environment():
    with distributed_environments() as make:
        yield make


def parts(found):
    state = found.router.routers().get(DVR.id)
    return None if state is None else state.parts


@pytest.mark.spec("L3-61", "L3-66")
def test_host_has_the_router_from_its_first_instance_to_its_last(environment):
    found = environment(*ELSEWHERE)
    found.ready()
    assert parts(found) is None
    found.source.put(MINE, instance(12, HERE))
    found.ready()
    assert parts(found) == {RouterPart.LOCAL}
    found.source.remove(ref(MINE))
    found.ready()
    assert parts(found) == {RouterPart.LOCAL}
    found.source.remove(ref(instance(12, HERE)))
    found.ready()
    assert not found.machine.present
    assert not found.metadata.machine.present


@pytest.mark.spec("L3-64")
def test_instance_on_another_host_causes_no_operation(environment):
    found = environment(*ELSEWHERE, MINE, LOCAL_ONE)
    found.ready()
    before = (len(found.router.calls), list(found.machine.history), found.loop.status.total)
    requests = len(found.source.asked)
    found.source.put(instance(13, THERE), instance(14, THERE, RED_SUBNET))
    found.ready()
    found.source.remove(ref(instance(13, THERE)))
    found.ready()
    after = (len(found.router.calls), found.machine.history, found.loop.status.total)
    assert after == before
    assert len(found.source.asked) == requests


@pytest.mark.spec("L3-60", "MD-03")
def test_metadata_proxy_runs_in_the_namespace_of_the_local_part(environment):
    found = environment(*CENTRAL, assigned(DVR), agent_mode="dvr_snat")
    found.ready()
    assert parts(found) == {RouterPart.LOCAL, RouterPart.CENTRAL}
    assert found.metadata.used_namespaces() == {f"qrouter-{DVR.id}"}


@pytest.mark.spec("L3-60", "L3-63")
def test_central_part_comes_and_goes_with_the_binding_of_the_gateway(environment):
    found = environment(*CENTRAL, MINE, CENTRAL_ONE, assigned(DVR), agent_mode="dvr_snat")
    assert found.ready().counts["ex_gw_ports"] == 1
    assert found.router.floating_ips()[CENTRAL_ONE.id].part is RouterPart.CENTRAL
    assert found.report(DVR) == found.report(CENTRAL_ONE) == ("ACTIVE", "")
    found.source.put(OUT_THERE, evolve(SG_HERE, binding=Binding(host=THERE)))
    found.source.remove(assigned(DVR))
    counts = found.ready().counts
    assert (counts["routers"], counts["interfaces"], counts["ex_gw_ports"]) == (1, 1, 0)
    assert parts(found) == {RouterPart.LOCAL}
    assert not found.router.floating_ips()


@pytest.mark.spec("L3-60", "L3-10")
def test_central_part_on_a_host_of_another_mode_degrades_the_router(environment):
    found = environment(*CENTRAL, assigned(DVR))
    found.until(lambda status: found.report(DVR) is not None)
    status, reason = found.report(DVR)
    assert status == "DEGRADED"
    assert "whose agent_mode is dvr; it needs dvr_snat" in reason
    assert parts(found) == {RouterPart.LOCAL}


@pytest.mark.spec("L3-60")
def test_mode_that_the_router_driver_does_not_have_is_refused_with_a_sentence(environment):
    driver = FakeRouter()
    driver.CAPABILITIES = (HostCapability.PLAN, RouterCapability.HA)
    settings = L3AgentConfig(host=HERE, agent_mode="dvr", enable_metadata_proxy=False)
    with pytest.raises(ConfigError, match="the router driver 'fake' has no distributed routers"):
        L3Agent(settings, GatewaySource(), driver)
    with pytest.raises(ValueError, match="no_such_mode"):
        L3AgentConfig(host=HERE, agent_mode="no_such_mode")


@pytest.mark.spec("L3-60", "L3-68", "L3-13")
def test_state_report_has_the_mode_and_the_agent_gateways(environment):
    found = environment(*ELSEWHERE, MINE, LOCAL_ONE)
    found.ready()
    content = found.agent.heartbeat(start=True).agent.configurations.content()
    assert (content["agent_mode"], content["enable_inat_enat"]) == ("dvr", False)
    assert (content["agent_gateways"], content["floating_ips"]) == (1, 1)


@pytest.mark.spec("L3-68")
def test_host_whose_floating_ips_are_translated_elsewhere_makes_and_reports_none(environment):
    items = (*CENTRAL, MINE, LOCAL_ONE, CENTRAL_ONE, assigned(DVR))
    found = environment(*items, agent_mode="dvr_snat", enable_inat_enat=True)
    found.ready()
    assert found.machine.present.keys() == {RouterKey(DVR.id)}
    assert not found.asked(EnsureGatewayPort)
    assert found.report(LOCAL_ONE) is found.report(CENTRAL_ONE) is None
    content = found.agent.heartbeat(start=True).agent.configurations.content()
    assert content["enable_inat_enat"] is True
    assert (content["agent_gateways"], content["floating_ips"]) == (0, 0)


@pytest.mark.spec("L3-65", "L3-41")
def test_role_is_reported_by_the_hosts_of_the_central_part_only(environment):
    both = Binding(hosts={HERE, THERE})
    ha = (
        evolve(DVR, ha=True, vrid=7, revision=3), evolve(OUT_HERE, binding=both),
        evolve(SG_HERE, binding=both), HA_NETWORK, HA_SUBNET, ha_port(DVR, THERE, 2),
    )  # fmt: skip
    found = environment(*ROUTER, *ha, ha_port(DVR, HERE, 1), assigned(DVR), agent_mode="dvr_snat")
    found.ready()
    found.turn(2.0)
    assert found.source.roles(ref(DVR)) == {HERE: HaRole.STANDBY}
    found.router.change_role(DVR.id, HaRole.ACTIVE)
    found.turn(2.0)
    assert found.source.roles(ref(DVR)) == {HERE: HaRole.ACTIVE}
    away = Binding(hosts={THERE, "third"})
    out, central = evolve(OUT_HERE, binding=away), evolve(SG_HERE, binding=away)
    compute = environment(*ROUTER, ha[0], out, central, *ha[3:], MINE)
    compute.ready()
    compute.turn(2.0)
    assert parts(compute) == {RouterPart.LOCAL}
    assert compute.source.roles(ref(DVR)) == {}
