"""What an agent says is for people: sentences, names and numbers, no internals."""

import json
from contextlib import closing
from ipaddress import IPv4Address, ip_network
from uuid import UUID

import pytest
from attrs import evolve

from netfw.agents.common.agent import Counts
from netfw.agents.common.embed import run_in_thread
from netfw.agents.common.loop import Loop
from netfw.agents.l2.agent import L2Agent, L2AgentConfig
from netfw.drivers.firewall import Member
from netfw.drivers.values.keys import GroupKey
from netfw.drivers.values.switch_values import Endpoint, FloodKey, ForwardingKey
from netfw.model.segment import NetworkType
from netfw.model.values.address import Mac
from netfw.model.values.ids import SecurityGroupId
from netfw.state.file import FileSource
from netfw.testing.fakes.switch import FakeFirewall, FakeSwitch
from tests.unit.agents.common.environment import L2AgentEnvironment
from tests.unit.agents.l2.environment import FACTS, HERE, NET, SEGMENT, port

OPEN, SECURED = port(1, NET), port(2, NET, port_security=True)
SERVICE = port(3, NET, port_security=True, device_owner="network:dhcp")
STRANGER = port(9, NET)
TAP9 = "tap0000000006d"


def test_counts_and_keys_are_rendered_as_text():
    endpoint = Endpoint(NetworkType.VXLAN, IPv4Address("192.0.2.2"))
    assert str(Counts(added=4, waiting=1)) == "4 added, 1 waiting"
    assert str(Counts()) == "none added, updated or removed"
    assert str(FloodKey(NET.id, endpoint)) == f"flood of network {NET.id} to vxlan 192.0.2.2"
    message = f"forwarding to fa:16:3e:00:00:01 of network {NET.id}"
    assert str(ForwardingKey(NET.id, OPEN.mac)) == message


@pytest.mark.parametrize("firewall", [None, FakeFirewall()])
def test_unfiltered_ports_are_logged_once_and_kept_in_status(firewall, caplog):
    env = L2AgentEnvironment(NET, SEGMENT, OPEN, SECURED, SERVICE, firewall=firewall)
    for each in (OPEN, SERVICE):
        env.switch.plug(each.id, quiet=True)
    assert env.turn().warnings == {}  # nobody would filter these anyway
    env.switch.plug(SECURED.id)
    reported = {
        "no firewall_driver": "security groups of 1 port are not enforced; "
        "set firewall_driver of [agent]"
    }
    assert env.turn().warnings == ({} if firewall else reported)
    assert env.status.ready
    env.source.put(evolve(OPEN, port_security=True, revision=2))
    assert ("of 2 ports" in str(env.turn().warnings)) == (firewall is None)
    warnings = [each for each in caplog.records if "not enforced" in each.getMessage()]
    assert len(warnings) == (firewall is None)
    env.switch.unplug(SECURED.id)
    env.source.put(evolve(OPEN, port_security=False, revision=3))
    assert env.turn().warnings == {}


def test_ports_without_port_security_beside_other_projects_are_warned_of(caplog):
    open_, secured = evolve(OPEN, project_id="a"), evolve(SECURED, project_id="b")
    env = L2AgentEnvironment(NET, SEGMENT, open_, secured, SERVICE, firewall=FakeFirewall())
    for each in (secured, SERVICE):
        env.switch.plug(each.id, quiet=True)
    assert env.turn().warnings == {}
    env.switch.plug(open_.id)
    (warning,) = env.turn().warnings.items()
    assert warning[0] == "port_security"
    assert str(NET.id) in warning[1]
    assert warning[1] in caplog.text
    env.source.put(evolve(secured, project_id="a", revision=2))
    assert env.turn().warnings == {}, "a project has only itself to fear"
    env.source.put(evolve(secured, revision=3))
    assert env.turn().warnings
    env.switch.unplug(open_.id)
    assert env.turn().warnings == {}


def test_unbound_devices_are_named(caplog):
    env = L2AgentEnvironment(NET, SEGMENT, OPEN)
    env.switch.plug(OPEN.id, quiet=True)
    env.switch.plug(STRANGER.id, quiet=True)
    env.source.away = True
    assert env.turn().warnings == {}  # nobody knows yet who is bound where
    env.source.away = False
    message = f"plugged, but not bound to this host, and therefore dead: {TAP9}"
    assert env.turn(5).warnings == {"unbound_devices": message}
    assert message in caplog.text
    env.source.put(STRANGER)
    assert env.turn().warnings == {}


def test_many_unbound_devices_are_counted():
    env = L2AgentEnvironment(NET, SEGMENT)
    for number in range(25):
        env.switch.plug(port(number, NET).id, quiet=True)
    assert env.turn().warnings["unbound_devices"].endswith(" and 5 more")


@pytest.mark.spec("DRV-21", "L2-43")
def test_topology_errors_are_errors_of_an_agent_that_stays_ready(tmp_path):
    path = tmp_path / "net.json"
    good = {"networks": [{"name": "n", "network_type": "local"}]}
    path.write_text(json.dumps(good))
    source = FileSource(path, poll=0.05)
    agent = L2Agent(L2AgentConfig(host=HERE), FakeSwitch(FACTS))
    with closing(source), run_in_thread(Loop(source, agent)) as loop:
        assert loop.wait_for(lambda status: status.ready and not status.errors, 10)
        path.write_text(json.dumps({"network": []}))
        assert loop.wait_for(lambda status: bool(status.errors), 10)
        (reported,) = loop.status.errors.items()
        assert reported[0] == "the source"
        assert "net.json:1: network: there is no such section" in reported[1]
        assert loop.status.ready
        path.write_text(json.dumps(good))
        assert loop.wait_for(lambda status: not status.errors, 10)


def test_member_of_a_group_is_rendered_as_text():
    group = GroupKey(SecurityGroupId(UUID(int=1)))
    plain = Member(group=group, prefix=ip_network("10.0.0.1"))
    behind = Member(group=group, prefix=ip_network("10.0.0.1"), mac=Mac("fa:16:3e:00:00:01"))
    assert str(plain) == f"10.0.0.1/32 in {group}"
    assert str(behind) == f"10.0.0.1/32 in {group} as fa:16:3e:00:00:01"
