"""Flows as os-ken's messages and back: nothing is lost, on the way to a switch and from it."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from os_ken.ofproto import ofproto_v1_3_parser as parser13
from os_ken.ofproto import ofproto_v1_4 as ofp
from os_ken.ofproto import ofproto_v1_4_parser as parser
from os_ken.ofproto.ofproto_protocol import ProtocolDesc

from netfw import flows as of
from netfw.ovs.openflow import Encoded, OpenFlow, difference, encode_flows, messages
from netfw.ovs.openflow.flow_diff import limits_of
from netfw.ovs.osken import Datapath, flow_of, make_flow_mod
from tests.lab.ovs.openflow.every_flow import every_flow
from tests.lab.ovs.openflow.test_random_flows import random_flow

DESCRIPTION = ProtocolDesc(5)


@pytest.fixture
def datapath(client: OpenFlow) -> Iterator[Datapath]:
    found = Datapath(client)
    yield found
    found.close()


def through_os_ken(flow: of.Flow) -> tuple[bytes, of.Flow]:
    """Return the bytes that os-ken writes for *flow*, and the flow read from os-ken's message."""
    message = make_flow_mod(DESCRIPTION, flow)
    limits = {limit.meter: limit for limit in limits_of(flow)}
    back = flow_of(message, limits)
    message.set_xid(7)
    message.serialize()
    return bytes(message.buf), back


def own_bytes(flow: of.Flow) -> bytes:
    encoded = Encoded(flow)
    return messages.flow_add(7, encoded.key, encoded.state)


@pytest.mark.spec("DRV-49")
@pytest.mark.parametrize("flow", every_flow(), ids=str)
def test_every_flow_becomes_a_message_and_a_flow_again(flow: of.Flow) -> None:
    assert through_os_ken(flow) == (own_bytes(flow), flow)


@pytest.mark.spec("DRV-49")
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(random_flow)
def test_random_flows_become_messages_and_flows_again(flow: of.Flow) -> None:
    assert through_os_ken(flow) == (own_bytes(flow), flow)


def stats_request(datapath: Datapath) -> Any:
    return parser.OFPFlowStatsRequest(
        datapath, 0, ofp.OFPTT_ALL, ofp.OFPP_ANY, ofp.OFPG_ANY, 0, 0, parser.OFPMatch()
    )


def read(datapath: Datapath, client: OpenFlow) -> list[of.Flow]:
    limits = client.meters() or {}
    parts = datapath.ask(stats_request(datapath))
    return [flow_of(stats, limits) for part in parts for stats in part.body]


@pytest.mark.spec("DRV-49")
def test_a_switch_gets_flows_by_os_ken_and_shows_them_to_os_ken(
    client: OpenFlow, datapath: Datapath
) -> None:
    # Flows whose meter exists without a limit of ours get it by a separate message.
    datapath.ask(meter_mod(datapath, 1))
    flows = [flow for flow in every_flow() if not list(limits_of(flow))]
    for flow in flows:
        datapath.send_msg(make_flow_mod(datapath, flow))
    datapath.ask(parser.OFPBarrierRequest(datapath))
    assert not difference(encode_flows(flows), client.flows())
    found = {flow.identity: flow for flow in read(datapath, client)}
    assert {identity: without_limits(flow) for identity, flow in found.items()} == {
        flow.identity: flow for flow in flows
    }


def meter_mod(datapath: Datapath, meter: int) -> Any:
    bands = [parser.OFPMeterBandDrop(rate=1000, burst_size=100)]
    flags = ofp.OFPMF_PKTPS | ofp.OFPMF_BURST
    return parser.OFPMeterMod(datapath, ofp.OFPMC_ADD, flags, meter, bands)


def without_limits(flow: of.Flow) -> of.Flow:
    """Return *flow* as it was written: with the number of its meter alone."""
    actions = tuple(of.Meter(act.id) if isinstance(act, of.Meter) else act for act in flow.actions)
    return of.Flow(
        table=flow.table, priority=flow.priority, match=flow.match, actions=actions,
        cookie=flow.cookie, idle_timeout=flow.idle_timeout, hard_timeout=flow.hard_timeout,
    )  # fmt: skip


@pytest.mark.spec("DRV-49")
def test_os_ken_reads_flows_with_limits_from_the_switch(
    client: OpenFlow, datapath: Datapath
) -> None:
    flows = [flow for flow in every_flow() if list(limits_of(flow))]
    assert len(flows) == 2
    client.commit(difference(encode_flows(flows), []))
    assert sorted(map(str, read(datapath, client))) == sorted(map(str, flows))


@pytest.mark.spec("DRV-49")
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.lists(random_flow, min_size=20, max_size=40, unique_by=lambda flow: flow.identity))
def test_random_flows_of_a_switch_are_read_by_os_ken(
    client: OpenFlow, datapath: Datapath, flows: list[of.Flow]
) -> None:
    client.commit(difference({}, client.flows()))
    for flow in flows:
        datapath.send_msg(make_flow_mod(datapath, flow))
    assert {flow.identity: flow for flow in read(datapath, client)} == {
        flow.identity: flow for flow in flows
    }


FLOW = of.Flow(table=3, priority=5, match=of.tcp() & of.in_port(2), actions=(of.output(3),))


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("command", ofp.OFPFC_DELETE),
        ("flags", ofp.OFPFF_SEND_FLOW_REM),
        ("importance", 3),
        ("cookie_mask", 1),
        ("buffer_id", 5),
    ],
)
def test_what_a_flow_has_not_is_refused(attribute: str, value: int) -> None:
    message = make_flow_mod(DESCRIPTION, FLOW)
    setattr(message, attribute, value)
    with pytest.raises(ValueError, match=f"cannot be a Flow: it has {attribute} {value}"):
        flow_of(message)


@pytest.mark.parametrize("message", [parser13.OFPFlowMod(ProtocolDesc(4)), "a flow"])
def test_message_of_another_version_is_refused_by_name(message: Any) -> None:
    with pytest.raises(ValueError, match=r"cannot be a Flow: it is .*, no flow of OpenFlow 1\.4"):
        flow_of(message)


@pytest.mark.parametrize(
    ("instruction", "why"),
    [
        (parser.OFPInstructionWriteMetadata(1, 1), "an instruction of type 2"),
        (parser.OFPInstructionActions(ofp.OFPIT_APPLY_ACTIONS, [parser.OFPActionGroup(5)]),
         "an action of type 22"),
        (parser.OFPInstructionActions(ofp.OFPIT_APPLY_ACTIONS, [parser.NXActionExit()]),
         "an action 17 of 0x2320"),
    ],
)  # fmt: skip
def test_instructions_and_actions_that_netfw_has_not_are_named(instruction: Any, why: str) -> None:
    message = make_flow_mod(DESCRIPTION, FLOW)
    message.instructions = [instruction]
    with pytest.raises(ValueError, match=f"table=3,priority=5,.*{why}"):
        flow_of(message)


def test_a_field_that_netfw_has_not_is_refused() -> None:
    message = make_flow_mod(DESCRIPTION, FLOW)
    message.match = parser.OFPMatch(eth_type=0x8847, mpls_label=5)
    with pytest.raises(ValueError, match="a field or an action that Flow has not"):
        flow_of(message)


def test_a_meter_of_packets_to_the_controller_needs_its_limit() -> None:
    flow = next(flow for flow in every_flow() if list(limits_of(flow)))
    with pytest.raises(ValueError, match="whose limit of packets is not known: pass the limits"):
        flow_of(make_flow_mod(DESCRIPTION, flow))
