"""Local VLANs: the numbers by which this host's switch keeps networks apart.  Pure.

A number is recorded in the database of the switch, on ``br-int``, before anything uses it, and
removed after everything that used it; a port has a copy for people and tools to read.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from uuid import UUID

from attrs import field, frozen

from netfw.errors import BackendError, InvalidInput
from netfw.model.ids import NetworkId, SegmentId
from netfw.model.segment import NetworkType, Provider, Segment

DEAD_VLAN = 4095
"""Tag of a port that nobody admitted yet, or any more."""
LOCAL_VLANS = range(1, 4095)
RECORD = "netfw-vlan-"
"""Keys of ``br-int``'s ``external_ids``, followed by the number; values name whom it is for."""
_NUMBERS: Mapping[str, int] = {f"{RECORD}{vlan}": vlan for vlan in LOCAL_VLANS}
NET_UUID = "net_uuid"
"""Key of a port's ``other_config``: the network it is wired to."""


@frozen
class Domain:
    """One broadcast domain on this host: a segment of a network."""

    network: NetworkId
    segment: SegmentId

    def __str__(self) -> str:
        return f"{self.network}/{self.segment}"


@frozen
class Vlans:
    """Who has which number, and how each domain is carried."""

    numbers: Mapping[Domain, int]
    segments: Mapping[Domain, Segment]
    garbage: Mapping[str, str] = field(factory=dict)
    """What is where records are, and is none, or a second one of its domain."""

    @classmethod
    def recorded(cls, ids: Mapping[str, str]) -> Vlans:
        """What the bridge's ``external_ids`` say; what nobody would write is no record."""
        numbers: dict[Domain, int] = {}
        segments: dict[Domain, Segment] = {}
        garbage = {name: value for name, value in ids.items() if name.startswith(RECORD)}
        for name in sorted(garbage.keys() & _NUMBERS.keys(), key=_NUMBERS.__getitem__):
            segment = _recorded(_NUMBERS[name], garbage[name])
            if segment is not None and _domain(segment) not in numbers:
                numbers[_domain(segment)], segments[_domain(segment)] = _NUMBERS[name], segment
                del garbage[name]
        return cls(numbers, segments, garbage)

    @property
    def taken(self) -> set[int]:
        """The numbers that cannot be given to anybody."""
        unclear = (_NUMBERS[name] for name in self.garbage if name in _NUMBERS)
        return {*self.numbers.values(), *unclear}

    @property
    def networks(self) -> frozenset[NetworkId]:
        return frozenset(domain.network for domain in self.numbers)

    def of(self, network: NetworkId) -> dict[Domain, int]:
        return {domain: vlan for domain, vlan in self.numbers.items() if domain.network == network}


class VlansExhausted(BackendError):
    """Every local VLAN of this host is in use; the text says what to do."""

    retryable = True

    def __init__(self) -> None:
        super().__init__(
            f"all {len(LOCAL_VLANS)} local VLANs of this host are in use: "
            "it has ports of too many networks; move some of them to another host"
        )


def free_vlan(taken: Container[int], hints: Iterable[int] = ()) -> int:
    """A number that is not *taken*: a hint where possible, for ports that have it already.

    :raises VlansExhausted: there is none.
    """
    candidates: tuple[int, ...] = (*hints, *LOCAL_VLANS)
    for number in candidates:
        if number in LOCAL_VLANS and number not in taken:
            return number
    raise VlansExhausted


def record_of(vlan: int, segment: Segment) -> tuple[str, str]:
    """Key and value of the record: all that it takes to know the flows again."""
    provider = segment.provider
    parts = (
        segment.network_id,
        segment.id,
        provider.network_type,
        provider.physical_network,
        provider.segmentation_id,
    )
    return f"{RECORD}{vlan}", "/".join("" if part is None else str(part) for part in parts)


def port_record(segment: Segment, vlan: int) -> dict[str, str | None]:
    """What a port's ``other_config`` says, in the words that operators know."""
    provider = segment.provider
    return {
        NET_UUID: str(segment.network_id),
        "network_type": str(provider.network_type),
        "physical_network": provider.physical_network,
        "segmentation_id": None
        if provider.segmentation_id is None
        else str(provider.segmentation_id),
        "tag": str(vlan),
    }


def dead_record(network: NetworkId) -> dict[str, str | None]:
    """What the ``other_config`` of a dead port says."""
    return {**no_record(), NET_UUID: str(network)}


def no_record() -> dict[str, str | None]:
    """Nothing of ours in a port's ``other_config``."""
    keys = NET_UUID, "network_type", "physical_network", "segmentation_id", "tag"
    return dict.fromkeys(keys)


def _domain(segment: Segment) -> Domain:
    return Domain(segment.network_id, segment.id)


def _recorded(vlan: int, value: str) -> Segment | None:
    """Whom *value* gives the number to, if it says so in the words of a record."""
    try:
        segment = _parsed(value)
    except (ValueError, InvalidInput):
        return None
    return segment if record_of(vlan, segment)[1] == value else None


def _parsed(value: str) -> Segment:
    network, segment, kind, physical, number = value.split("/")
    provider = Provider(
        network_type=NetworkType(kind),
        physical_network=physical or None,
        segmentation_id=int(number) if number else None,
    )
    return Segment(
        id=SegmentId(UUID(segment)), network_id=NetworkId(UUID(network)), provider=provider
    )
