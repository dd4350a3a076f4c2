"""Mechanism drivers that are wrong, each in one way, and the tests of the suite that refuse it."""

from __future__ import annotations

from typing import ClassVar
from uuid import uuid4

from attrs import evolve

from netfw.drivers.base import DriverInfo
from netfw.drivers.change import Change
from netfw.drivers.mechanism import Binding, BindingRequest, Bound, MechanismCapability, Refused
from netfw.errors import BackendBroken, BackendUnavailable, Conflict, NotFound
from netfw.model.ids import SegmentId
from netfw.model.port import Port
from netfw.model.resource import Ref, ref
from tests.conformance.switch.fake_fabric import Fabric, FabricDriver

AGAIN = "test_a_backend_that_does_not_answer_is_said_and_served_later"
CAN_NOT_BE = "test_what_cannot_be_is_refused_before_it_is_committed"
CHECKING = "test_checking_changes_nothing_and_can_be_repeated"
CHECKING_ALONE = "test_checking_works_while_the_backend_does_not_answer"
FOR_GOOD = "test_what_the_backend_refuses_for_good_is_said"
DELIVERS = "test_who_carries_something_to_a_backend_is_one_that_delivers"
GONE = "test_what_is_gone_leaves_nothing_and_can_go_again"
GOES_ON = "test_any_process_can_go_on"
IS_BOUND = "test_what_the_driver_is_for_is_bound"
LEFT_OUT = "test_revisions_that_were_left_out_do_not_matter"
OFFERED = "test_a_binding_is_to_a_segment_that_was_offered"
PURE = "test_binding_is_pure"
TWICE = "test_delivering_twice_is_delivering_once"
UNKNOWN = "test_a_delivery_of_which_nobody_knows_that_it_happened_does_not_matter"


class BrokenMechanism(FabricDriver):
    """The driver of the fabric, with one thing wrong."""

    VERSION = 1
    refused_by: ClassVar[frozenset[str]]

    def __init__(self, fabric: Fabric) -> None:
        super().__init__(fabric)
        self.known: set[Ref] = set()
        self.count = 0


class ChecksByDoing(BrokenMechanism):
    """Carries to the fabric what may be rolled back."""

    refused_by = frozenset({CHECKING, CAN_NOT_BE})

    def validate(self, change: Change) -> None:
        if change.after is not None:
            self.fabric.present[change.ref] = change.after
        super().validate(change)


class DeniesThatItDelivers(BrokenMechanism):
    """Has something to deliver, and says that it has not."""

    refused_by = frozenset({DELIVERS})

    def describe(self) -> DriverInfo[MechanismCapability]:
        return DriverInfo("fabric")


class AsksTheFabric(BrokenMechanism):
    """Talks to the fabric within a transaction."""

    refused_by = frozenset({CHECKING_ALONE})

    def validate(self, change: Change) -> None:
        super().validate(change)
        self.fabric.answer()


class ThinksLong(BrokenMechanism):
    """Counts to a million within a transaction."""

    refused_by = frozenset({CHECKING})

    def validate(self, change: Change) -> None:
        super().validate(change)
        sum(1 for _ in range(1_000_000 if change.before is None else 1))


class FindsOutLater(BrokenMechanism):
    """Accepts what it cannot do."""

    refused_by = frozenset({CAN_NOT_BE})

    def validate(self, change: Change) -> None:
        pass


class BindsByDoing(BrokenMechanism):
    """Prepares the fabric while it is only asked."""

    refused_by = frozenset({PURE})

    def bind(self, request: BindingRequest) -> Binding:
        answer = super().bind(request)
        self.fabric.present[ref(request.port)] = request.port
        return answer


class ChangesItsMind(BrokenMechanism):
    """Binds every second time."""

    refused_by = frozenset({PURE})

    def bind(self, request: BindingRequest) -> Binding:
        self.count += 1
        return super().bind(request) if self.count % 2 else Refused("not again")


class InventsSegments(BrokenMechanism):
    """Binds to a segment that nobody offered."""

    refused_by = frozenset({OFFERED})
    SEGMENT = SegmentId(uuid4())

    def bind(self, request: BindingRequest) -> Binding:
        answer = super().bind(request)
        return evolve(answer, segment=self.SEGMENT) if isinstance(answer, Bound) else answer


class SaysNothing(BrokenMechanism):
    """Has no reason."""

    refused_by = frozenset({OFFERED})

    def bind(self, request: BindingRequest) -> Binding:
        answer = super().bind(request)
        return None if isinstance(answer, Refused) else answer  # type: ignore[return-value]


class BindsNothing(BrokenMechanism):
    """Refuses what it is for."""

    refused_by = frozenset({IS_BOUND})

    def bind(self, request: BindingRequest) -> Binding:
        return Refused("no")


class CountsRevisions(BrokenMechanism):
    """Waits for the revision that was left out."""

    refused_by = frozenset({LEFT_OUT})

    def deliver(self, change: Change) -> None:
        before, after = change.before, change.after
        if before is None or after is None or after.revision == before.revision + 1:
            super().deliver(change)


class InsistsOnNews(BrokenMechanism):
    """Takes what is there already for somebody else's."""

    refused_by = frozenset({UNKNOWN, TWICE})

    def deliver(self, change: Change) -> None:
        if change.before is None and change.ref in self.fabric.answer():
            raise Conflict("it is there already")
        super().deliver(change)


class InsistsOnPresence(BrokenMechanism):
    """Is surprised when something is gone already."""

    refused_by = frozenset({TWICE, GONE})

    def deliver(self, change: Change) -> None:
        if change.after is None and change.ref not in self.fabric.answer():
            raise NotFound("it is not there")
        super().deliver(change)


class LeavesTraces(BrokenMechanism):
    """Never removes a port."""

    refused_by = frozenset({GONE})

    def deliver(self, change: Change) -> None:
        self.fabric.answer()
        if change.after is not None or not isinstance(change.before, Port):
            super().deliver(change)


class HidesOutages(BrokenMechanism):
    """Says that it is done when nobody answered."""

    refused_by = frozenset({AGAIN})

    def deliver(self, change: Change) -> None:
        if self.fabric.online:
            super().deliver(change)


class GivesUpAfterAnOutage(BrokenMechanism):
    """Takes a fabric that was away for one that is broken."""

    refused_by = frozenset({AGAIN})

    def deliver(self, change: Change) -> None:
        if self.count:
            raise BackendBroken("it was away before")
        try:
            super().deliver(change)
        except BackendUnavailable:
            self.count += 1
            raise


class HidesRefusals(BrokenMechanism):
    """Says that it is done when the fabric refused."""

    refused_by = frozenset({FOR_GOOD})

    def deliver(self, change: Change) -> None:
        try:
            super().deliver(change)
        except BackendBroken:
            return


class RetriesForEver(BrokenMechanism):
    """Takes a refusal for an outage."""

    refused_by = frozenset({FOR_GOOD})

    def deliver(self, change: Change) -> None:
        try:
            super().deliver(change)
        except BackendBroken as exc:
            raise BackendUnavailable("try again") from exc


class RemembersWhatItMade(BrokenMechanism):
    """Changes and removes only what this process made."""

    refused_by = frozenset({GOES_ON})

    def deliver(self, change: Change) -> None:
        self.fabric.answer()
        if change.before is None:
            self.known.add(change.ref)
        if change.ref in self.known:
            super().deliver(change)


BROKEN: tuple[type[BrokenMechanism], ...] = tuple(BrokenMechanism.__subclasses__())
