"""The switch driver on a real switch, beyond what its contract says."""

import time

import pytest
from attrs import evolve

from netfw import flows as of
from netfw.drivers.values.events import BackendRecovered
from netfw.drivers.values.keys import NetworkKey, PortKey
from netfw.drivers.values.pipeline_grant import GrantRequest, PipelineHook, TableRequest
from netfw.drivers.values.switch_contribution import SwitchContribution
from netfw.drivers.values.switch_values import Admission, Endpoint, Tunnel
from netfw.model.segment import NetworkType
from netfw.plan import Update
from netfw.testing.lab.wait import TIMEOUT, wait_until
from netfw_drivers.ovs.pipeline.tables import COOKIE
from tests.lab.backends.ovs.event_recorder import EventRecorder
from tests.lab.backends.ovs.switch.environment import mac, network, network_id, port, port_id

BROADCAST = "dl_dst=ff:ff:ff:ff:ff:ff,dl_type=0x9999"
PHYSICAL = {"bridge_mappings": {"physnet1": "br-ex"}}


@pytest.fixture
def trio(one):
    """Return a host with one network with three live ports: instances 1, 2 and 3."""
    one.driver.converge(Update(put=network(1)))
    one.machines = [one.instance(number) for number in (1, 2, 3)]
    one.driver.observe(None)  # what was plugged is known
    one.wanted = {**network(1), **port(1, 1), **port(2, 1), **port(3, 1)}
    outcome = one.driver.converge(Update(put=one.wanted, complete=True))
    assert outcome.ok, outcome
    return one


def leaves(host, source: str, packet: str) -> set[str]:
    return set(host.ovs.leaves_by("br-int", f"in_port={source},{packet}"))


def test_ports_of_a_network_talk_and_broadcast_reaches_them_alone(trio):
    assert trio.machines[0].ping("10.0.0.2", timeout=TIMEOUT).lost == 0
    assert trio.machines[2].ping("fd00:1::1", timeout=TIMEOUT).lost == 0
    assert leaves(trio, "tap1", f"dl_src={mac(1)},{BROADCAST}") == {"tap2", "tap3"}


def test_a_device_plugged_without_a_tag_receives_nothing(trio):
    trio.instance(9, tag=None)
    trio.ovs.vsctl("add-port", "br-int", "stray", "--", "set", "Interface", "stray",
                   "type=internal")  # fmt: skip
    assert leaves(trio, "tap1", f"dl_src={mac(1)},{BROADCAST}") == {"tap2", "tap3"}
    assert leaves(trio, "tap9", f"dl_src={mac(9)},{BROADCAST}") == set()
    assert leaves(trio, "stray", f"dl_src={mac(9)},{BROADCAST}") == set()


@pytest.mark.spec("L2-13")
def test_a_tag_admits_no_port(trio):
    # The tag is written before the filters are there; the flows of a port admit it.
    trio.instance(4)
    trio.driver.observe(None)  # what was plugged is known
    held = port(4, 1, Admission.HOLD)
    assert trio.driver.converge(Update(put=held)).ok
    assert trio.tag(4) == trio.tag(1) != "4095"
    assert leaves(trio, "tap4", f"dl_src={mac(4)},{BROADCAST}") == set()
    assert leaves(trio, "tap1", f"dl_src={mac(1)},{BROADCAST}") == {"tap2", "tap3"}
    assert leaves(trio, "tap1", f"dl_src={mac(1)},dl_dst={mac(4)},dl_type=0x9999") == set()
    assert trio.driver.converge(Update(put=port(4, 1))).ok
    assert leaves(trio, "tap1", f"dl_src={mac(1)},{BROADCAST}") == {"tap2", "tap3", "tap4"}


@pytest.mark.spec("L2-12")
def test_devices_that_claim_the_id_of_a_port_take_nothing_from_it(trio):
    claims = [f"{port_id(1)}", f"{{{port_id(1)}}}", f"urn:uuid:{port_id(1)}"]
    for number, claim in enumerate(claims):
        name = f"aaa{number}"
        trio.ovs.vsctl("add-port", "br-int", name, "--", "set", "Interface", name,
                       "type=internal", f'external_ids:iface-id="{claim}"')  # fmt: skip
    trio.driver.observe(None)  # what was plugged is known
    assert trio.driver.converge(Update(put=trio.wanted)).ok
    assert trio.driver.converge(Update(put=trio.wanted, complete=True)).ok
    assert leaves(trio, "tap2", f"dl_src={mac(2)},{BROADCAST}") == {"tap1", "tap3"}
    assert trio.start().converge(Update(put=trio.wanted, complete=True)).ok
    assert leaves(trio, "tap2", f"dl_src={mac(2)},{BROADCAST}") == {"tap1", "tap3"}
    assert trio.machines[0].ping("10.0.0.2", timeout=TIMEOUT).lost == 0


def test_what_is_for_an_unknown_address_goes_to_open_ports_alone(trio):
    unknown = f"dl_src={mac(1)},dl_dst=fa:16:3e:77:77:77,dl_type=0x9999"
    assert leaves(trio, "tap1", unknown) == set()
    assert trio.driver.converge(Update(put=port(3, 1, open=True))).ok
    assert leaves(trio, "tap1", unknown) == {"tap3"}
    assert trio.driver.converge(Update(put=port(3, 1))).ok
    assert leaves(trio, "tap1", unknown) == set()


def test_an_urgent_packet_is_no_packet_of_another_network(trio):
    urgent = f"dl_src={mac(1)},dl_dst={mac(2)},dl_vlan=0,dl_vlan_pcp=5,dl_type=0x9999"
    assert leaves(trio, "tap1", urgent) == {"tap2"}
    tagged = f"dl_src={mac(1)},dl_dst={mac(2)},dl_vlan=1,dl_type=0x9999"
    assert leaves(trio, "tap1", tagged) == set()


def test_a_port_that_sends_as_another_does_not_receive_its_traffic(trio):
    for _ in range(3):
        leaves(trio, "tap3", f"dl_src={mac(2)},{BROADCAST}")
    assert leaves(trio, "tap1", f"dl_src={mac(1)},dl_dst={mac(2)},dl_type=0x9999") == {"tap2"}


@pytest.mark.spec("L2-40")
def test_a_part_of_what_is_wanted_does_no_harm_to_the_rest_after_a_restart(trio):
    before = trio.durations("br-int")
    successor = trio.start()
    with trio.machines[0].pinging("10.0.0.2", timeout=TIMEOUT) as ping:
        assert successor.converge(Update(put={**network(1), **port(3, 1)})).ok
        assert ping.stop().lost == 0
    after = trio.durations("br-int")
    assert after.keys() == before.keys()
    assert all(after[flow] >= before[flow] for flow in before)
    assert successor.converge(Update(drop=frozenset({PortKey(port_id(3))}))).ok
    assert leaves(trio, "tap1", f"dl_src={mac(1)},{BROADCAST}") == {"tap2"}
    assert trio.machines[2].ping("10.0.0.1", count=1, timeout=0.3).lost == 1


@pytest.mark.spec("L2-42")
def test_a_restarted_database_changes_nothing(trio):
    recorder = EventRecorder(trio.driver)
    before = trio.durations("br-int")
    with trio.machines[0].pinging("10.0.0.2", timeout=TIMEOUT) as ping:
        trio.ovs.stop_database()
        trio.ovs.start_database()
        wait_until(lambda: recorder.lost)
        wait_until(lambda: trio.driver.converge(Update(put=trio.wanted, complete=True)).ok)
        assert ping.stop().lost == 0
    after = trio.durations("br-int")
    assert after.keys() == before.keys()
    assert all(after[flow] >= before[flow] for flow in before)


@pytest.mark.spec("L2-41")
def test_a_restarted_switch_is_noticed_by_its_lost_flows(trio):
    recorder = EventRecorder(trio.driver)
    assert trio.driver.forwards()
    trio.host.restart_switch()
    recorder.until(lambda event: isinstance(event, BackendRecovered) and "br-int" in event.reason)
    assert recorder.lost
    wait_until(lambda: not trio.driver.forwards())
    wait_until(lambda: trio.driver.converge(Update(put=trio.wanted, complete=True)).ok)
    assert trio.driver.forwards()
    assert trio.machines[0].ping("10.0.0.2", timeout=TIMEOUT).lost == 0


@pytest.mark.spec("L2-20")
@pytest.mark.parametrize(
    "flow",
    [
        f"table=61,priority=12,reg6=1/0xffff,dl_dst={mac(2)}",
        "table=63,priority=1,reg6=1/0xffff,reg8=0/0xffff0000",
        "table=61,priority=10,reg6=1/0xffff,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00",
    ],
)
def test_a_flow_deleted_by_hand_is_announced_for_its_keys(trio, flow):
    recorder = EventRecorder(trio.driver)
    before = set(trio.flows("br-int"))
    trio.ovs.ofctl("-OOpenFlow14", "--strict", "del-flows", trio.ovs.management("br-int"), flow)
    assert len(before - set(trio.flows("br-int"))) == 1
    wait_until(lambda: recorder.keys)
    wanted = {key: value for key, value in trio.wanted.items() if key in recorder.keys}
    assert trio.driver.converge(Update(put=wanted)).ok
    assert set(trio.flows("br-int")) == before


@pytest.mark.spec("L2-41")
def test_a_lost_canary_has_everything_looked_at_again(trio):
    recorder = EventRecorder(trio.driver)
    trio.ovs.ofctl("del-flows", trio.ovs.management("br-int"), "table=23")
    wait_until(lambda: recorder.lost)


@pytest.mark.spec("L2-20", "L2-41")
def test_a_flow_that_bears_our_cookie_and_is_not_ours_is_noticed_and_removed(trio):
    recorder = EventRecorder(trio.driver)
    before = set(trio.flows("br-int"))
    switch, cut = trio.ovs.management("br-int"), "table=0,priority=60000,actions=drop"
    trio.ovs.ofctl("add-flow", switch, "cookie=7,table=200,actions=drop")
    trio.ovs.ofctl("add-flow", switch, f"cookie={COOKIE:#x},{cut}")
    assert leaves(trio, "tap1", f"dl_src={mac(1)},{BROADCAST}") == set()
    wait_until(lambda: recorder.lost)
    (event,) = recorder.events
    assert event.reason.startswith("br-int has flows with our cookie")
    assert trio.driver.converge(Update(put=trio.wanted, complete=True)).ok
    (stranger,) = set(trio.flows("br-int")) ^ before
    assert "cookie=0x7," in stranger
    recorder.events.clear()
    trio.driver.observe(None)
    assert recorder.events == []


@pytest.mark.spec("L2-11")
def test_what_the_driver_did_itself_is_no_news(trio):
    recorder = EventRecorder(trio.driver)
    trio.instance(4)
    wait_until(lambda: recorder.keys == {PortKey(port_id(4))})
    trio.driver.observe(None)  # what was plugged is known
    for admission in (Admission.HOLD, Admission.LIVE, Admission.DEAD, Admission.LIVE):
        recorder.events.clear()
        assert trio.driver.converge(Update(put=port(4, 1, admission))).ok
        trio.driver.observe(None)
        assert recorder.events == []
    trio.ovs.vsctl("set", "Port", "tap4", "tag=77")
    wait_until(lambda: recorder.keys == {PortKey(port_id(4))})


@pytest.mark.spec("L2-10")
def test_the_first_thing_that_ever_comes_is_news(one):
    assert dict(one.driver.devices()) == {}
    recorder = EventRecorder(one.driver)
    one.ovs.add_bridge("br-int")
    one.instance(1)
    wait_until(lambda: recorder.keys == {PortKey(port_id(1))})


@pytest.mark.spec("L2-20")
def test_strangers_flows_stay_unless_one_starts_from_empty_tables(one):
    put = Update(put=network(1), complete=True)
    assert one.driver.converge(put).ok
    one.ovs.ofctl("add-flow", one.ovs.management("br-int"), "cookie=7,table=200,actions=drop")
    one.ovs.ofctl(
        "add-flow",
        one.ovs.management("br-int"),
        f"cookie={0x6E66_0100_0000_0000:#x},table=200,priority=5,actions=drop",
    )
    assert one.start().converge(put).ok
    (stranger,) = (flow for flow in one.flows("br-int") if "table=200" in flow)
    assert "cookie=0x7," in stranger
    before = one.durations("br-int")
    one.configure(drop_flows_on_start=True)
    assert one.start().converge(put).ok
    after = one.durations("br-int")
    assert before.keys() - after.keys() == {flow for flow in before if flow.startswith("200")}
    assert all(after[flow] >= before[flow] for flow in after)


@pytest.mark.spec("L2-05")
def test_devices_of_other_bridges_are_seen_and_not_touched(one):
    assert one.driver.converge(Update(put=network(1))).ok
    one.ovs.add_bridge("br-other")
    one.ovs.vsctl("add-port", "br-other", "tap8", "--", "set", "Interface", "tap8",
                  "type=internal", f"external_ids:iface-id={port_id(8)}")  # fmt: skip
    wait_until(lambda: port_id(8) in one.driver.devices())
    assert one.driver.devices()[port_id(8)].ancillary
    outcome = one.driver.converge(Update(put=port(8, 1)))
    assert outcome.waiting.keys() == {PortKey(port_id(8))}
    assert one.ovs.vsctl("get", "Port", "tap8", "tag").strip() == "[]"


@pytest.mark.spec("L2-03")
def test_no_link_is_joined_before_both_its_bridges_are_ready(make_lab, hosts):
    # A provider network whose frames came back from the host would be a loop.
    (host,) = make_lab(hosts=1, provider=["physnet1"]).hosts.values()
    host.ovs.vsctl("add-br", "br-ex", "--", "set", "Bridge", "br-ex", "datapath_type=netdev")
    host.ovs.vsctl("add-port", "br-ex", "physnet1")
    there = hosts(host, **PHYSICAL)
    update = Update(put=network(1))
    plan = there.driver.plan(update, there.driver.observe(update))
    frame = f"dl_src={mac(7)},{BROADCAST}"

    def joined(stage) -> None:
        left = host.ovs.leaves_by("br-ex", f"in_port=physnet1,{frame}")
        assert not left & {"physnet1", "int-br-ex"}
        peer = host.ovs.vsctl("get", "Interface", "phy-br-ex", "options:peer").strip()
        passed.append((stage.backend, peer.strip('"')))

    passed: list[tuple[str, str]] = []
    there.driver.apply(plan, joined)
    assert [backend for backend, _ in passed] == ["ovsdb", "flows/br-int", "flows/br-ex", "ovsdb"]
    assert [peer for _, peer in passed] == ["not-joined-yet"] * 3 + ["int-br-ex"]


@pytest.mark.spec("L2-25")
def test_an_extension_sees_what_ports_receive_broadcast_included(one):
    claim = GrantRequest(
        owner="doorman", tables=(TableRequest(name="door", hook=PipelineHook.TO_PORT),)
    )
    grant = one.driver.grant(claim)
    assert one.driver.converge(Update(put=network(1))).ok
    for number in (1, 2, 3):
        one.instance(number)
    one.driver.observe(None)  # what was plugged is known
    target = of.RegisterField(8, 0, 15, "the receiver")
    number = int(one.ovs.vsctl("get", "Interface", "tap2", "ofport"))
    shut = of.Flow(
        table=grant.tables["door"].number,
        priority=5,
        match=target.is_(number),
        cookie=grant.cookie,
    )
    closed = port(2, 1)
    (key,) = closed
    closed[key] = evolve(
        closed[key], contributions=(SwitchContribution(owner="doorman", flows=(shut,)),)
    )
    put = {**port(1, 1), **closed, **port(3, 1)}
    assert one.driver.converge(Update(put=put)).ok
    assert leaves(one, "tap1", f"dl_src={mac(1)},{BROADCAST}") == {"tap3"}
    assert leaves(one, "tap1", f"dl_src={mac(1)},dl_dst={mac(2)},dl_type=0x9999") == set()
    assert leaves(one, "tap1", f"dl_src={mac(1)},dl_dst={mac(3)},dl_type=0x9999") == {"tap3"}


@pytest.mark.spec("L2-31", "L2-20")
def test_learned_flows_are_left_alone_and_have_no_effect_without_their_tunnel(lab, hosts):
    one, two = (
        hosts(host, tunnel_types=["vxlan"], local_ip=str(host.address.ip))
        for host in lab.hosts.values()
    )
    overlay = network(1, network_type="vxlan", segmentation_id=5)
    peers = [Endpoint(NetworkType.VXLAN, there.host.address.ip) for there in (two, one)]
    machines = []
    for number, (here, peer) in enumerate(zip((one, two), peers, strict=True), 1):
        here.driver.converge(Update(put=overlay))
        machines.append(here.instance(number))
        here.driver.observe(None)  # what was plugged is known
        put = {**overlay, **port(number, 1), peer: Tunnel("peer", mesh=True)}
        assert here.driver.converge(Update(put=put, complete=True)).ok
    wait_until(lambda: machines[0].ping("10.0.0.2", count=1).received)
    assert machines[0].ping("10.0.0.2", timeout=TIMEOUT).lost == 0

    def learnt() -> list[str]:
        return [flow for flow in one.flows("br-tun") if "table=20, hard_timeout" in flow]

    assert len(learnt()) == 1
    put = {**overlay, **port(1, 1), peers[0]: Tunnel("peer", mesh=True)}
    assert one.start().converge(Update(put=put, complete=True)).ok
    assert len(learnt()) == 1
    assert one.driver.converge(Update(put={peers[0]: Tunnel("peer")})).ok
    to_peer = f"dl_src={mac(1)},dl_dst={mac(2)},dl_type=0x9999"
    assert leaves(one, "tap1", to_peer) == set()
    assert one.driver.converge(Update(put={peers[0]: Tunnel("peer", mesh=True)})).ok
    assert "vxlan_sys_4789" in leaves(one, "tap1", to_peer)


def test_a_crowd_of_ports_costs_one_more_flow_for_each_chunk(one):
    # Ports beyond one chunk receive broadcast as well.
    assert one.driver.converge(Update(put=network(1))).ok
    numbers = range(1, 151)
    adding: list[str] = []
    for number in numbers:
        ids = f"external_ids:iface-id={port_id(number)}"
        adding += ["--", "add-port", "br-int", f"tap{number}"]
        adding += ["--", "set", "Interface", f"tap{number}", "type=internal", ids]
    one.ovs.vsctl(*adding[1:])
    wanted = {key: value for number in numbers for key, value in port(number, 1).items()}
    deadline = time.monotonic() + 20
    while one.driver.converge(Update(put=wanted)).waiting:
        assert time.monotonic() < deadline
    recorder = leaves(one, "tap7", f"dl_src={mac(7)},{BROADCAST}")
    assert recorder == {f"tap{number}" for number in numbers if number != 7}
    chunks = [flow for flow in one.flows("br-int") if "table=63, priority=1," in flow]
    assert 3 <= len(chunks) <= 4
    gone = frozenset(PortKey(port_id(number)) for number in numbers if number > 2)
    assert one.driver.converge(Update(drop=gone)).ok
    assert leaves(one, "tap1", f"dl_src={mac(1)},{BROADCAST}") == {"tap2"}
    assert one.driver.present() == {NetworkKey(network_id(1)), *port(1, 1), *port(2, 1)}
