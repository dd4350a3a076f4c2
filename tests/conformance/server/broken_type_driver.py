"""Type drivers that are wrong, each in one way, and the tests of the suite that refuse it."""

from __future__ import annotations

from contextlib import suppress
from typing import ClassVar

from netfw.drivers.type_driver import AllocationStore, Pool, Range
from netfw.errors import Conflict, InvalidInput
from netfw.model.segment import NetworkType, Provider
from netfw_drivers.type_drivers.mtu import PhysicalMtus
from netfw_drivers.type_drivers.vlan import VlanTypeDriver

AGAIN = "test_all_that_is_released_is_given_again"
AT_ONCE = "test_many_at_once_get_different_segments"
DIFFERENT = "test_two_transactions_get_different_segments"
FAILED = "test_what_a_failed_request_took_is_free"
HARMLESS = "test_releasing_what_is_free_is_harmless"
ONCE = "test_all_of_the_ranges_is_given_once_and_then_nothing"
OVER = "test_an_incomplete_request_is_a_conflict_when_nothing_is_left"
RELEASED = "test_what_is_released_can_be_had_again"
BOTH_WANT = "test_of_two_transactions_one_gets_what_both_want"
TAKEN = "test_what_is_taken_is_a_conflict"
TAKES = "test_what_was_asked_for_is_what_is_taken"
COMPLETED = "test_what_is_missing_is_completed"


class BrokenType(VlanTypeDriver):
    """VLANs of two physical networks, with one thing wrong."""

    VERSION = 1
    refused_by: ClassVar[frozenset[str]]

    def __init__(self) -> None:
        super().__init__({"physnet1": [(10, 14)], "physnet2": [(10, 12)]}, PhysicalMtus(1500))
        self.remembered: set[tuple[str | None, int | None]] = set()


class AcceptsAnything(BrokenType):
    """Leaves it to the switch to find out."""

    refused_by = frozenset({"test_a_request_that_cannot_be_is_refused_by_attribute"})

    def validate(self, request: Provider) -> None:
        pass


class BlamesTheWrongPart(BrokenType):
    """Says that something is wrong, and not what."""

    refused_by = frozenset({"test_a_request_that_cannot_be_is_refused_by_attribute"})

    def validate(self, request: Provider) -> None:
        try:
            super().validate(request)
        except InvalidInput as exc:
            raise InvalidInput({"provider": "bad"}) from exc


class WantsEverythingTold(BrokenType):
    """Accepts complete requests only."""

    refused_by = frozenset({"test_a_request_that_can_be_is_accepted_complete_or_not"})

    def validate(self, request: Provider) -> None:
        super().validate(request)
        if request.segmentation_id is None:
            raise InvalidInput({"segmentation_id": "must be given"})


class GivesAnother(BrokenType):
    """When a segment is taken, another will do."""

    refused_by = frozenset({TAKEN, BOTH_WANT})

    def reserve(self, request: Provider, store: AllocationStore) -> Provider:
        try:
            return super().reserve(request, store)
        except Conflict:
            return super().reserve(Provider(network_type=NetworkType.VLAN), store)


class TakesNothing(BrokenType):
    """Looks, and does not take."""

    refused_by = frozenset({TAKES, TAKEN, BOTH_WANT, RELEASED})

    def reserve(self, request: Provider, store: AllocationStore) -> Provider:
        got = super().reserve(request, store)
        if request.segmentation_id is not None:
            self.release(got, store)
        return got


class LeavesGaps(BrokenType):
    """Returns what it was given, with the number still missing."""

    refused_by = frozenset({COMPLETED, OVER})

    def reserve(self, request: Provider, store: AllocationStore) -> Provider:
        return request if request.segmentation_id is None else super().reserve(request, store)


class RaisesWhenEmpty(BrokenType):
    """Fails instead of letting the next type try."""

    refused_by = frozenset({ONCE, OVER, AT_ONCE, FAILED})

    def allocate(self, store: AllocationStore) -> Provider | None:
        found = super().allocate(store)
        if found is None:
            raise InvalidInput({"network_type": "no VLAN is left"})
        return found


class StopsEarly(BrokenType):
    """Knows one physical network only."""

    refused_by = frozenset({ONCE, OVER, AT_ONCE, FAILED})

    def allocate(self, store: AllocationStore) -> Provider | None:
        return self._free(store, ("physnet1",))


class CountsByItself(BrokenType):
    """Keeps the books in the process."""

    refused_by = frozenset({ONCE, OVER, DIFFERENT, AT_ONCE, FAILED})

    def allocate(self, store: AllocationStore) -> Provider | None:
        if len(self.remembered) == 5:
            return None
        number = 10 + len(self.remembered)
        self.remembered.add(("physnet1", number))
        with suppress(Conflict):
            store.acquire(Pool(NetworkType.VLAN, "physnet1"), number)
        return Provider(
            network_type=NetworkType.VLAN, physical_network="physnet1", segmentation_id=number
        )


class RemembersTheFailed(BrokenType):
    """What was once asked for is never given again, whatever became of the request."""

    refused_by = frozenset({FAILED, RELEASED})

    def reserve(self, request: Provider, store: AllocationStore) -> Provider:
        asked = request.physical_network, request.segmentation_id
        if request.segmentation_id is not None and asked in self.remembered:
            raise Conflict("somebody had it")
        self.remembered.add(asked)
        return super().reserve(request, store)


class KeepsWhatIsReleased(BrokenType):
    """Never gives a number back."""

    refused_by = frozenset({RELEASED, AGAIN})

    def release(self, segment: Provider, store: AllocationStore) -> None:
        pass


class ReleasesTooMuch(BrokenType):
    """Frees what others have."""

    refused_by = frozenset({RELEASED, HARMLESS})

    def release(self, segment: Provider, store: AllocationStore) -> None:
        for name in ("physnet1", "physnet2"):
            for number in range(10, 15):
                store.release(Pool(NetworkType.VLAN, name), number)


class ReleasesOnce(BrokenType):
    """Is surprised when a segment is free already."""

    refused_by = frozenset({HARMLESS})

    def release(self, segment: Provider, store: AllocationStore) -> None:
        number = segment.segmentation_id
        if number is None or store.acquire(
            Pool(NetworkType.VLAN, segment.physical_network), number
        ):
            raise Conflict("it is free")
        super().release(segment, store)


class ForgetsTheTag(BrokenType):
    """Leaves no room for a header that is not there."""

    refused_by = frozenset({"test_the_mtu_is_what_is_left_for_a_packet"})

    def mtu(self, physical_network: str | None) -> int:
        return super().mtu(physical_network) - 4


class OffersTwice(BrokenType):
    """Has ranges that overlap."""

    refused_by = frozenset({"test_ranges_are_of_the_type_and_do_not_overlap"})

    def ranges(self) -> tuple[Range, ...]:
        return (*super().ranges(), Range(Pool(NetworkType.VLAN, "physnet1"), 14, 14))


BROKEN: tuple[type[BrokenType], ...] = tuple(BrokenType.__subclasses__())
