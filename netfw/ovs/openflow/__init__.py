"""OpenFlow with Open vSwitch: flows as bytes, a client, and a mirror of what a bridge holds."""

from netfw.ovs.openflow.book import Drift, FlowBook, FlowGroup, FlowPlan, group_of
from netfw.ovs.openflow.client import OpenFlow
from netfw.ovs.openflow.difference import EVERYBODY, CookieSpace, FlowChanges, difference
from netfw.ovs.openflow.encode import Encoded, encode_flows
from netfw.ovs.openflow.fault import SwitchRefused
from netfw.ovs.openflow.meter import MeterLimit
from netfw.ovs.openflow.mirror import FlowMirror
from netfw.ovs.openflow.packet import PacketIn

__all__ = [
    "EVERYBODY",
    "CookieSpace",
    "Drift",
    "Encoded",
    "FlowBook",
    "FlowChanges",
    "FlowGroup",
    "FlowMirror",
    "FlowPlan",
    "MeterLimit",
    "OpenFlow",
    "PacketIn",
    "SwitchRefused",
    "difference",
    "encode_flows",
    "group_of",
]
