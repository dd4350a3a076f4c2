"""An os-ken application on netfw's connection to a real switch."""

import logging
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from struct import pack
from typing import Any, ClassVar

import pytest
from os_ken.base.app_manager import OSKenApp
from os_ken.controller import ofp_event
from os_ken.controller.handler import (
    CONFIG_DISPATCHER,
    DEAD_DISPATCHER,
    MAIN_DISPATCHER,
    set_ev_cls,
)
from os_ken.lib.packet.ethernet import ethernet
from os_ken.lib.packet.packet import Packet
from os_ken.ofproto import ofproto_v1_3, ofproto_v1_4
from os_ken.ofproto import ofproto_v1_4 as ofp
from os_ken.ofproto import ofproto_v1_4_parser as parser

from netfw import flows as of
from netfw.errors import BackendUnavailable
from netfw.ovs.openflow import OpenFlow
from netfw.ovs.openflow.messages import Type, message
from netfw.ovs.osken import Datapath, MessageRefused, make_flow_mod
from netfw.testing.lab.openvswitch import PrivateOvs
from netfw.testing.lab.wait import wait_until
from tests.lab.ovs.openflow.openflow_peer import HELLO, Peer, received
from tests.lab.ovs.openflow.packets import packet_out

FRAME = "020000000002 020000000001 88b5"


class Recorder(OSKenApp):  # an application as os-ken's documents write it
    """Records events, and sends a flow when the switch has told its features."""

    OFP_VERSIONS: ClassVar = [ofproto_v1_4.OFP_VERSION]

    def __init__(self) -> None:
        super().__init__()
        self.features: list[Any] = []
        self.states: list[str] = []
        self.packets: list[Any] = []
        self.errors: list[Any] = []
        self.replies: list[Any] = []

    @set_ev_cls(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)
    def on_features(self, ev: Any) -> None:
        self.features.append(ev.msg)
        datapath = ev.msg.datapath
        actions = [parser.OFPActionOutput(datapath.ofproto.OFPP_CONTROLLER, ofp.OFPCML_NO_BUFFER)]
        instructions = [parser.OFPInstructionActions(ofp.OFPIT_APPLY_ACTIONS, actions)]
        datapath.send_msg(
            parser.OFPFlowMod(datapath, table_id=7, cookie=9, instructions=instructions)
        )

    @set_ev_cls(
        ofp_event.EventOFPStateChange, [CONFIG_DISPATCHER, MAIN_DISPATCHER, DEAD_DISPATCHER]
    )
    def on_state(self, ev: Any) -> None:
        self.states.append(ev.state)

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def on_packet(self, ev: Any) -> None:
        self.packets.append(ev.msg)
        if len(self.packets) == 1:
            raise RuntimeError("a handler that fails")

    @set_ev_cls(ofp_event.EventOFPErrorMsg, MAIN_DISPATCHER)
    def on_error(self, ev: Any) -> None:
        self.errors.append(ev.msg)

    @set_ev_cls([ofp_event.EventOFPBarrierReply, ofp_event.EventOFPDescStatsReply], MAIN_DISPATCHER)
    def on_reply(self, ev: Any) -> None:
        self.replies.append((ev.msg, ev.msg.datapath.ask(parser.OFPRoleRequest(
            ev.msg.datapath, ofp.OFPCR_ROLE_NOCHANGE, 0))))  # fmt: skip


@pytest.fixture
def app() -> Recorder:
    return Recorder()


@pytest.fixture
def datapath(client: OpenFlow, app: Recorder) -> Iterator[Datapath]:
    found = Datapath(client, app)
    found.wait_main()
    yield found
    found.close()


@pytest.mark.spec("DRV-49")
def test_an_application_sees_the_phases_and_sends_messages(
    ovs: PrivateOvs, bridge: str, client: OpenFlow, app: Recorder, datapath: Datapath
) -> None:
    assert app.states == [CONFIG_DISPATCHER, MAIN_DISPATCHER]
    assert [msg.datapath for msg in app.features] == [datapath]
    assert datapath.id == client.datapath_id() == app.features[0].datapath_id
    assert (datapath.ofproto, datapath.ofproto_parser) == (ofp, parser)
    assert datapath.is_active
    datapath.ask(parser.OFPBarrierRequest(datapath))
    assert "cookie=0x9, table=7" in ovs.ofctl(
        "-O", "OpenFlow14", "--no-stats", "dump-flows", bridge
    )


@pytest.mark.spec("DRV-49")
def test_messages_have_numbers_of_their_own_or_those_of_the_application(
    datapath: Datapath,
) -> None:
    first, second, third = (parser.OFPDescStatsRequest(datapath, 0) for _ in range(3))
    number = datapath.set_xid(first)
    (reply,) = datapath.ask(first)
    assert reply.xid == first.xid == number
    for each in (second, third):
        datapath.ask(each)
    assert len({0, number, second.xid, third.xid}) == 4


def test_packets_come_in_and_go_out(ovs: PrivateOvs, app: Recorder, datapath: Datapath) -> None:
    packet_out(ovs, FRAME, "resubmit(,7)")
    wait_until(lambda: app.packets)
    (packet,) = app.packets
    assert packet.datapath is datapath
    assert (packet.table_id, packet.cookie) == (7, 9)
    assert Packet(packet.data).get_protocol(ethernet).ethertype == 0x88B5
    again = parser.OFPActionOutput(ofp.OFPP_TABLE)
    table = make_flow_mod(datapath, of.Flow(table=0, priority=5, match=of.ANYTHING,
                                            actions=(of.goto(7),)))  # fmt: skip
    datapath.ask(table)
    out = parser.OFPPacketOut(datapath, ofp.OFP_NO_BUFFER, ofp.OFPP_LOCAL, [again], packet.data)
    assert datapath.ask(out) == []
    wait_until(lambda: len(app.packets) == 2)  # although the first call failed
    assert app.packets[1].match["in_port"] == ofp.OFPP_LOCAL


def test_requesting_packets_keeps_how_the_bridge_matches_fragments(
    client: OpenFlow, app: Recorder
) -> None:
    client.match_first_fragments()
    datapath = Datapath(client, app)
    try:
        datapath.wait_main()
        (config,) = datapath.ask(parser.OFPGetConfigRequest(datapath))
    finally:
        datapath.close()
    assert (config.flags, config.miss_send_len) == (3, 0xFFFF)


@pytest.mark.spec("DRV-49")
def test_groups_meters_ports_and_features_are_os_kens(
    ovs: PrivateOvs, bridge: str, datapath: Datapath
) -> None:
    bucket = parser.OFPBucket(actions=[parser.OFPActionOutput(ofp.OFPP_LOCAL)])
    group = parser.OFPGroupMod(datapath, ofp.OFPGC_ADD, ofp.OFPGT_ALL, 5, [bucket])
    assert datapath.ask(group) == []
    assert "group_id=5,type=all" in ovs.ofctl("-O", "OpenFlow14", "dump-groups", bridge)
    (described,) = datapath.ask(parser.OFPGroupDescStatsRequest(datapath, 0, ofp.OFPG_ALL))
    assert [(entry.group_id, entry.type) for entry in described.body] == [(5, ofp.OFPGT_ALL)]
    bands = [parser.OFPMeterBandDrop(rate=10, burst_size=20)]
    flags = ofp.OFPMF_PKTPS | ofp.OFPMF_BURST
    datapath.ask(parser.OFPMeterMod(datapath, ofp.OFPMC_ADD, flags, 8, bands))
    (meters,) = datapath.ask(parser.OFPMeterConfigStatsRequest(datapath))
    assert [(entry.meter_id, entry.bands[0].rate) for entry in meters.body] == [(8, 10)]
    ports = datapath.ask(parser.OFPPortDescStatsRequest(datapath, 0))
    assert [port.name for part in ports for port in part.body] == [b"br0"]
    (role,) = datapath.ask(parser.OFPRoleRequest(datapath, ofp.OFPCR_ROLE_NOCHANGE, 0))
    assert role.role == ofp.OFPCR_ROLE_EQUAL


@pytest.mark.spec("DRV-49")
def test_a_refusal_is_os_kens_error_with_the_message_it_quotes(
    client: OpenFlow, app: Recorder, datapath: Datapath
) -> None:
    wrong = make_flow_mod(
        datapath,
        of.Flow(table=3, priority=5, match=of.ANYTHING, actions=(of.Meter(999), of.output(1))),
    )
    with pytest.raises(MessageRefused, match="OFPMMFC_INVALID_METER") as refused:
        datapath.ask(wrong)
    error = refused.value.msg
    assert isinstance(error, parser.OFPErrorMsg)
    assert (error.type, error.xid) == (ofp.OFPET_METER_MOD_FAILED, wrong.xid)
    assert error.data[:8] == bytes(wrong.buf[:8])
    assert app.errors == []
    wrong.xid = None
    assert datapath.send_msg(wrong)
    wait_until(lambda: app.errors)
    assert (app.errors[0].xid, app.errors[0].datapath) == (wrong.xid, datapath)


def test_handlers_get_replies_to_what_was_sent_and_may_ask(
    app: Recorder, datapath: Datapath
) -> None:
    assert datapath.send_barrier()
    datapath.send_msg(parser.OFPDescStatsRequest(datapath, 0))
    wait_until(lambda: len(app.replies) == 2)
    kinds = [type(message) for message, _ in app.replies]
    assert kinds == [parser.OFPBarrierReply, parser.OFPDescStatsReply]
    assert all(role.role == ofp.OFPCR_ROLE_EQUAL for _, (role,) in app.replies)


@pytest.mark.spec("DRV-49")
def test_a_lost_switch_is_reported_and_comes_back(
    ovs: PrivateOvs, app: Recorder, datapath: Datapath
) -> None:
    ovs.stop_switch()
    wait_until(lambda: app.states[-1] == DEAD_DISPATCHER)
    assert not datapath.send_msg(parser.OFPBarrierRequest(datapath))
    with pytest.raises(BackendUnavailable):
        datapath.ask(parser.OFPBarrierRequest(datapath))
    ovs.start_switch()
    wait_until(lambda: app.states[-1] == MAIN_DISPATCHER)
    assert app.states[:3] == [CONFIG_DISPATCHER, MAIN_DISPATCHER, DEAD_DISPATCHER]
    assert app.states[-2:] == [CONFIG_DISPATCHER, MAIN_DISPATCHER]
    assert len(app.features) >= 2
    datapath.wait_main()
    datapath.ask(parser.OFPBarrierRequest(datapath))


def test_slow_handlers_do_not_delay_the_client_and_the_queue_is_bounded(
    client: OpenFlow, caplog: pytest.LogCaptureFixture
) -> None:
    release, called = threading.Event(), threading.Event()
    seen: list[Any] = []

    class Slow:
        @set_ev_cls(ofp_event.EventOFPBarrierReply, MAIN_DISPATCHER)
        def on_reply(self, ev: Any) -> None:
            seen.append(ev.msg.xid)
            called.set()
            release.wait(60)

    datapath = Datapath(client, Slow())
    try:
        datapath.wait_main()
        for _ in range(1500):
            datapath.send_barrier()
        client.barrier()  # the connection serves others meanwhile
        assert called.wait(60)
        release.set()
        with caplog.at_level(logging.WARNING):
            wait_until(lambda: "dropped" in caplog.text)
        assert 1000 <= len(seen) <= 1001
    finally:
        release.set()
        datapath.close()


def test_closing_leaves_the_client_and_no_thread(client: OpenFlow, app: Recorder) -> None:
    datapath = Datapath(client, app)
    datapath.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("os-ken")]
    client.barrier()


class Old(Recorder):
    OFP_VERSIONS: ClassVar = [ofproto_v1_3.OFP_VERSION]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [(Old, "Old does not speak OpenFlow 1.4: add ofproto_v1_4"), (object, "object has no method")],
)
def test_an_application_that_cannot_work_is_refused(
    client: OpenFlow, wrong: Callable[[], object], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        Datapath(client, wrong())


def test_waiting_for_a_switch_goes_on_over_a_lost_connection() -> None:
    may_hang_up = threading.Event()

    def serve(sock: socket.socket) -> None:
        sock.sendall(HELLO)
        while True:
            kind, xid, _ = received(sock)
            if not may_hang_up.is_set() and kind == Type.BARRIER_REQUEST:
                may_hang_up.wait(30)
                return
            if kind == Type.FEATURES_REQUEST:
                sock.sendall(message(Type.FEATURES_REPLY, xid, pack("!Q16x", 7)))
            elif kind == Type.BARRIER_REQUEST:
                sock.sendall(message(Type.BARRIER_REPLY, xid))

    peer = Peer(serve)
    client = OpenFlow(peer.target)
    datapath = Datapath(client)
    try:
        condition: Any = datapath._main._condition
        with ThreadPoolExecutor() as pool:
            waiting = pool.submit(datapath.wait_main, 30)
            wait_until(lambda: condition._waiters)
            may_hang_up.set()
            waiting.result(20)
        assert datapath.id == 7
    finally:
        may_hang_up.set()
        datapath.close()
        client.close()
        peer.close()
