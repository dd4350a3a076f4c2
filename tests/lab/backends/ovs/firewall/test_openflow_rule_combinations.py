"""A real switch accepts every rule that the API accepts, but for those that are named."""

import pytest

from netfw.drivers.support.firewall_capabilities import restrict_rules
from netfw.drivers.values.keys import GroupKey
from netfw.errors import PartlyInvalid
from netfw.plan import Update
from netfw_drivers.ovs.firewall.plan.plan import CAPABILITIES
from tests.lab.backends.ovs.firewall.environment import group, group_id, port
from tests.server.security_groups.rule_combinations import accepted_rules


@pytest.mark.spec("FW-01", "API-06")
@pytest.mark.parametrize("stateful", [True, False])
def test_every_rule_of_the_api_is_enforced_or_left_out_alone(pair, stateful):
    offered = group(1, *accepted_rules(), stateful=stateful)
    key = GroupKey(group_id(1))
    supported = restrict_rules(offered[key], CAPABILITIES)
    assert supported.left_out
    outcome = pair.firewall.converge(Update(put={**port(1, 1), **offered}))
    assert outcome.done == port(1, 1).keys(), str(outcome)
    assert isinstance(outcome.failed[key], PartlyInvalid)
    outcome = pair.firewall.converge(Update(put={key: supported.rules}))
    assert outcome.ok, str(outcome)
    observed = pair.firewall.observe(None)
    assert not pair.firewall.plan(Update(put={key: offered[key]}), observed).stages
