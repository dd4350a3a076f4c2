"""Calls of a neutron-lib driver for one change, in the order in which Neutron makes them.  Pure.

Neutron stores a port unbound, binds it, and stores it again.  netfw stores it once.  So one change
of a port may be two calls: drivers react to the step from unbound to bound, and back.
"""

from __future__ import annotations

import enum
from typing import Final

from attrs import evolve, frozen

from netfw.drivers.server.change import Change
from netfw.errors import NotSupported
from netfw.model.binding import Binding, VifDetails, VifType
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.resource import Resource
from netfw.model.segment import Segment
from netfw.model.values.common_fields import Status

SEGMENT_KEY: Final = "segment_id"
"""Key in ``binding:vif_details``: the segment of the port, if others were on offer."""
UNBOUND: Final = frozenset({VifType.UNBOUND.value, VifType.BINDING_FAILED.value})


class ResourceEvent(enum.StrEnum):
    """The first word of a driver method."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


class Phase(enum.StrEnum):
    """The last word of a driver method."""

    PRECOMMIT = "precommit"
    POSTCOMMIT = "postcommit"


@frozen(kw_only=True)
class DriverCall:
    """One call of a driver method with the context of a resource."""

    event: ResourceEvent
    current: Resource
    original: Resource | None = None

    def method(self, phase: Phase) -> str:
        """Return the name of the method."""
        return f"{self.event}_{type(self.current).__name__.lower()}_{phase}"


def plan_calls(change: Change) -> tuple[DriverCall, ...]:
    """Return the calls for *change*."""
    before, after = change.before, change.after
    if after is None:
        return (DriverCall(event=ResourceEvent.DELETE, current=change.resource),)
    if not isinstance(after, Port):
        return (_call(before, after),)
    former = before if isinstance(before, Port) else None
    if not is_bound(after.binding):
        return (_call(former, after),)
    if former is not None and (former.binding == after.binding or not is_bound(former.binding)):
        return (_call(former, after),)
    unbound = _unbound(after)
    return _call(former, unbound), _call(unbound, after)


def is_bound(binding: Binding) -> bool:
    """Return whether a driver bound the port."""
    return binding.vif_type not in UNBOUND


def bound_segment(name: str, port: Port, segments: tuple[Segment, ...]) -> Segment | None:
    """Return the segment that *port* is bound to; ``None``: it is not bound.

    :raises NotSupported: another driver bound it to one of several segments.
    """
    if not is_bound(port.binding):
        return None
    noted = port.binding.vif_details.other.content().get(SEGMENT_KEY)
    if noted is None and len(segments) == 1:
        return segments[0]
    for segment in segments:
        if str(segment.id) == noted:
            return segment
    raise NotSupported(
        f"mechanism driver {name!r} needs the segment of port {port.id}: netfw knows it only for "
        f"ports of networks with one segment, and for ports that {name!r} bound"
    )


def top_segment(
    name: str, port: Port, network: Network, segments: tuple[Segment, ...]
) -> Segment | None:
    """Return the segment of the first level of the port's binding; ``None``: it is not bound.

    :raises NotSupported: it is one of several.
    """
    bottom = bound_segment(name, port, segments)
    if bottom is None or bottom.provider in network.segments:
        return bottom
    static = [segment for segment in segments if segment.provider in network.segments]
    if len(static) == 1:
        return static[0]
    raise NotSupported(
        f"mechanism driver {name!r} needs the first level of the binding of port {port.id}, which "
        f"netfw knows only for networks with one segment beside dynamic ones, not {len(static)}"
    )


def _call(before: Resource | None, after: Resource) -> DriverCall:
    if before is None:
        return DriverCall(event=ResourceEvent.CREATE, current=after)
    return DriverCall(event=ResourceEvent.UPDATE, current=after, original=before)


def _unbound(port: Port) -> Port:
    binding = evolve(port.binding, vif_type=VifType.UNBOUND.value, vif_details=VifDetails())
    return evolve(port, binding=binding, status=Status.DOWN)
