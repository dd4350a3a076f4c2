"""An L2 agent with three plugged ports, for the tests of the loop."""

import pytest

from tests.unit.agents.common.environment import L2AgentEnvironment
from tests.unit.agents.common.loop_samples import ALL, ONE, THREE, TWO


@pytest.fixture
def env():
    env = L2AgentEnvironment(*ALL)
    for each in (ONE, TWO, THREE):
        env.switch.plug(each.id, quiet=True)
    return env
