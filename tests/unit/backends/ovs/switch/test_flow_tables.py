"""What holds for the flows of all tables."""

from ipaddress import ip_address

import pytest
from attrs import evolve

from netfw import flows as of
from netfw.drivers.values.switch_contribution import SwitchContribution
from netfw.model.segment import NetworkType
from netfw_drivers.ovs.pipeline import br_int, br_phys, br_tun
from netfw_drivers.ovs.pipeline.br_int import Receiver, port_flows
from netfw_drivers.ovs.pipeline.extension_grants import ExtensionLayout
from netfw_drivers.ovs.pipeline.tables import (
    INTEGRATION,
    LEARNT,
    PHYSICAL,
)
from netfw_drivers.ovs.pipeline.tunnel_tables import TUNNELS
from netfw_drivers.ovs.switch.plan.outline import OURS
from tests.unit.backends.ovs.switch.flow_samples import (
    FILTERED,
    FLAT,
    GUARDED,
    MAC,
    MAC_7,
    PLAIN,
    PORT,
    SHARED,
    VLAN,
    WATCHED,
    texts,
)


def everything(layout: ExtensionLayout) -> dict[of.Pipeline, list[of.Flow]]:
    grant = layout.grants.get("ears")
    extension = [] if grant is None else br_int.extension_flows(grant, None)
    return {
        INTEGRATION: [
            *br_int.base_flows(32512, layout),
            *port_flows(GUARDED, layout),
            *port_flows(evolve(PORT, number=6, vlan=8), layout),
            *port_flows(evolve(PORT, number=7, mac=MAC_7, vlan=8, mac_limit=9), layout),
            *port_flows(FILTERED, layout),
            *port_flows(SHARED, layout),
            *br_int.domain_flows(7, (0, 1), (Receiver(5), Receiver(9, True)), 32512, layout),
            *br_int.chunk_flows(7, 0, (Receiver(5), Receiver(9, True)), layout),
            *br_int.network_flows(7, VLAN, 4),
            *br_int.network_flows(8, FLAT, 4),
            *extension,
        ],
        TUNNELS: [
            *br_tun.base_flows(1, responder=True),
            *br_tun.tunnel_flows(2, NetworkType.VXLAN, learns=True),
            *br_tun.tunnel_flows(3, NetworkType.GRE, learns=False),
            *br_tun.network_flows(7, NetworkType.VXLAN, 9, (2,)),
            *br_tun.network_flows(8, NetworkType.GENEVE, 9, ()),
            *br_tun.forwarding_flows(7, 9, MAC, (2,), [ip_address("fd00::1")]),
            *br_tun.forwarding_flows(7, 9, SHARED.mac, (2, 3), ()),
        ],
        PHYSICAL: [
            *br_phys.base_flows(3),
            *br_phys.network_flows(7, VLAN, 3),
            *br_phys.network_flows(8, FLAT, 3),
        ],
    }


@pytest.mark.spec("L2-21", "L2-22", "L2-23")
def test_every_flow_keeps_to_what_its_table_declares():
    for pipeline, flows in everything(PLAIN).items():
        pipeline.check(flows)


@pytest.mark.parametrize("layout", [PLAIN, WATCHED])
def test_only_the_rest_of_a_table_has_no_priority(layout: ExtensionLayout):
    # Of two flows with one priority that match a packet, the switch takes any.
    for flows in everything(layout).values():
        for flow in flows:
            assert flow.priority or flow.match == of.ANYTHING, flow


@pytest.mark.parametrize("layout", [PLAIN, WATCHED])
def test_a_priority_tag_is_removed_before_any_other_flow(
    layout: ExtensionLayout,
):
    first = [flow for flow in everything(layout)[INTEGRATION] if flow.table == 0]
    first.sort(key=lambda flow: -flow.priority)
    assert texts(first[:4]) == [
        "priority=65535,dl_vlan=4095 actions=drop",
        "priority=65535,vlan_tci=0x0000/0x1fff,dl_type=0x8100 actions=drop",
        "priority=65535,vlan_tci=0x0000/0x1fff,dl_type=0x88a8 actions=drop",
        "priority=65534,dl_vlan=0 actions=pop_vlan,resubmit(,0)",
    ]
    assert first[4].priority < 65534


def test_no_two_flows_of_a_table_with_one_priority_match_one_packet_differently():
    for flows in everything(PLAIN).values():
        ranks = {}
        for flow in flows:
            ranks.setdefault((flow.table, flow.priority), []).append(flow)
        for rivals in ranks.values():
            for place, one in enumerate(rivals):
                assert not any(compatible(one.match, two.match) for two in rivals[place + 1 :])


def compatible(one: of.Match, two: of.Match) -> bool:
    try:
        (one & two).check()
    except ValueError:
        return False
    return not (guards(one) and guards(two))


def guards(match: of.Match) -> bool:
    """Return whether a flow guards a port: all of these lead to the same place."""
    return match.get("in_port") is not None and (match.get("arp_sha") or match.get("nd_target"))


def _learns(flows):
    return [action for flow in flows for action in flow.actions if isinstance(action, of.Learn)]


@pytest.mark.spec("L2-20")
def test_learned_flows_differ_from_made_ones_by_cookie():
    of_base = _learns(br_tun.base_flows(1, responder=False))
    assert {(each.table, each.cookie, each.limit) for each in of_base} == {
        (table, LEARNT, 0) for table in (12, 17, 18)
    }
    of_network = _learns(br_tun.network_flows(7, NetworkType.VXLAN, 100, ()))
    assert [(each.table, each.limit) for each in of_network] == [
        (14, 0),
        (20, 0),
        (14, 1024),
        (20, 1024),
    ]
    assert {each.cookie for each in of_network} == {LEARNT | 2 << 32 | 100}
    assert LEARNT not in OURS
    for each in (*of_base, *of_network):
        assert not any(isinstance(part.target, int) for part in each.specs)
        assert "vlan" not in str([part.target for part in each.specs])


@pytest.mark.spec("L2-25")
def test_an_extension_may_say_itself_what_happens_to_the_rest():
    grant = WATCHED.grants["ears"]
    number = grant.tables["from"].number
    own = of.Flow(table=number, priority=0, match=of.ANYTHING, cookie=grant.cookie)
    addition = SwitchContribution(owner="ears", flows=(own,))
    flows = list(br_int.extension_flows(grant, addition))
    assert [flow for flow in flows if flow.table == number] == [own]
    assert len({flow.identity for flow in flows}) == len(flows) == 4
