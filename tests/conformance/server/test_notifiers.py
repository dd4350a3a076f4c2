"""The notifiers that netfw ships pass the suite, and broken ones do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar
from uuid import UUID

import pytest
from attrs import evolve

from netfw.drivers.change import Change
from netfw.drivers.notifier import Notifier
from netfw.errors import BackendBroken, BackendUnavailable
from netfw.model.common_fields import Status
from netfw.model.ids import PortId
from netfw.testing.conformance.common.promises import unproven
from netfw.testing.conformance.server.mechanism_samples import NETWORK, PORT
from netfw.testing.conformance.server.notifier import (
    CONTRACTS,
    NotifierConformance,
    NotifierEnvironment,
)
from netfw_drivers.notifiers.compute import ComputeNotifier
from netfw_drivers.notifiers.webhook import WebhookNotifier
from tests.conformance.common.refusal import refusals
from tests.unit.backends.notifiers.http_receiver import Party, listening

pytestmark = pytest.mark.services

OWNED = evolve(PORT, device_owner="compute:nova", device_id="server-1")


def plugged(number: int) -> Change:
    port = evolve(OWNED, id=PortId(UUID(int=number)))
    return Change(before=port, after=evolve(port, status=Status.ACTIVE), network=NETWORK)


class OnParty(NotifierConformance):
    """Notifiers that tell a real HTTP server."""

    MAKE: ClassVar[Callable[[str], Notifier]]

    @contextmanager
    def setting(self) -> Iterator[NotifierEnvironment]:
        with listening() as party:
            make = type(self).MAKE
            yield NotifierEnvironment(
                make=lambda: make(party.url),
                heard=lambda: _heard(party),
                outage=lambda: _answering(party, 503),
                refusal=lambda: _answering(party, 400),
            )

    def concerning(self) -> Sequence[Change]:
        return [plugged(2), plugged(1)]


class TestWebhook(OnParty):
    MAKE = staticmethod(lambda url: WebhookNotifier([url], timeout=1.0))


class TestCompute(OnParty):
    MAKE = staticmethod(lambda url: ComputeNotifier(url, timeout=1.0))


@contextmanager
def _silence(party: Party) -> Iterator[None]:
    party.slow = 3.0
    yield
    party.slow = 0.0


class TestSlowWebhook(TestWebhook):
    """A party that takes its time is one that does not answer."""

    @contextmanager
    def setting(self) -> Iterator[NotifierEnvironment]:
        with listening() as party:
            yield NotifierEnvironment(
                make=lambda: WebhookNotifier([party.url], timeout=0.2),
                heard=lambda: _heard(party),
                outage=lambda: _silence(party),
                refusal=lambda: _answering(party, 422),
                patience=0.5,
            )


def _answering(party: Party, status: int) -> AbstractContextManager[None]:
    @contextmanager
    def answering() -> Iterator[None]:
        before = len(party.requests)
        party.answers = [(status, "no")] * 99
        yield
        party.answers = []
        del party.requests[before:]

    return answering()


def _heard(party: Party) -> list[UUID]:
    events = [each for body in party.bodies for each in body["events"]]
    return [UUID(each.get("tag") or each["id"]) for each in events]


class Broken(WebhookNotifier):
    """Told right, but for one thing."""

    VERSION = 1
    refused_by: ClassVar[frozenset[str]]


QUICKLY = "test_what_concerns_the_party_is_said_quickly_and_without_it"
IN_ORDER = "test_a_batch_arrives_as_a_whole_and_in_order"
TWICE = "test_what_is_told_twice_is_the_same_twice"
LATER = "test_a_party_that_does_not_answer_is_said_in_time_and_told_later"
FOR_GOOD = "test_what_the_party_refuses_for_good_is_said"


class AsksTheParty(Broken):
    """Asks the party what concerns it."""

    refused_by = frozenset({QUICKLY})

    def concerns(self, change: Change) -> bool:
        self.notify([change])
        return True


class TellsTheLastOnly(Broken):
    """Takes a batch for one change."""

    refused_by = frozenset({IN_ORDER, LATER})

    def notify(self, changes: Sequence[Change]) -> None:
        super().notify(changes[-1:])


class RemembersWhatItTold(Broken):
    """Keeps to itself what it believes to be known."""

    refused_by = frozenset({TWICE})
    told: ClassVar[set[Any]] = set()

    def notify(self, changes: Sequence[Change]) -> None:
        new = [each for each in changes if (self._urls, each.ref) not in self.told]
        super().notify(new)
        self.told.update((self._urls, each.ref) for each in changes)


class SwallowsTrouble(Broken):
    """Says that all is well when nobody answers."""

    refused_by = frozenset({LATER})

    def notify(self, changes: Sequence[Change]) -> None:
        try:
            super().notify(changes)
        except BackendUnavailable:
            return


class RepeatsForEver(Broken):
    """Takes a refusal for an outage."""

    refused_by = frozenset({FOR_GOOD})

    def notify(self, changes: Sequence[Change]) -> None:
        try:
            super().notify(changes)
        except BackendBroken as exc:
            raise BackendUnavailable("later") from exc


@pytest.mark.spec("API-14")
@pytest.mark.parametrize("notifier", Broken.__subclasses__(), ids=lambda each: each.__name__)
def test_a_broken_notifier_is_refused_by_the_right_tests(notifier: type[Broken]) -> None:
    class Suite(OnParty):
        MAKE = staticmethod(lambda url: notifier([url], timeout=1.0))

    assert refusals(Suite()) == notifier.refused_by


def test_every_promise_and_every_error_of_a_notifier_has_a_test() -> None:
    assert unproven(NotifierConformance, *CONTRACTS) == frozenset()
