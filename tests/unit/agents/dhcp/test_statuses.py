"""Statuses that the DHCP agent reports again."""

import pytest

from netfw.model.common_fields import Status
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
