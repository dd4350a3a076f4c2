"""Jobs of routers with floating IPs whose rules extensions contribute."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from netfw.agents.common.jobs.jobs import Job
from netfw.agents.l3.agent_gateway_executor import AgentGatewayExecutor
from netfw.agents.l3.executor import L3JobExecutor
from netfw.agents.l3.router_state import ContributedFloatingIp
from netfw.drivers.values.keys import FloatingIpKey, RouterKey
from netfw.drivers.values.router_contribution import (
    RouterContribution,
    RouterRule,
    RuleChain,
    RuleTable,
)
from netfw.errors import NetfwError, OperationRefused, PartlyInvalid
from netfw.plan import Outcome
from netfw.state.memory_source import MemorySource
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
        failed = self.failed if SITE.key in update.put else {}
        outcome = super().converge(update.without(failed))
        return evolve(outcome, failed=failed)


def make_executor(driver: FakeRouter) -> L3JobExecutor:
    return L3JobExecutor(driver, AgentGatewayExecutor("here", MemorySource(), driver))


def job(
    *keys: FloatingIpKey, router: bool = True, rules: dict[FloatingIpKey | None, str] | None = None
) -> Job[Any, Any, Any]:
    """Return a job for floating IPs and, if so, their router with the ports that rules are for."""
    put: dict[Any, Any] = dict.fromkeys(keys, CONTRIBUTED)
    made = tuple(
        RouterRule(
            table=RuleTable.NAT,
            chain=RuleChain.PREROUTING,
            words=("--dport", port),
            floating_ip=None if key is None else key.floating_ip,
        )
        for key, port in (rules or {}).items()
    )
    state = SITE.with_state(contributions=(RouterContribution(owner="one", rules=made),)).state
    return Job(group=SITE.router, put={**put, **({SITE.key: state} if router else {})})


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
    executor = make_executor(driver)
    assert executor.execute(job(ONE, TWO)).failed.keys() - {SITE.key} == expected
    later = executor.execute(job(ONE, TWO, router=False))
    assert later.failed.keys() == expected, "a later job without the router"
    driver.failed = {}
    assert executor.execute(job()).ok
    assert executor.execute(job(ONE, TWO, router=False)).ok


@pytest.mark.spec("L3-30")
def test_a_refused_router_leaves_floating_ips_whose_rules_are_in_force() -> None:
    driver = Refusing({})
    executor = make_executor(driver)
    assert executor.execute(job(ONE, rules={ONE: "1"})).ok
    driver.failed = {SITE.key: REFUSED}
    new_rule = {None: "9"}
    outcome = executor.execute(job(ONE, TWO, rules={ONE: "1", TWO: "2", **new_rule}))
    assert outcome.failed.keys() == {SITE.key, TWO}
    assert executor.execute(job(ONE, TWO, router=False)).failed.keys() == {TWO}
    changed = executor.execute(job(ONE, rules={ONE: "3", **new_rule}))
    assert changed.failed.keys() == {SITE.key, ONE}
    assert executor.execute(job(ONE, rules={ONE: "1", **new_rule})).failed.keys() == {SITE.key}


@pytest.mark.spec("L3-30")
@pytest.mark.parametrize("gone", [True, False])
def test_rules_that_are_not_in_force_fail_with_a_refused_router(*, gone: bool) -> None:
    # The rules were refused before, or another program removed their router.
    driver = Refusing({} if gone else {ONE: REFUSED})
    executor = make_executor(driver)
    first = executor.execute(job(ONE, rules={ONE: "1"}))
    assert first.failed.keys() == (set() if gone else {ONE})
    driver.failed = {SITE.key: REFUSED}
    if gone:
        driver.machine.present.clear()
    outcome = executor.execute(job(ONE, rules={ONE: "1", None: "9"}))
    assert outcome.failed.keys() == {SITE.key, ONE}


def test_a_dropped_router_has_no_rules_in_force() -> None:
    driver = Refusing({})
    executor = make_executor(driver)
    assert executor.execute(job(ONE, rules={ONE: "1"})).ok
    assert executor.execute(Job(group=SITE.router, put={}, drop=frozenset({SITE.key}))).ok
    driver.machine.present[SITE.key] = SITE.state  # another program's, say
    driver.failed = {SITE.key: REFUSED}
    assert executor.execute(job(ONE, rules={ONE: "1"})).failed.keys() == {SITE.key, ONE}
