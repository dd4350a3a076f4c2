"""The notifiers that netfw ships pass the suite, and mutations of one are refused."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar
from uuid import UUID

import pytest
from attrs import evolve

from netfw.drivers.server.change import Change
from netfw.drivers.server.notifier import Notifier
from netfw.errors import BackendBroken, BackendUnavailable, NetfwError
from netfw.model.values.common_fields import Status
from netfw.model.values.ids import PortId
from netfw.testing.conformance.server.mechanism_samples import NETWORK, PORT
from netfw.testing.conformance.server.notifier import (
    CONTRACTS,
    NotifierConformance,
    NotifierEnvironment,
)
from netfw_drivers.notifiers.compute import ComputeNotifier
from netfw_drivers.notifiers.webhook import WebhookNotifier
from tests.conformance.common.mutation_checks import MutationChecks
from tests.conformance.common.mutations import Mutations, breaks, breaks_raise
from tests.conformance.common.suite_runner import Refusal, run_tests
from tests.unit.backends.notifiers.http_receiver import Party, listening

pytestmark = pytest.mark.services

TIMEOUT = 30.0
"""Seconds that a notifier waits for a receiver that answers."""
OWNED = evolve(PORT, device_owner="compute:nova", device_id="server-1")


def plugged(number: int) -> Change:
    port = evolve(OWNED, id=PortId(UUID(int=number)))
    return Change(before=port, after=evolve(port, status=Status.ACTIVE), network=NETWORK)


class HttpNotifierConformance(NotifierConformance):
    """The suite on notifiers that call a real HTTP server."""

    MAKE: ClassVar[Callable[[str], Notifier]]

    @contextmanager
    def make_environment(self) -> Iterator[NotifierEnvironment]:
        with listening() as receiver:
            make = type(self).MAKE
            yield NotifierEnvironment(
                make=lambda: make(receiver.url),
                received=lambda: _heard(receiver),
                outage=lambda: _answering(receiver, 503),
                refusal=lambda: _answering(receiver, 400),
                timeout=TIMEOUT,
            )

    def relevant_changes(self) -> Sequence[Change]:
        return [plugged(2), plugged(1)]


class TestWebhook(HttpNotifierConformance):
    MAKE = staticmethod(lambda url: WebhookNotifier([url], timeout=TIMEOUT))


class TestCompute(HttpNotifierConformance):
    MAKE = staticmethod(lambda url: ComputeNotifier(url, timeout=TIMEOUT))


@contextmanager
def _silence(receiver: Party) -> Iterator[None]:
    receiver.slow = 30.0
    yield
    receiver.slow = 0.0


class TestSlowWebhook(TestWebhook):
    """A slow receiver is an unreachable one.

    The time-out is longer than a busy machine stalls the receiver, and the silence longer than the
    suite allows.
    """

    @contextmanager
    def make_environment(self) -> Iterator[NotifierEnvironment]:
        with listening() as receiver:
            yield NotifierEnvironment(
                make=lambda: WebhookNotifier([receiver.url], timeout=5.0),
                received=lambda: _heard(receiver),
                outage=lambda: _silence(receiver),
                refusal=lambda: _answering(receiver, 422),
                timeout=5.0,
            )


def _answering(receiver: Party, status: int) -> AbstractContextManager[None]:
    @contextmanager
    def answering() -> Iterator[None]:
        before = len(receiver.requests)
        receiver.answers = [(status, "no")] * 99
        yield
        receiver.answers = []
        del receiver.requests[before:]

    return answering()


def _heard(receiver: Party) -> list[UUID]:
    events = [each for body in receiver.bodies for each in body["events"]]
    return [UUID(each.get("tag") or each["id"]) for each in events]


class FakeNotifier(WebhookNotifier):
    """The webhook notifier, with memory for the mutations."""

    VERSION = 2
    SENT: ClassVar[set[Any]] = set()


MUTATIONS = Mutations()


@MUTATIONS.override("concerns", breaks(Notifier, 1))
def call_receiver_while_filtering(notifier, _, change):
    """Call the receiver in ``concerns``."""
    notifier.notify([change])
    return True


@MUTATIONS.override("notify", breaks(Notifier, 2))
def send_last_change_only(notifier, original, changes):
    """Send only the last change of a batch."""
    original(changes[-1:])


@MUTATIONS.override("notify", breaks(Notifier, 3))
def skip_repeated_changes(notifier, original, changes):
    """Skip changes that were sent before."""
    original([change for change in changes if (notifier._urls, change.ref) not in notifier.SENT])
    notifier.SENT.update((notifier._urls, change.ref) for change in changes)


@MUTATIONS.override(
    "notify", breaks(Notifier, 4, 5), breaks_raise(Notifier, "notify", BackendUnavailable)
)
def ignore_outage(notifier, original, changes):
    """Report success while the receiver is unreachable."""
    try:
        original(changes)
    except BackendUnavailable:
        return


@MUTATIONS.override("notify", breaks(Notifier, 4), breaks_raise(Notifier, "notify", NetfwError))
def report_refusal_as_outage(notifier, original, changes):
    """Report a refusal as an outage."""
    try:
        original(changes)
    except BackendBroken as exc:
        raise BackendUnavailable("later") from exc


@pytest.mark.spec("API-14")
class TestNotifierMutations(MutationChecks):
    SUITE = NotifierConformance
    CONTRACTS = BROKEN_CONTRACTS = CONTRACTS
    FAKE = FakeNotifier
    MUTATIONS = MUTATIONS
    LEAST = 5

    def run_suite(self, driver: type, tests: Collection[str]) -> Refusal:
        class Suite(HttpNotifierConformance):
            MAKE = staticmethod(lambda url: driver([url], timeout=TIMEOUT))

        return run_tests(Suite(), tests)
