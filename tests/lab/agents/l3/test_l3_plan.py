"""``netfw plan --agent l3``: what the L3 agent would do."""

import pytest

from netfw.cli.commands.plan import CHANGES
from netfw.testing.lab.wait import wait_until
from tests.lab.agents.l3.environment import ROUTER, SHARED_ADDRESS, SHARED_IP


@pytest.mark.spec("L3-07")
def test_plan_has_port_forwardings_before_the_agent_and_nothing_after_it(site):
    site.add_port_forwarding()
    plan = site.plan()
    assert plan.status == CHANGES, plan.output
    assert f"{SHARED_ADDRESS}/32" in plan.output
    assert "put IPv4 nat chain port_forwarding-PRE: 1 rule" in plan.output
    assert f"the operations for router {ROUTER} above" in plan.output
    site.start()
    wait_until(lambda: site.reported().get(SHARED_IP) == "ACTIVE", site.reported)
    plan = site.plan()
    assert plan.status == 0, plan.output
