"""Plans of highly available routers: what is keepalived's, and what is not."""

from __future__ import annotations

from ipaddress import ip_interface
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve

from netfw.drivers.values.keys import FloatingIpKey, RouterKey
from netfw.drivers.values.router_values import HighAvailability, RouterState
from netfw.errors import InvalidInput, PartlyInvalid
from netfw.linux.ip.operations import AddAddress, DelAddress, DelRoute
from netfw.linux.ip.values import PROTOCOL_KEEPALIVED, FoundAddress, Link, addresses, route
from netfw.linux.service_netns.steps import ChangeNetwork, RemoveConnections
from netfw.linux.service_netns.values import ObservedNetns
from netfw.model.router import HaRole
from netfw.model.subnet import Ipv6Mode
from netfw.model.values.device_names import device_name
from netfw.model.values.ids import PortId
from netfw.model.values.route import Route
from netfw.plan import Plan, Update
from netfw_drivers.linux_router.config.keepalived import VrrpSettings, parse_addresses
from netfw_drivers.linux_router.plan.daemons.daemon_steps import RunDaemon, StopDaemon
from netfw_drivers.linux_router.plan.daemons.keepalived_plan import (
    SERVICE,
    make_program,
)
from netfw_drivers.linux_router.plan.daemons.radvd_plan import SERVICE as RADVD
from netfw_drivers.linux_router.plan.daemons.radvd_plan import WithdrawPrefixes
from netfw_drivers.linux_router.plan.ha_role import decide_role
from netfw_drivers.linux_router.plan.names import router_namespace
from netfw_drivers.linux_router.plan.observed import FoundDaemon, FoundRouter, ObservedRouters
from netfw_drivers.linux_router.plan.plan import plan_routers
from netfw_drivers.linux_router.plan.reserved_networks import ReservedNetworks
from netfw_drivers.linux_router.plan.router_rules import METADATA_ADDRESSES
from tests.unit.backends.linux_router.samples import (
    CONTEXT,
    GATEWAY,
    INSIDE,
    KEY,
    QG,
    QR,
    ROUTER,
    STATE,
    fip,
    found,
    is_run,
    lines,
    nat,
    port,
    state,
    subnet,
    translation,
)

HA_ID = PortId(UUID(int=9 << 96))
HA_PORT = port(1, "169.254.192.5/18", id=HA_ID)
QH = device_name("ha-", HA_ID)
AVAILABLE = HighAvailability(port=HA_PORT, vrid=7)
MARKER = "169.254.0.7/32"


def highly(router: RouterState = STATE, **values: Any) -> RouterState:
    assert router.full is not None
    return evolve(router, full=evolve(router.full, ha=evolve(AVAILABLE, **values)))


def plan(update: Update[Any, Any], there: FoundRouter | None = None) -> Plan:
    routers = {} if there is None else {ROUTER: there}
    return plan_routers(update, ObservedRouters(routers=routers), CONTEXT)


def steps(planned: Plan) -> list[Any]:
    return [operation.payload for operation in planned]


def runs(planned: Plan) -> list[RunDaemon]:
    return [each for each in steps(planned) if is_run(each, SERVICE)]


def changes(planned: Plan, kind: type) -> list[Any]:
    network = (each.operation for each in steps(planned) if isinstance(each, ChangeNetwork))
    return [each for each in network if isinstance(each, kind)]


def configured(router: RouterState, *floating: str) -> str:
    nats = {FloatingIpKey(fip(n).floating_ip): nat(floating=a) for n, a in enumerate(floating)}
    (step,) = runs(plan(Update(put={KEY: router, **nats})))
    return step.text_of_file


def running(
    router: RouterState, text: str, there: tuple[tuple[str, str], ...] = (), **netns: Any
) -> FoundRouter:
    """Return the router with its devices, a running keepalived and these addresses."""
    links = {
        name: Link(name=name, index=index, mtu=1500, mac=mac, up=True, state="up")
        for index, (name, mac) in enumerate(
            ((QR, INSIDE.mac), (QG, GATEWAY.port.mac), (QH, HA_PORT.mac)), 2
        )
    }
    have = [FoundAddress(address=each) for dev, cidr in there for each in addresses(dev, [cidr])]
    have += [FoundAddress(address=each) for each in addresses(QH, ["169.254.192.5/18"])]
    base = found(router)
    return evolve(
        base,
        netns=evolve(base.netns, **{"links": links, "addresses": tuple(have), **netns}),
        keepalived=FoundDaemon(text=text, digest=make_program(ROUTER, CONTEXT.settings).digest()),
    )


def test_plan_and_observation_do_not_show_the_password() -> None:
    settings = evolve(CONTEXT.settings, vrrp=VrrpSettings(auth_password="se-cr.3t"))
    context = evolve(CONTEXT, settings=settings)
    planned = plan_routers(Update(put={KEY: highly()}), ObservedRouters(), context)
    (step,) = runs(planned)
    assert "se-cr.3t" in step.text_of_file
    there = running(highly(), step.text_of_file)
    for each in (step, planned, there, *planned, *(operation.text for operation in planned)):
        assert "se-cr.3t" not in f"{each} {each!r}"


@pytest.mark.spec("L3-40")
def test_new_router_gets_its_addresses_and_routes_from_keepalived_alone() -> None:
    routes = (Route(destination="198.51.101.0/24", nexthop="10.0.0.7"),)
    router = highly(evolve(STATE, routes=routes))
    planned = plan(Update(put={KEY: router, fip(): nat()}))
    assert not planned.refused
    added = {
        (each.address.device, str(each.address.interface)) for each in changes(planned, AddAddress)
    }
    assert added == {(QH, "169.254.192.5/18")}
    (step,) = runs(planned)
    assert steps(planned)[-1] is step, "it starts when the namespace is complete"
    there = {(each.device, str(each.interface)) for each in parse_addresses(step.text_of_file)}
    metadata = f"{METADATA_ADDRESSES[6]}/128"
    assert there >= {
        (QR, "10.0.0.1/24"),
        (QR, "fd00::1/64"),
        (QR, metadata),
        (QG, "203.0.113.9/32"),
    }
    assert {device for device, cidr in there if cidr.startswith("fe80::f816")} == {QR, QG}
    lines = [line.strip() for line in step.text_of_file.splitlines()]
    assert f"0.0.0.0/0 via 203.0.113.1 dev {QG}" in lines
    assert f"198.51.101.0/24 via 10.0.0.7 dev {QR}" in lines
    assert f"{MARKER} dev {QH}" in lines


def test_router_that_cannot_elect_is_configured_and_not_started() -> None:
    there = FoundRouter(netns=ObservedNetns(netns=router_namespace(ROUTER)), can_elect=False)
    (step,) = runs(plan(Update(put={KEY: highly()}), there))
    assert step.program is None
    waiting = evolve(running(highly(), step.text_of_file), can_elect=False)
    waiting = evolve(waiting, keepalived=FoundDaemon(text=step.text_of_file))
    assert runs(plan(Update(put={KEY: highly()}), waiting)) == []
    (start,) = runs(plan(Update(put={KEY: highly()}), evolve(waiting, can_elect=True)))
    assert start.program is not None


def test_addresses_of_keepalived_stay_and_others_are_removed() -> None:
    text = configured(highly())
    there = ((QH, MARKER), (QR, "10.0.0.1/24"), (QR, "192.0.2.7/32"))
    planned = plan(Update(put={KEY: highly()}), running(highly(), text, there))
    removed = [str(each.address.interface) for each in changes(planned, DelAddress)]
    assert removed == ["192.0.2.7/32"]
    assert not changes(planned, AddAddress)
    assert runs(planned) == []


def test_addresses_without_a_keepalived_are_removed() -> None:
    text = configured(highly())
    left = running(highly(), text, ((QH, MARKER), (QR, "10.0.0.1/24")))
    dead = evolve(left, keepalived=FoundDaemon(text=text))
    planned = plan(Update(put={KEY: highly()}), dead)
    removed = {str(each.address.interface) for each in changes(planned, DelAddress)}
    assert removed == {MARKER, "10.0.0.1/24"}
    forgotten = [each.forget for each in steps(planned) if isinstance(each, ChangeNetwork)]
    assert not any(forgotten), "another host has the addresses, and their connections"


def test_routes_of_keepalived_go_unless_the_instance_is_active() -> None:
    text = configured(highly())
    left = evolve(route("default", via="fe80::1", device=QG), protocol=PROTOCOL_KEEPALIVED)
    standby = running(highly(), text, routes=(left,))
    assert [each.route for each in changes(plan(Update(put={KEY: highly()}), standby), DelRoute)]
    active = running(highly(), text, ((QH, MARKER),), routes=(left,))
    assert not changes(plan(Update(put={KEY: highly()}), active), DelRoute)


def test_interface_leaves_the_configuration_before_its_device() -> None:
    both = highly(state(INSIDE, port(1, "10.0.1.1/24")))
    there = running(both, configured(both), ((QH, MARKER), (QR, "10.0.0.1/24")))
    other = device_name("qr-", port(1).id)
    link = Link(name=other, index=9, mtu=1500, mac=port(1).mac, up=True, state="up")
    there = evolve(there, netns=evolve(there.netns, links={**there.netns.links, other: link}))
    every = steps(plan(Update(put={KEY: highly()}), there))
    (first,) = [each for each in every if is_run(each, SERVICE)]
    assert every[0] is first
    assert first.text_of_file == configured(highly())


def test_floating_ip_alone_changes_rules_and_then_the_configuration() -> None:
    there = evolve(found(highly()), keepalived=running(highly(), configured(highly())).keepalived)
    planned = plan(Update(put={fip(): nat()}), there)
    (step,) = runs(planned)
    assert steps(planned)[-1] is step
    assert step.text_of_file == configured(highly(), "203.0.113.9")
    assert not changes(planned, AddAddress)
    assert {owner for operation in planned for owner in operation.owners} == {fip()}


def test_removed_floating_ip_leaves_the_configuration_before_its_connections_end() -> None:
    text = configured(highly(), "203.0.113.9")
    there = found(highly(), {fip().floating_ip: translation()})
    there = evolve(there, keepalived=running(highly(), text).keepalived)
    every = steps(plan(Update(drop=frozenset({fip()})), there))
    names = [type(each).__name__ for each in every]
    assert names.index("RunDaemon") < names.index("RemoveConnections")
    (step,) = [each for each in every if is_run(each, SERVICE)]
    assert step.text_of_file == configured(highly())


@pytest.mark.spec("L3-40")
def test_connections_of_addresses_that_leave_the_gateway_end_after_the_reload() -> None:
    # keepalived removes the addresses, but no connections.
    text = configured(highly(), "203.0.113.9")
    before = running(highly(), text, ((QH, MARKER), (QG, "203.0.113.5/24")))
    moved = evolve(GATEWAY, port=port(2, "203.0.113.6/24", "2001:db8::5/64"))
    every = steps(plan(Update(put={KEY: highly(state(INSIDE, gateway=moved))}), before))
    ended = [each for each in every if isinstance(each, RemoveConnections)]
    assert {str(each.address) for each in ended} == {"203.0.113.5", "203.0.113.9"}
    (reload,) = [each for each in every if is_run(each, SERVICE)]
    assert every.index(reload) < every.index(ended[0])
    idle = running(highly(), configured(highly()), ((QH, MARKER), (QG, "203.0.113.5/24")))
    planned = plan(Update(put={KEY: highly()}), idle)
    assert not [each for each in steps(planned) if isinstance(each, RemoveConnections)]


def test_plain_router_stops_keepalived_first_and_adds_what_that_removes() -> None:
    text = configured(highly())
    there = running(highly(), text, ((QH, MARKER), (QR, "10.0.0.1/24")))
    planned = plan(Update(put={KEY: STATE}), there)
    assert steps(planned)[0] == StopDaemon(SERVICE, ROUTER)
    added = {str(each.address.interface) for each in changes(planned, AddAddress)}
    assert "10.0.0.1/24" in added


def test_dropped_instance_stops_keepalived_before_anything_else() -> None:
    there = running(highly(), configured(highly()))
    planned = plan(Update(drop=frozenset({RouterKey(ROUTER)})), there)
    assert steps(planned)[0] == StopDaemon(SERVICE, ROUTER)


def test_ha_port_without_ipv4_is_refused() -> None:
    bare = highly(port=port(1, "fd00:1::5/64", id=HA_ID))
    planned = plan(Update(put={KEY: bare}))
    assert isinstance(planned.refused[KEY], InvalidInput)
    assert not planned.stages


def test_standby_sends_nothing_without_an_address_and_the_ha_network_carries_nothing() -> None:
    absent = FoundRouter(netns=ObservedNetns(netns=router_namespace(ROUTER)))
    rules = lines(dict(CONTEXT.desired_netns(ROUTER, highly(), absent, {}).chains))
    assert rules["6 mangle output"] == ["-s ::/128 -j DROP"]
    assert "4 mangle output" not in rules
    assert rules["4 mangle input"][:2] == [
        "-d 169.254.0.7/32 ! -i ha-+ -j DROP",
        "-d 169.254.192.5/32 ! -i ha-+ -j DROP",
    ]
    for family in (4, 6):
        assert rules[f"{family} mangle forward"][:2] == ["-o ha-+ -j DROP", "-i ha-+ -j DROP"]


def test_standby_withdraws_no_prefixes() -> None:
    inside = evolve(INSIDE, subnets=(subnet("fd00::/64", Ipv6Mode.SLAAC),))
    (radvd,) = [
        each
        for each in steps(plan(Update(put={KEY: highly(state(inside))})))
        if is_run(each, RADVD)
    ]
    text = configured(highly())
    for there, expected in ((((QH, MARKER),), 1), ((), 0)):
        instance = evolve(
            running(highly(), text, there), radvd=FoundDaemon(text=radvd.text_of_file)
        )
        planned = plan(Update(put={KEY: highly(state())}), instance)
        assert sum(isinstance(each, WithdrawPrefixes) for each in steps(planned)) == expected


def test_role_follows_from_the_marker_and_the_link() -> None:
    link = Link(name=QH, index=1, mtu=1500, up=True, state="up")
    assert decide_role({}, addresses(QH, [MARKER]), running=True) is None
    assert decide_role({QH: link}, addresses(QH, [MARKER]), running=True) is HaRole.ACTIVE
    assert decide_role({QH: link}, addresses(QR, [MARKER]), running=True) is HaRole.STANDBY
    assert (
        decide_role({QH: link}, addresses(QH, ["169.254.0.7/24"]), running=True) is HaRole.STANDBY
    )
    assert decide_role({QH: evolve(link, up=False)}, (), running=True) is HaRole.FAULT
    assert decide_role({QH: evolve(link, carrier=False)}, (), running=True) is HaRole.FAULT
    assert decide_role({QH: link}, (), running=False) is HaRole.FAULT
    assert decide_role({QH: link}, addresses(QH, [MARKER]), running=False) is HaRole.ACTIVE


@pytest.mark.spec("L3-40")
def test_addresses_and_routes_of_users_stay_out_of_the_networks_of_the_election() -> None:
    assert STATE.full is not None
    cidrs = ["169.254.0.9/32", "169.254.192.9/24", "169.254.0.1/16", "10.0.0.1/24"]
    inside = evolve(STATE.full.interfaces[0], addresses=tuple(map(ip_interface, cidrs)))
    routes = [
        Route(destination=to, nexthop=via)
        for to, via in (
            ("169.254.192.0/18", "10.0.0.7"),
            ("169.254.193.0/24", "10.0.0.7"),
            ("169.254.0.7/32", "10.0.0.7"),
            ("192.0.2.0/24", "169.254.192.6"),
            ("0.0.0.0/0", "10.0.0.7"),
            ("198.51.101.0/24", "10.0.0.7"),
        )
    ]
    full = evolve(STATE.full, interfaces=(inside,))
    plain = evolve(STATE, full=full, routes=tuple(routes))
    planned = plan(Update(put={KEY: highly(plain)}))
    (step,) = runs(planned)
    there = {str(each.interface) for each in parse_addresses(step.text_of_file)}
    assert there & {*cidrs} == {"10.0.0.1/24"}
    wanted = {line.split()[0] for line in step.text_of_file.splitlines() if " via " in line}
    assert wanted == {"0.0.0.0/0", "198.51.101.0/24"}
    refused = planned.refused[KEY]
    assert isinstance(refused, PartlyInvalid)
    left_out = {each for each in refused.problems if "169.254." in each}
    assert len(left_out) == 7
    for why in map(refused.problems.__getitem__, left_out):
        assert "169.254.0.0/24, 169.254.192.0/18" in why
    assert not ReservedNetworks.of(plain).left_out(plain), "a plain router needs none"
