"""Switches in memory, empty and with a wired port."""

import pytest

from netfw.plan import Update
from tests.unit.backends.ovs.switch.plan_environment import PlanEnvironment
from tests.unit.backends.ovs.switch.samples import (
    network,
)


@pytest.fixture
def env() -> PlanEnvironment:
    return PlanEnvironment()


@pytest.fixture
def populated(env: PlanEnvironment) -> PlanEnvironment:
    """Return an environment with bridges, their links and one local network."""
    env.do(Update(put=network(1)))
    return env
