"""The suite of transports refuses every mutation of the socket transport."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pytest

from netfw.drivers.transport import Transport
from netfw.testing.conformance.transport.suite import CONTRACTS, TransportConformance
from netfw_drivers.transports.sockets.transport import SocketTransport
from tests.conformance.common.mutation_checks import MutationChecks
from tests.conformance.common.suite_runner import Refusal, run_tests
from tests.conformance.transport.socket_environment import LocalTcpTransports, LocalTransports
from tests.conformance.transport.transport_mutations import MUTATIONS

pytestmark = [
    pytest.mark.fakes,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]

STRANGERS = "test_unauthorized_clients_are_refused_with_a_logged_reason"


class ShortWaits:
    """Waits that find a mutation soon; a correct transport may need more on a busy host."""

    TIMEOUT = 1.5
    SHORT = 0.3
    SLACK = 0.7


class ImpatientUnix(ShortWaits, LocalTransports):
    """Unix sockets, which need no token."""


class ImpatientTcp(ShortWaits, LocalTcpTransports):
    """TCP with a token."""


class StrangersWithToken(ImpatientTcp):
    """Gives unauthorized clients the token."""

    def unauthorized_clients(self) -> Iterable[Transport]:
        return [self.make_client()]


class UnloggedStrangers(ImpatientTcp):
    """Refuses unauthorized clients without a log line."""

    def log_text(self) -> str:
        return ""


class TestTransportMutations(MutationChecks):
    SUITE = TransportConformance
    CONTRACTS = BROKEN_CONTRACTS = CONTRACTS
    FAKE = SocketTransport
    MUTATIONS = MUTATIONS
    LEAST = 24

    def run_suite(self, driver: type, tests: Collection[str]) -> Refusal:
        tcp = driver.__name__ in ("exceed_timeout", "report_refusal_as_failure")
        suite = (ImpatientTcp if tcp else ImpatientUnix)()
        if driver is self.FAKE:
            suite = LocalTransports()
        suite.CLASS = driver
        return run_tests(suite, tests)


@pytest.mark.parametrize("suite", [StrangersWithToken, UnloggedStrangers])
def test_transport_is_refused_that_strangers_can_use(suite: type[LocalTcpTransports]) -> None:
    assert run_tests(suite(), {STRANGERS}).refusing == {STRANGERS}
