"""Filtered ports on a real switch: nothing passes them but what the firewall's tables let pass.

The firewall of these tests is a few flows by hand.
"""

from collections import defaultdict
from pathlib import Path

import pytest

from netfw import flows as of
from netfw.drivers.values.keys import ExtensionKey
from netfw.drivers.values.pipeline_grant import Grant, GrantRequest, PipelineHook, TableRequest
from netfw.drivers.values.switch_contribution import SwitchContribution
from netfw.drivers.values.switch_values import Admission
from netfw.plan import Update
from netfw.testing.lab.wait import TIMEOUT, wait_until
from netfw_drivers.ovs.pipeline import br_int
from netfw_drivers.ovs.pipeline.br_int import Receiver
from netfw_drivers.ovs.pipeline.extension_grants import ExtensionLayout
from netfw_drivers.ovs.pipeline.tables import CHUNK_BITS, FIREWALL_SPACE
from tests.lab.backends.ovs.switch.environment import mac, network, port

EVERYTHING = (
    "table=71,priority=1,actions=resubmit(,91)",
    "table=81,priority=1,actions=resubmit(,92)",
)
"""A firewall that lets everything pass."""
BROADCAST = "dl_dst=ff:ff:ff:ff:ff:ff,dl_type=0x9999"


@pytest.fixture
def trio(one):
    """Return a host with one network with three live ports; the first is filtered."""
    one.driver.converge(Update(put=network(1)))
    one.machines = [one.instance(number) for number in (1, 2, 3)]
    one.driver.observe(None)  # what was plugged is known
    one.wanted = {**network(1), **port(1, 1, filtered=True), **port(2, 1), **port(3, 1)}
    outcome = one.driver.converge(Update(put=one.wanted, complete=True))
    assert outcome.ok, outcome
    return one


def firewall(host, *flows: str) -> None:
    """Add the flows to the switch that a firewall would add."""
    for flow in flows:
        text = f"cookie={FIREWALL_SPACE:#x},{flow}"
        host.ovs.ofctl("-OOpenFlow14", "add-flow", host.ovs.management("br-int"), text)


def leaves(host, source: int, packet: str) -> set[str]:
    text = f"in_port=tap{source},dl_src={mac(source)},{packet}"
    return set(host.ovs.leaves_by("br-int", text))


def to(number: int) -> str:
    return f"dl_dst={mac(number)},dl_type=0x9999"


def hears(host, number: int) -> str:
    """Return the neighbours of an instance."""
    return host.machines[number - 1].run(["ip", "neighbour", "show"])


@pytest.mark.spec("FW-01")
def test_nothing_passes_a_filtered_port_without_a_firewall(trio):
    filtered, two, three = trio.machines
    with two.pinging("10.0.0.3", timeout=TIMEOUT) as ping:
        for target in ("10.0.0.2", "fd00:1::3"):
            assert filtered.ping(target, count=2, timeout=0.3).lost == 2
        for target in ("10.0.0.1", "fd00:1::1"):
            assert three.ping(target, count=2, timeout=0.3).lost == 2
        assert mac(1) not in hears(trio, 2) + hears(trio, 3)  # ARP did not pass either
        assert mac(2) not in hears(trio, 1)
        assert ping.stop().lost == 0
    for packet in (BROADCAST, to(2), "arp,dl_dst=ff:ff:ff:ff:ff:ff", "ip,dl_dst=" + mac(3)):
        assert leaves(trio, 1, packet) == set()
    assert leaves(trio, 2, BROADCAST) == {"tap3"}
    assert leaves(trio, 2, to(1)) == set()


@pytest.mark.spec("FW-01")
def test_what_the_firewall_lets_pass_reaches_those_it_is_for(trio):
    firewall(trio, *EVERYTHING)
    filtered, two, _ = trio.machines
    assert filtered.ping("10.0.0.2", timeout=TIMEOUT).lost == 0
    assert two.ping("fd00:1::1", timeout=TIMEOUT).lost == 0
    assert leaves(trio, 1, BROADCAST) == {"tap2", "tap3"}
    assert leaves(trio, 2, BROADCAST) == {"tap1", "tap3"}
    assert leaves(trio, 2, to(1)) == {"tap1"}
    unknown = "dl_dst=fa:16:3e:77:77:77,dl_type=0x9999"
    assert leaves(trio, 2, unknown) == set()
    assert trio.driver.converge(Update(put=port(1, 1, filtered=True, open=True))).ok
    assert leaves(trio, 2, unknown) == {"tap1"}


def test_firewall_filters_each_direction_by_itself(trio):
    firewall(trio, EVERYTHING[0])
    assert leaves(trio, 1, BROADCAST) == {"tap2", "tap3"}
    assert leaves(trio, 2, BROADCAST) == {"tap3"}
    assert trio.driver.converge(Update(put=port(2, 1, filtered=True))).ok
    assert leaves(trio, 1, BROADCAST) == {"tap3"}
    firewall(trio, f"table=81,reg8={ofport(trio, 2)}/0xffff,actions=resubmit(,92)")
    assert leaves(trio, 1, BROADCAST) == {"tap2", "tap3"}
    assert leaves(trio, 3, BROADCAST) == {"tap2"}


def ofport(host, number: int) -> int:
    return int(host.ovs.vsctl("get", "Interface", f"tap{number}", "ofport"))


@pytest.mark.spec("FW-09", "L2-40")
def test_a_part_of_what_is_wanted_opens_no_filtered_port_after_a_restart(trio):
    before = trio.flows("br-int")
    trio.machines.append(trio.instance(4))
    successor = trio.start()
    assert successor.converge(Update(put=port(4, 1))).ok
    assert leaves(trio, 4, BROADCAST) == {"tap2", "tap3"}
    assert leaves(trio, 1, BROADCAST) == set()
    assert successor.converge(Update(put={}, drop=frozenset(port(4, 1)))).ok
    assert set(trio.flows("br-int")) == set(before)


@pytest.mark.spec("FW-09")
def test_a_port_becomes_filtered_and_free_without_losing_what_is_allowed(trio):
    firewall(trio, *EVERYTHING)
    with trio.machines[1].pinging("10.0.0.1", interval=0.01, timeout=TIMEOUT) as ping:
        for filtered in (False, True, False, True):
            for admission in (Admission.HOLD, Admission.LIVE):
                wiring = port(1, 1, admission, filtered=filtered)
                assert trio.driver.converge(Update(put=wiring)).ok
                assert trio.machines[2].ping("10.0.0.1", timeout=TIMEOUT).lost == 0
        assert ping.stop().lost == 0


def test_flows_of_the_firewall_are_not_the_switch_drivers(trio):
    firewall(trio, *EVERYTHING)
    before = trio.flows("br-int")
    assert trio.driver.converge(Update(put=trio.wanted, complete=True)).ok
    assert trio.start().converge(Update(put=trio.wanted, complete=True)).ok
    assert set(trio.flows("br-int")) == set(before)


def test_a_multicast_reaches_a_thousand_filtered_ports_of_one_network(trio, tmp_path: Path):
    # The switch drops a packet that passes too many tables.
    firewall(
        trio,
        "table=81,priority=1,ip,actions=resubmit(,82)",
        "table=82,priority=1,ip,actions=resubmit(,73)",
        "table=73,priority=1,ip,actions=resubmit(,92)",
    )
    chunks = defaultdict(list)
    for number in range(1000, 2000):
        chunks[number >> CHUNK_BITS].append(Receiver(number, filtered=True))
    flows = [*br_int.domain_flows(1, tuple(chunks), (), None, ExtensionLayout())]
    for chunk, receivers in chunks.items():
        flows += br_int.chunk_flows(1, chunk, tuple(receivers), ExtensionLayout())
    listed = tmp_path / "flows"
    listed.write_text("\n".join(map(str, flows)))
    trio.ovs.ofctl("-OOpenFlow14", "add-flows", trio.ovs.management("br-int"), str(listed))
    packet = f"in_port=tap2,dl_src={mac(2)},ip,dl_dst=01:00:5e:00:00:01,nw_dst=224.0.0.1"
    trace = trio.ovs.appctl("ofproto/trace", "br-int", packet)
    assert "resubmit actions" not in trace
    assert trace.count("output:NXM_NX_REG8") == 1000


def granted(one, *places: PipelineHook) -> Grant:
    tables = tuple(TableRequest(name=place.value, hook=place) for place in places)
    return one.driver.grant(GrantRequest(owner="doorman", tables=tables))


@pytest.mark.spec("L2-25")
@pytest.mark.parametrize(
    "place",
    [PipelineHook.FROM_PORT, PipelineHook.SENT, PipelineHook.TO_PORT, PipelineHook.RECEIVED],
)
def test_an_extension_stands_before_and_behind_the_firewall(one, place: PipelineHook):
    # It drops broadcast, and does not change what the firewall refuses.
    grant = granted(one, place)
    table = grant.tables[place.value].number
    shut = of.Flow(
        table=table,
        priority=5,
        match=of.eth_dst("ff:ff:ff:ff:ff:ff"),
        cookie=grant.cookie,
    )
    addition = {ExtensionKey("doorman"): SwitchContribution(owner="doorman", flows=(shut,))}
    assert one.driver.converge(Update(put={**network(1), **addition})).ok
    for number in (1, 2, 3):
        one.instance(number)
    one.driver.observe(None)  # what was plugged is known
    put = {**port(1, 1, filtered=True), **port(2, 1, filtered=True), **port(3, 1)}
    assert one.driver.converge(Update(put=put)).ok
    assert leaves(one, 1, to(2)) | leaves(one, 3, to(1)) | leaves(one, 1, to(3)) == set()
    assert passed(one, table, 1, to(2)) == (place is PipelineHook.FROM_PORT)
    firewall(one, *EVERYTHING)
    assert leaves(one, 1, to(2)) == {"tap2"}
    assert leaves(one, 3, to(1)) == {"tap1"}
    assert passed(one, table, 1, to(2))
    for sender in (1, 3):
        assert leaves(one, sender, BROADCAST) == set()


def passed(host, table: int, source: int, packet: str) -> bool:
    """Return whether *packet* comes to *table*."""
    text = f"in_port=tap{source},dl_src={mac(source)},{packet}"
    trace = host.ovs.appctl("ofproto/trace", "br-int", text)
    return any(line.strip().startswith(f"{table}. ") for line in trace.splitlines())


@pytest.mark.spec("L2-25")
@pytest.mark.parametrize("place", [PipelineHook.FROM_PORT, PipelineHook.SENT])
def test_what_an_extension_tracks_is_nothing_to_the_firewall(one, place: PipelineHook):
    grant = granted(one, place)
    table = grant.tables[place.value]
    tracked = of.Flow(
        table=table.number,
        priority=5,
        match=of.ipv4() & of.ct_state("-trk"),
        actions=(of.ct(table=table.number, zone=77),),
        cookie=grant.cookie,
    )
    addition = {ExtensionKey("doorman"): SwitchContribution(owner="doorman", flows=(tracked,))}
    assert one.driver.converge(Update(put={**network(1), **addition})).ok
    machines = [one.instance(number) for number in (1, 2)]
    one.driver.observe(None)  # what was plugged is known
    put = {**port(1, 1, filtered=True), **port(2, 1, filtered=True)}
    assert one.driver.converge(Update(put=put)).ok
    unseen = "priority=9,ip,ct_state=+trk,actions=drop"  # only one of its own may be tracked
    firewall(one, *EVERYTHING, f"table=71,{unseen}", f"table=81,{unseen}")
    assert machines[0].ping("10.0.0.2", timeout=TIMEOUT).lost == 0


@pytest.mark.spec("FW-04")
def test_a_filtered_receiver_decides_which_connections_are_remembered(trio):
    # A connection that its receiver on this host refuses must not be tracked.
    assert trio.driver.converge(Update(put=port(2, 1, filtered=True))).ok
    zone = "zone=NXM_NX_REG6[0..15]"
    firewall(
        trio,
        f"table=71,priority=2,ip,ct_state=-trk,actions=load:0->NXM_NX_REG7[16],ct(table=72,{zone})",
        "table=72,priority=1,ip,ct_state=+trk,actions=resubmit(,73)",
        f"table=73,priority=10,reg7=0/0x10000,ip,ct_state=+new,actions=ct(commit,{zone}),"
        "resubmit(,91)",
        "table=71,priority=1,arp,actions=resubmit(,91)",
        "table=81,priority=1,arp,actions=resubmit(,92)",
    )
    one = trio.machines[0]

    def introduced() -> bool:
        one.ping("10.0.0.2", count=1, timeout=0.3)
        return mac(2) in hears(trio, 1)

    def remembered() -> bool:
        one.ping("10.0.0.3", count=1, timeout=0.3)  # its answer is not let in
        return "10.0.0.3" in trio.ovs.appctl("dpctl/dump-conntrack")

    wait_until(introduced)
    assert one.ping("10.0.0.2", count=1, timeout=0.3).lost == 1
    wait_until(remembered)  # the switch has handled what was sent before, too
    assert "10.0.0.2" not in trio.ovs.appctl("dpctl/dump-conntrack")
