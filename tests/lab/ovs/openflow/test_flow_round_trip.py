"""What we send is what the switch shows: as text and as bytes, for every field and action."""

from collections import Counter

import pytest

from netfw import flows as of
from netfw.ovs.openflow import FlowChanges, OpenFlow, difference, encode_flows
from netfw.testing.lab.openvswitch import PrivateOvs
from tests.lab.ovs.openflow.every_flow import every_flow, shown


def put(client: OpenFlow, flows: list[of.Flow]) -> None:
    client.commit(FlowChanges(tuple(encode_flows(flows).values())))


@pytest.mark.spec("DRV-47")
def test_every_field_and_action_reads_as_the_switch_prints_it(
    ovs: PrivateOvs, bridge: str, client: OpenFlow
) -> None:
    ovs.ofctl("-O", "OpenFlow13", "add-meter", bridge, "meter=1,kbps,band=type=drop,rate=1000")
    put(client, every_flow())
    wanted = Counter(map(of.render_flow, every_flow()))
    found = Counter(shown(ovs, bridge))
    assert found - wanted == Counter()
    assert wanted - found == Counter()


@pytest.mark.spec("DRV-47", "L2-20")
def test_every_field_and_action_comes_back_as_the_same_bytes(
    ovs: PrivateOvs, bridge: str, client: OpenFlow
) -> None:
    ovs.ofctl("-O", "OpenFlow13", "add-meter", bridge, "meter=1,kbps,band=type=drop,rate=1000")
    put(client, every_flow())
    wanted = encode_flows(every_flow())
    found = dict(client.flows())
    assert {wanted[key].flow: (wanted[key].state.hex(), found.get(key, b"").hex()) for key in wanted
            if found.get(key) != wanted[key].state} == {}  # fmt: skip
    assert found.keys() == wanted.keys()
    assert not difference(wanted, client.flows())


def test_ports_are_shown_by_name_when_names_are_known(
    ovs: PrivateOvs, bridge: str, client: OpenFlow
) -> None:
    names = {5: "tap-1", 6: "tap2", 7: "qr_3.1"}
    for number, name in names.items():
        ovs.vsctl(
            "add-port", "br0", name, "--", "set", "Interface", name, "type=internal",
            f"ofport_request={number}",
        )  # fmt: skip
    flows = [
        of.Flow(
            table=1,
            priority=number,
            match=of.in_port(number),
            actions=(of.output(6), of.resubmit(3, 5), of.output(9)),
        )
        for number in (5, 6, 7, 8)
    ]
    put(client, flows)
    found = Counter(shown(ovs, bridge, "--names"))
    assert found == Counter(of.render_flow(flow, names) for flow in flows)
