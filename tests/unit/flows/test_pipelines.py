"""Pipelines say what their tables are for, and refuse flows that do something else."""

import pytest
from attrs import evolve

from netfw import flows as of

NETWORK = of.RegisterField(6, 0, 15, "network of the packet")
PORT = of.RegisterField(5, 0, 31, "port of the packet")
CLASSIFY = of.Table(
    number=0,
    name="classify",
    asks="Which network does this packet belong to?",
    leads_to=("antispoof",),
    writes=(NETWORK,),
)
ANTISPOOF = of.Table(
    number=25,
    name="antispoof",
    asks="May this port send from this address?",
    leads_to=("forward",),
    learns_into=("forward",),
)
FORWARD = of.Table(
    number=24,
    name="forward",
    asks="Behind which port does the destination live?",
    back_to=("classify",),
    miss=(of.flood(),),
)
BRIDGE = of.Pipeline("br-int", (CLASSIFY, ANTISPOOF, FORWARD))


@pytest.mark.spec("DRV-47")
def test_a_pipeline_describes_itself_in_the_order_of_the_packet() -> None:
    assert BRIDGE.describe() == (
        "| # | table | asks | leads to | writes | on miss |\n"
        "| --- | --- | --- | --- | --- | --- |\n"
        "| 0 | classify | Which network does this packet belong to? | antispoof "
        "| NXM_NX_REG6[0..15]: network of the packet | drop |\n"
        "| 25 | antispoof | May this port send from this address? | forward | — | drop |\n"
        "| 24 | forward | Behind which port does the destination live? "
        "| classify (back) | — | FLOOD |\n"
    )


def test_flows_that_keep_the_rules_pass() -> None:
    BRIDGE.check(
        [
            CLASSIFY.flow(of.in_port(5), of.load(NETWORK, 7), of.goto(ANTISPOOF)),
            CLASSIFY.flow(of.in_port(6), of.load(of.Bits(of.REGISTERS[6], 3, 4), 1)),
            ANTISPOOF.flow(of.in_port(5), of.goto(FORWARD), priority=2),
            ANTISPOOF.flow(of.ipv4(), of.ct(table=FORWARD.number)),
            ANTISPOOF.flow(of.arp(), of.learn(24, of.learn_match(of.FIELD["eth_src"]))),
            FORWARD.flow(NETWORK.is_(7), of.goto(CLASSIFY), of.output(5)),
            FORWARD.flow(of.in_port(9), of.drop()),
            *BRIDGE.miss_flows(cookie=5),
        ]
    )
    assert [str(flow) for flow in BRIDGE.miss_flows()] == [
        "priority=0 actions=drop",
        "table=25, priority=0 actions=drop",
        "table=24, priority=0 actions=FLOOD",
    ]


@pytest.mark.spec("DRV-47")
@pytest.mark.parametrize(
    ("flow", "why"),
    [
        (
            CLASSIFY.flow(of.ANYTHING, of.goto(FORWARD)),
            "does not declare that it leads to table 24",
        ),
        (CLASSIFY.flow(of.ANYTHING, of.goto_table(99)), "leads to table 99"),
        (CLASSIFY.flow(of.ipv4(), of.ct(table=24)), "leads to table 24"),
        (CLASSIFY.flow(of.ANYTHING, of.load(PORT, 5)), r"writes NXM_NX_REG5\[\]"),
        (CLASSIFY.flow(of.ANYTHING, of.set_field("reg6", 5)), r"writes NXM_NX_REG6\[\]"),
        (CLASSIFY.flow(of.ANYTHING, of.move(of.REGISTERS[1], PORT)), "writes NXM_NX_REG5"),
        (ANTISPOOF.flow(of.ANYTHING, of.load(NETWORK, 5)), "antispoof does not declare"),
        (CLASSIFY.flow(of.ANYTHING, of.learn(24)), "learns into table 24"),
        (
            ANTISPOOF.flow(
                of.ANYTHING, of.learn(24, limit=1, result=of.Bits(NETWORK.bits.field, 0, 0))
            ),
            "writes",
        ),
        (
            ANTISPOOF.flow(of.ANYTHING, of.learn(24, of.learn_load(NETWORK, 5))),
            "does not declare that it writes",
        ),
        (of.Flow(table=7, priority=1, match=of.ANYTHING), "br-int declares no table 7"),
    ],
)
def test_a_flow_that_breaks_a_rule_is_refused(flow: of.Flow, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        BRIDGE.check([flow])


def test_two_flows_for_the_same_packets_are_refused() -> None:
    flows = [CLASSIFY.flow(of.in_port(5)), CLASSIFY.flow(of.in_port(5), of.load(NETWORK, 1))]
    with pytest.raises(ValueError, match="two flows for the same packets"):
        BRIDGE.check(flows)


@pytest.mark.parametrize(
    ("tables", "why"),
    [
        ((ANTISPOOF, CLASSIFY, FORWARD), "leads back to antispoof: declare it in back_to"),
        ((CLASSIFY, FORWARD), "no table 'antispoof'"),
        ((CLASSIFY, evolve(ANTISPOOF, number=0), FORWARD), "two tables have the number 0"),
        ((CLASSIFY, ANTISPOOF, ANTISPOOF, FORWARD), "two tables have the name"),
        (
            (CLASSIFY, evolve(ANTISPOOF, writes=(of.RegisterField(6, 8, 20, "x"),)), FORWARD),
            r"overlap: NXM_NX_REG6\[0\.\.15\] \(network of the packet\) and",
        ),
    ],
)
def test_a_pipeline_that_makes_no_sense_is_refused(tables, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        of.Pipeline("br-int", tables)


def test_the_nearest_table_is_suggested() -> None:
    with pytest.raises(ValueError, match="did you mean 'antispoof'"):
        BRIDGE.table("antispof")


def test_a_flow_to_a_table_of_another_pipeline_is_refused() -> None:
    limits = of.Table(number=58, name="limits", asks="How fast may it send?", leads_to=("forward",))
    with pytest.raises(ValueError, match="leads to table 58"):
        BRIDGE.check([ANTISPOOF.flow(of.ANYTHING, of.goto(limits))])
