"""Connections whose translation changed end, whenever the driver is killed."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_interface
from uuid import UUID

import pytest
from attrs import evolve

from netfw.drivers.router import RouterDriver
from netfw.drivers.values.router_contribution import (
    RouterContribution,
    RouterRule,
    RuleChain,
    RuleTable,
)
from netfw.linux.conntrack import codec
from netfw.model.values.address import IpAddress
from netfw.model.values.ids import PortId
from netfw.plan import Stage, Update
from netfw.testing.conformance.router.factories import Site
from netfw.testing.lab.wait import wait_until
from tests.lab.backends.linux_router.environment import LinuxRouterEnvironment, MakeDriver, bring
from tests.nightly import nightly

pytestmark = [pytest.mark.services]

OUTSIDE, SHARED = 1, 60
"""Numbers of a machine outside, and of a floating IP with port forwardings."""


class Killed(Exception):
    """The driver was killed here."""


def forwarding(site: Site, *ports: int) -> Site:
    """Return the router with forwarded ports of one floating IP."""
    address, to = site.external.address(SHARED), site.nets[0].address(20)
    match = f"-d {address}/32 -p tcp -m tcp"
    rules = tuple(
        RouterRule(
            table=RuleTable.NAT,
            chain=RuleChain.PREROUTING,
            words=tuple(f"{match} --dport {port} -j DNAT --to-destination {to}".split()),
        )
        for port in ports
    )
    addresses = (ip_interface((address, 32)),)
    made = RouterContribution(owner="forward", rules=rules, addresses=addresses)
    return site.with_state(contributions=(made,))


def track(
    environment: LinuxRouterEnvironment, site: Site, address: IpAddress, port: int = 80
) -> None:
    """Insert a connection from outside to *address*, translated to an instance."""
    inside, outside = site.nets[0].address(20), site.external.address(OUTSIDE)
    entry = f"-s {outside} -d {address} -r {inside} -q {outside}"
    ports = f"--sport 5000 --dport {port} --reply-port-src {port} --reply-port-dst 5000"
    state = "--state ESTABLISHED -u ASSURED,SEEN_REPLY"
    environment.run(site.router, f"conntrack -I -p tcp -t 600 {entry} {ports} {state}".split())


def track_snat(environment: LinuxRouterEnvironment, site: Site) -> None:
    """Insert a connection of an instance that leaves with the address of the gateway."""
    inside, outside = site.nets[0].address(20), site.external.address(OUTSIDE)
    entry = f"-s {inside} -d {outside} -r {outside} -q {site.outside_address}"
    ports = "--sport 5000 --dport 53 --reply-port-src 53 --reply-port-dst 5000"
    environment.run(site.router, f"conntrack -I -p udp -t 600 {entry} {ports}".split())


def kill_at_each_stage(
    environment: LinuxRouterEnvironment,
    make_driver: MakeDriver,
    before: Callable[[RouterDriver], None],
    update: Update,
    ended: IpAddress,
) -> None:
    """Kill a driver after each stage; check that its successor ends the connections."""
    stage, died = 0, True
    while died:
        driver = make_driver()
        before(driver)
        assert environment.connections(ended) > 0
        died = dies_after(driver, update, stage)
        successor = make_driver()
        wait_until(lambda: successor.converge(update).ok, seconds=60)  # noqa: B023
        assert environment.connections(ended) == 0, f"killed after stage {stage}"
        assert not successor.plan(update, successor.observe(None))  # type: ignore[attr-defined]
        stage += 1
    assert stage > 2, "there was nothing to interrupt"


def dies_after(driver: RouterDriver, update: Update, last: int) -> bool:
    """Apply the plan of *update* up to a stage; return whether there were more stages."""
    applied: list[Stage] = []

    def checkpoint(stage: Stage) -> None:
        applied.append(stage)
        if len(applied) > last:
            raise Killed

    planned = driver.plan(update, driver.observe(update))  # type: ignore[attr-defined]
    try:
        driver.apply(planned, checkpoint)  # type: ignore[attr-defined]
    except Killed:
        return True
    return False


@pytest.mark.spec("L3-24", "L3-11")
@pytest.mark.parametrize(
    ("change", "whole"),
    [
        ("moved", True),
        nightly("dropped", True),
        nightly("forwarded", True),
        nightly("moved", False),
        nightly("dropped", False),
    ],
)
def test_a_floating_ip_changed_by_a_driver_that_is_killed(
    environment: LinuxRouterEnvironment,
    make_driver: MakeDriver,
    site: Site,
    change: str,
    whole: bool,
) -> None:
    floating = site.floating(SHARED, site.nets[0].address(20))
    router = {site.key: site.state} if whole else {}
    moved = floating.to(site.nets[0].address(21))
    updates = {
        "moved": Update(put={**router, moved.key: moved.value}),
        "dropped": Update(put=router, drop=frozenset({floating.key})),
        "forwarded": Update(
            put={site.key: forwarding(site, 80).state}, drop=frozenset({floating.key})
        ),
    }

    def before(driver: RouterDriver) -> None:
        bring(driver, site, floating, complete=True)
        track(environment, site, floating.address)

    kill_at_each_stage(environment, make_driver, before, updates[change], floating.address)


@pytest.mark.nightly
@pytest.mark.spec("L3-80", "L3-11")
def test_a_port_forwarding_removed_by_a_driver_that_is_killed(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: Site
) -> None:
    both, one = forwarding(site, 80, 2222), forwarding(site, 2222)

    def before(driver: RouterDriver) -> None:
        bring(driver, both, complete=True)
        track(environment, site, site.external.address(SHARED))

    update = Update(put={site.key: one.state})
    kill_at_each_stage(environment, make_driver, before, update, site.external.address(SHARED))


@pytest.mark.nightly
@pytest.mark.spec("L3-22", "L3-11")
def test_a_gateway_replaced_by_a_driver_that_is_killed(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: Site
) -> None:
    former, address = site.gateway.port, site.outside_address
    addresses = (ip_interface((address + 77, former.addresses[0].network.prefixlen)),)
    port = evolve(former, id=PortId(UUID(int=78)), mac="fa:16:3e:78:00:01", addresses=addresses)
    environment.admit([port])

    def before(driver: RouterDriver) -> None:
        bring(driver, site, complete=True)
        track_snat(environment, site)

    replaced = site.with_full(gateway=evolve(site.gateway, port=port))
    update = Update(put={site.key: replaced.state})
    kill_at_each_stage(environment, make_driver, before, update, address)


@pytest.mark.spec("L3-80")
def test_connections_to_other_ports_stay(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: Site
) -> None:
    driver, shared = make_driver(), site.external.address(SHARED)
    bring(driver, forwarding(site, 80, 2222))
    track(environment, site, shared, 80)
    track(environment, site, shared, 2222)
    bring(driver, forwarding(site, 2222))
    assert environment.connections(shared) == 1


@pytest.mark.spec("L3-22")
def test_connections_of_snat_end_when_it_is_disabled(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: Site
) -> None:
    driver, address = make_driver(), site.outside_address
    bring(driver, site)
    track_snat(environment, site)
    bring(driver, site)
    assert environment.connections(address) == 1
    bring(driver, site.with_gateway(snat=False))
    assert environment.connections(address) == 0


@pytest.mark.spec("L3-24")
def test_connections_of_many_addresses_end_by_one_listing_of_the_table(
    environment: LinuxRouterEnvironment,
    make_driver: MakeDriver,
    site: Site,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The table of a router may be large; the cost is not that of listing it for each address.
    floating = [site.floating(number, site.nets[0].address(20)) for number in (100, 101, 102)]
    driver = make_driver()
    bring(driver, site, *floating)
    listings: list[int] = []
    dump_request = codec.dump_request

    def count(sequence: int, family: int, mark: tuple[int, int] | None) -> bytes:
        listings.append(sequence)
        return dump_request(sequence, family, mark)

    monkeypatch.setattr(codec, "dump_request", count)
    moved = {each.key: each.to(site.nets[0].address(60)).value for each in floating}
    removed = frozenset(each.key for each in floating)
    changes: list[tuple[Update, int]] = [
        (Update(put=moved), 1),
        (Update(put={site.key: site.state}, drop=removed), 3),
    ]
    for update, most in changes:
        for port, each in enumerate(floating, start=80):
            track(environment, site, each.value.floating_address, port)
        listings.clear()
        assert driver.converge(update).ok
        assert len(listings) <= most
        entries = environment.run(site.router, ["conntrack", "-L", "-p", "tcp"])
        assert not [each for each in floating if str(each.value.floating_address) in entries]
