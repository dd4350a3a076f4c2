"""The Linux router driver on a real kernel and switch, beyond the suite of its contract."""

from __future__ import annotations

import json
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from ipaddress import ip_interface
from pathlib import Path
from uuid import UUID

import pytest
from attrs import evolve

from netfw.drivers.values.events import Event, KeysChanged
from netfw.drivers.values.keys import RouterKey
from netfw.drivers.values.router_contribution import (
    RouterContribution,
    RouterRule,
    RuleChain,
    RuleTable,
)
from netfw.errors import BackendUnavailable
from netfw.model.subnet import Ipv6Mode
from netfw.model.values.address import as_address
from netfw.model.values.ids import AddressScopeId, PortId, RouterId
from netfw.plan import Update
from netfw.testing.conformance.router.factories import Site, make_net, make_site
from netfw.testing.conformance.router.lab_machine import LabMachine
from netfw.testing.conformance.router.services import advertising
from netfw.testing.lab.wait import wait_until
from netfw_drivers.linux_router.plan.daemons.daemon_steps import RunDaemon
from netfw_drivers.linux_router.plan.daemons.radvd_plan import SERVICE
from tests.lab.backends.linux_router.environment import (
    LinuxRouterEnvironment,
    MakeDriver,
    bring,
    plan,
)

pytestmark = pytest.mark.services

SCOPES = [AddressScopeId(UUID(int=number)) for number in (1, 2)]


def marks(environment: LinuxRouterEnvironment, router: RouterId) -> dict[str, str]:
    """Return the marks of address scopes in the rules, by the comment that names the scope."""
    saved = environment.run(router, ["iptables-save", "-t", "mangle"])
    words = [line.split() for line in saved.splitlines() if "scope-" in line]
    return {line[line.index("--comment") + 1].strip('"'): line[-1] for line in words}


@pytest.mark.spec("L3-23")
def test_marks_of_scopes_survive_a_restart(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: Site
) -> None:
    one, two = site.full.interfaces
    later = site.with_full(interfaces=(evolve(one, scopes={4: SCOPES[1]}), two))
    bring(make_driver(), later)
    before = marks(environment, site.router)
    both = later.with_full(
        interfaces=(evolve(one, scopes={4: SCOPES[1]}), evolve(two, scopes={4: SCOPES[0]}))
    )
    bring(make_driver(), both)
    after = marks(environment, site.router)
    assert after[f"scope-{SCOPES[1]}"] == before[f"scope-{SCOPES[1]}"]
    assert len(set(after.values())) == 3


@pytest.mark.spec("L3-22")
def test_connections_of_a_gateway_that_is_replaced_end(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: Site
) -> None:
    # Its address may soon be another tenant's.
    driver, former = make_driver(), site.gateway.port
    bring(driver, site)
    address, inside, outside = former.addresses[0].ip, site.nets[0].address(20), "198.51.100.9"
    entry = f"-s {inside} -d {outside} -r {outside} -q {address}"
    ports = "--sport 5000 --dport 53 --reply-port-src 53 --reply-port-dst 5000"
    environment.run(site.router, f"conntrack -I -p udp -t 600 {entry} {ports}".split())
    assert environment.connections(address) == 1
    number = address + 77
    addresses = (ip_interface(f"{number}/{former.addresses[0].network.prefixlen}"),)
    port = evolve(former, id=PortId(UUID(int=77)), mac="fa:16:3e:77:00:01", addresses=addresses)
    environment.admit([port])
    bring(driver, site.with_full(gateway=evolve(site.gateway, port=port)))
    assert environment.connections(address) == 0


@pytest.mark.parametrize(
    "spoil",
    [
        "ip address delete FLOATING/32 dev GATEWAY",
        "ip route delete default",
        "ip -6 route delete default",
        "ip link set GATEWAY down",
        "ip rule add from 10.99.0.0/16 table 99 protocol static",
        "ip rule add not from 10.99.0.0/16 ipproto tcp table 99",
        "ip route prepend default dev GATEWAY",
        "ip address add 198.18.0.1/32 dev lo",
        "iptables -I FORWARD -j DROP",
        "ip6tables -P FORWARD DROP",
    ],
)
def test_drift_is_reported_and_repaired(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: Site, spoil: str
) -> None:
    driver, events = make_driver(), list[Event]()
    driver.watch(events.append)
    floating = site.floating(50, site.nets[0].address(20))
    bring(driver, site, floating)
    names = {"GATEWAY": driver.status(site.router).devices[site.gateway.port.id]}
    names["FLOATING/32"] = f"{floating.address}/32"
    update = Update(put=site.wanted(floating))
    assert not plan(driver, update)
    events.clear()
    environment.run(site.router, [names.get(word, word) for word in spoil.split()])
    wanted = {site.key, floating.key}
    wait_until(
        lambda: any(isinstance(e, KeysChanged) and wanted <= e.keys for e in tuple(events)),
        lambda: f"no event of a drift: {events}",
        seconds=30,
    )
    assert plan(driver, update)
    bring(driver, site, floating)
    assert not plan(driver, update)


@pytest.mark.spec("L3-22")
def test_a_gateway_learns_its_default_route_from_advertisements(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: Site, tmp_path: Path
) -> None:
    provider = environment.machine(site.external.id, site.external.interfaces(1))
    assert isinstance(provider, LabMachine)
    learning = site.with_gateway(next_hops=(site.external.address(1),), ipv6_from_ra=True)
    driver = make_driver()
    bring(driver, learning)
    file = tmp_path / "radvd.conf"
    file.write_text(
        "interface eth0 { AdvSendAdvert on; MinRtrAdvInterval 3; MaxRtrAdvInterval 4;"
        " AdvDefaultLifetime 300; };\n"
    )
    pid = tmp_path / "radvd.pid"
    provider.instance.run(["sysctl", "-qw", "net.ipv6.conf.all.forwarding=1"])
    provider.instance.run(["radvd", "-C", str(file), "-p", str(pid), "-m", "none"])
    try:
        wait_until(
            lambda: any(
                route["dst"] == "default" and route["protocol"] == "ra"
                for route in environment.routes(site.router, "-6")
            ),
            seconds=60,
        )
        assert not plan(driver, Update(put=learning.wanted()))
        bring(driver, site)
        (default,) = (r for r in environment.routes(site.router, "-6") if r["dst"] == "default")
        assert default["protocol"] == "static", "a configured next hop replaces the learnt one"
    finally:
        subprocess.run(["kill", pid.read_text().strip()], check=True)


@pytest.mark.spec("L3-26")
def test_an_instance_loses_its_prefix_with_the_interface(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: Site
) -> None:
    one, two = site.full.interfaces
    mode = {"ipv6_ra_mode": Ipv6Mode.SLAAC, "ipv6_address_mode": Ipv6Mode.SLAAC}
    subnets = tuple(evolve(each, **mode) if each.ip_version == 6 else each for each in one.subnets)
    advertised = site.with_full(interfaces=(evolve(one, subnets=subnets), two))
    driver = make_driver()
    bring(driver, advertised)
    instance = environment.machine(site.nets[0].id, site.nets[0].interfaces(20)[:1])
    assert isinstance(instance, LabMachine)

    def derived() -> list[dict[str, object]]:
        shown = instance.instance.run(["ip", "-6", "-j", "address", "show", "scope", "global"])
        links = json.loads(shown or "[]")
        return [entry for link in links for entry in link["addr_info"] if "local" in entry]

    instance.instance.run(["sysctl", "-qw", "net.ipv6.conf.eth0.accept_ra=2"])
    instance.instance.run(["sysctl", "-qw", "net.ipv6.conf.eth0.autoconf=1"])
    wait_until(lambda: instance.advertisement() and derived(), "no address", seconds=30)
    assert not any(entry.get("deprecated") for entry in derived())
    bring(driver, site.with_full(interfaces=(two,)))
    wait_until(
        lambda: derived() and all(entry.get("deprecated") for entry in derived()),
        derived,
        seconds=30,
    )


@pytest.mark.nightly
def test_a_router_whose_converge_fails_is_watched_again(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: Site
) -> None:
    # A port that cannot be plugged fails it before anything in its namespace is changed.
    driver, events = make_driver(), list[Event]()
    driver.watch(events.append)
    _, two = site.full.interfaces
    bring(driver, site.with_full(interfaces=(two,)))

    def drifts() -> list[Event]:
        changed = (event for event in tuple(events) if isinstance(event, KeysChanged))
        return [each for each in changed if site.key in each.keys and "program" in each.reason]

    with environment.stopped_database(), pytest.raises(BackendUnavailable):
        driver.converge(Update(put=site.wanted()))
    assert not drifts(), "reported before anything was changed, so that it is not watched"
    environment.run(site.router, ["ip", "route", "delete", "default"])
    wait_until(lambda: bool(drifts()), lambda: f"no event of a drift: {events}", seconds=30)
    bring(driver, site)


def test_a_router_is_plugged_again_after_a_restart_of_the_switch(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: Site
) -> None:
    # A converge of the reported keys repairs it, whatever was tried without a switch.
    driver, due = make_driver(), threading.Event()
    driver.watch(lambda event: due.set())
    bring(driver, site)
    outside = environment.machine(site.external.id, site.external.interfaces(1))
    address = site.gateway.port.addresses[0].ip
    wait_until(lambda: outside.reach(address), seconds=60)

    def repaired() -> bool:
        if due.is_set():
            due.clear()
            with suppress(BackendUnavailable):
                driver.converge(Update(put=site.wanted()))
        return outside.reach(address) is not None

    with environment.stopped_switch(), suppress(BackendUnavailable):
        driver.converge(Update(put=site.wanted()))
    wait_until(repaired, "the router is not reached", seconds=60)


BAD = RouterContribution(
    owner="broken",
    rules=(
        RouterRule(table=RuleTable.NAT, chain=RuleChain.PREROUTING, words=("-j", "NO_SUCH_TARGET")),
    ),
)


@pytest.mark.spec("L3-30")
def test_a_refused_rule_of_an_extension_leaves_the_former_rules(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: Site
) -> None:
    driver = make_driver()
    first, second = (
        site.floating(50 + number, site.nets[0].address(20 + number)) for number in range(2)
    )
    bring(driver, site, first)
    one, _ = site.full.interfaces
    changed = site.with_full(interfaces=(one,)).with_state(contributions=(BAD,))
    before = environment.run(site.router, ["iptables-save", "-t", "mangle"])
    outcome = driver.converge(Update(put=changed.wanted(first, second)))
    assert outcome.failed.keys() == {site.key}
    assert "NO_SUCH_TARGET" in str(outcome.failed[site.key])
    assert outcome.done == {first.key, second.key}
    after = environment.run(site.router, ["iptables-save", "-t", "mangle"])
    assert [line for line in after.splitlines() if line.startswith("-A")] == [
        line for line in before.splitlines() if line.startswith("-A")
    ]
    assert len(driver.status(site.router).devices) == len(site.ports)


@pytest.mark.spec("L3-30")
def test_a_refused_rule_of_an_extension_fails_its_floating_ip_alone(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: Site
) -> None:
    good, bad = (site.floating(number, site.nets[0].address(20)) for number in (60, 61))
    words = {
        good: ("-d", f"{good.address}/32", "-j", "ACCEPT"),
        bad: ("-d", f"{bad.address}/32", "-j", "NO_SUCH_TARGET"),
    }
    rules = tuple(
        RouterRule(
            table=RuleTable.NAT,
            chain=RuleChain.PREROUTING,
            words=each,
            floating_ip=floating.key.floating_ip,
        )
        for floating, each in words.items()
    )
    contributed = site.with_state(contributions=(RouterContribution(owner="mixed", rules=rules),))
    driver, own = make_driver(), site.floating(50, site.nets[0].address(20))
    update = Update(put=contributed.wanted(own))
    wait_until(lambda: not driver.converge(update).waiting, seconds=60)
    for _ in range(2):
        outcome = driver.converge(update)
        assert outcome.failed.keys() == {bad.key}
        assert "NO_SUCH_TARGET" in str(outcome.failed[bad.key])
        assert outcome.done == {site.key, own.key}
    saved = environment.run(site.router, ["iptables-save", "-t", "nat"])
    assert f"-A router-mixed-PRE -d {good.address}/32 -j ACCEPT" in saved
    assert str(bad.address) not in saved
    bring(driver, site.with_state(contributions=()), own)


def test_a_new_router_with_a_refused_rule_leaves_nothing(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: Site
) -> None:
    driver = make_driver()
    before = environment.dump_state()
    bad = site.with_state(contributions=(BAD,))
    floating = site.floating(50, site.nets[0].address(20))
    outcome = driver.converge(Update(put=bad.wanted(floating)))
    assert outcome.failed.keys() == {site.key}
    assert outcome.waiting.keys() == {floating.key}
    assert environment.dump_state() == before


def test_routers_are_converged_side_by_side(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver
) -> None:
    driver = make_driver()
    first = make_site(make_net(1))
    sites = [
        make_site(make_net(number), external=first.external, number=100 + number)
        for number in range(1, 9)
    ]
    for each in sites:
        environment.admit(each.ports)
    start = threading.Barrier(4)

    def work(own: list[Site]) -> bool:
        start.wait(timeout=60)
        for each in own:
            floating = each.floating(50 + sites.index(each), each.nets[0].address(20))
            bring(driver, each, floating)
        return all(driver.converge(Update(put=each.wanted())).ok for each in own)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, [sites[at::4] for at in range(4)]))
    keys = driver.present()
    assert {key for key in keys if isinstance(key, RouterKey)} == {each.key for each in sites}
    assert len(keys) == 16
    assert not plan(driver, Update(complete=True, keep=keys))


def test_what_the_host_lacks_is_named(
    environment: LinuxRouterEnvironment,
    make_driver: MakeDriver,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    # A client for delegated prefixes is not: the routers alone that request them report it.
    driver = make_driver()
    assert driver.problems() == ()
    monkeypatch.setenv("PATH", str(tmp_path))
    problems = driver.problems()
    assert all("there is no command" in problem for problem in problems)
    for command in ("radvd", "keepalived", "ip6tables"):
        assert any(command in problem for problem in problems)
    assert not any("dhclient" in problem for problem in problems)


@pytest.mark.spec("L3-11", "L3-26")
def test_radvd_reads_a_file_that_a_killed_driver_has_written(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: Site
) -> None:
    # This is the state after the former driver was killed before it sent the signal.
    former, wanted = (
        advertising(site, Ipv6Mode.SLAAC, dns_nameservers=(as_address(f"2001:db8::{number}"),))
        for number in (1, 2)
    )
    driver = make_driver()
    bring(driver, former)
    instance = environment.machine(site.nets[0].id, site.nets[0].interfaces(20))
    found = wait_until(instance.advertisement, seconds=60)
    assert found is not None
    assert found.name_servers == {as_address("2001:db8::1")}
    (step,) = (
        each.payload
        for each in plan(driver, Update(put=wanted.wanted()))
        if isinstance(each.payload, RunDaemon) and each.payload.backend == SERVICE
    )
    Path(step.program.argv[step.program.argv.index("-C") + 1]).write_text(step.text_of_file)
    driver = make_driver()
    assert not plan(driver, Update(put=wanted.wanted()))
    bring(driver, wanted)

    def servers() -> object:
        advertised = instance.advertisement()
        return None if advertised is None else advertised.name_servers

    wait_until(lambda: servers() == {as_address("2001:db8::2")}, servers, seconds=60)
