"""OpenFlow with Open vSwitch: flows as bytes, a client, and a mirror of what a bridge holds."""

from netfw.ovs.openflow.client import OpenFlow
from netfw.ovs.openflow.encode import Encoded, encode_flows
from netfw.ovs.openflow.errors import OpenFlowError
from netfw.ovs.openflow.flow_cache import Drift, FlowCache, FlowGroup, FlowPlan, group_of
from netfw.ovs.openflow.flow_diff import EVERYBODY, CookieSpace, FlowChanges, difference
from netfw.ovs.openflow.mirror import FlowMirror

__all__ = [
    "EVERYBODY",
    "CookieSpace",
    "Drift",
    "Encoded",
    "FlowCache",
    "FlowChanges",
    "FlowGroup",
    "FlowMirror",
    "FlowPlan",
    "OpenFlow",
    "OpenFlowError",
    "difference",
    "encode_flows",
    "group_of",
]
