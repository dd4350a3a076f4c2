"""Segments of networks, and the encapsulation that carries them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import ClassVar, Final

from attrs import field, frozen
from attrs.validators import optional

from netfw.model.values.common_fields import CommonFields
from netfw.model.values.ids import NetworkId, SegmentId
from netfw.model.values.text_validation import check_physical_network, check_text, quote
from netfw.model.values.validation import Problem, Validated, checked_by, outside

VLAN_IDS = range(1, 4095)


NAME_LENGTH = 32
NAME_PATTERN = f"[a-z][a-z0-9_-]{{0,{NAME_LENGTH - 1}}}"
_NAME = re.compile(NAME_PATTERN)


class NetworkType(str):
    """The encapsulation by which a segment reaches other hosts: the name of a type driver's type.

    netfw knows the attributes of this class.  Type drivers and switch drivers add types by their
    names; each such type is equal to every other of its name.

    :raises ValueError: the text is no name of a type.
    """

    __slots__ = ()

    LOCAL: ClassVar[NetworkType]
    FLAT: ClassVar[NetworkType]
    VLAN: ClassVar[NetworkType]
    GRE: ClassVar[NetworkType]
    VXLAN: ClassVar[NetworkType]
    GENEVE: ClassVar[NetworkType]

    def __new__(cls, name: str) -> NetworkType:
        known = _WELL_KNOWN.get(name)
        if known is not None:
            return known
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"{quote(name)} is no name of a network type: write a letter, then at most "
                f"{NAME_LENGTH - 1} of a-z 0-9 _ -"
            )
        return super().__new__(cls, name)

    @property
    def is_tunnel(self) -> bool:
        """True if it is known to netfw, and its frames travel between hosts inside IP packets.

        Whether a type of a vendor is a tunnel on a host follows from the endpoints of its switch
        driver.
        """
        return self in _TUNNELS

    @property
    def is_well_known(self) -> bool:
        """True if netfw itself knows which numbers and physical networks its segments have."""
        return self in _WELL_KNOWN


_WELL_KNOWN: dict[str, NetworkType] = {}
for _name in ("local", "flat", "vlan", "gre", "vxlan", "geneve"):
    _WELL_KNOWN[_name] = NetworkType(_name)
    setattr(NetworkType, _name.upper(), _WELL_KNOWN[_name])

WELL_KNOWN_TYPES: Final = tuple(_WELL_KNOWN.values())
_TUNNELS = frozenset({NetworkType.GRE, NetworkType.VXLAN, NetworkType.GENEVE})

_NUMBERS: Final[Mapping[NetworkType, range]] = {
    NetworkType.VLAN: VLAN_IDS,
    NetworkType.GRE: range(1, 2**32),
    NetworkType.VXLAN: range(1, 2**24),
    NetworkType.GENEVE: range(1, 2**24),
}
_NUMBERS_OF_VENDORS: Final = range(2**32)


def segmentation_ids(type: NetworkType) -> range | None:
    """Return the ids that segments of *type* can have; ``None``: they have none.

    The driver of a vendor's type may accept fewer.
    """
    return _NUMBERS.get(type) if type.is_well_known else _NUMBERS_OF_VENDORS


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
        ids = segmentation_ids(kind)
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
