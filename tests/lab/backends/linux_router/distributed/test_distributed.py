"""Distributed routers: the local and the central part of one host."""

from __future__ import annotations

import pytest

from netfw.drivers.values.keys import RouterKey
from netfw.drivers.values.router_values import RouterPart
from netfw.plan import Update
from netfw.testing.conformance.router.distributed_factories import (
    DistributedSite,
    bring_entries,
    entries,
    make_distributed,
)
from netfw.testing.conformance.router.factories import make_net
from netfw.testing.lab.wait import wait_until
from tests.lab.backends.linux_router.environment import (
    LinuxRouterEnvironment,
    MakeDriver,
    plan,
)

pytestmark = pytest.mark.services


@pytest.fixture
def site(environment: LinuxRouterEnvironment) -> DistributedSite:
    made = make_distributed()
    environment.admit(made.ports)
    return made


@pytest.mark.spec("L3-61")
def test_a_local_part_routes_between_instances_without_the_central_part(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: DistributedSite
) -> None:
    driver = make_driver()
    bring_entries(driver, entries(site.with_state(central=None)))
    status = driver.status(site.router)
    assert status.namespaces == {RouterPart.LOCAL: f"qrouter-{site.router}"}
    assert driver.namespace_of(site.router, RouterPart.LOCAL) == f"qrouter-{site.router}"
    one, two = (
        environment.machine(net.id, net.interfaces(20), net.gateways()) for net in site.nets
    )
    for version in (4, 6):
        there = site.nets[1].address(20, version)
        wait_until(lambda there=there: one.reach(there), seconds=60)
        back = site.nets[0].address(20, version)
        wait_until(lambda back=back: two.reach(back), seconds=60)
    assert not plan(make_driver(), Update(put=entries(site.with_state(central=None))))


@pytest.mark.spec("L3-63")
def test_instances_leave_by_the_central_part(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: DistributedSite
) -> None:
    driver = make_driver()
    bring_entries(driver, entries(site))
    assert driver.status(site.router).namespaces == {
        RouterPart.LOCAL: f"qrouter-{site.router}",
        RouterPart.CENTRAL: f"snat-{site.router}",
    }
    net, external = site.nets[0], site.external
    outside = environment.machine(external.id, external.interfaces(1))
    inside = environment.machine(net.id, net.interfaces(20), net.gateways())
    answer = wait_until(lambda: inside.reach(external.address(1)))
    assert answer.source == site.outside_address
    assert outside.name
    assert driver.present() == {RouterKey(site.router)}
    assert not plan(make_driver(), Update(put=entries(site)))


@pytest.mark.spec("L3-66")
def test_a_part_that_a_host_does_not_have_any_more_is_removed(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: DistributedSite
) -> None:
    driver = make_driver()
    bring_entries(driver, {})  # its lock stays
    before = environment.dump_state()
    bring_entries(driver, entries(site))
    bring_entries(driver, entries(site.with_state(local=None)))
    assert driver.status(site.router).namespaces.keys() == {RouterPart.CENTRAL}
    bring_entries(driver, entries(site))
    bring_entries(driver, entries(site.with_state(central=None)))
    assert driver.status(site.router).namespaces.keys() == {RouterPart.LOCAL}
    bring_entries(driver, entries(site))
    assert driver.converge(Update(drop=frozenset({site.key}))).ok
    assert environment.dump_state() <= before


@pytest.mark.spec("L3-63")
def test_tables_of_subnets_keep_their_numbers(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver
) -> None:
    first, second = make_net(1), make_net(2)
    site = make_distributed(first, second)
    environment.admit(site.ports)
    state = site.with_state(central=None)
    local = site.local
    bring_entries(make_driver(), entries(state))
    former = tables(environment, site)
    assert sorted(former.values()) == ["1000", "1001"]
    one = site.with_state(
        central=None,
        local=type(local)(interfaces=local.interfaces[1:], snat_addresses=local.snat_addresses),
    )
    bring_entries(make_driver(), entries(one))
    assert tables(environment, site) == {str(second.blocks[0]): former[str(second.blocks[0])]}
    bring_entries(make_driver(), entries(state))
    assert tables(environment, site) == former


def tables(environment: LinuxRouterEnvironment, site: DistributedSite) -> dict[str, str]:
    """Return the tables of IPv4 subnets."""
    shown = environment.run(site.router, ["ip", "rule", "list", "priority", "40000"])
    lines = (line.split() for line in shown.splitlines())
    return {words[words.index("from") + 1]: words[words.index("lookup") + 1] for words in lines}


@pytest.mark.spec("L3-61")
def test_a_rule_or_route_that_was_removed_by_hand_is_added_again(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: DistributedSite
) -> None:
    driver = make_driver()
    events: list[object] = []
    driver.watch(events.append)
    bring_entries(driver, entries(site))
    environment.run(site.router, ["ip", "rule", "delete", "priority", "40000"])
    wait_until(lambda: any(site.key in getattr(each, "keys", ()) for each in events), seconds=60)
    environment.run(site.router, ["ip", "route", "flush", "table", "1001"])
    bring_entries(driver, entries(site))
    assert len(tables(environment, site)) == 2
    assert not plan(make_driver(), Update(put=entries(site)))
