"""What a trace says of the desired and the live state."""

from __future__ import annotations

import pytest

from netfw.cli.trace.sentences import trace_lines
from netfw.cli.trace.values import Hop, HopOutput, HopStep, PacketTrace
from netfw.diagnosis.trace_values import Decision, TracedPort

pytestmark = pytest.mark.spec("DRV-41")
WEB = TracedPort(id="p1", name="web", network="n1", network_name="blue", mac="m1", host="h1")
STEPS = (
    HopStep(bridge="br-int", table=0, name="first", asks="Whence?", match="in_port=1", priority=9),
    HopStep(bridge="br-int", table=58, name="rate", priority=0, miss=True),
    HopStep(bridge="br-int", table=61, match="dl_dst=x", priority=5, foreign=True),
    HopStep(bridge="br-int", table=62),
)  # fmt: skip
TUNNEL = HopOutput(
    kind="tunnel", tunnel_type="vxlan", tunnel_id=7, local="1.1.1.1", remote="1.1.1.2"
)
PHYSICAL = HopOutput(kind="physical", device="eth1", physical_network="physnet1", vlan=5)
DEVICE = HopOutput(kind="device", device="tap1", port="p1")


def traced(
    arrives: bool | None, *, allowed: bool = True, in_switch: bool = True, verbose: bool = False
) -> list[str]:
    decision = Decision(what="ingress of port web", allowed=allowed, in_switch=in_switch)
    hop = Hop(host="h1", entry="tap1 of br-int", steps=STEPS, outputs=(TUNNEL, PHYSICAL, DEVICE))
    trace = PacketTrace(
        packet="tcp from a to b",
        source=WEB,
        target=WEB,
        decisions=(decision,),
        hops=(hop,),
        arrives=arrives,
        end="its end",
    )
    return list(trace_lines(trace, verbose=verbose))


@pytest.mark.parametrize(
    ("arrives", "allowed", "in_switch", "line"),
    [
        (True, True, True, "As desired: it should arrive, and arrives."),
        (False, False, True, "As desired: it should be dropped, and is dropped."),
        (False, True, True, "DIFFERENT: it should arrive, and does not."),
        (True, False, True, "DIFFERENT: it should be dropped, and arrives."),
        (
            True,
            False,
            False,
            "It passes the switches; a filter behind them, which is not traced, should drop it.",
        ),
        (None, True, True, "It should arrive; whether it does cannot be said from here."),
    ],
)
def test_comparison_of_desired_and_live_state(
    arrives: bool | None, allowed: bool, in_switch: bool, line: str
) -> None:
    assert traced(arrives, allowed=allowed, in_switch=in_switch)[-1] == line


def test_what_is_not_evaluated_is_said_of_a_packet_that_arrives() -> None:
    assert "not evaluated: router firewalls" in "\n".join(traced(True))
    assert "not evaluated" not in "\n".join(traced(False))


def test_steps_name_tables_matches_and_foreign_flows() -> None:
    text = "\n".join(traced(True))
    assert "br-int table 0 first: Whence?\n      in_port=1 (priority 9)" in text
    assert "dl_dst=x (priority 5), which netfw did not make" in text
    assert "br-int table 62\n      no flow matches" in text
    assert "table 58" not in text
    assert "table 58 rate" in "\n".join(traced(True, verbose=True))


def test_outputs_are_named() -> None:
    text = "\n".join(traced(True))
    assert "it leaves by vxlan tunnel 7 from 1.1.1.1 to 1.1.1.2" in text
    assert "it leaves by eth1 to physical network physnet1, VLAN 5" in text
    assert "it leaves by tap1 of port p1" in text


def test_hops_survive_the_way_over_a_command() -> None:
    hop = Hop(host="h1", entry="tap1", steps=STEPS, outputs=(TUNNEL,), problems=("a",))
    assert Hop.from_dict(hop.to_dict()) == hop
