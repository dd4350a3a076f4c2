"""What extensions are given, by value; what they may do with it is in the conformance suite."""

import pytest
from attrs import evolve

from netfw import flows as of
from netfw.drivers.values.pipeline_grant import (
    GrantRequest,
    PipelineHook,
    RegisterRequest,
    TableRequest,
)
from netfw.drivers.values.switch_contribution import SwitchContribution
from netfw.errors import ConfigError, InvalidInput, NotSupported
from netfw.flows.learn import LearnSpec
from netfw_drivers.ovs.pipeline.extension_grants import ExtensionLayout, grant_violation
from netfw_drivers.ovs.pipeline.tables import OWNER_MASK, SPACE_MASK, SWITCH_SPACE


def grant_request(owner: str, *hooks: PipelineHook | None, bits: int = 0) -> GrantRequest:
    tables = tuple(TableRequest(name=f"t{n}", hook=hook) for n, hook in enumerate(hooks))
    return GrantRequest(
        owner=owner, tables=tables, registers=(RegisterRequest("bits", bits),) if bits else ()
    )


def walk(layout: ExtensionLayout, hook: PipelineHook) -> list[int]:
    """Return the tables that a packet passes if no flow of an extension matches it."""
    hops = {hop: after for _, hop, after in layout.hops()}
    thens = {t.number: t.then for g in layout.grants.values() for t in g.tables.values()}
    path = [layout.entry(hook)]
    while (after := thens.get(path[-1]) or hops.get(path[-1])) is not None:
        path.append(after)
    return path


@pytest.mark.spec("L2-25")
def test_extensions_of_one_place_are_met_in_the_order_of_the_configuration():
    layout = (
        ExtensionLayout()
        .granted(grant_request("a", PipelineHook.FROM_PORT))
        .granted(grant_request("b", PipelineHook.FROM_PORT))
    )
    assert walk(layout, PipelineHook.FROM_PORT) == [100, 101, 102, 103, 30]
    assert (
        layout.grants["a"]
        == ExtensionLayout().granted(grant_request("a", PipelineHook.FROM_PORT)).grants["a"]
    )


def test_without_extensions_packets_go_straight_on():
    assert walk(ExtensionLayout(), PipelineHook.FROM_PORT) == [30]
    assert walk(ExtensionLayout(), PipelineHook.SENT) == [94]
    assert not ExtensionLayout().delivers


def test_what_is_delivered_passes_both_places_and_then_leaves():
    layout = (
        ExtensionLayout()
        .granted(grant_request("a", PipelineHook.RECEIVED))
        .granted(grant_request("b", PipelineHook.TO_PORT))
    )
    assert walk(layout, PipelineHook.TO_PORT) == [102, 103, 100, 101, 64]
    assert layout.delivers


def test_every_cookie_is_in_the_space_of_the_switch_driver():
    layout = ExtensionLayout().granted(grant_request("a")).granted(grant_request("b"))
    cookies = [grant.cookie for grant in layout.grants.values()]
    assert len({cookie & OWNER_MASK for cookie in cookies}) == 2
    assert {cookie & SPACE_MASK for cookie in cookies} == {SWITCH_SPACE}


def test_bits_of_one_grant_are_in_one_register_and_in_no_other_grant():
    layout = ExtensionLayout()
    for owner in "abcdefgh":
        layout = layout.granted(grant_request(owner, bits=20))
        if len(layout.requests) == 7:
            break
    taken = [grant.registers["bits"] for grant in layout.grants.values()]
    assert [bits.register for bits in taken] == [9, 10, 11, 12, 13, 14, 15]
    layout = layout.granted(grant_request("small", bits=12))
    small = layout.grants["small"].registers["bits"]
    assert (small.register, small.first) == (9, 20)
    with pytest.raises(ConfigError, match="a has 0 tables and 20 bits"):
        layout.granted(grant_request("large", bits=20))


def test_meters_of_one_grant_are_in_no_other_and_end():
    layout = ExtensionLayout()
    for owner, count in (("a", 1), ("none", 0), ("b", 2)):
        layout = layout.granted(GrantRequest(owner=owner, meters=count))
    assert {owner: grant.meters for owner, grant in layout.grants.items()} == {
        "a": (0,),
        "none": (),
        "b": (0x10000, 0x20000),
    }
    with pytest.raises(ConfigError, match="no meter is left for c"):
        layout.granted(GrantRequest(owner="c", meters=14))


def test_what_a_switch_has_not_is_refused():
    with pytest.raises(NotSupported, match="marks"):
        ExtensionLayout().granted(GrantRequest(owner="a", marks=(RegisterRequest("bits", 1),)))
    with pytest.raises(ConfigError, match="two extensions are called a"):
        ExtensionLayout().granted(grant_request("a")).granted(grant_request("a", PipelineHook.SENT))


def test_a_contribution_may_go_on_and_write_within_its_grant():
    layout = ExtensionLayout().granted(grant_request("a", PipelineHook.FROM_PORT, bits=4))
    grant = layout.grants["a"]
    table = grant.tables["t0"]
    assert table.then is not None
    mark = of.RegisterField(9, 0, 3, "ours")
    flow = of.Flow(
        table=table.number,
        priority=1,
        match=of.in_port(5),
        actions=(of.load(mark, 1), of.goto(table.then), of.output(7)),
        cookie=grant.cookie | 77,
    )
    assert grant_violation(SwitchContribution(owner="a", flows=(flow,)), layout) is None


NETWORK = of.RegisterField(6, 0, 11, "not its own")
MARK = of.RegisterField(9, 0, 3, "its own")
IN_PORT = of.Bits(of.FIELD["in_port"], 0, 15)


def learn(*specs: LearnSpec, table: int = 100) -> of.Learn:
    cookie = (
        ExtensionLayout()
        .granted(grant_request("a", PipelineHook.FROM_PORT, bits=20))
        .grants["a"]
        .cookie
    )
    return of.learn(table, of.learn_match(of.FIELD["eth_src"]), *specs, cookie=cookie)


def violation(*actions: of.Action) -> object:
    """Return the violation of an extension with table 100 and 20 bits that does this."""
    request = evolve(grant_request("a", PipelineHook.FROM_PORT, bits=20), meters=1)
    layout = ExtensionLayout().granted(request)
    cookie = layout.grants["a"].cookie
    flow = of.Flow(table=100, priority=1, match=of.ipv4(), actions=actions, cookie=cookie)
    return grant_violation(SwitchContribution(owner="a", flows=(flow,)), layout)


@pytest.mark.parametrize(
    "action",
    [
        of.output(7),
        of.back(),
        of.to_local(),
        of.controller(),
        of.controller(limit=of.PacketLimit(5, 10, 20)),
        of.limited(of.PacketLimit(5, 10, 20)),
        of.limited(of.BitLimit(5, 10, 20)),
        of.output(of.RegisterField(9, 0, 15, "its own")),
        of.output(IN_PORT),
        of.Conjunction(id=1, clause=1, clauses=2),
        of.SetQueue(1),
        of.PushVlan(),
        of.set_field("ip_dscp", 5),
        of.move(of.FIELD["eth_src"], of.FIELD["eth_dst"]),
        of.ct(of.load(of.FIELD["ct_mark"], 1), commit=True, zone=1, table=101),
        learn(of.learn_load(MARK, 7), of.learn_output(IN_PORT)),
        learn(of.learn_load(of.FIELD["eth_dst"], of.FIELD["eth_src"])),
    ],
)
def test_an_extension_may_change_packets_and_send_them_by_ports_that_it_names(action: of.Action):
    assert violation(action) is None


@pytest.mark.parametrize(
    "action",
    [
        of.normal(),
        of.flood(),
        of.to_all(),
        of.output(of.RegisterField(5, 0, 15, "not its own")),
        of.output(of.RegisterField(9, 8, 23, "not all its own")),
        of.Meter(3),
        of.limited(of.BitLimit(0x10005, 10, 20)),
        of.controller(limit=of.PacketLimit(0x10005, 10, 20)),
        of.load(NETWORK, 7),
        of.load(IN_PORT, 7),
        of.set_field("metadata", 5),
        of.set_field("pkt_mark", 5),
        of.set_tunnel(5),
        of.set_field("reg6", 5),
        of.resubmit(101, 7),
        of.goto(30),
        of.ct(table=30),
        learn(table=30),
        learn(of.learn_load(NETWORK, 7)),
        learn(of.learn_load(of.FIELD["metadata"], 7)),
        learn(of.learn_load(IN_PORT, 7)),
        learn(of.learn_output(of.RegisterField(5, 0, 15, "not its own"))),
    ],
)
def test_an_extension_may_not_reach_beyond_its_grant_by_whatever_action(action: of.Action):
    assert isinstance(violation(action), InvalidInput)


class Unknown:
    """An action that no switch has."""


@pytest.mark.parametrize(
    ("actions", "named"),
    [
        ((of.controller(userdata=bytes(65_536)),), "more than 65535 octets"),
        ((of.controller(userdata=bytes(65_480)),), "more than 65535 octets"),
        ((of.output(7),) * 5000, "more than 65535 octets"),
        ((Unknown(),), "OpenFlow cannot express"),
        ((of.SendToController(userdata="text"),), "OpenFlow cannot express"),
    ],
    ids=["a long property", "a long message", "many actions", "an unknown action", "no octets"],
)
def test_a_flow_that_cannot_be_encoded_is_refused_with_owner_and_flow(actions, named):
    error = violation(*actions)
    assert isinstance(error, InvalidInput)
    (reason,) = error.problems.values()
    assert named in reason
    assert "table=100,priority=1,ip" in reason
    assert len(reason) < 1000


def test_a_long_flow_that_fits_is_accepted():
    assert violation(of.controller(userdata=bytes(65_000))) is None
