"""Established connections through two instances of a highly available router, with conntrackd."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from netfw.drivers.router import RouterDriver
from netfw.drivers.values.events import Event, ProcessDied
from netfw.plan import Update
from netfw.testing.conformance.router.factories import Floating, Site
from netfw.testing.conformance.router.lab_machine import LabMachine
from netfw.testing.lab.tcp_stream import Streams, connected, passes
from netfw.testing.lab.wait import wait_until
from netfw_drivers.linux_router.config.conntrackd import LOCK, PORT, SOCKET
from tests.lab.backends.linux_router.environment import LinuxRouterEnvironment, bring, plan
from tests.lab.backends.linux_router.ha_instances import (
    Pair,
    bring_pair,
    kill_all,
    pids,
    reached,
    wait_active,
    wait_roles,
)
from tests.nightly import nightly

TCP_PORT = 4242


@pytest.fixture(scope="module")
def environment(request: pytest.FixtureRequest) -> Iterator[LinuxRouterEnvironment]:
    enabled = getattr(request, "param", True)
    with LinuxRouterEnvironment(ha_conntrackd_enabled=enabled) as made:
        yield made


@pytest.fixture
def machines(
    environment: LinuxRouterEnvironment, pair: Pair, inside: LabMachine
) -> tuple[LabMachine, LabMachine]:
    """Return an instance, and a machine outside."""
    outside = environment.machine(pair[0].external.id, pair[0].external.interfaces(2))
    assert isinstance(outside, LabMachine)
    return inside, outside


def to_outside(
    site: Site, machines: tuple[LabMachine, LabMachine]
) -> AbstractContextManager[Streams]:
    """Connect the instance to the machine outside."""
    inside, outside = (each.instance for each in machines)
    return connected(inside, outside, str(site.external.address(2)), TCP_PORT)


def entries(environment: LinuxRouterEnvironment, site: Site) -> list[str]:
    """Return the established connections that the kernel of an instance tracks."""
    words = ["conntrack", "-L", "-p", "tcp", "--dport", str(TCP_PORT)]
    return [each for each in environment.run(site.router, words).splitlines() if "ESTAB" in each]


def daemon_pid(environment: LinuxRouterEnvironment, site: Site) -> int:
    """Return the pid of the conntrackd of an instance, as recorded."""
    path = environment.router_confs / "conntrackd" / f"{site.router}.pid"
    return int(path.read_text())


def cached(environment: LinuxRouterEnvironment, site: Site) -> list[str]:
    """Return the connections that the conntrackd of an instance sends to others."""
    path = environment.router_confs / "conntrackd" / f"{site.router}.conf"
    text = environment.run(site.router, ["conntrackd", "-C", str(path), "-i"])
    return [each for each in text.splitlines() if f"dport={TCP_PORT}" in each]


def fail_over(driver: RouterDriver, first: Site, second: Site) -> None:
    kill_all(first)
    wait_active(driver, second)
    assert wait_roles(driver, first, second) == (second, first)


enabled_or_not = pytest.mark.parametrize(
    ("environment", "survives"),
    [pytest.param(True, True, id="enabled"), pytest.param(False, False, id="disabled")],
    indirect=["environment"],
)


@enabled_or_not
@pytest.mark.spec("L3-43")
def test_connection_by_snat_survives_a_failover(environment, make_driver, pair, machines, survives):
    driver = make_driver()
    inside, outside = machines
    first, second = bring_pair(driver, pair)
    wait_until(lambda: reached(inside, first))
    with connected(
        inside.instance, outside.instance, str(first.external.address(2)), TCP_PORT
    ) as streams:
        if survives:
            wait_until(lambda: entries(environment, second))
        fail_over(driver, first, second)
        assert passes(*reversed(streams)) is survives, "the first packet comes from outside"
        if survives:
            assert passes(*streams)


def bring_floating(driver: RouterDriver, pair: Pair) -> list[Floating]:
    """Give both routers a floating IP of the instance."""
    floating = [site.floating(50, site.nets[0].address(9)) for site in pair]
    for each, site in zip(floating, pair, strict=True):
        bring(driver, site, each)
    return floating


@enabled_or_not
@pytest.mark.spec("L3-43")
def test_connection_to_a_floating_ip_survives_a_failover(
    environment, make_driver, pair, machines, survives
):
    driver = make_driver()
    inside, outside = machines
    floating, _ = bring_floating(driver, pair)
    first, second = wait_roles(driver, *pair)
    for site in pair:  # otherwise the rules would translate packets of connections not seen before
        environment.run(site.router, ["sysctl", "net.netfilter.nf_conntrack_tcp_loose=0"])
    wait_until(lambda: outside.reach(floating.address) is not None)
    with connected(outside.instance, inside.instance, str(floating.address), TCP_PORT) as streams:
        if survives:
            wait_until(lambda: entries(environment, second))
        fail_over(driver, first, second)
        assert passes(*streams) is survives
        if survives:
            assert passes(*reversed(streams))


def test_connections_of_a_moved_floating_ip_end_at_both_instances(
    environment, make_driver, pair, machines
):
    driver = make_driver()
    inside, outside = machines
    floating = bring_floating(driver, pair)
    first, second = wait_roles(driver, *pair)
    wait_until(lambda: outside.reach(floating[0].address) is not None)
    with connected(outside.instance, inside.instance, str(floating[0].address), TCP_PORT):
        wait_until(lambda: entries(environment, second))
        for each, site in zip(floating, pair, strict=True):
            bring(driver, site, each.to(site.nets[0].address(8)))
        wait_until(lambda: not entries(environment, first) and not entries(environment, second))
        fail_over(driver, first, second)
        assert not entries(environment, second)


@pytest.mark.spec("L3-43")
def test_connection_survives_failovers_to_and_fro(environment, make_driver, pair, machines):
    driver = make_driver()
    inside, outside = machines
    first, second = bring_pair(driver, pair)
    wait_until(lambda: reached(inside, first))
    with connected(
        inside.instance, outside.instance, str(first.external.address(2)), TCP_PORT
    ) as streams:
        wait_until(lambda: entries(environment, second))
        for active, other in ((first, second), (second, first)):
            fail_over(driver, active, other)
            wait_until(lambda other=other: cached(environment, other))
            wait_until(lambda active=active: not cached(environment, active))
            environment.run(active.router, ["conntrack", "-F"])  # it is not the one that decides
            assert passes(*reversed(streams))
            kill(daemon_pid(environment, active))
            wait_until(lambda active=active: entries(environment, active))
            wait_until(lambda active=active: not cached(environment, active))


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def terminate(pid: int) -> None:
    os.kill(pid, signal.SIGTERM)


@pytest.mark.parametrize("stop_it", [kill, nightly(terminate)])
def test_conntrackd_that_dies_is_started_again(
    environment, make_driver, pair, machines, stop_it: Callable[[int], None]
):
    driver = make_driver()
    inside, _ = machines
    events: list[Event] = []
    driver.watch(events.append)
    first, second = bring_pair(driver, pair)
    wait_until(lambda: reached(inside, first))
    former = daemon_pid(environment, first)
    stop_it(former)
    with to_outside(first, machines):
        wait_until(lambda: entries(environment, second))
        wait_until(lambda: daemon_pid(environment, first) != former)
        wait_until(lambda: any(isinstance(each, ProcessDied) for each in events))
        assert cached(environment, first)
        assert not cached(environment, second)
        for site in pair:
            assert not plan(driver, Update(put=site.wanted())).stages


def test_new_driver_leaves_conntrackd_running(environment, make_driver, pair):
    bring_pair(make_driver(), pair)
    running = [daemon_pid(environment, site) for site in pair]
    driver = make_driver()
    for site in pair:
        update = Update(put=site.wanted())
        assert not plan(driver, update).stages
        assert driver.converge(update).ok
    for site, pid in zip(pair, running, strict=True):
        assert pid in pids(site, "conntrackd")


def test_conntrackd_ends_with_the_router_and_leaves_nothing(environment, make_driver, pair):
    driver, before = make_driver(), environment.dump_state()
    first, second = bring_pair(driver, pair)
    files = environment.router_confs / "conntrackd"
    wait_until((files / f"{first.router}.conf{SOCKET}").is_socket)
    names = {each.name for each in files.iterdir()}
    assert f"{first.router}.conf{LOCK}" not in names, "it could not be started after a kill"
    plain = first.with_full(ha=None)
    bring(driver, plain)
    wait_until(lambda: not pids(first, "conntrackd"))
    assert not any(str(first.router) in each.name for each in files.iterdir())
    assert not plan(driver, Update(put=plain.wanted())).stages
    bring(driver, first)
    wait_until((files / f"{first.router}.pid").exists)  # once its new HA port is wired
    assert daemon_pid(environment, first) in pids(first, "conntrackd")
    assert driver.converge(Update(drop=frozenset({first.key, second.key}))).ok
    wait_until(lambda: not any(pids(site, "conntrackd") for site in pair))
    left = {each for each in environment.dump_state() - before if str(first.router) in each}
    assert not left


def test_control_socket_of_conntrackd_is_for_root_alone(environment, make_driver, pair):
    for site in bring_pair(make_driver(), pair):
        path = environment.router_confs / "conntrackd" / f"{site.router}.conf{SOCKET}"
        wait_until(path.is_socket)
        status = path.stat()
        assert (status.st_uid, status.st_mode & 0o077) == (0, 0)


def test_conntrackd_hears_the_ha_network_only(environment, make_driver, pair, machines):
    driver = make_driver()
    inside, _ = machines
    first, _ = bring_pair(driver, pair)
    wait_until(lambda: reached(inside, first))

    def send() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"forged", (str(first.nets[0].address(1)), PORT))

    def dropped() -> int:
        words = ["iptables", "-t", "mangle", "-vnxL", "router-input"]
        (line,) = (
            each for each in environment.run(first.router, words).splitlines() if "udp" in each
        )
        return int(line.split()[0])

    former = dropped()
    inside.instance.call(send)
    wait_until(lambda: dropped() == former + 1)
