"""Segments of networks, and the encapsulation that carries them."""

from __future__ import annotations

import enum
from collections.abc import Iterator

from attrs import field, frozen
from attrs.validators import optional

from netfw.model.values.common_fields import CommonFields
from netfw.model.values.ids import NetworkId, SegmentId
from netfw.model.values.text_validation import check_physical_network, check_text
from netfw.model.values.validation import Problem, Validated, checked_by, outside

VLAN_IDS = range(1, 4095)


class NetworkType(enum.StrEnum):
    """The encapsulation by which a segment reaches other hosts."""

    LOCAL = "local"
    FLAT = "flat"
    VLAN = "vlan"
    GRE = "gre"
    VXLAN = "vxlan"
    GENEVE = "geneve"

    @property
    def is_tunnel(self) -> bool:
        """True if its frames travel between hosts inside IP packets."""
        return self in _TUNNELS


_TUNNELS = frozenset({NetworkType.GRE, NetworkType.VXLAN, NetworkType.GENEVE})

SEGMENTATION_IDS = {
    NetworkType.VLAN: VLAN_IDS,
    NetworkType.GRE: range(1, 2**32),
    NetworkType.VXLAN: range(1, 2**24),
    NetworkType.GENEVE: range(1, 2**24),
}
"""The ids each type can carry; a type that is not here carries none."""


@frozen(kw_only=True)
class Provider(Validated):
    """The encapsulation of a segment.  Without an id if the type has ids: not allocated yet."""

    network_type: NetworkType
    physical_network: str | None = field(
        default=None, validator=optional(checked_by(check_physical_network))
    )
    segmentation_id: int | None = None

    def _problems(self) -> Iterator[Problem]:
        kind, number = self.network_type, self.segmentation_id
        ids = SEGMENTATION_IDS.get(kind)
        if number is not None and ids is None:
            yield "segmentation_id", f"a {kind} segment has none"
        elif number is not None and ids is not None and number not in ids:
            yield "segmentation_id", f"{outside(number, ids)} of {kind}"
        if self.physical_network is not None and (kind.is_tunnel or kind is NetworkType.LOCAL):
            yield "physical_network", f"a {kind} segment is on none"
        if self.physical_network is None and (
            kind is NetworkType.FLAT or (kind is NetworkType.VLAN and number is not None)
        ):
            yield "physical_network", f"a {kind} segment needs one"


@frozen(kw_only=True)
class Segment(CommonFields):
    """A part of a network; it is one broadcast domain."""

    id: SegmentId
    network_id: NetworkId
    name: str = field(default="", validator=checked_by(check_text))
    provider: Provider
