"""Rules of QoS policies that meet their users: none is left with a rule that nothing enforces."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from netfw.errors.qos import QosRuleNotSupported
from netfw.server.db import Database
from netfw.server.qos.policies import QosPlugin
from tests.lab.databases import SERVER_PARAMETERS, DatabaseServers
from tests.lab.server.l3.environment import ADMIN
from tests.lab.server.l3.meeting import Meeting, meeting_at, no_retries

pytestmark = pytest.mark.spec("API-07", "ML2-11")


class QosMeeting(Meeting):
    """A policy of Anna, and her floating IP, on which marks are not enforced."""

    def __init__(self, database: Database, pool: ThreadPoolExecutor) -> None:
        super().__init__(database, pool)
        self.qos = QosPlugin(self.core.context)
        self.core.plugins = (*self.core.plugins, self.qos)  # type: ignore[assignment]
        self.policy = self.core.create("policy", ADMIN, project_id="anna")["id"]

    def attach(self) -> None:
        self.core.update("floatingip", self.floating, ADMIN, qos_policy_id=self.policy)

    def mark(self) -> None:
        body = {"policy_id": self.policy, "dscp_mark": 8}
        self.qos.create(ADMIN, "dscp_marking_rule", [body])

    def found(self) -> tuple[Any, Any]:
        """Return the policy of the floating IP, and its rules."""
        policy = self.core.show("floatingip", self.floating)["qos_policy_id"]
        return policy, self.core.show("policy", self.policy)["rules"]


@pytest.fixture(params=SERVER_PARAMETERS)
def qos(
    request: pytest.FixtureRequest,
    database_servers: DatabaseServers,
    caplog: pytest.LogCaptureFixture,
) -> Iterator[QosMeeting]:
    url = database_servers.filled(request.param)
    with no_retries(caplog), meeting_at(QosMeeting, url) as made:
        yield made


def test_a_rule_is_refused_that_a_user_which_is_not_committed_yet_cannot_enforce(
    qos: QosMeeting,
) -> None:
    with qos.stopped(qos.attach) as use:
        rule = qos.start(qos.mark)
    use.result(60)
    with pytest.raises(QosRuleNotSupported):
        rule.result(60)
    assert qos.found() == (qos.policy, [])


def test_a_user_is_refused_that_cannot_enforce_a_rule_which_is_not_committed_yet(
    qos: QosMeeting,
) -> None:
    with qos.stopped(qos.mark) as rule:
        use = qos.start(qos.attach)
    rule.result(60)
    with pytest.raises(QosRuleNotSupported):
        use.result(60)
    policy, rules = qos.found()
    assert (policy, len(rules)) == (None, 1)
