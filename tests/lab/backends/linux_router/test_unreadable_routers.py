"""A router that netfw cannot read until an operator repairs it."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from netfw.errors import BackendBroken
from netfw.linux.nftables.library import NftContext
from netfw.linux.router_netns import RouterNetnsExecutor
from netfw.plan import Update
from netfw.testing.conformance.router.factories import Site, make_net, make_site
from netfw_drivers.linux_router.driver import LinuxRouterDriver
from netfw_drivers.linux_router.plan.names import router_namespace
from tests.lab.backends.linux_router.environment import (
    LinuxRouterEnvironment,
    MakeDriver,
    bring,
)

pytestmark = pytest.mark.services

FOREIGN = "add chain ip nat postrouting { type nat hook postrouting priority 100 ; }"
"""A base chain that iptables cannot show: its name is in lower case."""


@pytest.fixture
def other(environment: LinuxRouterEnvironment, site: Site) -> Site:
    """Return a second router, on the same external network."""
    made = make_site(make_net(3), external=site.external, number=11)
    environment.admit(made.ports)
    return made


def run_nft(site: Site, command: str) -> None:
    """Run a command of nftables in the namespace of a router."""
    context = NftContext(router_namespace(site.router), json=False)
    try:
        answer = context.run(command)
        assert answer.ok, answer.errors
    finally:
        context.close()


def test_an_error_of_all_floating_ips_names_the_router_to_repair(
    make_driver: MakeDriver, site: Site, other: Site
) -> None:
    mine = site.floating(50, site.nets[0].address(20))
    theirs = other.floating(51, other.nets[0].address(20))
    bring(make_driver(), site, mine)
    bring(make_driver(), other)
    run_nft(site, FOREIGN)
    driver = make_driver()
    put = Update(put={theirs.key: theirs.value})
    drop: Update[Any, Any] = Update(drop=frozenset({mine.key}))
    for unknown in (driver.present, partial(driver.converge, put), partial(driver.converge, drop)):
        with pytest.raises(BackendBroken, match=f"{router_namespace(site.router)}: .*nft"):
            unknown()
    run_nft(site, "delete chain ip nat postrouting")
    assert driver.converge(put).ok
    assert driver.converge(drop).ok
    assert theirs.key in driver.present()
    assert mine.key not in driver.present()


def test_an_audit_reads_all_other_routers(
    make_driver: MakeDriver, site: Site, other: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring(make_driver(), site)
    bring(make_driver(), other)
    run_nft(site, FOREIGN)
    read, works = set[str](), RouterNetnsExecutor.observe

    def observe(self: RouterNetnsExecutor, namespace: str, *args: Any, **kwargs: Any) -> Any:
        found = works(self, namespace, *args, **kwargs)
        read.add(namespace)
        return found

    monkeypatch.setattr(RouterNetnsExecutor, "observe", observe)
    driver = make_driver()
    assert isinstance(driver, LinuxRouterDriver)
    with pytest.raises(BackendBroken, match=router_namespace(site.router)):
        driver.observe(None)
    assert read == {router_namespace(other.router)}
    run_nft(site, "delete chain ip nat postrouting")
    driver.observe(None)
    assert router_namespace(site.router) in read
