"""The flows that a plan requires on one bridge, and what has to change there for them.  Pure."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping

from attrs import frozen

from netfw.ovs.openflow.flow_cache import FlowGroup, FlowPlan
from netfw.ovs.openflow.flow_diff import CookieSpace
from netfw_drivers.ovs.common.flow_operations import FlowPlanner


@frozen(kw_only=True)
class FlowRequest:
    """The arguments of a flow plan, so that the flows can be planned again on newer flows."""

    put: Mapping[Hashable, FlowGroup]
    drop: Collection[Hashable] = ()
    complete: CookieSpace | None = None
    keep: Collection[Hashable] = ()
    erase: Collection[CookieSpace] = ()

    def plan(self, current: FlowPlanner) -> FlowPlan:
        """Return what to change on a bridge that holds *current*."""
        return current.plan(
            self.put, self.drop, complete=self.complete, keep=self.keep, erase=self.erase
        )


@frozen
class BridgeFlowPlan:
    """What to change on one bridge, and the request to plan again where that is outdated."""

    request: FlowRequest
    flows: FlowPlan
