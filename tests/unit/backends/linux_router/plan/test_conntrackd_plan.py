"""Plans of highly available routers that share their connections by conntrackd."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from netfw.drivers.values.router_values import RouterState
from netfw.errors import NetfwError, OperationRefused, PartlyInvalid
from netfw.linux.iptables.chain import ChainKey
from netfw.linux.iptables.rule import Family, render_rule
from netfw.linux.service_netns.values import ObservedNetns
from netfw.plan import Operation, Plan, Update
from netfw_drivers.linux_router.config.conntrackd import ConntrackdSettings
from netfw_drivers.linux_router.plan.daemons.conntrackd_plan import SERVICE, make_program
from netfw_drivers.linux_router.plan.daemons.daemon_steps import DaemonStep, StopDaemon
from netfw_drivers.linux_router.plan.daemons.keepalived_plan import SERVICE as KEEPALIVED
from netfw_drivers.linux_router.plan.daemons.optional_daemons import left_out_daemons
from netfw_drivers.linux_router.plan.names import CHAIN_OWNER, router_namespace
from netfw_drivers.linux_router.plan.observed import FoundDaemon, FoundRouter, ObservedRouters
from netfw_drivers.linux_router.plan.plan import plan_routers
from tests.unit.backends.linux_router.plan.test_keepalived_plan import HA_PORT, QH, highly, running
from tests.unit.backends.linux_router.samples import CONTEXT, KEY, ROUTER, STATE, is_run

ENABLED = evolve(CONTEXT, settings=evolve(CONTEXT.settings, conntrackd=ConntrackdSettings()))
ABSENT = FoundRouter(netns=ObservedNetns(netns=router_namespace(ROUTER)))


def plan(router: RouterState | None, there: FoundRouter = ABSENT, context: Any = ENABLED) -> Plan:
    update = Update(drop=frozenset({KEY})) if router is None else Update(put={KEY: router})
    return plan_routers(update, ObservedRouters(routers={ROUTER: there}), context)


def steps(planned: Plan) -> list[Any]:
    return [each.payload for each in planned if isinstance(each.payload, DaemonStep)]


def synchronised(router: RouterState, **values: Any) -> FoundRouter:
    """Return the router with running daemons."""
    election, run = steps(plan(router))
    program = make_program(ROUTER, ENABLED.settings)
    daemon = FoundDaemon(text=run.text_of_file, digest=program.digest())
    return evolve(
        running(router, election.text_of_file), conntrackd=evolve(daemon, **values), can_elect=True
    )


def test_new_router_starts_keepalived_and_then_conntrackd():
    election, run = steps(plan(highly()))
    assert is_run(election, KEEPALIVED)
    assert is_run(run, SERVICE)
    assert run.program == make_program(ROUTER, ENABLED.settings)
    assert f"Interface {QH}" in run.text_of_file
    assert f"notify_master \"/usr/bin/timeout 10 /bin/sh -c '{' '.join(run.program.argv)} -R" in (
        election.text_of_file
    )


def test_router_that_cannot_elect_is_configured_and_not_started():
    _, run = steps(plan(highly(), evolve(ABSENT, can_elect=False)))
    assert run.program is None
    there = evolve(ABSENT, can_elect=False, conntrackd=FoundDaemon(text=run.text_of_file))
    assert [each for each in steps(plan(highly(), there)) if is_run(each, SERVICE)] == []


def test_running_conntrackd_is_left_alone_until_its_configuration_changes():
    router = highly()
    assert steps(plan(router, synchronised(router))) == []
    (run,) = steps(plan(router, synchronised(router, digest=None)))
    assert is_run(run, SERVICE)
    other = highly(port=evolve(HA_PORT, addresses=(HA_PORT.addresses[0] + 1,)))
    election, run = steps(plan(other, synchronised(router)))
    assert is_run(election, KEEPALIVED)
    assert "IPv4_interface 169.254.192.6" in run.text_of_file


def test_conntrackd_ends_with_the_option_the_role_or_the_router():
    there = synchronised(highly())
    election, stop = steps(plan(highly(), there, CONTEXT))
    assert "notify" not in election.text_of_file
    assert stop == StopDaemon(SERVICE, ROUTER)
    assert steps(plan(STATE, there)) == [
        StopDaemon(KEEPALIVED, ROUTER),
        StopDaemon(SERVICE, ROUTER),
    ]
    assert steps(plan(None, there)) == [StopDaemon(KEEPALIVED, ROUTER), StopDaemon(SERVICE, ROUTER)]
    left = evolve(ABSENT, conntrackd=FoundDaemon(remains=True))
    assert steps(plan(None, left)) == [StopDaemon(SERVICE, ROUTER)]


def test_plain_router_and_disabled_option_need_nothing():
    assert steps(plan(STATE)) == []
    (election,) = steps(plan(highly(), context=CONTEXT))
    assert is_run(election, KEEPALIVED)


def test_port_of_conntrackd_is_for_the_ha_network_only():
    key = ChainKey(family=Family.IPV4, table="mangle", name="input")

    def rules(context: Any, router: RouterState) -> list[str]:
        chain = context.desired_netns(ROUTER, router, ABSENT, {}).chains.get(key)
        return [] if chain is None else [render_rule(each, CHAIN_OWNER) for each in chain.rules]

    (rule,) = (each for each in rules(ENABLED, highly()) if "udp" in each)
    assert "! -i ha-+" in rule
    assert "--dport 3780" in rule
    assert not [each for each in rules(CONTEXT, highly()) if "udp" in each]
    assert not [each for each in rules(ENABLED, STATE) if "udp" in each]


def test_failed_daemons_leave_the_router_in_force():
    def refused(*backends: str) -> dict[Any, NetfwError]:
        every = (Operation(each, "run it", frozenset({KEY}), None) for each in backends)
        return {KEY: OperationRefused(dict.fromkeys(every, "is missing"))}

    error = left_out_daemons(refused("conntrackd"), {KEY})[KEY]
    assert isinstance(error, PartlyInvalid)
    assert str(error) == str(PartlyInvalid({"connections after a failover": "is missing"}))
    both = left_out_daemons(refused("radvd", "conntrackd"), {KEY})[KEY]
    assert "advertisements and connections after a failover" in str(both)
    assert left_out_daemons(refused("keepalived"), {KEY}) == {}
    assert left_out_daemons(refused("conntrackd"), ()) == {}
