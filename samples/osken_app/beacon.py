"""Beacon: an os-ken application that shares a bridge with netfw's L2 agent and its firewall.

Frames of EtherType 0x88b5 from any port are answered with the datapath's id; the firewall filters
all the rest.  The application has a connection, a table and a cookie of its own:

    python beacon.py unix:/run/openvswitch/br-int.mgmt
"""

import sys
import threading
from typing import Any, ClassVar

from os_ken.base.app_manager import OSKenApp
from os_ken.controller import ofp_event
from os_ken.controller.handler import CONFIG_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from os_ken.lib.packet.ethernet import ethernet
from os_ken.lib.packet.packet import Packet
from os_ken.ofproto import ofproto_v1_4

from netfw import flows as of
from netfw.ovs.openflow import OpenFlow
from netfw.ovs.osken import Datapath, make_flow_mod

ETHERTYPE = 0x88B5  # for local experiments
TABLE = 250
COOKIE = 0xBEAC_0000_0000_0001


class Beacon(OSKenApp):
    """Answers beacons; its flows are netfw's values, its messages os-ken's."""

    OFP_VERSIONS: ClassVar = [ofproto_v1_4.OFP_VERSION]

    @set_ev_cls(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)
    def write_flows(self, ev: Any) -> None:
        """Write two flows, whenever the switch is connected: it may have lost them."""
        datapath = ev.msg.datapath
        for table, priority, match, action in (
            (0, 0xFFF0, of.eth_type(ETHERTYPE), of.goto(TABLE)),
            (TABLE, 1, of.ANYTHING, of.controller()),
        ):
            flow = of.Flow(
                table=table, priority=priority, match=match, actions=(action,), cookie=COOKIE
            )
            datapath.ask(make_flow_mod(datapath, flow))
        print(f"beacon on {datapath.id:#x}", flush=True)

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def answer(self, ev: Any) -> None:
        """Send the frame back by its port, with the datapath's id in place of its content."""
        msg, datapath = ev.msg, ev.msg.datapath
        if msg.cookie != COOKIE:
            return
        ofp, parser = datapath.ofproto, datapath.ofproto_parser
        asked = Packet(msg.data).get_protocol(ethernet)
        reply = Packet()
        reply.add_protocol(ethernet(dst=asked.src, src=asked.dst, ethertype=ETHERTYPE))
        reply.add_protocol(datapath.id.to_bytes(8, "big"))
        reply.serialize()
        out = [parser.OFPActionOutput(msg.match["in_port"])]
        datapath.send_msg(
            parser.OFPPacketOut(datapath, ofp.OFP_NO_BUFFER, ofp.OFPP_CONTROLLER, out, reply.data)
        )
        print(f"answered {asked.src}", flush=True)


if __name__ == "__main__":
    client = OpenFlow(sys.argv[1])
    Datapath(client, Beacon())
    threading.Event().wait()
