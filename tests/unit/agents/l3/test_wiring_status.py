"""Statuses of routers and floating IPs follow the wiring of their ports."""

from ipaddress import ip_interface

import pytest

from netfw.drivers.values.events import KeysChanged
from netfw.drivers.values.keys import FloatingIpKey, RouterKey
from netfw.drivers.values.router_contribution import RouterContribution
from tests.unit.agents.l3.distributed import (
    DVR,
    DVR_BLUE,
    ELSEWHERE,
    LOCAL_ONE,
    distributed_environments,
    instance,
)
from tests.unit.agents.l3.environment import (
    EDGE,
    EDGE_BLUE,
    EDGE_OUT,
    HERE,
    INNER,
    environments,
    floating_ip,
)
from tests.unit.agents.l3.test_extensions import Counting

ONE, FORWARDED = floating_ip(20, EDGE), floating_ip(21, EDGE, None, port_id=None)
ACTIVE = ("ACTIVE", "")


class Forwarding(Counting):
    """Contributes the addresses of floating IPs that stand for no port."""

    def contribute(self, key, value, grant):
        addresses = [each.address for each in value.related if each.fixed_address is None]
        return RouterContribution(owner=self.owner, addresses=tuple(map(ip_interface, addresses)))


@pytest.fixture
def environment():
    with environments() as make:
        yield lambda *unwired: _make(make, unwired)


def _make(make, unwired):
    found = make(ONE, FORWARDED, extensions=[Forwarding()])
    found.router.unwired.update(each.id for each in unwired)
    return found


def statuses(found):
    reports = found.report(EDGE), found.report(ONE), found.report(FORWARDED)
    return [None if report is None else report[0] for report in reports]


def change_wiring(found, *unwired):
    """Wire all but these, and send the event of the driver."""
    found.router.unwired = {each.id for each in unwired}
    keys = {RouterKey(EDGE.id), FloatingIpKey(ONE.id)}
    found.machine.notify(KeysChanged("wiring", keys))


@pytest.mark.spec("L3-10")
def test_router_and_all_its_floating_ips_wait_until_the_gateway_is_wired(environment):
    found = environment(EDGE_OUT)
    status = found.until(lambda status: statuses(found) == ["BUILD", "DOWN", "DOWN"])
    assert f"port {EDGE_OUT.id}" in status.waiting[f"router {EDGE.id}"]
    assert "has not admitted the gateway" in found.report(FORWARDED)[1]
    assert found.report(INNER) == ACTIVE
    assert RouterKey(EDGE.id) in found.metadata.machine.present, "its proxy runs"
    change_wiring(found)
    found.ready()
    assert statuses(found) == ["ACTIVE"] * 3


@pytest.mark.spec("L3-10")
def test_gateway_that_is_unwired_later_is_reported_with_its_floating_ips(environment):
    found = environment()
    found.ready()
    assert statuses(found) == ["ACTIVE"] * 3
    change_wiring(found, EDGE_OUT)
    found.until(lambda status: statuses(found) == ["DEGRADED", "DOWN", "DOWN"])
    change_wiring(found)
    found.ready()
    assert statuses(found) == ["ACTIVE"] * 3


@pytest.mark.spec("L3-10")
def test_unwired_interface_concerns_its_router_alone(environment):
    found = environment(EDGE_BLUE)
    found.until(lambda status: statuses(found) == ["BUILD", "ACTIVE", "ACTIVE"])
    change_wiring(found)
    found.ready()
    assert found.report(EDGE) == ACTIVE


@pytest.mark.spec("L3-10", "L3-62")
def test_floating_ip_waits_for_the_local_interface_to_its_port_and_names_the_option():
    with distributed_environments() as make:
        found = make(*ELSEWHERE, instance(11, HERE), LOCAL_ONE)
        found.router.unwired.add(DVR_BLUE.id)
        found.until(lambda status: FloatingIpKey(LOCAL_ONE.id) in found.machine.present)
        status = found.until(lambda status: found.report(LOCAL_ONE) not in (None, ACTIVE))
        option = "enable_distributed_routing = true"
        waiting = status.waiting[f"router {DVR.id}"]
        assert waiting.startswith(f"the switch has not admitted port {DVR_BLUE.id} yet; ")
        assert option in waiting
        state, reason = found.report(LOCAL_ONE)
        assert state == "DOWN"
        assert option in reason
        found.router.unwired.clear()
        found.machine.notify(KeysChanged("wiring", {RouterKey(DVR.id)}))
        found.ready()
        assert found.report(LOCAL_ONE) == ACTIVE
