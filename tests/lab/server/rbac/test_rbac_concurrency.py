"""Uses of shared resources that meet the end of their sharing: no forbidden use is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from netfw.errors import InvalidInput, NotFound, RequestError
from netfw.errors.networks import InvalidSharedSetting
from netfw.errors.rbac import RbacPolicyInUse
from netfw.server.db import Database
from netfw.server.rbac.policies import RbacPlugin
from tests.lab.databases import SERVER_PARAMETERS, DatabaseServers
from tests.lab.server.l3.environment import ADMIN, ANNA, BERT, Layer3
from tests.lab.server.l3.meeting import Meeting, meeting_at, no_retries

pytestmark = pytest.mark.spec("API-07", "ML2-11")

SHARED, EXTERNAL = "access_as_shared", "access_as_external"
ROUNDS = 12


class Sharing(Meeting):
    """A network and a group of Anna, which Bert may use, and transactions that stop on the way."""

    def __init__(self, database: Database, pool: ThreadPoolExecutor) -> None:
        self.database, self._pool = database, pool
        self.core = Layer3(database)
        self.core.plugins = (*self.core.plugins, RbacPlugin(self.core.context))
        self.network, _ = self.core.inside()
        self.group = self.core.create("security_group", name="web")["id"]
        self.own, _ = self.core.inside("10.1.0.0/24", BERT)

    def share(self, target: str = "bert", **body: Any) -> str:
        attributes = {
            "object_type": "network",
            "object_id": self.network,
            "action": SHARED,
            "target_tenant": target,
            **body,
        }
        return str(self.core.create("rbac_policy", ANNA, **attributes)["id"])

    def withdraw(self, policy: str) -> None:
        self.core.delete("rbac_policy", policy, ADMIN)

    def policies(self) -> list[Any]:
        return self.core.find("rbac_policy")

    # Uses by Bert.

    def use_network(self) -> str:
        return str(self.core.port(self.network, BERT)["id"])

    def use_group(self) -> str:
        return str(self.core.port(self.own, BERT, security_groups=[self.group])["id"])

    def use_gateway(self) -> None:
        self.core.router(BERT, external_gateway_info={"network_id": self.network})

    def use_floating_ip(self) -> None:
        self.core.create("floatingip", BERT, floating_network_id=self.network)


Use = Callable[[Sharing], Any]
USES: dict[str, tuple[Use, dict[str, str]]] = {
    "port": (Sharing.use_network, {}),
    "group": (Sharing.use_group, {"object_type": "security_group"}),
    "gateway": (Sharing.use_gateway, {"action": EXTERNAL}),
    "floating IP": (Sharing.use_floating_ip, {"action": EXTERNAL}),
}


@pytest.fixture(params=SERVER_PARAMETERS)
def sharing(
    request: pytest.FixtureRequest,
    database_servers: DatabaseServers,
    caplog: pytest.LogCaptureFixture,
) -> Iterator[Sharing]:
    with no_retries(caplog), meeting_at(Sharing, database_servers.filled(request.param)) as made:
        yield made


@pytest.fixture(params=USES)
def use(request: pytest.FixtureRequest, sharing: Sharing) -> tuple[Callable[[], Any], str]:
    """Return a use by Bert, and the policy that allows it."""
    work, body = USES[request.param]
    object_id = sharing.group if "object_type" in body else sharing.network
    return lambda: work(sharing), sharing.share(object_id=object_id, **body)


def test_a_policy_stays_that_a_use_needs_which_is_not_committed_yet(
    sharing: Sharing, use: tuple[Callable[[], Any], str]
) -> None:
    work, policy = use
    with sharing.stopped(work) as creation:
        deletion = sharing.start(sharing.withdraw, policy)
    creation.result(60)
    with pytest.raises(RbacPolicyInUse):
        deletion.result(60)
    assert sharing.policies()


def test_a_use_is_refused_whose_policy_is_about_to_be_deleted(
    sharing: Sharing, use: tuple[Callable[[], Any], str]
) -> None:
    work, policy = use
    with sharing.stopped(sharing.withdraw, policy) as deletion:
        creation = sharing.start(work)
    deletion.result(60)
    with pytest.raises((NotFound, InvalidInput)):
        creation.result(60)
    assert sharing.policies() == []
    assert sharing.core.find("port", project_id="bert") == []


def test_a_use_is_refused_whose_policy_gets_another_target(sharing: Sharing) -> None:
    policy = sharing.share()
    retarget = {"target_tenant": "carl"}
    with sharing.stopped(
        lambda: sharing.core.update("rbac_policy", policy, ANNA, **retarget)
    ) as update:
        creation = sharing.start(sharing.use_network)
    update.result(60)
    with pytest.raises(NotFound):
        creation.result(60)


def test_a_flag_stays_that_a_use_needs_which_is_not_committed_yet(sharing: Sharing) -> None:
    sharing.core.update("network", sharing.network, ADMIN, shared=True)
    with sharing.stopped(sharing.use_network) as creation:
        withdrawal = sharing.start(
            lambda: sharing.core.update("network", sharing.network, ADMIN, shared=False)
        )
    creation.result(60)
    with pytest.raises((InvalidSharedSetting, RbacPolicyInUse)):
        withdrawal.result(60)


def test_a_use_is_refused_whose_flag_is_about_to_be_withdrawn(sharing: Sharing) -> None:
    sharing.core.update("network", sharing.network, ADMIN, shared=True)
    with sharing.stopped(
        lambda: sharing.core.update("network", sharing.network, ADMIN, shared=False)
    ) as withdrawal:
        creation = sharing.start(sharing.use_network)
    withdrawal.result(60)
    with pytest.raises(NotFound):
        creation.result(60)


def test_policies_and_uses_of_many_agree(url: str) -> None:
    with meeting_at(Sharing, url) as made:
        for _ in range(ROUNDS):
            policy = made.share()
            barrier = Barrier(3)

            def use() -> None:
                barrier.wait(60)  # noqa: B023  it ends before the next round
                made.use_network()

            def withdraw() -> None:
                barrier.wait(60)  # noqa: B023
                made.withdraw(policy)  # noqa: B023

            with ThreadPoolExecutor(3) as pool:
                running = [pool.submit(each) for each in (use, use, withdraw)]
                errors = [each.exception(60) for each in running]
            assert all(each is None or isinstance(each, RequestError) for each in errors), errors
            ports = made.core.find("port", project_id="bert")
            assert len(made.policies()) == bool(ports)
            for port in ports:
                made.core.delete("port", port["id"], BERT)
            for left in made.policies():
                made.withdraw(left["id"])
            assert not made.core.show("network", made.network)["shared"]
