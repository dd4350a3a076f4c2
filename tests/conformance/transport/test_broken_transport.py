"""The suite refuses transports that are wrong, each by the right tests."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from netfw.drivers.transport import Transport
from netfw.testing.conformance.common.promises import unproven
from netfw.testing.conformance.transport.suite import CONTRACTS, TransportConformance
from tests.conformance.common.refusal import refusals
from tests.conformance.transport.broken_transport import BROKEN, STRANGERS, BrokenTransport
from tests.conformance.transport.socket_environment import LocalTcpTransports, LocalTransports

pytestmark = [
    pytest.mark.fakes,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]


class Hasty:
    """Waits no longer than healthy transports on this machine need."""

    PATIENCE = 1.5
    SHORT = 0.3
    SLACK = 0.7


class AdmitsEverybody(Hasty, LocalTcpTransports):
    """Has strangers who know the token."""

    def strangers(self) -> Iterable[Transport]:
        return [self.make_client()]


class SaysNothingOfStrangers(Hasty, LocalTcpTransports):
    """Refuses without a word."""

    def complaints(self) -> str:
        return ""


def suite_of(subject: type[BrokenTransport]) -> TransportConformance:
    kind = LocalTcpTransports if STRANGERS in subject.refused_by else LocalTransports

    class Suite(Hasty, kind):  # type: ignore[misc,valid-type]
        CLASS = subject

    return Suite()


@pytest.mark.parametrize("subject", BROKEN, ids=lambda each: each.__name__)
def test_a_broken_transport_is_refused_by_the_right_tests(subject: type[BrokenTransport]) -> None:
    assert refusals(suite_of(subject)) == subject.refused_by


@pytest.mark.parametrize("suite", [AdmitsEverybody, SaysNothingOfStrangers])
def test_a_transport_is_refused_that_strangers_can_use(suite: type[LocalTcpTransports]) -> None:
    others = {name for name in dir(suite) if name.startswith("test_")} - {STRANGERS}
    assert refusals(suite(), but=others) == {STRANGERS}


def test_every_promise_and_every_error_of_a_transport_has_a_test() -> None:
    assert unproven(TransportConformance, *CONTRACTS) == frozenset()


def test_every_test_of_transports_refuses_somebody() -> None:
    tests = {name for name in dir(TransportConformance) if name.startswith("test_")}
    assert tests == frozenset().union(*(subject.refused_by for subject in BROKEN))
