"""Trunks: several networks through one device."""

from __future__ import annotations

import enum
from collections.abc import Iterator

from attrs import field, frozen

from netfw.model.segment import VLAN_IDS
from netfw.model.values.common_fields import Named, Status
from netfw.model.values.ids import PortId, TrunkId
from netfw.model.values.validation import Problem, Validated, outside, repeated


class SegmentationType(enum.StrEnum):
    """The tag by which the instance distinguishes the networks of a trunk."""

    VLAN = "vlan"


@frozen(kw_only=True)
class SubPort(Validated):
    """A port that the instance reaches through the parent port, under a VLAN tag."""

    port_id: PortId
    segmentation_type: SegmentationType = SegmentationType.VLAN
    segmentation_id: int

    def _problems(self) -> Iterator[Problem]:
        if self.segmentation_id not in VLAN_IDS:
            yield "segmentation_id", outside(self.segmentation_id, VLAN_IDS)


@frozen(kw_only=True)
class TrunkMembership(Validated):
    """The trunk of a port: it is the parent, or a sub-port under a tag of the parent's device."""

    trunk_id: TrunkId
    parent_id: PortId | None = None
    """``None``: the port itself is the parent."""
    segmentation_id: int | None = None

    def _problems(self) -> Iterator[Problem]:
        if (self.parent_id is None) is not (self.segmentation_id is None):
            yield "segmentation_id", "is of a sub-port: a parent port and a tag go together"
        if self.segmentation_id is not None and self.segmentation_id not in VLAN_IDS:
            yield "segmentation_id", outside(self.segmentation_id, VLAN_IDS)


@frozen(kw_only=True)
class Trunk(Named):
    """A parent port whose device also carries sub-ports."""

    id: TrunkId
    port_id: PortId
    sub_ports: tuple[SubPort, ...] = field(default=(), converter=tuple[SubPort, ...])
    admin_up: bool = True
    status: Status = Status.DOWN

    def _problems(self) -> Iterator[Problem]:
        for at in repeated(tuple(sub.segmentation_id for sub in self.sub_ports)):
            number = self.sub_ports[at].segmentation_id
            yield f"sub_ports[{at}].segmentation_id", f"{number} is used by another sub-port"
        for at in repeated((self.port_id, *(sub.port_id for sub in self.sub_ports))):
            yield f"sub_ports[{at - 1}].port_id", "is in this trunk already"
