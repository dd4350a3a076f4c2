"""Who may give the attributes that extension drivers add."""

from __future__ import annotations

from typing import Any

import pytest

from netfw.drivers.server.query import RequestContext
from netfw.errors import Forbidden
from netfw.server.api import resource_registry
from netfw.server.api.policy.enforcement import RulesPolicy
from netfw.server.api.schema.resource_schema import Verb
from netfw.server.core.extension_drivers import ExtensionDrivers
from netfw_drivers.extension_drivers.dns import DnsDriver
from netfw_drivers.extension_drivers.port_security import PortSecurityDriver
from netfw_drivers.extension_drivers.qos import QosDriver

pytestmark = pytest.mark.real
RED = RequestContext(project_id="red", roles=frozenset({"member"}))
NETWORKS: dict[str, dict[str, Any]] = {
    "own": {"id": "own", "project_id": "red", "shared": False, "router:external": False},
    "others": {"id": "others", "project_id": "blue", "shared": True, "router:external": False},
}


@pytest.mark.spec("API-09", "ML2-06")
def test_port_security_and_domain_are_set_only_by_the_network_owner() -> None:
    drivers = (PortSecurityDriver(), DnsDriver(), QosDriver())
    declared = resource_registry.build(
        {"network", "port"}, extending=ExtensionDrivers(drivers).declared()
    )
    policy = RulesPolicy(
        declared.resources, lambda _, __, ids: {id: NETWORKS[id] for id in ids if id in NETWORKS}
    )
    port, network = declared.resource("port"), declared.resource("network")
    off, named = {"port_security_enabled": False}, {"dns_name": "web"}
    domain = {"dns_domain": "bank.example."}

    def may(network_id: str, verb: Verb, asked: dict[str, Any]) -> None:
        target = {"id": "p", "project_id": "red", "network_id": network_id, "device_owner": ""}
        policy.authorize(RED, port, verb, {**target, **asked}, asked)

    for verb in (Verb.CREATE, Verb.UPDATE):
        may("own", verb, off)
        may("others", verb, named)
        may("own", verb, domain)
        for owners_alone in (off, domain):
            with pytest.raises(Forbidden):
                may("others", verb, owners_alone)
    policy.authorize(RED, network, Verb.CREATE, {"project_id": "red", **off}, off)
