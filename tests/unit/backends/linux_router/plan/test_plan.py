"""Plans of routers and floating IPs."""

from __future__ import annotations

from ipaddress import ip_address, ip_interface
from uuid import UUID, uuid4

import pytest
from attrs import evolve

from netfw.drivers.values.router_contribution import (
    AddressQos,
    RouterContribution,
    RouterRule,
    RuleChain,
    RuleTable,
)
from netfw.drivers.values.router_values import (
    RouterPart,
)
from netfw.errors import Conflict, InvalidInput, NotSupported, PartlyInvalid
from netfw.linux.iptables.chain import ChainKey
from netfw.linux.iptables.operations import PutChain
from netfw.linux.iptables.rule import Family
from netfw.linux.service_netns.steps import ChangeNetwork, RemoveConnections, RestoreTables
from netfw.linux.service_netns.values import ObservedNetns
from netfw.model.qos import DscpMarking
from netfw.model.values.ids import FloatingIpId, QosRuleId
from netfw.model.values.route import Route
from netfw.plan import Plan, Update
from netfw_drivers.linux_router.plan.floating_ip_rules import Translation
from netfw_drivers.linux_router.plan.names import router_namespace
from netfw_drivers.linux_router.plan.observed import FoundRouter, ObservedRouters
from netfw_drivers.linux_router.plan.plan import NO_GATEWAY, plan_routers
from netfw_drivers.linux_router.plan.translation_index import TranslationIndex
from tests.unit.backends.linux_router.samples import (
    CONTEXT,
    FIPS,
    GATEWAY,
    INSIDE,
    KEY,
    OTHER_ROUTER,
    OUTSIDE,
    PORTS,
    ROUTER,
    STATE,
    fip,
    found,
    nat,
    port,
    state,
    translation,
)


def plan(update: Update, there: FoundRouter | None = None) -> Plan:
    routers = {} if there is None else {ROUTER: there}
    return plan_routers(update, ObservedRouters(routers=routers), CONTEXT)


def steps(planned: Plan) -> list[object]:
    return [operation.payload for operation in planned]


def kinds(planned: Plan) -> list[str]:
    return [type(step).__name__ for step in steps(planned)]


ENDED = ChainKey(family=Family.IPV4, table="nat", name="ended")
REMOVAL = ["RestoreTables", "ChangeNetwork", "RemoveConnections", "RestoreTables"]
ENDING = ("RemoveConnections", "RestoreTables")
HAS: dict[FloatingIpId, Translation] = {FIPS[0]: translation()}


def test_rules_in_force_tell_the_floating_ips() -> None:
    own = {**HAS, FIPS[1]: translation("fd00::9", "2001:db8::9")}
    assert found(translations=own).translations == own
    assert TranslationIndex().advance({}).translations == {}


@pytest.mark.spec("L3-24")
def test_the_rules_of_a_floating_ip_come_before_its_address() -> None:
    planned = plan(Update(put={fip(): nat()}), found(floating=()))
    assert kinds(planned) == ["RestoreTables", "ChangeNetwork"]
    assert all(operation.owners == {fip()} for operation in planned)
    assert not planned.waiting


@pytest.mark.spec("L3-24")
def test_a_floating_ip_that_is_there_needs_nothing() -> None:
    planned = plan(Update(put={fip(): nat()}), found(translations=HAS))
    assert not planned


@pytest.mark.spec("L3-24")
def test_a_dropped_floating_ip_loses_address_rules_and_connections() -> None:
    planned = plan(Update(drop={fip()}), found(translations=HAS))
    assert kinds(planned) == REMOVAL
    assert all(operation.owners == {fip()} for operation in planned)
    whole = plan(Update(put={KEY: STATE}, drop={fip()}), found(translations=HAS))
    forgotten = [each.forget for each in steps(whole) if isinstance(each, ChangeNetwork)]
    assert ip_address("203.0.113.9") in forgotten


@pytest.mark.spec("L3-24")
def test_the_connections_of_a_moved_floating_ip_are_recorded_until_they_have_ended() -> None:
    update = Update(put={fip(): nat("10.0.0.10")})
    planned = plan(update, found(translations=HAS))
    assert kinds(planned) == ["RestoreTables", "RemoveConnections", "RestoreTables"]
    there = found(translations={FIPS[0]: translation("10.0.0.10")})
    there.mirror.chains[ENDED] = ("-d 203.0.113.9/32 -j RETURN",)
    for each in (update, Update(put={KEY: STATE, fip(): nat("10.0.0.10")})):
        rest = [step for step in kinds(plan(each, there)) if step in ENDING]
        assert rest[-2:] == ["RemoveConnections", "RestoreTables"]


def test_an_address_without_rules_may_have_connections_left() -> None:
    # A driver that was killed while it removed a floating IP leaves this state.
    planned = plan(Update(put={fip(): nat()}), found())
    assert kinds(planned) == ["RestoreTables", "RemoveConnections", "RestoreTables"]
    assert isinstance(steps(planned)[1], RemoveConnections)


@pytest.mark.spec("L3-80")
def test_a_floating_ip_that_gets_port_forwardings_instead_of_a_port_ends_its_connections() -> None:
    words = "-d 203.0.113.9/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.0.0.9"
    rule = RouterRule(table=RuleTable.NAT, chain=RuleChain.PREROUTING, words=tuple(words.split()))
    contribution = RouterContribution(
        owner="forward", rules=(rule,), addresses=(ip_interface("203.0.113.9/32"),)
    )
    router = evolve(STATE, contributions=(contribution,))
    planned = plan(Update(put={KEY: router}, drop={fip()}), found(translations=HAS))
    ended = [step for step in steps(planned) if isinstance(step, RemoveConnections)]
    assert ended == [RemoveConnections(router_namespace(ROUTER), ip_address("203.0.113.9"))]


@pytest.mark.spec("L3-22")
def test_connections_of_snat_end_when_it_is_disabled() -> None:
    without = state(INSIDE, gateway=evolve(GATEWAY, snat=False))
    for there, wanted, ended in ((STATE, without, 1), (without, STATE, 0), (STATE, STATE, 0)):
        planned = plan(Update(put={KEY: wanted}), found(there, floating=()))
        assert kinds(planned).count("RemoveConnections") == ended


def test_a_floating_ip_with_another_address_leaves_the_former_one() -> None:
    planned = plan(Update(put={fip(): nat(floating="203.0.113.10")}), found(translations=HAS))
    assert kinds(planned) == [*REMOVAL, "ChangeNetwork"]


def test_an_address_that_another_floating_ip_takes_over_loses_its_connections() -> None:
    successor = Update(put={fip(1): nat("10.0.0.10")}, drop={fip()})
    planned = plan(successor, found(translations=HAS))
    assert kinds(planned) == ["RestoreTables", "RemoveConnections", "RestoreTables"]
    same = Update(put={fip(1): nat()}, drop={fip()})
    assert kinds(plan(same, found(translations=HAS))) == ["RestoreTables"]


def test_a_router_whose_namespace_is_gone_loses_its_known_ports() -> None:
    gone = ObservedNetns(netns=router_namespace(ROUTER), present=frozenset(PORTS))
    there = FoundRouter(netns=gone, ports=frozenset({PORTS[0]}))
    assert [type(step).__name__ for step in steps(plan(Update(drop={KEY}), there))] == ["Unplug"]


def test_other_floating_ips_stay_unless_the_update_is_complete() -> None:
    there = found(translations=HAS)
    assert not plan(Update(drop={fip(1)}), there)
    assert not plan(Update(complete=True, keep={KEY, fip()}), there)
    assert kinds(plan(Update(complete=True, keep={KEY}), there))[0] == "RestoreTables"


def test_a_floating_ip_of_a_router_without_gateway_waits() -> None:
    for there in (None, found(state(INSIDE, gateway=None), floating=())):
        planned = plan(Update(put={fip(): nat()}), there)
        assert planned.waiting == {fip(): NO_GATEWAY}
        assert not planned


def test_a_floating_ip_of_a_family_that_the_gateway_lacks_waits() -> None:
    only4 = evolve(GATEWAY, port=port(2, "203.0.113.5/24"))
    update = Update(
        put={
            KEY: state(INSIDE, gateway=only4),
            fip(): nat("fd00::9", "2001:db8::9"),
            fip(1): nat(),
        }
    )
    assert plan(update).waiting == {fip(): NO_GATEWAY}


def test_a_dropped_router_has_its_floating_ips_wait() -> None:
    planned = plan(Update(put={fip(): nat()}, drop={KEY}), found(translations=HAS))
    assert planned.waiting == {fip(): NO_GATEWAY}
    assert kinds(planned)[-1] == "DeleteNamespace"


def test_two_floating_ips_with_one_address_conflict() -> None:
    planned = plan(Update(put={fip(1): nat("10.0.0.7")}), found(translations=HAS))
    assert isinstance(planned.refused[fip(1)], Conflict)
    assert not planned


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_an_address_changes_hands_in_one_update(order: tuple[int, int]) -> None:
    values = nat(floating="203.0.113.10"), nat("10.0.0.7")
    put = {fip(number): values[number] for number in order}
    assert not plan(Update(put=put), found(translations=HAS)).refused


def test_a_floating_ip_leaves_its_former_router_first() -> None:
    moved = nat(router=OTHER_ROUTER)
    there = {ROUTER: found(translations=HAS), OTHER_ROUTER: found(floating=())}
    planned = plan_routers(Update(put={fip(): moved}), ObservedRouters(routers=there), CONTEXT)
    assert kinds(planned) == [*REMOVAL, "RestoreTables", "ChangeNetwork"]


@pytest.mark.spec("L3-20", "L3-30")
def test_a_new_router_is_one_restore() -> None:
    planned = plan(Update(put={KEY: STATE, fip(): nat()}))
    assert kinds(planned).count("RestoreTables") == 1
    assert kinds(planned)[0] == "MakeNamespace"
    (restore,) = [step for step in steps(planned) if isinstance(step, RestoreTables)]
    assert {change.table for change in restore.changes} == {"mangle", "nat"}


def test_parts_and_features_that_the_driver_lacks_are_refused() -> None:
    rule = DscpMarking(id=QosRuleId(uuid4()), dscp_mark=8)
    address = OUTSIDE.addresses[0].ip
    qos = RouterContribution(owner="limits", qos=(AddressQos(address=address, rules=(rule,)),))
    wrong = nat("fd00::9", "2001:db8::9", part=RouterPart.LOCAL)
    assert isinstance(plan(Update(put={fip(): wrong})).refused[fip()], NotSupported)
    assert STATE.full is not None
    limited = evolve(STATE, contributions=(qos,))
    assert isinstance(plan(Update(put={KEY: limited})).refused[KEY], NotSupported)
    assert isinstance(plan(Update(put={KEY: nat()})).refused[KEY], InvalidInput)


@pytest.mark.spec("L3-25")
def test_a_route_that_cannot_be_is_left_out_and_all_else_planned() -> None:
    routes = (
        Route(destination="198.51.100.0/24", nexthop="192.0.2.1"),
        Route(destination="198.51.101.0/24", nexthop="10.0.0.7"),
    )
    planned = plan(Update(put={KEY: evolve(STATE, routes=routes), fip(): nat()}))
    error = planned.refused[KEY]
    assert isinstance(error, PartlyInvalid)
    assert error.problems.keys() == {"route to 198.51.100.0/24 via 192.0.2.1"}
    texts = [operation.text for operation in planned]
    assert any("198.51.101.0/24 via 10.0.0.7" in text for text in texts)
    assert not any("198.51.100.0/24" in text for text in texts)
    assert any("203.0.113.9/32" in text for text in texts)


@pytest.mark.spec("L3-30")
def test_rules_of_a_refused_floating_ip_stay_as_they_are() -> None:
    rules = tuple(
        RouterRule(
            table=RuleTable.NAT,
            chain=RuleChain.PREROUTING,
            words=("-d", "203.0.113.60/32", "-j", word),
            floating_ip=owner,
        )
        for word, owner in (("ONE", FIPS[0]), ("TWO", FIPS[0]), ("THREE", FIPS[1]), ("FOUR", None))
    )
    contribution = RouterContribution(owner="forward", rules=rules)
    router = evolve(STATE, contributions=(contribution,))
    there = found(evolve(STATE, contributions=(evolve(contribution, rules=rules[:1]),)))
    planned = plan(Update(put={KEY: router}, keep={fip()}), there)
    (restore,) = [step for step in steps(planned) if isinstance(step, RestoreTables)]
    put = [
        operation
        for change in restore.changes
        for operation in change.operations
        if isinstance(operation, PutChain) and operation.key.name == "forward-PRE"
    ]
    assert [line.split()[-1] for line in put[0].lines] == ["ONE", "THREE", "FOUR"]
    owners = [rule.owner for rule in put[0].chain.rules]
    assert owners == [fip(), fip(1), KEY]


def test_the_same_port_twice_is_refused() -> None:
    planned = plan(Update(put={KEY: state(INSIDE, INSIDE)}))
    assert isinstance(planned.refused[KEY], InvalidInput)


def test_a_floating_ip_is_never_taken_from_another_comment() -> None:
    line = (
        f"-d 203.0.113.9/32 -m comment --comment x-{UUID(int=9)} -j DNAT --to-destination 10.0.0.9"
    )
    chains = found().mirror.chains
    dnat = next(key for key in chains if key.name == "float-dnat")
    assert TranslationIndex().advance({dnat: (line,)}).translations == {}
