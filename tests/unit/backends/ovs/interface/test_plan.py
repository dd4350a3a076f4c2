"""What the interface driver would do, as the lines that a person reads."""

from uuid import UUID

import pytest
from attrs import evolve

from netfw.drivers.interface import Attachment
from netfw.errors import BackendBroken, Conflict, NotFound
from netfw.linux.ip.values import Link
from netfw.model.values.ids import PortId
from netfw.ovs.ovsdb.values import Bridge, Interface, OvsdbPort
from netfw.plan import Update
from netfw_drivers.ovs.interface.observed import InterfaceSettings, Observed
from netfw_drivers.ovs.interface.plan import plan_interfaces

A, B = PortId(UUID(int=0xA << 96)), PortId(UUID(int=0xB << 96))
MAC, OTHER_MAC = "fa:16:3e:00:00:0a", "fa:16:3e:00:00:0b"
BRIDGE = Bridge(uuid=UUID(int=1), name="br-int", datapath_type="netdev")
INTERNAL, VETH = (
    InterfaceSettings(bridge="br-int"),
    InterfaceSettings(bridge="br-int", use_veth=True),
)
TAP_A = "tap0000000a-00"


def wanted(device="tap-a", netns="n1", **more) -> Attachment:
    return Attachment(device=device, mac=more.pop("mac", MAC), netns=netns, **more)


def link(name="tap-a", kind="tun", **more) -> Link:
    return Link(
        **{
            "name": name,
            "index": 9,
            "kind": kind,
            "mtu": 1500,
            "mac": MAC,
            "up": True,
            "state": "up",
        }
        | more
    )


def port(name="tap-a", owner=A, netns="n1", tag=7, **interface) -> OvsdbPort:
    marks = {"netfw-port": str(owner)} | ({"netfw-netns": netns} if netns else {})
    ids = {"iface-id": str(owner), "attached-mac": MAC, "iface-status": "active"}
    row = {"type": "internal", "mac": MAC, "ofport": 3, "external_ids": ids} | interface
    return OvsdbPort(
        uuid=UUID(int=2),
        name=name,
        bridge="br-int",
        tag=tag,
        external_ids=marks,
        interfaces=(Interface(uuid=UUID(int=3), name=name, **row),),
    )


def veth_port(**more) -> OvsdbPort:
    found = port(TAP_A, **{"type": "", "mac": None} | more)
    return evolve(found, external_ids={**found.external_ids, "netfw-device": "tap-a"})


def seen(*ports: OvsdbPort, links=None, bridge=BRIDGE, foreign=()) -> Observed:
    ours = {PortId(UUID(p.external_ids["netfw-port"])): (p,) for p in ports}
    return Observed(
        bridge=bridge,
        ours=ours,
        named={p.name: p for p in (*ports, *foreign)},
        links={None: {}, "n1": {}, "n2": {}} | (links or {}),
    )


def lines(update: Update, observed: Observed, settings=INTERNAL) -> list[str]:
    return list(plan_interfaces(update, observed, settings).lines())


def refusal(update: Update, observed: Observed, key=A, settings=INTERNAL) -> Exception:
    return plan_interfaces(update, observed, settings).refused[key]


RIGHT = seen(port(), links={"n1": {"tap-a": link()}})
RIGHT_VETH = seen(
    veth_port(), links={None: {TAP_A: link(TAP_A, "veth")}, "n1": {"tap-a": link(kind="veth")}}
)


def test_agreement_needs_nothing():
    assert lines(Update(put={A: wanted()}), RIGHT) == []
    assert lines(Update(put={A: wanted()}), RIGHT_VETH, VETH) == []


def test_a_new_port_is_dead_moved_sized_and_up_in_this_order():
    assert lines(Update(put={A: wanted(mtu=1450)}), seen()) == [
        f"1. ovsdb: add port tap-a to br-int type=internal mac={MAC} tag=4095",
        "2. links: ip link set tap-a netns n1",
        "3. links/n1: ip link set tap-a mtu 1450",
        "4. links/n1: ip link set tap-a up",
    ]


def test_a_new_pair_is_announced_when_it_is_whole_and_raised_when_it_was_found():
    assert lines(Update(put={A: wanted()}), seen(), VETH) == [
        f"1. ovsdb: add port {TAP_A} to br-int tag=4095",
        f"2. links: ip link add {TAP_A} type veth peer name tap-a netns n1",
        f"3. links: ip link set {TAP_A} mtu 1500",
        f"4. links/n1: ip link set tap-a address {MAC}",
        "5. links/n1: ip link set tap-a mtu 1500",
        "6. links/n1: ethtool -K tap-a tx off",
        "7. links/n1: ip link set tap-a up",
        f"8. ovsdb: set Interface {TAP_A} external_ids:iface-status=active",
        f"9. links: ip link set {TAP_A} up",
    ]


def test_checksums_are_left_alone_on_a_kernel_datapath():
    observed = seen(bridge=evolve(BRIDGE, datapath_type="system"))
    assert not [line for line in lines(Update(put={A: wanted()}), observed, VETH) if "tx" in line]


def test_a_pair_whose_device_has_the_name_of_its_own_end_gets_another():
    first, *_ = lines(Update(put={A: wanted(TAP_A, netns=None)}), seen(), VETH)
    assert "add port ovs0000000a-00" in first


def test_drift_is_put_right_without_a_word_about_the_tag():
    drifted = seen(
        port(tag=None, external_ids={}), links={"n1": {"tap-a": link(mac=OTHER_MAC, up=False)}}
    )
    assert lines(Update(put={A: wanted()}), drifted) == [
        f"1. ovsdb: set Interface tap-a external_ids:iface-id={A} "
        f"external_ids:attached-mac={MAC} external_ids:iface-status=active",
        f"2. links/n1: ip link set tap-a address {MAC}",
        "3. links/n1: ip link set tap-a up",
    ]


def test_on_the_host_itself_the_mtu_is_requested_of_the_switch():
    here = seen(port(netns=None), links={None: {"tap-a": link()}})
    assert lines(Update(put={A: wanted(netns=None, mtu=1400)}), here) == [
        "1. ovsdb: set Interface tap-a mtu_request=1400",
        "2. links: ip link set tap-a mtu 1400",
    ]


def test_a_device_that_is_gone_is_made_anew_in_two_transactions():
    assert lines(Update(put={A: wanted(up=False)}), seen(port())) == [
        "1. ovsdb: remove port tap-a",
        f"2. ovsdb: add port tap-a to br-int type=internal mac={MAC} tag=4095",
        "3. links: ip link set tap-a netns n1",
        "4. links/n1: ip link set tap-a mtu 1500",
    ]


def test_what_a_restarted_switch_left_behind_makes_room_for_its_new_device():
    restarted = seen(port(), links={None: {"tap-a": link(mac=OTHER_MAC)}, "n1": {"tap-a": link()}})
    assert lines(Update(put={A: wanted()}), restarted) == [
        "1. links/n1: ip link delete tap-a",
        "2. links: ip link set tap-a netns n1",
        f"3. links/n1: ip link set tap-a address {MAC}",
        "4. links/n1: ip link set tap-a mtu 1500",
        "5. links/n1: ip link set tap-a up",
    ]
    assert lines(Update(drop=frozenset({A})), restarted) == [
        "1. links/n1: ip link delete tap-a",
        "2. ovsdb: remove port tap-a",
    ]


def test_a_device_moves_from_namespace_to_namespace():
    assert lines(Update(put={A: wanted(netns="n2")}), RIGHT) == [
        "1. ovsdb: set Port tap-a external_ids:netfw-netns=n2",
        "2. links/n1: ip link set tap-a netns n2",
        "3. links/n2: ip link set tap-a mtu 1500",
        "4. links/n2: ip link set tap-a up",
    ]


def test_a_pair_that_a_crash_left_half_made_is_completed():
    half = seen(veth_port(external_ids={"iface-id": str(A), "attached-mac": MAC}))
    done = lines(Update(put={A: wanted()}), half, VETH)
    assert done[0] == f"1. links: ip link add {TAP_A} type veth peer name tap-a netns n1"
    assert done[-2].endswith("iface-status=active")
    assert done[-1].endswith(f"ip link set {TAP_A} up")


def test_an_error_from_before_the_pair_was_made_does_not_keep_it_from_being_completed():
    half = seen(
        veth_port(external_ids={}, ofport=-1, error="No such device"), links=RIGHT_VETH.links
    )
    plan = plan_interfaces(Update(put={A: wanted()}), half, VETH)
    assert (plan.refused, plan.waiting) == ({}, {})
    assert str(plan).endswith("iface-status=active")


def test_a_complete_pair_that_the_switch_has_not_opened_is_marked_again_and_waits():
    lost = seen(veth_port(ofport=-1, error="No such device"), links=RIGHT_VETH.links)
    assert lines(Update(put={A: wanted()}), lost, VETH) == [
        f"1. ovsdb: set Interface {TAP_A} external_ids:iface-status=active",
        f"waiting: {A}: the switch looks for {TAP_A}: No such device",
    ]


def test_a_pair_is_removed_before_its_mark():
    assert lines(Update(complete=True), RIGHT_VETH, VETH) == [
        f"1. links: ip link delete {TAP_A}",
        f"2. ovsdb: remove port {TAP_A}",
    ]


def test_internal_ports_become_pairs_when_the_option_changes():
    done = lines(Update(put={A: wanted()}), RIGHT, VETH)
    assert done[0] == "1. ovsdb: remove port tap-a"
    assert done[1] == f"2. ovsdb: add port {TAP_A} to br-int tag=4095"


@pytest.mark.parametrize("place", [None, "n1"])
def test_a_device_is_removed_before_its_mark_which_a_dead_switch_would_not_do(place):
    observed = seen(port(netns=place), links={place: {"tap-a": link(carrier=False)}})
    where = f"links/{place}" if place else "links"
    assert lines(Update(complete=True), observed) == [
        f"1. {where}: ip link delete tap-a",
        "2. ovsdb: remove port tap-a",
    ]


@pytest.mark.parametrize("place", [None, "n1"])
def test_a_device_that_the_switch_has_open_is_left_to_it(place):
    observed = seen(port(netns=place), links={place: {"tap-a": link()}})
    assert lines(Update(complete=True), observed) == ["1. ovsdb: remove port tap-a"]


@pytest.mark.parametrize(
    ("of", "foreign"),
    [
        (port(netns=None), link(mac=OTHER_MAC, carrier=False)),
        (port(netns=None), link(kind="veth", carrier=False)),
        (port(netns=None, error="File exists", ofport=-1), link(carrier=False)),
        (port(netns=None), link(kind="openvswitch", carrier=False)),
        (veth_port(external_ids={}), link(TAP_A, "veth")),
    ],
    ids=["other MAC", "other kind", "not opened", "the kernel's own port", "no other end"],
)
def test_a_device_that_is_not_the_ports_or_goes_by_itself_is_left_alone(of, foreign):
    observed = seen(of, links={None: {foreign.name: foreign}})
    assert lines(Update(complete=True), observed) == [f"1. ovsdb: remove port {of.name}"]


def test_a_new_port_on_the_host_itself_shows_its_size():
    (first, *_) = lines(Update(put={A: wanted(netns=None, mtu=1400)}), seen())
    assert first == (
        f"1. ovsdb: add port tap-a to br-int type=internal mac={MAC} mtu_request=1400 tag=4095"
    )


def test_each_size_is_a_stage_of_its_own_which_can_be_refused_alone():
    ports = port(netns=None), port("tap-b", B, netns=None)
    observed = seen(*ports, links={None: {"tap-a": link(), "tap-b": link("tap-b")}})
    both = {A: wanted(netns=None, mtu=9000), B: wanted("tap-b", netns=None, mtu=9000)}
    plan = plan_interfaces(Update(put=both), observed, INTERNAL)
    assert [str(operation) for operation in plan][:2] == [
        f"ovsdb: set Interface {name} mtu_request=9000" for name in ("tap-a", "tap-b")
    ]
    assert {len(stage.operations) for stage in plan.stages} == {1}


def test_removals_come_by_tens():
    many = [port(f"tap-{n}", PortId(UUID(int=n << 96))) for n in range(1, 26)]
    plan = plan_interfaces(Update(complete=True), seen(*many), INTERNAL)
    assert [len(stage.operations) for stage in plan.stages] == [10, 10, 5]


def test_a_name_moves_from_port_to_port():
    update = Update(put={B: wanted(mac=OTHER_MAC, up=False)}, drop=frozenset({A}))
    assert lines(update, RIGHT)[:2] == [
        "1. ovsdb: remove port tap-a",
        f"2. ovsdb: add port tap-a to br-int type=internal mac={OTHER_MAC} tag=4095",
    ]


def test_a_port_refused_its_new_name_keeps_the_old_one_for_itself():
    foreign = OvsdbPort(uuid=UUID(int=8), name="taken", bridge="br-ex")
    observed = evolve(RIGHT, named={**RIGHT.named, "taken": foreign})
    update = Update(put={A: wanted("taken"), B: wanted("tap-a", mac=OTHER_MAC)})
    plan = plan_interfaces(update, observed, INTERNAL)
    assert not plan
    assert {key: type(error) for key, error in plan.refused.items()} == {A: Conflict, B: Conflict}


@pytest.mark.parametrize("settings", [INTERNAL, VETH])
@pytest.mark.parametrize("place", [None, "n1"])
def test_a_device_that_netfw_did_not_make_is_a_conflict(settings, place):
    there = seen(links={place: {"tap-a": link(kind="veth")}})
    assert isinstance(
        refusal(Update(put={A: wanted(netns=place)}), there, settings=settings), Conflict
    )


def test_a_mark_on_a_name_that_another_device_took_first_is_withdrawn():
    late = seen(
        port(netns=None, ofport=-1, error="could not open network device"),
        links={None: {"tap-a": link(kind="veth")}},
    )
    update = Update(put={A: wanted(netns=None)})
    assert isinstance(refusal(update, late), Conflict)
    assert lines(update, late)[0] == "1. ovsdb: remove port tap-a"


def test_a_missing_bridge_is_said_clearly_and_keeps_nothing_from_being_dropped():
    error = refusal(Update(put={A: wanted()}), seen(bridge=None))
    assert isinstance(error, BackendBroken)
    assert "ovs-vsctl add-br br-int" in str(error)
    assert lines(Update(drop=frozenset({A})), seen(bridge=None)) == []


def test_a_missing_namespace_is_said_clearly():
    error = refusal(Update(put={A: wanted(netns="nowhere")}), seen())
    assert isinstance(error, NotFound)
    assert "nowhere" in str(error)


def test_every_operation_names_its_owner():
    plan = plan_interfaces(
        Update(put={A: wanted(), B: wanted("tap-b", mac=OTHER_MAC)}), seen(), VETH
    )
    assert {operation.owners for operation in plan} == {frozenset({A}), frozenset({B})}
    assert len(set(plan)) == len(plan), "they can be told apart"


@pytest.mark.parametrize(
    "impossible",
    [{"mac": "00:00:00:00:00:00"}, {"mtu": 67}, {"mtu": 0}, {"mtu": -1}, {"mtu": 65536}],
    ids=str,
)
def test_values_that_no_machine_has_are_refused(impossible):
    with pytest.raises(ValueError, match="tap-a"):
        wanted(**impossible)
    assert wanted(mtu=68).mtu == 68
    assert wanted(mtu=65535).mtu == 65535
