"""Statuses that the DHCP agent reports again."""

import pytest
from attrs import evolve

from netfw.model.values.common_fields import Status
from netfw.model.values.dhcp_option import DhcpOption
from tests.unit.agents.dhcp.environment import CLOUD, NET, DhcpAgentEnvironment, assigned, port

ONE = port(11, NET)


@pytest.mark.parametrize("turns", [0, 1])
def test_port_of_a_network_that_is_put_back_is_reported_again(turns):
    env = DhcpAgentEnvironment(*CLOUD, ONE)
    env.ready()
    env.source.remove(assigned(NET))
    for _ in range(turns):
        env.turn()
    env.source.put(assigned(NET))
    env.ready()
    assert env.status_of(ONE) is Status.ACTIVE


@pytest.mark.spec("DHCP-03")
def test_port_that_is_served_without_an_option_is_active():
    bad = evolve(ONE, dhcp_options=(DhcpOption(name="mtu", value="large"),))
    env = DhcpAgentEnvironment(*CLOUD, bad)
    status = env.until(lambda status: status.degraded)
    assert "options[0].value" in status.degraded[f"port {ONE.id}"]
    assert env.status_of(ONE) is Status.ACTIVE
    env.source.put(evolve(ONE, revision=2))
    env.ready()
    assert env.status_of(ONE) is Status.ACTIVE
