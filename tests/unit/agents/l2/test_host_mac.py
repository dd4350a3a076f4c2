"""The MAC address that the L2 agent requests for its host, and what it reports of routing."""

import pytest

from netfw.agents.common.loop import Intervals
from netfw.agents.common.retry_queue import RetryBackoff
from netfw.drivers.switch import SwitchCapability
from netfw.drivers.values.keys import HostKey, NetworkKey
from netfw.drivers.values.reports import StatusReport
from netfw.drivers.values.switch_values import HostMac
from netfw.errors import Exhausted, NotSupported
from netfw.model.resource import ref
from netfw.model.values.address import Mac
from netfw.model.values.common_fields import Status
from netfw.testing.fakes.switch import FakeSwitch
from tests.unit.agents.common.environment import L2AgentEnvironment
from tests.unit.agents.l2.environment import HERE, NET, ONE, SEGMENT, port, subnet

MAC = Mac("fa:16:3f:00:00:01")
SUBNET = subnet(NET, 70, "10.0.0.0/24")
ROUTER = "00000000-0000-0000-0000-0000000000aa"
INTERFACE = port(
    11, NET, "", device_owner="network:router_interface_distributed", device_id=ROUTER
)  # fmt: skip
ITEMS = NET, SEGMENT, SUBNET, ONE, INTERFACE
TIMING = Intervals(report=30, audit=0, pull=0, pauses=RetryBackoff(1.0, 8.0))


class RoutingSwitch(FakeSwitch):
    CAPABILITIES = (*FakeSwitch.CAPABILITIES, SwitchCapability.DISTRIBUTED)


def environment(*items, mac, distributed=True, **options):
    env = L2AgentEnvironment(
        *items,
        switch=RoutingSwitch,
        distributed=distributed,
        population=True,
        timing=TIMING,
        **options,
    )
    env.source.host_mac = mac
    return env


def reported(env):
    content = env.source.heartbeats()[-1].agent.configurations.content()
    return content["routing_mac"], content["in_distributed_mode"]


@pytest.mark.spec("L2-07", "L2-60")
def test_the_first_report_has_the_mac_of_the_host():
    env = environment(*ITEMS, mac=MAC)
    env.turn()
    assert reported(env) == (MAC, True)
    assert env.source.heartbeats()[-1].agent.routing_mac == MAC
    env.turn()
    assert env.machine.present[HostKey(HERE)] == HostMac(MAC, own=True)
    assert env.machine.present[NetworkKey(NET.id)].router_interfaces
    assert env.status.ready


@pytest.mark.spec("L2-07", "L2-60")
@pytest.mark.parametrize(
    "refusal", [NotSupported("not by this source"), Exhausted("no address is left")]
)
def test_a_source_without_a_mac_is_asked_again_and_ports_do_not_wait(refusal):
    env = environment(*ITEMS, mac=refusal)
    env.switch.plug(ONE.id)
    env.turn()
    assert env.switch.live() == {ONE.id}
    assert env.source.status(ref(ONE)).status is Status.ACTIVE
    assert reported(env) == (None, False)
    assert env.status.degraded == {f"host {HERE}": str(refusal)}
    env.source.host_mac = MAC
    env.turn(after=2)
    env.turn()
    assert env.machine.present[HostKey(HERE)] == HostMac(MAC, own=True)
    assert env.status.ready
    env.turn(after=30)
    assert reported(env) == (MAC, True)


@pytest.mark.spec("L2-60")
def test_ports_do_not_wait_for_a_source_that_is_away_either():
    env = environment(*ITEMS, mac=MAC)
    env.turn()
    env.turn()
    env.loop.resync()
    env.turn()
    env.source.away = True
    env.switch.plug(ONE.id)
    env.turn()
    assert env.switch.live() == {ONE.id}
    assert env.machine.present[HostKey(HERE)] == HostMac(MAC, own=True)


@pytest.mark.spec("L2-60")
def test_a_restored_source_may_have_another_mac():
    env = environment(*ITEMS, mac=MAC)
    env.turn()
    env.turn()
    env.source.host_mac = Mac("fa:16:3f:00:00:02")
    env.source.restore(*ITEMS)
    env.turn()
    env.turn()
    assert env.machine.present[HostKey(HERE)] == HostMac(env.source.host_mac, own=True)


@pytest.mark.spec("L2-60")
def test_the_interface_of_a_distributed_router_is_reported_while_it_is_plugged():
    env = environment(*ITEMS, mac=MAC)

    def statuses():
        mine = [each for each in env.source.sent if isinstance(each, StatusReport)]
        return [report.status for report in mine if report.ref == ref(INTERFACE)]

    env.turn()
    env.turn()
    assert statuses() == []  # other hosts have it
    env.switch.plug(INTERFACE.id)
    env.turn()
    assert env.switch.live() == {INTERFACE.id}
    assert statuses() == [Status.ACTIVE]
    env.loop.resync()
    env.turn()
    env.turn()
    assert statuses() == [Status.ACTIVE, Status.ACTIVE]
    env.switch.unplug(INTERFACE.id)
    env.turn()
    env.loop.resync()
    env.turn()
    env.turn()
    assert statuses() == [Status.ACTIVE, Status.ACTIVE, Status.DOWN]


@pytest.mark.spec("L2-60")
def test_a_host_that_does_not_route_requests_nothing():
    env = L2AgentEnvironment(*ITEMS, switch=RoutingSwitch)
    env.source.host_mac = AssertionError("nothing is to be requested")
    env.turn()
    assert reported(env) == (None, False)
    assert HostKey(HERE) not in env.machine.present


@pytest.mark.spec("L2-60")
def test_an_interface_on_a_host_without_distributed_routing_names_the_option(caplog):
    env = environment(*ITEMS, mac=MAC, distributed=False)
    env.switch.plug(ONE.id)
    env.switch.plug(INTERFACE.id)
    env.turn()
    advice = "set enable_distributed_routing = true in [agent]"
    assert env.switch.live() == {ONE.id}
    assert env.status.degraded.keys() == {f"port {INTERFACE.id}"}
    assert advice in env.status.degraded[f"port {INTERFACE.id}"]
    assert "unbound_devices" not in env.status.warnings
    assert any(
        advice in record.getMessage() for record in caplog.records if record.levelname == "WARNING"
    )
    (report,) = (
        each
        for each in env.source.sent
        if isinstance(each, StatusReport) and each.ref == ref(INTERFACE)
    )
    assert report.status is Status.DEGRADED
    assert advice in report.reason, "the API has it in status_reason of the port"
