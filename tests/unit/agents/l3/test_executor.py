"""Jobs of routers with floating IPs whose rules extensions contribute."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from netfw.agents.common.jobs import Job
from netfw.agents.l3.executor import L3JobExecutor
from netfw.agents.l3.router_state import ContributedFloatingIp
from netfw.drivers.values.keys import FloatingIpKey, RouterKey
from netfw.errors import NetfwError, OperationRefused, PartlyInvalid
from netfw.plan import Outcome
from netfw.testing.conformance.router.factories import make_site
from netfw.testing.fakes.router import FakeRouter

SITE = make_site()
ONE, TWO = (
    FloatingIpKey(SITE.floating(n, SITE.nets[0].address(20)).key.floating_ip) for n in (1, 2)
)
CONTRIBUTED = ContributedFloatingIp(router=SITE.router, gateway_port=SITE.gateway.port.id)
REFUSED = OperationRefused({"rule": "no such target"})


class Refusing(FakeRouter):
    """A driver that refuses keys with a router, as those of its rules are."""

    def __init__(self, failed: dict[Any, NetfwError]) -> None:
        super().__init__()
        self.failed = failed

    def converge(self, update: Any) -> Outcome[Any]:
        outcome = super().converge(update)
        failed = self.failed if SITE.key in update.put else {}
        return evolve(outcome, done=outcome.done - failed.keys(), failed=failed)


def job(*keys: FloatingIpKey, router: bool = True) -> Job[Any, Any, Any]:
    put: dict[Any, Any] = dict.fromkeys(keys, CONTRIBUTED)
    return Job(group=SITE.router, put={**put, **({SITE.key: SITE.state} if router else {})})


@pytest.mark.spec("L3-30")
@pytest.mark.parametrize(
    ("failed", "expected"),
    [
        ({ONE: REFUSED}, {ONE}),
        ({RouterKey(SITE.router): REFUSED}, {ONE, TWO}),
        ({RouterKey(SITE.router): PartlyInvalid({"route": "impossible"})}, set()),
    ],
)
def test_contributed_floating_ips_fail_with_their_rules_or_their_router(
    failed: dict[Any, NetfwError], expected: set[FloatingIpKey]
) -> None:
    driver = Refusing(failed)
    executor = L3JobExecutor(driver)
    assert executor.execute(job(ONE, TWO)).failed.keys() - {SITE.key} == expected
    later = executor.execute(job(ONE, TWO, router=False))
    assert later.failed.keys() == expected, "a later job without the router"
    driver.failed = {}
    assert executor.execute(job()).ok
    assert executor.execute(job(ONE, TWO, router=False)).ok
