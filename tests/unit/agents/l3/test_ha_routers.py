"""The L3 agent and highly available routers: desired state, roles, statuses, metadata."""

from ipaddress import ip_address, ip_interface

import pytest
from attrs import evolve

from netfw.agents.l3.desired import DesiredL3
from netfw.agents.l3.extensions import RouterExtensions
from netfw.agents.l3.resource_index import L3ResourceIndex
from netfw.agents.l3.router_parts import L3HostContext, NotOnHost
from netfw.cli.commands.plan import plans_in_turn
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.values.events import KeysChanged
from netfw.drivers.values.keys import RouterKey
from netfw.drivers.values.reports import RoleReport
from netfw.drivers.values.router_values import MAX_HA_PEERS
from netfw.errors import BackendUnavailable
from netfw.model.binding import Binding
from netfw.model.resource import ref
from netfw.model.router import HaRole
from netfw.model.values.device_owner import DeviceOwner
from tests.unit.agents.l2.environment import learn
from tests.unit.agents.l3.environment import (
    EDGE,
    EDGE_BLUE,
    EDGE_OUT,
    HA_NETWORK,
    HA_SUBNET,
    HERE,
    INNER,
    THERE,
    assigned,
    environments,
    floating_ip,
    ha_port,
)
from tests.unit.agents.l3.test_router_state import RESOURCES

HA_EDGE = evolve(EDGE, ha=True, vrid=7, revision=2)
BOTH = Binding(hosts={HERE, THERE})
PORTS = (
    evolve(EDGE_BLUE, binding=BOTH, device_owner=DeviceOwner.HA_ROUTER_REPLICATED_INTERFACE),
    evolve(EDGE_OUT, binding=BOTH),
)
OWN, OTHER = ha_port(EDGE, HERE, 1), ha_port(EDGE, THERE, 2)
ONE = floating_ip(20, EDGE)
HA = (HA_EDGE, *PORTS, OWN, OTHER, HA_NETWORK, HA_SUBNET)
ACTIVE, STANDBY = HaRole.ACTIVE, HaRole.STANDBY


def state(*resources, **context):
    made = DesiredL3(
        L3HostContext(host=HERE, **{"supports_ha": True, **context}),
        L3ResourceIndex(),
        RouterExtensions([]),
    )
    learn(made, [*RESOURCES, *resources])
    return made.value(RouterKey(EDGE.id))


@pytest.fixture
def environment():
    with environments() as make:
        yield lambda *more, **options: make(*HA, ONE, *more, **options)


def roles(found):
    return found.source.roles(ref(EDGE))


def sent_roles(found):
    """Record the role reports from now on."""
    sent, report = [], found.source.report

    def record(reports):
        sent.extend(each for each in reports if isinstance(each, RoleReport))
        return report(reports)

    found.source.report = record
    return sent


@pytest.mark.spec("L3-40")
def test_ha_router_has_the_port_of_this_host_and_the_addresses_of_the_others():
    full = state(*HA, ha_priority=60).full
    assert (full.ha.port.id, full.ha.vrid, full.ha.priority) == (OWN.id, 7, 60)
    assert full.ha.port.addresses == (ip_interface("169.254.192.1/18"),)
    assert full.ha.peers == (ip_address("169.254.192.2"),)
    assert [port.id for port in full.interfaces] == [EDGE_BLUE.id], "no interface on the HA network"
    assert full.gateway.port.id == EDGE_OUT.id


@pytest.mark.spec("L3-40")
@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        (OWN, "the router has no HA port for this host yet"),
        (HA_NETWORK, f"HA port {OWN.id} of the router has no network yet"),
        (HA_SUBNET, f"HA port {OWN.id} of the router has no address yet"),
    ],
)
def test_ha_router_waits_for_its_port(missing, reason):
    found = state(*(each for each in HA if each is not missing))
    assert (found.reason, found.waits, found.refused) == (reason, True, False)


def test_ha_router_waits_for_its_virtual_router_id():
    found = state(*HA, evolve(HA_EDGE, vrid=None))
    assert (isinstance(found, NotOnHost), found.waits) == (True, True)
    assert "virtual router id" in found.reason


def test_ha_router_on_too_many_hosts_is_refused():
    others = [
        evolve(
            ha_port(EDGE, f"host{n}", 1 + n % 250),
            id=type(OWN.id)(int=n + 1),
            fixed_ips=evolve_address(n),
        )
        for n in range(MAX_HA_PEERS + 1)
    ]
    found = state(*(each for each in HA if each is not OTHER), *others)
    assert found.refused
    assert "max_l3_agents_per_router" in found.reason


def evolve_address(number):
    (fixed,) = OWN.fixed_ips
    return (evolve(fixed, address=ip_address("169.254.193.0") + number),)


def test_plain_router_ignores_ports_on_an_ha_network():
    assert state(*HA, EDGE).full.ha is None


def test_driver_without_ha_refuses_the_router(environment):
    with environments() as make:
        found = make(*HA)
        found.router.CAPABILITIES = (HostCapability.PLAN, HostCapability.WATCH)
        found.begin()
        status = found.until(lambda status: status.degraded)
        assert "the router driver of this host does not have" in str(status.degraded)
        assert found.router.routers().keys() == {INNER.id}


@pytest.mark.spec("L3-40")
def test_router_without_an_ha_port_waits_and_is_made_with_it(environment):
    found = environment()
    found.source.remove(ref(OWN))
    status = found.until(lambda status: found.report(HA_EDGE) is not None)
    assert "no HA port for this host" in status.waiting[f"router {EDGE.id}"]
    assert found.report(HA_EDGE)[0] == "BUILD"
    assert found.router.routers().keys() == {INNER.id}
    found.source.put(OWN)
    found.ready()
    assert found.report(HA_EDGE) == ("ACTIVE", "")


@pytest.mark.spec("L3-40")
def test_router_whose_ha_port_is_not_wired_waits(environment):
    found = environment()
    found.router.unwired.add(OWN.id)
    status = found.until(lambda status: found.report(HA_EDGE) is not None)
    assert status.waiting[f"router {EDGE.id}"] == (f"the switch has not admitted port {OWN.id} yet")
    assert found.report(HA_EDGE)[0] == "BUILD"
    found.router.unwired.clear()
    found.machine.notify(KeysChanged("wiring", {RouterKey(EDGE.id)}))
    found.ready()
    assert found.report(HA_EDGE) == ("ACTIVE", "")


@pytest.mark.spec("L3-41")
def test_role_is_reported_after_the_interval_and_then_each_change(environment):
    found = environment()
    found.ready()
    assert roles(found) == {}
    found.turn(2.0)
    assert roles(found) == {HERE: STANDBY}
    found.router.change_role(EDGE.id, ACTIVE)
    found.turn(1.0)
    assert roles(found) == {HERE: STANDBY}
    assert found.loop._pause() <= 1.0, "the loop wakes for the batch"
    status = found.turn(1.0)
    assert roles(found) == {HERE: ACTIVE}
    assert (status.counts["ha_routers"], status.counts["active_ha_routers"]) == (1, 1)


@pytest.mark.spec("L3-41")
def test_role_is_recorded_before_the_loop_wakes_for_it(environment):
    # Otherwise the loop finds nothing due, and sleeps until its next heartbeat.
    found = environment()
    found.ready()
    found.turn(2.0)
    delays = []

    def wake(event):
        delays.append(found.agent.report_delay())

    found.router.machine.sinks.clear()
    found.agent.watch(wake)
    found.router.change_role(EDGE.id, ACTIVE)
    assert delays == [2.0]


@pytest.mark.spec("L3-41")
def test_role_survives_a_restart_of_the_agent(environment):
    found = environment()
    found.router.roles[EDGE.id] = ACTIVE
    found.ready()
    found.turn(2.0)
    calls = len(found.router.calls)
    found.agent.close()
    found.begin()
    found.ready()
    found.turn(2.0)
    assert roles(found) == {HERE: ACTIVE}
    assert len(found.router.calls) > calls


@pytest.mark.spec("L3-41")
def test_role_that_changes_while_the_source_is_away_arrives_afterwards(environment):
    found = environment()
    found.ready()
    found.turn(2.0)
    report = found.source.report

    def refuse(reports):
        raise BackendUnavailable("the source does not answer")

    found.source.report = refuse
    for role in (ACTIVE, STANDBY, ACTIVE):
        found.router.change_role(EDGE.id, role)
        found.turn(2.0)
    assert roles(found) == {HERE: STANDBY}
    assert found.turn(8.0).unsent == 1, "the latest report alone is kept"
    found.source.report = report
    found.turn(8.0)
    assert roles(found) == {HERE: ACTIVE}


@pytest.mark.spec("L3-42")
def test_all_roles_are_reported_again_with_a_resync(environment):
    found = environment()
    found.ready()
    found.turn(2.0)
    sent = sent_roles(found)
    found.turn(2.0)
    assert not sent
    found.loop.resync()
    found.ready()
    assert [each.role for each in sent] == [STANDBY]


@pytest.mark.spec("L3-42")
@pytest.mark.parametrize("revision", [2, 3])
def test_role_is_reported_again_after_the_source_took_the_router_away(environment, revision):
    # The source has discarded the role and delivers the router: the agent does not see that.
    found = environment()
    found.ready()
    found.turn(2.0)
    found.source.remove(assigned(EDGE))
    found.source.put(evolve(HA_EDGE, name="renamed" * (revision - 2), revision=revision))
    found.source.put(assigned(EDGE))
    assert roles(found) == {}
    found.ready()
    assert roles(found) == {HERE: STANDBY}


@pytest.mark.spec("L3-41", "MD-03")
def test_standby_has_its_proxy_and_reports_its_floating_ips_as_active(environment):
    found = environment()
    found.ready()
    assert found.router.status(EDGE.id).role is STANDBY
    assert RouterKey(EDGE.id) in found.metadata.machine.present
    assert (found.report(HA_EDGE), found.report(ONE)) == (("ACTIVE", ""), ("ACTIVE", ""))
    calls = len(found.router.calls)
    found.router.change_role(EDGE.id, ACTIVE)
    found.ready()
    assert len(found.router.calls) == calls, "a failover needs no work of the agent"
    found.router.change_role(EDGE.id, STANDBY)
    found.ready()
    assert len(found.router.calls) == calls + 1, "what a killed process left behind is removed"


def test_router_that_is_plain_again_has_no_role(environment):
    found = environment()
    found.ready()
    found.turn(2.0)
    plain = evolve(HA_EDGE, ha=False, vrid=None, revision=3)
    found.source.put(plain)
    found.ready()
    status = found.turn(2.0)
    assert found.router.routers()[EDGE.id].full.ha is None
    assert (status.counts["ha_routers"], status.counts["active_ha_routers"]) == (0, 0)
    assert found.report(plain) == ("ACTIVE", "")


@pytest.mark.spec("L3-07")
def test_plan_shows_virtual_router_id_and_role(environment):
    found = environment()
    found.ready()
    found.router.change_role(EDGE.id, ACTIVE)
    plan = plans_in_turn(found.agent.everything())["router"]
    assert not plan
    assert list(plan.lines()) == [
        f"note: router {EDGE.id}: highly available, vrid 7, priority 200: active"
    ]
    found.source.remove(ref(OWN))
    found.until(lambda status: status.waiting)
    plan = plans_in_turn(found.agent.everything())["router"]
    assert "no HA port" in plan.waiting[RouterKey(EDGE.id)]


@pytest.mark.spec("L3-41")
def test_ports_that_follow_the_active_host_cause_no_work(environment):
    found = environment()
    found.ready()
    calls = len(found.router.calls)
    for port in PORTS:
        found.source.put(evolve(port, binding=evolve(BOTH, host=THERE), revision=2))
    found.ready()
    assert len(found.router.calls) == calls
