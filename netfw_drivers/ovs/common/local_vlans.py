"""Local VLANs: the numbers by which this host's switch keeps networks apart.  Pure.

A number is recorded in the database of the switch, on ``br-int``, before anything uses it, and
removed after everything that used it; a port has a copy for people and tools to read.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from uuid import UUID

from attrs import field, frozen

from netfw.errors import BackendError, InvalidInput
from netfw.model.segment import NetworkType, Provider, Segment
from netfw.model.values.ids import NetworkId, SegmentId

DEAD_VLAN = 4095
"""Tag of a port that takes part in no network."""
LOCAL_VLANS = range(1, 4095)
RECORD = "netfw-vlan-"
"""Prefix of keys of ``br-int``'s ``external_ids``, before the number; values name a segment."""
_NUMBERS: Mapping[str, int] = {f"{RECORD}{vlan}": vlan for vlan in LOCAL_VLANS}
NET_UUID = "net_uuid"
"""Key of a port's ``other_config``: the network it is wired to."""


@frozen(cache_hash=True)
class BroadcastDomain:
    """One broadcast domain on this host: a segment of a network."""

    network: NetworkId
    segment: SegmentId

    def __str__(self) -> str:
        return f"{self.network}/{self.segment}"


@frozen
class LocalVlans:
    """Local VLANs of domains, and their segments."""

    numbers: Mapping[BroadcastDomain, int]
    segments: Mapping[BroadcastDomain, Segment]
    garbage: Mapping[str, str] = field(factory=dict)
    """Values under the name of a record that are none, or a second one of their domain."""

    @classmethod
    def recorded(cls, ids: Mapping[str, str]) -> LocalVlans:
        """Parse the bridge's ``external_ids``; texts that are no record are garbage."""
        numbers: dict[BroadcastDomain, int] = {}
        segments: dict[BroadcastDomain, Segment] = {}
        garbage = {name: value for name, value in ids.items() if name.startswith(RECORD)}
        for name in sorted(garbage.keys() & _NUMBERS.keys(), key=_NUMBERS.__getitem__):
            segment = _recorded(_NUMBERS[name], garbage[name])
            if segment is not None and _domain(segment) not in numbers:
                numbers[_domain(segment)], segments[_domain(segment)] = _NUMBERS[name], segment
                del garbage[name]
        return cls(numbers, segments, garbage)

    @property
    def taken(self) -> set[int]:
        """Numbers that cannot be assigned."""
        unclear = (_NUMBERS[name] for name in self.garbage if name in _NUMBERS)
        return {*self.numbers.values(), *unclear}

    @property
    def networks(self) -> frozenset[NetworkId]:
        return frozenset(domain.network for domain in self.numbers)

    def of(self, network: NetworkId) -> dict[BroadcastDomain, int]:
        return {domain: vlan for domain, vlan in self.numbers.items() if domain.network == network}


class VlansExhausted(BackendError):
    """All local VLANs of this host are in use; the text has what to do."""

    retryable = True

    def __init__(self) -> None:
        super().__init__(
            f"all {len(LOCAL_VLANS)} local VLANs of this host are in use: "
            "it has ports of too many networks; move some of them to another host"
        )


def free_vlan(taken: Container[int], hints: Iterable[int] = ()) -> int:
    """Return a number that is not *taken*: a hint where possible, for ports that have it already.

    :raises VlansExhausted: no number is free.
    """
    candidates: tuple[int, ...] = (*hints, *LOCAL_VLANS)
    for number in candidates:
        if number in LOCAL_VLANS and number not in taken:
            return number
    raise VlansExhausted


def record_of(vlan: int, segment: Segment) -> tuple[str, str]:
    """Return key and value of the record: all that it takes to recognise the flows."""
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
    """Return the ``other_config`` of a wired port, with Neutron's keys."""
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
    """Return the ``other_config`` of a dead port."""
    return {**no_record(), NET_UUID: str(network)}


def no_record() -> dict[str, str | None]:
    """Return the keys of ours to remove from a port's ``other_config``."""
    keys = NET_UUID, "network_type", "physical_network", "segmentation_id", "tag"
    return dict.fromkeys(keys)


def _domain(segment: Segment) -> BroadcastDomain:
    return BroadcastDomain(segment.network_id, segment.id)


def _recorded(vlan: int, value: str) -> Segment | None:
    """Return the segment that *value* records, or ``None`` if it is not a record."""
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
