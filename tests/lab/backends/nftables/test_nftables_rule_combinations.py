"""The kernel accepts every rule that the API accepts, and lists it as it was meant."""

from __future__ import annotations

import pytest

from netfw.plan import Update
from tests.lab.backends.iptables.environment import a_group_id, group
from tests.lab.backends.nftables.environment import NftablesHost
from tests.server.security_groups.rule_combinations import accepted_rules


@pytest.mark.spec("FW-15", "API-06")
@pytest.mark.parametrize("stateful", [True, False])
def test_every_rule_of_the_api_is_enforced(firewall: NftablesHost, stateful: bool) -> None:
    one, id = firewall.guest(1), a_group_id()
    state = {**one.value(id), **group(id, *accepted_rules(), stateful=stateful)}
    outcome = firewall.driver.converge(Update(put=state))
    assert outcome.ok, str(outcome)
    again = firewall.driver.plan(Update(put=state), firewall.driver.observe(None))
    assert not again.stages, str(again)
