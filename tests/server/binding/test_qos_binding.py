"""Ports are bound by drivers that enforce their QoS policies, and stay so."""

from __future__ import annotations

from typing import Any

import pytest

from netfw.drivers.base import DriverInfo
from netfw.drivers.server.mechanism import (
    Binding,
    BindingRequest,
    Bound,
    MechanismCapability,
    MechanismDriver,
    Refused,
)
from netfw.drivers.values.qos_support import SupportedQosRule, guarantees
from netfw.errors.qos import QosRuleNotSupported
from netfw.model.qos import QosRuleType
from netfw.server.db import Database
from netfw.server.qos.policies import QosPlugin
from netfw_drivers.extension_drivers.qos import QosDriver
from tests.server.core.core_client import ADMIN, core_plugin

pytestmark = pytest.mark.spec("API-07", "ML2-06")


class Driver(MechanismDriver):
    """Binds ports to hosts whose name begins with its own, and enforces some rules."""

    def __init__(self, name: str, *types: QosRuleType) -> None:
        self._name = name
        self._rules = tuple(SupportedQosRule(type=each) for each in types)

    @classmethod
    def from_conf(cls, options: Any, host: Any) -> Any:
        raise NotImplementedError

    def describe(self) -> DriverInfo[MechanismCapability]:
        return DriverInfo(self._name)

    def supported_qos_rules(self) -> tuple[SupportedQosRule, ...]:
        return self._rules

    def bind(self, request: BindingRequest) -> Binding:
        if not request.host.startswith(self._name):
            raise ValueError(f"{request.host} is not mine")
        if guarantees(request.qos_rules) and not request.host.endswith("-fast"):
            return Refused(f"{request.host} keeps no guarantees")
        return Bound(segment=request.segments[0].id, vif_type="ovs")


class Site:
    """A server with a driver that marks packets and one that does not."""

    def __init__(self, database: Database) -> None:
        limit, mark = QosRuleType.BANDWIDTH_LIMIT, QosRuleType.DSCP_MARKING
        least = QosRuleType.MINIMUM_BANDWIDTH
        drivers = (Driver("plain", limit, least), Driver("marking", limit, mark, least))
        self.core = core_plugin(database, mechanisms=drivers, extensions=(QosDriver(),))
        self.qos = QosPlugin(self.core.context)
        self.network = self.make("network")["id"]

    def make(self, name: str, **body: Any) -> dict[str, Any]:
        return dict(self.core.create(ADMIN, name, [{"project_id": "p", **body}])[0])

    def policy(self) -> str:
        return str(self.qos.create(ADMIN, "policy", [{"project_id": "p"}])[0]["id"])

    def mark(self, policy: str) -> None:
        self.qos.create(ADMIN, "dscp_marking_rule", [{"policy_id": policy, "dscp_mark": 8}])

    def guarantee(self, policy: str) -> None:
        rule = {"policy_id": policy, "min_kbps": 5, "direction": "egress"}
        self.qos.create(ADMIN, "minimum_bandwidth_rule", [rule])

    def port(self, host: str, **body: Any) -> dict[str, Any]:
        return self.make("port", network_id=self.network, **{"binding:host_id": host, **body})


@pytest.fixture
def site(database: Database) -> Site:
    return Site(database)


def test_a_driver_that_does_not_enforce_the_policy_does_not_bind_the_port(site: Site) -> None:
    policy = site.policy()
    site.mark(policy)
    assert site.port("marking1", qos_policy_id=policy)["binding:vif_type"] == "ovs"
    failed = site.port("plain1", qos_policy_id=policy)
    assert failed["binding:vif_type"] == "binding_failed"
    reasons = " ".join(failed["binding:vif_details"]["binding_failure"])
    assert "plain: it does not enforce rule" in reasons
    assert policy in reasons
    site.core.update(ADMIN, "network", site.network, {"qos_policy_id": policy})
    assert site.port("plain1")["binding:vif_type"] == "binding_failed"
    assert site.port("plain1", qos_policy_id=site.policy())["binding:vif_type"] == "ovs"


def test_a_bound_port_gets_no_policy_that_its_driver_does_not_enforce(site: Site) -> None:
    policy, empty = site.policy(), site.policy()
    site.mark(policy)
    plain, marking = site.port("plain1"), site.port("marking1")
    site.core.update(ADMIN, "port", marking["id"], {"qos_policy_id": policy})
    with pytest.raises(QosRuleNotSupported, match="driver plain"):
        site.core.update(ADMIN, "port", plain["id"], {"qos_policy_id": policy})
    with pytest.raises(QosRuleNotSupported, match=plain["id"]):
        site.core.update(ADMIN, "network", site.network, {"qos_policy_id": policy})
    site.core.update(ADMIN, "port", plain["id"], {"qos_policy_id": empty})
    site.core.update(ADMIN, "network", site.network, {"qos_policy_id": policy})


@pytest.mark.parametrize("by_network", [True, False])
def test_a_policy_in_use_gets_no_rule_that_a_bound_port_cannot_enforce(
    site: Site, by_network: bool
) -> None:
    policy = site.policy()
    named = {} if by_network else {"qos_policy_id": policy}
    if by_network:
        site.core.update(ADMIN, "network", site.network, {"qos_policy_id": policy})
    plain = site.port("plain1", **named)
    with pytest.raises(QosRuleNotSupported, match=plain["id"]):
        site.mark(policy)
    site.core.delete(ADMIN, "port", plain["id"])
    site.port("marking1", **named)
    site.mark(policy)


@pytest.mark.spec("L2-80")
def test_a_port_is_not_bound_to_a_host_that_does_not_keep_its_guarantee(site: Site) -> None:
    policy = site.policy()
    site.guarantee(policy)
    assert site.port("plain-fast", qos_policy_id=policy)["binding:vif_type"] == "ovs"
    failed = site.port("plain1", qos_policy_id=policy)
    assert failed["binding:vif_type"] == "binding_failed"
    assert "plain1 keeps no guarantees" in str(failed["binding:vif_details"])
    site.core.update(ADMIN, "network", site.network, {"qos_policy_id": policy})
    assert site.port("plain1")["binding:vif_type"] == "binding_failed"
    assert site.port("", qos_policy_id=policy)["binding:vif_type"] == "unbound"


@pytest.mark.spec("L2-80")
def test_a_bound_port_gets_no_guarantee_that_its_host_does_not_keep(site: Site) -> None:
    policy, used = site.policy(), site.policy()
    site.guarantee(policy)
    plain, fast = site.port("plain1"), site.port("plain-fast")
    site.core.update(ADMIN, "port", fast["id"], {"qos_policy_id": policy})
    for kind, id in (("port", plain["id"]), ("network", site.network)):
        with pytest.raises(QosRuleNotSupported, match="plain1 keeps no guarantees"):
            site.core.update(ADMIN, kind, id, {"qos_policy_id": policy})
    site.core.update(ADMIN, "port", plain["id"], {"qos_policy_id": used})
    with pytest.raises(QosRuleNotSupported, match="plain1 keeps no guarantees"):
        site.guarantee(used)
    site.core.update(ADMIN, "port", plain["id"], {"binding:host_id": "plain2-fast"})
    site.guarantee(used)
