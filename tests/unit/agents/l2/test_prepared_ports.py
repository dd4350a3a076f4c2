"""What the L2 agent wants for a port that may be activated on this host, or on another one."""

from ipaddress import ip_address

import pytest
from attrs import evolve

from netfw.drivers.values.keys import GroupKey, NetworkKey, PortKey
from netfw.drivers.values.reports import StatusReport
from netfw.drivers.values.switch_values import (
    Admission,
    Endpoint,
    FloodKey,
    Forwarding,
    ForwardingKey,
)
from netfw.model.binding import Binding
from netfw.model.resource import ref
from netfw.model.security_group import SecurityGroup
from netfw.model.values.common_fields import Status
from netfw.model.values.ids import SecurityGroupId
from netfw.testing.fakes.switch import FakeFirewall
from tests.unit.agents.common.environment import L2AgentEnvironment
from tests.unit.agents.l2.environment import (
    AGENT_THERE,
    ELSEWHERE,
    HERE,
    NET,
    SEGMENT,
    THERE,
    VXLAN,
    agent,
    learn,
    port,
    segment,
    uuid,
)
from tests.unit.agents.l2.switch_samples import PORT, desired, local

AGENT_ELSEWHERE = agent(ELSEWHERE, "192.0.2.3", number=81)
AGENTS = AGENT_THERE, AGENT_ELSEWHERE
AT_THERE, AT_ELSEWHERE = (Endpoint(VXLAN, ip_address(f"192.0.2.{n}")) for n in (2, 3))
GROUP = SecurityGroup(id=SecurityGroupId(uuid(40)))


def bound(host, *prepared, of=PORT):
    return evolve(of, binding=Binding(host=host, prepared_hosts=prepared))


@pytest.mark.spec("ML2-08", "L2-12")
def test_a_device_is_dead_until_its_port_is_activated():
    made = desired(NET, SEGMENT, bound(THERE, HERE))
    assert made.values[PortKey(PORT.id)].admission is Admission.DEAD
    assert made.decision(PORT.id).reason == "it is prepared on this host, but not activated here"
    assert not made.unbound
    learn(made, [bound(HERE, THERE)])
    assert made.values[PortKey(PORT.id)].admission is Admission.LIVE
    learn(made, [bound(THERE, HERE)])  # back again
    assert made.values[PortKey(PORT.id)].admission is Admission.DEAD
    learn(made, [bound(THERE)])
    assert PortKey(PORT.id) not in made.values
    assert made.unbound == {PORT.id}


@pytest.mark.spec("ML2-08")
def test_the_network_is_there_before_the_device():
    made = desired(NET, SEGMENT, plugged=())
    learn(made, [bound(THERE, HERE)])
    assert made.values == {NetworkKey(NET.id): local(NET, SEGMENT)}
    learn(made, [segment(NET, VXLAN.VLAN, 7, "physnet2")])
    assert not made.values  # this host does not reach it
    learn(made, [SEGMENT])
    learn(made, [bound(THERE)])
    assert not made.values


@pytest.mark.spec("ML2-08", "L2-31")
def test_the_target_has_tunnels_to_the_hosts_of_the_network():
    made = desired(NET, SEGMENT, bound(THERE, HERE), *AGENTS, plugged=(), population=True)
    assert made.values.keys() == {
        NetworkKey(NET.id), AT_THERE, FloodKey(NET.id, AT_THERE), ForwardingKey(NET.id, PORT.mac)
    }  # fmt: skip


@pytest.mark.spec("ML2-08", "L2-31")
def test_activation_changes_the_endpoint_of_the_forwarding_alone():
    moving = port(2, NET)
    made = desired(NET, SEGMENT, PORT, bound(THERE, ELSEWHERE, of=moving), *AGENTS, population=True)
    key = ForwardingKey(NET.id, moving.mac)
    assert made.values[key] == Forwarding(frozenset({AT_THERE}))
    assert FloodKey(NET.id, AT_ELSEWHERE) in made.values
    made.take_changed()
    learn(made, [bound(ELSEWHERE, THERE, of=moving)])
    assert made.take_changed() == {key}
    assert made.values[key] == Forwarding(frozenset({AT_ELSEWHERE}))
    learn(made, [bound(ELSEWHERE, of=moving)])
    assert made.take_changed() == {AT_THERE, FloodKey(NET.id, AT_THERE)}


@pytest.mark.spec("ML2-08", "L2-31")
def test_the_former_host_sends_to_the_target_as_others_do():
    made = desired(NET, SEGMENT, bound(HERE, THERE), *AGENTS, population=True)
    assert FloodKey(NET.id, AT_THERE) in made.values
    assert ForwardingKey(NET.id, PORT.mac) not in made.values
    learn(made, [bound(THERE, HERE)])
    assert made.values[ForwardingKey(NET.id, PORT.mac)] == Forwarding(frozenset({AT_THERE}))


@pytest.mark.spec("ML2-08")
def test_groups_are_there_before_the_port():
    ready = evolve(bound(THERE, HERE), port_security=True, security_groups=frozenset({GROUP.id}))
    here = port(9, NET, security_groups=frozenset({GROUP.id}), port_security=True)
    env = L2AgentEnvironment(
        NET, SEGMENT, GROUP, ready, here, firewall=FakeFirewall(), population=True
    )
    env.turn()
    firewall = env.work._firewall.machine.present
    assert firewall.keys() == {GroupKey(GROUP.id)}
    env.switch.plug(PORT.id)
    env.turn()
    assert firewall.keys() == {GroupKey(GROUP.id)}
    env.source.put(evolve(ready, binding=Binding(host=HERE, prepared_hosts={THERE})))
    env.turn()
    assert firewall.keys() == {GroupKey(GROUP.id), PortKey(PORT.id)}
    assert env.switch.live() == {PORT.id}


@pytest.mark.spec("ML2-08")
def test_the_target_reports_that_it_is_ready_for_the_activation():
    env = L2AgentEnvironment(NET, SEGMENT, port(9, NET), bound(THERE, HERE), population=True)
    env.turn()
    assert not _reports(env)
    env.switch.plug(PORT.id)
    env.turn()
    assert env.status.counts["unbound_devices"] == 0
    (ready,) = _reports(env)
    assert (ready.status, ready.host, ready.reason) == (Status.ACTIVE, HERE, "")
    assert not env.switch.live() & {PORT.id}
    env.turn()
    assert _reports(env) == [ready], "it is reported once"
    env.source.put(evolve(bound(HERE, THERE), revision=PORT.revision + 1))
    env.turn()
    assert PORT.id in env.switch.live()
    assert env.source.status(ref(PORT)).status is Status.ACTIVE


@pytest.mark.spec("ML2-08")
def test_a_target_that_does_not_reach_the_network_is_not_ready():
    elsewhere = segment(NET, VXLAN.VLAN, 7, "physnet2")
    env = L2AgentEnvironment(NET, elsewhere, bound(THERE, HERE))
    env.switch.plug(PORT.id)
    env.turn()
    assert not _reports(env)


def _reports(env):
    """Return the reports about the port, in order."""
    sent = [report for report in env.source.sent if isinstance(report, StatusReport)]
    return [report for report in sent if report.ref == ref(PORT)]
