"""Parts of distributed routers, their names, and plans of several parts."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from attrs import evolve

from netfw.drivers.values.keys import AgentGatewayKey, RouterKey
from netfw.drivers.values.router_contribution import (
    RouterContribution,
    RouterRule,
    RuleChain,
    RuleTable,
)
from netfw.drivers.values.router_values import (
    AgentGateway,
    CentralRouter,
    LocalRouter,
    RouterPart,
    RouterState,
)
from netfw.linux.router_netns.values import RouterNetns
from netfw.linux.service_netns.steps import MakeNamespace, RemoveConnections, RestoreTables
from netfw.linux.service_netns.values import ObservedNetns
from netfw.model.subnet import Ipv6Mode
from netfw.model.values.device_names import device_name
from netfw.model.values.ids import PortId
from netfw.plan import Update
from netfw_drivers.linux_router.distributed.agent_gateway import gateway_netns
from netfw_drivers.linux_router.distributed.gateway_link import GatewayLink, allocate_pair
from netfw_drivers.linux_router.distributed.router_parts import nat_part, part_states
from netfw_drivers.linux_router.plan.names import (
    CentralPart,
    link_devices,
    netns_key,
    netns_name,
    parse_namespace,
    parse_netns,
    parse_part,
)
from netfw_drivers.linux_router.plan.observed import FoundRouter, ObservedRouters
from netfw_drivers.linux_router.plan.plan import plan_routers
from tests.unit.backends.linux_router.samples import (
    CONTEXT,
    EXTERNAL,
    GATEWAY,
    KEY,
    OUTSIDE,
    ROUTER,
    STATE,
    fip,
    lines,
    nat,
    port,
    subnet,
    translation,
)

INSIDE = port(0, "fd00::1/64", subnets=(subnet("fd00::/64", Ipv6Mode.SLAAC),))
LOCAL = LocalRouter(interfaces=(INSIDE,), external_network=EXTERNAL)
CENTRAL = CentralRouter(ports=(port(1, "fd00::5/64"),), gateway=GATEWAY)
BOTH = RouterState(local=LOCAL, central=CENTRAL)
LINK = GatewayLink(router=ROUTER, network=EXTERNAL, pair=allocate_pair(()), mtu=1500)
RFP, FPR = link_devices(ROUTER)


def local_netns(*, floating: bool = True) -> RouterNetns:
    """Return the namespace of the local part with a floating IP."""
    absent = FoundRouter(netns=ObservedNetns(netns=f"qrouter-{ROUTER}"), link=LINK)
    state = part_states(ROUTER, BOTH)[ROUTER]
    served = {fip().floating_ip: translation()} if floating else {}
    return CONTEXT.desired_netns(ROUTER, state, absent, served)


@pytest.mark.parametrize(
    ("id", "name"),
    [
        (ROUTER, f"qrouter-{ROUTER}"),
        (CentralPart(ROUTER), f"snat-{ROUTER}"),
        (AgentGatewayKey(EXTERNAL), f"fip-{EXTERNAL}"),
    ],
)
def test_names_of_namespaces_are_parsed(id: object, name: str) -> None:
    assert netns_name(id) == name  # type: ignore[arg-type]
    assert parse_netns(name) == id
    assert parse_netns(f"{name}x") is None


def test_other_names_are_of_no_part() -> None:
    for name in ("qrouter-", "snat-x", f"qrouter-snat-{ROUTER}", "fip-", str(UUID(int=1)).upper()):
        assert parse_namespace(name) is None
    assert parse_part(f"snat-{ROUTER}") == CentralPart(ROUTER)
    assert parse_part(str(ROUTER)) == ROUTER
    assert netns_key(CentralPart(ROUTER)) == RouterKey(ROUTER)


@pytest.mark.spec("L3-61", "L3-63")
def test_a_router_is_split_into_its_parts() -> None:
    assert part_states(ROUTER, STATE) == {ROUTER: STATE}
    parts = part_states(ROUTER, BOTH)
    assert parts.keys() == {ROUTER, CentralPart(ROUTER)}
    assert parts[ROUTER].parts == {RouterPart.LOCAL}
    central = parts[CentralPart(ROUTER)]
    assert central.full is not None
    assert central.full.gateway == GATEWAY
    assert central.metadata_port is None
    assert not any(each.subnets for each in central.full.interfaces)  # it advertises nothing
    assert nat_part(nat(part=RouterPart.CENTRAL)) == CentralPart(ROUTER)
    assert nat_part(nat(part=RouterPart.LOCAL)) == ROUTER


@pytest.mark.spec("L3-61")
def test_a_plan_makes_the_namespaces_of_all_parts_and_the_agent_gateway_first() -> None:
    gateway = AgentGateway(port=OUTSIDE)
    put = {KEY: BOTH, AgentGatewayKey(EXTERNAL): gateway}
    planned = plan_routers(Update(put=put), ObservedRouters(), CONTEXT)
    payloads = [each.payload for stage in planned.stages for each in stage.operations]
    made = [each.netns for each in payloads if isinstance(each, MakeNamespace)]
    assert made == [f"fip-{EXTERNAL}", f"qrouter-{ROUTER}", f"snat-{ROUTER}"]
    assert not planned.refused


@pytest.mark.spec("L3-62")
def test_floating_ips_are_translated_on_the_link_alone() -> None:
    wanted = local_netns()
    assert [link.device for link in wanted.links] == [RFP]
    hooks = [
        rule
        for key, chain in wanted.chains.items()
        if key.table == "nat" and key.name in ("prerouting", "postrouting")
        for rule in chain.rules
        if key.family == 4 and "float" in str(rule.target)
    ]
    assert {(rule.in_device, rule.out_device) for rule in hooks} == {(RFP, None), (None, RFP)}
    assert local_netns(floating=False).links == ()


@pytest.mark.spec("L3-62")
def test_an_agent_gateway_answers_for_floating_ips_and_tracks_nothing() -> None:
    wanted = gateway_netns(EXTERNAL, AgentGateway(port=OUTSIDE), CONTEXT.device_name)
    assert wanted.chains == {}
    (own,) = wanted.ports
    assert own.device.startswith("fg-")
    assert own.settings["ipv4/proxy_arp"] == "1"
    assert wanted.sysctls["net.ipv4.conf.all.rp_filter"] == "0"
    assert wanted.sysctls["net.ipv4.conf.default.rp_filter"] == "0"
    assert wanted.keeps(FPR)
    assert not wanted.keeps("eth0")


@pytest.mark.spec("L3-62")
def test_a_floating_ip_of_a_local_part_waits_for_the_agent_gateway() -> None:
    put = {KEY: BOTH, fip(): nat(part=RouterPart.LOCAL)}
    planned = plan_routers(Update(put=put), ObservedRouters(), CONTEXT)
    assert planned.waiting.keys() == {fip()}


@pytest.mark.spec("L3-62")
def test_nothing_answers_for_a_floating_ip_before_its_route_leads_to_the_router() -> None:
    inside = port(0, "10.0.0.1/24")
    state = RouterState(local=LocalRouter(interfaces=(inside,), external_network=EXTERNAL))
    absent = FoundRouter(netns=ObservedNetns(netns=f"qrouter-{ROUTER}"), link=LINK)
    update = Update(put={KEY: state, fip(): nat(part=RouterPart.LOCAL)})
    planned = plan_routers(update, ObservedRouters(routers={ROUTER: absent}), CONTEXT)
    assert not planned.waiting
    operations = [each for stage in planned.stages for each in stage.operations]
    texts = [each.text for each in operations]
    rule = next(n for n, text in enumerate(texts) if text.startswith("ip -4 rule add"))
    restore = next(
        n for n, each in enumerate(operations) if isinstance(each.payload, RestoreTables)
    )
    ended = next(
        n for n, each in enumerate(operations) if isinstance(each.payload, RemoveConnections)
    )
    (answered,) = (n for n, text in enumerate(texts) if "add 203.0.113.9/32" in text)
    assert restore < rule < ended < answered
    removal: Any = operations[ended].payload
    assert removal.address == nat().fixed_address  # they left by another way
    assert operations[answered].owners == {fip()}


def test_local_rules_are_at_both_parts_that_have_their_ports() -> None:
    inside, outer = INSIDE.id, GATEWAY.port.id
    central = CENTRAL.ports[0].id

    def rule(in_port: PortId, out_port: PortId, *, local: bool) -> RouterRule:
        return RouterRule(
            table=RuleTable.FILTER,
            chain=RuleChain.FORWARD,
            words=("-j", "DROP"),
            in_port=in_port,
            out_port=out_port,
            local=local,
        )

    rules = (
        rule(inside, outer, local=True),
        rule(inside, outer, local=False),
        rule(central, outer, local=True),
        rule(outer, central, local=False),
    )
    state = evolve(
        BOTH,
        local=evolve(LOCAL, gateway_port=outer),
        contributions=(RouterContribution(owner="own", rules=rules),),
    )
    made = {}
    for part, each in part_states(ROUTER, state).items():
        found = FoundRouter(netns=ObservedNetns(netns=str(part)))
        made[part] = lines(dict(CONTEXT.desired_netns(part, each, found, {}).chains))
    gateway = device_name("qg-", outer)
    assert made[ROUTER]["4 filter own-FWD"] == [f"-i {device_name('qr-', inside)} -o {RFP} -j DROP"]
    central_device = device_name("sg-", central)
    assert made[CentralPart(ROUTER)]["4 filter own-FWD"] == [
        f"-i {central_device} -o {gateway} -j DROP",
        f"-i {gateway} -o {central_device} -j DROP",
    ]
