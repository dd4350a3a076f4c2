"""Two instances of a highly available router, with real keepalived processes."""

from __future__ import annotations

import os
import signal

import pytest

from netfw.drivers.values.events import Event, KeysChanged, ProcessDied
from netfw.drivers.values.router_values import HA_PRIORITY, RoleChanged
from netfw.model.router import HaRole
from netfw.plan import Update
from netfw.testing.conformance.router.factories import Site, make_net
from netfw.testing.lab.wait import wait_until
from netfw_drivers.linux_router.config.keepalived import marker
from netfw_drivers.linux_router.runtime.daemon_runner import LOG_LIMIT
from tests.lab.backends.linux_router.environment import (
    bring,
    plan,
)
from tests.lab.backends.linux_router.ha_instances import (
    addresses,
    assert_bare,
    bring_active,
    bring_pair,
    frames,
    ha_packets,
    ha_port,
    kill_all,
    pids,
    pinged,
    reached,
    role,
    wait_active,
    wait_roles,
)
from tests.nightly import nightly


@pytest.mark.spec("L3-40")
def test_one_instance_is_active_and_the_other_one_silent(environment, make_driver, pair, inside):
    driver = make_driver()
    first, second = bring_pair(driver, pair)
    with frames(second) as sent:
        for version in (4, 6):
            wait_until(lambda version=version: reached(inside, first, version))
        assert inside.advertisement() is not None
        for site in pair:
            assert not plan(driver, Update(put=site.wanted())).stages
        assert sent() == []
    assert_bare(environment, second)
    assert inside.count_answers(first.nets[0].address(1)) > 0
    for address in (ha_port(first).addresses[0].ip, marker(7).ip):
        assert f" {address}/" in addresses(environment, first)
        assert inside.count_answers(address) == 0


@pytest.mark.spec("L3-41")
def test_new_driver_finds_the_roles_and_changes_nothing(environment, make_driver, pair, inside):
    first, second = bring_pair(make_driver(), pair)
    running = [pids(site) for site in pair]
    wait_until(lambda: reached(inside, first))
    events: list[Event] = []
    log = environment.router_confs / "keepalived" / f"{first.router}.log"
    os.truncate(log, LOG_LIMIT + 1)
    with pinged(inside, first.external.address(1)) as stop:
        driver = make_driver()
        driver.watch(events.append)
        assert (role(driver, first), role(driver, second)) == (HaRole.ACTIVE, HaRole.STANDBY)
        for site in pair:
            update = Update(put=site.wanted())
            assert not plan(driver, update).stages
            assert driver.converge(update).ok
        assert stop().lost == 0
    assert [pids(site) for site in pair] == running
    assert log.stat().st_size < LOG_LIMIT
    roles = {each.router: each.role for each in role_changes(events)}
    assert roles == {first.router: HaRole.ACTIVE, second.router: HaRole.STANDBY}


def role_changes(events: list[Event]) -> list[RoleChanged]:
    return [each for each in events if isinstance(each, RoleChanged)]


def kill_child(site: Site) -> None:
    os.kill(pids(site)[-1], signal.SIGKILL)


def terminate(site: Site) -> None:
    os.kill(pids(site)[0], signal.SIGTERM)


def suspend_child(site: Site) -> None:
    os.kill(pids(site)[-1], signal.SIGSTOP)


def kill_parent(site: Site) -> None:
    os.kill(pids(site)[0], signal.SIGKILL)


@pytest.mark.parametrize(
    "stop_it", [kill_all, *map(nightly, [kill_child, kill_parent, suspend_child, terminate])]
)
@pytest.mark.spec("L3-43")
def test_other_instance_takes_over(environment, make_driver, pair, inside, stop_it):
    driver = make_driver()
    events: list[Event] = []
    driver.watch(events.append)
    first, second = bring_pair(driver, pair)
    wait_until(lambda: len(role_changes(events)) == 3)
    wait_until(lambda: reached(inside, first))
    stop_it(first)
    if stop_it is not kill_child:
        wait_until(lambda: any(isinstance(each, ProcessDied) for each in events))
    wait_until(lambda: role(driver, second) is HaRole.ACTIVE)
    wait_until(lambda: len(pids(first)) == 2 and role(driver, first) is HaRole.STANDBY)
    for version in (4, 6):
        wait_until(lambda v=version: reached(inside, second, v))

    def is_settled() -> bool:
        for site in pair:
            assert driver.converge(Update(put=site.wanted())).ok
        return not any(plan(driver, Update(put=site.wanted())).stages for site in pair)

    wait_until(is_settled)
    assert_bare(environment, first)
    assert wait_roles(driver, *pair)[0] is second, "the returning instance has preempted"
    wait_until(lambda: len(role_changes(events)) == 5)
    assert {each.router: each.role for each in role_changes(events)} == {
        first.router: HaRole.STANDBY,
        second.router: HaRole.ACTIVE,
    }


@pytest.mark.spec("L3-43")
def test_suspended_child_of_a_killed_keepalived_does_not_keep_the_next_one_out(make_driver, pair):
    driver, site = make_driver(), pair[0]
    bring_active(driver, site)
    former = pids(site)
    suspend_child(site)
    kill_parent(site)
    wait_until(lambda: len(pids(site)) == 2 and not {*pids(site)} & {*former}, seconds=60)
    wait_active(driver, site)


@pytest.mark.spec("L3-41")
def test_role_is_reported_while_a_repair_is_due(environment, make_driver, pair):
    driver = make_driver()
    events: list[Event] = []
    driver.watch(events.append)
    first, second = bring_pair(driver, pair)
    wait_until(lambda: len(role_changes(events)) == 3)
    device = driver.status(second.router).devices[ha_port(second).id]
    environment.run(second.router, ["ip", "address", "add", "192.0.2.7/32", "dev", device])
    wait_until(lambda: any(isinstance(e, KeysChanged) and second.key in e.keys for e in events))
    terminate(first)
    wait_until(
        lambda: any(
            (each.router, each.role) == (second.router, HaRole.ACTIVE)
            for each in role_changes(events)
        )
    )


@pytest.mark.spec("L3-43")
def test_instance_without_its_ha_network_fails_over(environment, make_driver, pair, inside):
    driver = make_driver()
    first, second = bring_pair(driver, pair)
    wait_until(lambda: reached(inside, first))
    device = driver.status(first.router).devices[ha_port(first).id]
    environment.run(first.router, ["ip", "link", "set", device, "down"])
    wait_until(lambda: role(driver, second) is HaRole.ACTIVE)
    wait_until(lambda: role(driver, first) is HaRole.FAULT)
    wait_until(lambda: reached(inside, second))
    bring(driver, first)
    assert wait_roles(driver, *pair) == (second, first)


@pytest.mark.spec("L3-43")
def test_removed_active_instance_tells_the_other_one(make_driver, pair):
    # Its keepalived announces priority 0 before it is killed.
    driver = make_driver()
    first, second = pair
    bring(driver, first)
    wait_until(lambda: role(driver, first) is HaRole.ACTIVE)
    bring(driver, second)
    with ha_packets(second) as receive:
        assert driver.converge(Update(drop=frozenset({first.key}))).ok
        assert pids(first) == []
        priority = HA_PRIORITY
        while priority:
            packet = receive()
            start = (packet[0] & 0xF) * 4
            priority = packet[start + 2]
    wait_until(lambda: role(driver, second) is HaRole.ACTIVE)


def test_floating_ip_comes_and_goes_without_failover_or_loss(
    environment, make_driver, pair, inside
):
    driver = make_driver()
    events: list[Event] = []
    driver.watch(events.append)
    first, second = bring_pair(driver, pair)
    wait_until(lambda: len(role_changes(events)) == 3)
    wait_until(lambda: reached(inside, first))
    floating = first.floating(50, first.nets[0].address(9))
    outside = environment.machine(first.external.id, first.external.interfaces(2))
    running = [pids(site) for site in pair]
    with pinged(inside, first.external.address(1)) as stop:
        assert driver.converge(Update(put={floating.key: floating.value})).ok
        assert f" {floating.address}/32 " in addresses(environment, first)
        echo = wait_until(lambda: outside.reach(floating.address))
        assert echo.at == inside.name
        drop = Update(drop=frozenset({floating.key}))
        assert driver.converge(drop).ok
        assert str(floating.address) not in addresses(environment, first)
        assert outside.reach(floating.address) is None
        assert stop().lost == 0
    assert [pids(site) for site in pair] == running
    assert wait_roles(driver, *pair) == (first, second)
    assert len(role_changes(events)) == 3
    assert not plan(driver, Update(put=first.wanted())).stages


def test_interfaces_come_and_go_without_failover(environment, make_driver, pair, inside):
    driver = make_driver()
    first, second = bring_pair(driver, pair)
    wait_until(lambda: reached(inside, first))
    net = make_net(3)
    larger = first.with_full(interfaces=(*first.full.interfaces, net.port()))
    environment.admit(larger.ports)
    with pinged(inside, first.external.address(1)) as stop:
        bring(driver, larger)
        machine = environment.machine(net.id, net.interfaces(9), net.gateways())
        wait_until(lambda: reached(machine, first))
        bring(driver, first)
        assert machine.reach(net.address(1)) is None
        assert stop().lost == 0
    assert wait_roles(driver, *pair) == (first, second)


def test_removed_and_foreign_addresses_are_repaired(environment, make_driver, pair, inside):
    driver = make_driver()
    first, second = bring_pair(driver, pair)
    devices = driver.status(first.router).devices
    inner = devices[first.full.interfaces[0].id]
    environment.run(first.router, ["ip", "address", "add", "192.0.2.7/32", "dev", inner])
    bring(driver, first)
    assert "192.0.2.7" not in addresses(environment, first)
    assert wait_roles(driver, *pair) == (first, second)
    environment.run(
        first.router, ["ip", "address", "del", str(first.nets[0].interfaces(1)[0]), "dev", inner]
    )
    wait_until(lambda: reached(inside, first), seconds=60)
    wait_roles(driver, *pair)


def test_instance_waits_until_the_switch_admits_its_ha_port(environment, make_driver, pair):
    driver = make_driver()
    events: list[Event] = []
    driver.watch(events.append)
    first, second = pair
    environment.admit([ha_port(first)], wired=False)
    bring(driver, first)
    assert pids(first) == []
    assert role(driver, first) is HaRole.FAULT
    assert [each.role for each in role_changes(events)] == [HaRole.FAULT]
    assert driver.unwired_ports(first.router) == {ha_port(first).id}
    assert_bare(environment, first)
    assert not plan(driver, Update(put=first.wanted())).stages
    driver = make_driver()  # it knows the floating IP, and not yet the router
    floating = first.floating(50, first.nets[0].address(9))
    driver.converge(Update(put={floating.key: floating.value}))
    assert pids(first) == []
    bring(driver, first)
    assert pids(first) == []
    environment.admit([ha_port(first)])
    wait_active(driver, first)
    bring(driver, second)
    assert wait_roles(driver, *pair) == (first, second)


@pytest.mark.spec("L3-41")
def test_instance_without_keepalived_is_at_fault(make_driver, pair, monkeypatch, tmp_path):
    driver = make_driver()
    events: list[Event] = []
    driver.watch(events.append)
    first, second = bring_pair(driver, pair)
    without = tmp_path / "bin"
    without.mkdir()
    for folder in os.environ["PATH"].split(":"):
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            if name != "keepalived" and not (without / name).is_symlink():
                (without / name).symlink_to(f"{folder}/{name}")
    with monkeypatch.context() as patched:
        patched.setenv("PATH", str(without))
        terminate(second)
        wait_until(lambda: not pids(second))
        assert second.key in driver.converge(Update(put=second.wanted())).failed
        assert role(driver, second) is HaRole.FAULT
        assert role_changes(events)[-1].role is HaRole.FAULT
    bring(driver, second)
    assert wait_roles(driver, *pair) == (first, second)
    assert role_changes(events)[-1].role is HaRole.STANDBY


def test_router_is_converted_in_place_and_leaves_nothing(environment, make_driver, pair, inside):
    driver, before = make_driver(), environment.dump_state()
    first, second = pair
    plain = first.with_full(ha=None)
    bring(driver, plain)
    wait_until(lambda: reached(inside, plain))
    assert role(driver, plain) is None
    assert wait_roles(driver, *bring_pair(driver, pair))
    wait_until(lambda: reached(inside, first))
    assert driver.converge(Update(drop=frozenset({second.key}))).ok
    bring(driver, plain)
    for version in (4, 6):
        wait_until(lambda version=version: reached(inside, plain, version))
    assert role(driver, plain) is None
    assert pids(first) == []
    assert not plan(driver, Update(put=plain.wanted())).stages
    bring_pair(driver, pair)
    assert driver.converge(Update(drop=frozenset({first.key, second.key}))).ok
    left = {each for each in environment.dump_state() - before if str(first.router) in each}
    assert not left
