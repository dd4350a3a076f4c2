"""Parts of a router that cannot be had are left out, and the rest is in force."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from attrs import evolve

from netfw.errors import PartlyInvalid
from netfw.model.subnet import Ipv6Mode
from netfw.model.values.address import as_address
from netfw.model.values.route import Route
from netfw.plan import Update
from netfw.testing.conformance.router.factories import Site
from netfw.testing.conformance.router.services import advertising
from netfw.testing.lab.wait import wait_until
from tests.lab.backends.linux_router.environment import (
    LinuxRouterEnvironment,
    MakeDriver,
    bring,
    plan,
)

pytestmark = pytest.mark.services


@pytest.mark.spec("L3-25")
def test_routes_that_cannot_be_are_left_out(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: Site
) -> None:
    # All else of the router is in force, and the routes are added once they are possible.
    driver, floating = make_driver(), site.floating(50, site.nets[0].address(20))
    one, two = site.nets[:2]
    bad = {
        "198.51.100.0/24": two.address(20),
        str(one.blocks[0]): site.external.address(1),
        str(one.blocks[1]): site.external.address(1, 6),
        "198.51.101.0/24": one.address(1),
    }
    (_, upper), (_, upper6) = (block.subnets() for block in one.blocks)
    good = {
        "198.51.102.0/24": one.address(20),
        "2001:db8:98::/64": one.address(20, 6),
        str(upper): one.address(20),
        "198.51.103.0/24": upper[7],
        str(upper6): one.address(20, 6),
        "2001:db8:97::/64": upper6[7],
    }
    routes = tuple(Route(destination=to, nexthop=hop) for to, hop in (bad | good).items())
    first, _ = site.full.interfaces
    overlapping = site.with_gateway(onlink_subnets=(one.blocks[0],)).with_state(routes=routes)
    down = overlapping.with_full(interfaces=(first,))
    update = Update(put=down.wanted(floating))
    wait_until(lambda: not driver.converge(update).waiting, seconds=60)
    outcome = driver.converge(update)
    assert outcome.done == {floating.key}
    error = outcome.failed[site.key]
    assert isinstance(error, PartlyInvalid)
    assert len(error.problems) == len(bad) + 1, error.problems
    found = {
        each["dst"] for family in ("-4", "-6") for each in environment.routes(site.router, family)
    }
    assert good.keys() <= found
    assert not plan(driver, update)
    outcome = driver.converge(Update(put=overlapping.wanted(floating)))
    assert str(two.address(20)) not in str(outcome.failed[site.key])
    assert "198.51.100.0/24" in {each["dst"] for each in environment.routes(site.router)}


@pytest.mark.spec("L3-26")
@pytest.mark.parametrize(("mtu", "servers"), [(1200, 1), (1500, 17)])
def test_advertisements_that_cannot_be_are_left_out(
    environment: LinuxRouterEnvironment,
    make_driver: MakeDriver,
    site: Site,
    mtu: int,
    servers: int,
) -> None:
    one, two = site.full.interfaces
    mode = {"ipv6_ra_mode": Ipv6Mode.SLAAC, "ipv6_address_mode": Ipv6Mode.SLAAC}
    names = tuple(as_address(f"2001:db8::{number}") for number in range(1, servers + 1))
    subnets = tuple(
        evolve(each, **mode, dns_nameservers=names) if each.ip_version == 6 else each
        for each in one.subnets
    )
    changed = site.with_full(interfaces=(evolve(one, subnets=subnets, mtu=mtu), two))
    update = Update(put=changed.wanted())
    driver = make_driver()
    error = driver.converge(update).failed[site.key]
    assert isinstance(error, PartlyInvalid)
    assert len(error.problems) == 1
    assert mtu >= 1280 or "IPv6 of port" in str(error)
    assert not plan(driver, update)
    inside = environment.machine(site.nets[0].id, site.nets[0].interfaces(20))
    wait_until(lambda: inside.reach(site.nets[0].address(1)), seconds=60)
    if mtu < 1280:
        assert inside.advertisement() is None
    else:
        found = wait_until(inside.advertisement, seconds=60)
        assert found is not None
        assert found.name_servers == set(names[:16])
    bring(driver, site)


@pytest.mark.spec("L3-25")
@pytest.mark.parametrize("present", [False, True])
def test_default_routes_that_the_kernel_refuses_are_left_out(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: Site, *, present: bool
) -> None:
    # The rest of the router is in force, whether it is new or was there before.
    driver, floating = make_driver(), site.floating(50, site.nets[0].address(20))
    if present:
        bring(driver, site, floating)
    bad = (site.external.blocks[0].broadcast_address, as_address("ff02::7"))
    update = Update(put=site.with_gateway(next_hops=bad).wanted(floating))
    wait_until(lambda: not driver.converge(update).waiting, seconds=60)
    outcome = driver.converge(update)
    assert outcome.done == {floating.key}, str(outcome)
    error = outcome.failed[site.key]
    assert isinstance(error, PartlyInvalid)
    assert error.problems.keys() == {f"default route via {hop}" for hop in bad}
    assert all("invalid" in why.lower() for why in error.problems.values()), error.problems
    routes = [each for family in ("-4", "-6") for each in environment.routes(site.router, family)]
    assert "default" not in {each["dst"] for each in routes}
    outside = environment.machine(site.external.id, site.external.interfaces(1))
    wait_until(lambda: outside.reach(site.gateway.port.addresses[0].ip), seconds=60)
    bring(driver, site, floating)


@pytest.mark.spec("L3-25")
@pytest.mark.parametrize("side", ["interface", "gateway"])
def test_ipv6_on_a_network_with_a_small_mtu_is_left_out(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: Site, side: str
) -> None:
    one, two = site.full.interfaces
    port = one if side == "interface" else site.gateway.port
    small = (
        site.with_full(interfaces=(evolve(one, mtu=1200), two))
        if side == "interface"
        else site.with_gateway(port=evolve(site.gateway.port, mtu=1200))
    )
    driver, update = make_driver(), Update(put=small.wanted())
    error = driver.converge(update).failed[site.key]
    assert isinstance(error, PartlyInvalid)
    assert error.problems.keys() == {f"IPv6 of port {port.id}"}
    assert "1200" in str(error)
    assert not plan(driver, update)
    bring(driver, site)


@pytest.mark.spec("L3-26")
@pytest.mark.parametrize("present", [False, True])
def test_without_radvd_a_router_has_everything_but_advertisements(
    make_driver: MakeDriver,
    site: Site,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    present: bool,
) -> None:
    # This holds whether the router is new or was there before.
    driver, floating = make_driver(), site.floating(50, site.nets[0].address(20))
    if present:
        bring(driver, site)
    update = Update(put=advertising(site, Ipv6Mode.SLAAC).wanted(floating))
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(path_without("radvd", tmp_path)))
        wait_until(lambda: not driver.converge(update).waiting, seconds=60)
        outcome = driver.converge(update)
        assert outcome.done == {floating.key}, str(outcome)
        error = outcome.failed[site.key]
        assert isinstance(error, PartlyInvalid)
        assert "there is no command radvd here" in error.problems["advertisements"]
    assert driver.converge(update).ok
    assert not plan(driver, update)


def path_without(command: str, directory: Path) -> Path:
    """Make a directory of all commands but one."""
    for folder in os.environ["PATH"].split(":"):
        for each in Path(folder).iterdir() if Path(folder).is_dir() else ():
            link = directory / each.name
            if each.name != command and not link.is_symlink():
                link.symlink_to(each)
    return directory
