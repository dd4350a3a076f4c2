"""Files in ``/run/netns`` that refer to no namespace: what a process leaves that is killed while
it deletes one."""

from __future__ import annotations

from uuid import uuid4

import pytest

from netfw.drivers.values.keys import AgentGatewayKey, RouterKey
from netfw.drivers.values.router_values import RouterDriverKey, RouterDriverValue
from netfw.linux import netns
from netfw.model.values.ids import NetworkId, RouterId
from netfw.plan import Update
from netfw.testing.conformance.router.factories import Site
from netfw_drivers.linux_router.plan.names import (
    CentralPart,
    PartId,
    gateway_namespace,
    router_namespace,
)
from tests.lab.backends.linux_router.environment import MakeDriver, bring, plan

pytestmark = pytest.mark.services

ROUTER, NETWORK = RouterId(uuid4()), NetworkId(uuid4())


@pytest.mark.parametrize("complete", [True, False], ids=["swept", "dropped"])
@pytest.mark.spec("L3-05")
def test_remains_of_what_was_deleted_are_removed(
    make_driver: MakeDriver, site: Site, complete: bool
) -> None:
    driver = make_driver()
    bring(driver, site)
    routers: tuple[PartId, ...] = ROUTER, CentralPart(ROUTER)
    remains = {*map(router_namespace, routers), gateway_namespace(NETWORK)}
    for name in remains:
        netns.path_of(name).touch()
    keys: frozenset[RouterDriverKey] = frozenset({RouterKey(ROUTER), AgentGatewayKey(NETWORK)})
    update: Update[RouterDriverKey, RouterDriverValue] = Update(
        put=site.wanted(), drop=frozenset() if complete else keys, complete=complete
    )
    assert driver.converge(update).ok
    assert not remains & netns.file_names()
    assert not plan(driver, update).stages


@pytest.mark.spec("L3-11")
def test_remains_of_a_router_that_is_wanted_become_its_namespace(
    make_driver: MakeDriver, site: Site
) -> None:
    netns.path_of(router_namespace(site.router)).touch()
    driver = make_driver()
    bring(driver, site)
    assert router_namespace(site.router) in netns.names()
