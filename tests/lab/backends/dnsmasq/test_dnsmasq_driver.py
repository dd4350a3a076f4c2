"""The driver on a real switch, with a real dnsmasq and real clients."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from ipaddress import IPv4Network
from pathlib import Path
from uuid import uuid4

import pytest
from attrs import evolve

from netfw.drivers.dhcp import DhcpLocation
from netfw.drivers.values.events import KeysChanged, ProcessDied
from netfw.drivers.values.keys import NetworkKey
from netfw.errors import InvalidInput, OperationRefused
from netfw.linux import netns
from netfw.linux.process import OnDeath, is_asleep
from netfw.linux.process.identity import observe
from netfw.model.values.device_names import device_name, dhcp_namespace
from netfw.model.values.dhcp_option import DhcpOption
from netfw.model.values.ids import NetworkId
from netfw.plan import Update
from netfw.testing.conformance.common.call_counter import count_calls
from netfw.testing.conformance.dhcp.factories import a_subnet, make_network, wanted
from netfw.testing.lab.wait import wait_until
from tests.lab.backends.dnsmasq.environment import DnsmasqHost


def fill(path: Path) -> None:
    """Write until there is no room."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 4096):
            pass


def started(pid: int) -> int:
    found = observe(pid)
    assert found is not None
    return found.started


@pytest.mark.spec("DHCP-40")
def test_restarted_driver_changes_nothing(host: DnsmasqHost) -> None:
    net = make_network()
    ports = [net.tenant(20), net.tenant(30, options=(DhcpOption(name="42", value="10.0.0.9"),))]
    assert host.put(net, *ports).ok
    stamps, pid = host.stamps(net), host.pid(net)
    before = started(pid)
    for _ in range(2):
        host.restart()
        assert str(host.plan(net, *ports)) == "nothing to do"
        assert host.put(net, *ports).ok
        assert host.driver.gc(wanted(net, *ports)).ok
        assert host.stamps(net) == stamps
    assert (host.pid(net), started(pid)) == (pid, before)


@pytest.mark.spec("DHCP-40", "DHCP-46")
def test_one_port_more_is_one_port_written_and_no_signal(host: DnsmasqHost) -> None:
    net = make_network()
    assert host.put(net, net.tenant(20)).ok
    before, pid = host.stamps(net), host.pid(net)
    more = net.tenant(30)
    plan = host.plan(more)
    assert [operation.backend for operation in plan] == [f"files/{net.id}"]
    assert host.put(more).ok
    after = host.stamps(net)
    new = {str(host.files(net).host_of(more.port)), str(host.files(net).names_of(more.port))}
    assert after.keys() - before.keys() == new
    assert {path: after[path] for path in before} == before
    lease = host.lease(more)
    assert lease is not None
    assert lease.ip == more.ip
    assert host.pid(net) == pid


@pytest.mark.spec("DHCP-47")
def test_dead_dnsmasq_is_respawned_and_reported(host: DnsmasqHost) -> None:
    net = make_network()
    port = net.tenant(20)
    assert host.put(net, port).ok
    client = host.client(port)
    before = client.lease()
    assert before is not None
    pid = host.pid(net)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: [event for event in host.events if isinstance(event, ProcessDied)])
    (death,) = [event for event in host.events if isinstance(event, ProcessDied)]
    assert death.keys == {NetworkKey(net.id)}
    assert not death.fatal
    assert f"dnsmasq/{net.id} ended" in death.reason
    wait_until(lambda: host.is_restarted(net, pid))
    assert host.put(net, port).ok
    again = client.renew()
    assert again is not None
    assert again.ip == before.ip


@pytest.mark.spec("DHCP-47")
def test_the_agent_is_to_end_where_the_operator_wants_that(host: DnsmasqHost) -> None:
    net = make_network()
    host.restart(on_death=OnDeath.TELL)
    assert host.put(net).ok
    os.kill(host.pid(net), signal.SIGKILL)
    wait_until(lambda: any(isinstance(each, ProcessDied) for each in host.events))
    (death,) = [each for each in host.events if isinstance(each, ProcessDied)]
    assert death.fatal


@pytest.mark.spec("DHCP-47")
def test_what_runs_already_is_watched_by_the_next_driver(host: DnsmasqHost) -> None:
    net = make_network()
    assert host.put(net).ok
    host.restart()
    assert host.put(net).ok
    os.kill(host.pid(net), signal.SIGKILL)
    wait_until(lambda: [event for event in host.events if isinstance(event, ProcessDied)])


@pytest.mark.spec("DHCP-09")
def test_whatever_is_left_of_a_network_is_found_and_removed(host: DnsmasqHost) -> None:
    # There is a namespace without files, files without a namespace, and a process without both.
    spaced, filed, run = make_network(), make_network(), make_network()
    netns.create(dhcp_namespace(spaced.id))
    assert host.put(filed, filed.tenant(), run).ok
    pid = host.pid(run)
    netns.delete(dhcp_namespace(filed.id))
    netns.delete(dhcp_namespace(run.id))
    for path in sorted(host.files(run).directory.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    host.files(run).directory.rmdir()
    netns.create("qdhcp-of-somebody-else")
    (host.settings.confs / "of-somebody-else").mkdir()
    host.restart()
    held = {key for key in host.driver.present() if isinstance(key, NetworkKey)}
    assert held == {spaced.key, filed.key, run.key}
    assert host.driver.gc(()).ok
    assert host.driver.present() == frozenset()
    assert netns.names() == {"qdhcp-of-somebody-else"}
    netns.delete("qdhcp-of-somebody-else")
    assert observe(pid) is None
    assert filed.value.server.id not in host.interface.present()
    assert {path.name for path in host.settings.confs.iterdir()} == {
        "holder",
        "of-somebody-else",
        "processes",
    }
    assert not [path for path in (host.settings.confs / "processes").rglob("*") if path.is_file()]


@pytest.mark.spec("DHCP-80")
def test_the_work_for_one_port_is_the_same_among_few_and_many(host: DnsmasqHost) -> None:
    block = IPv4Network("10.0.0.0/16")
    efforts = []
    for count in (10, 2000):
        net = make_network(a_subnet(cidr=block, gateway=block[1]))
        assert host.put(net, *(net.tenant(10 + number) for number in range(count))).ok
        more, again = net.tenant(60000), net.tenant(60001)
        put = count_calls(lambda more=more: host.put(more), 10_000)
        wait_until(lambda net=net: is_asleep(host.pid(net)))
        drop = count_calls(lambda more=more: host.drop(more), 10_000)
        host.put(again)
        efforts.append((put, drop))
    few, many = efforts
    assert many[0] <= few[0] * 1.1
    assert many[1] <= few[1] * 1.1


def test_different_networks_are_served_at_the_same_time(host: DnsmasqHost) -> None:
    nets = [make_network() for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        done = list(pool.map(lambda net: host.driver.converge(Update(put=wanted(net))), nets))
    assert [outcome.ok for outcome in done] == [True] * 6
    with ThreadPoolExecutor(6) as pool:
        ports = [net.tenant() for net in nets]
        done = list(pool.map(lambda port: host.driver.converge(Update(put=wanted(port))), ports))
    assert [outcome.ok for outcome in done] == [True] * 6
    assert host.driver.present() == {*(net.key for net in nets), *(port.key for port in ports)}


@pytest.mark.spec("DHCP-48")
def test_hostile_text_is_refused_for_its_key_alone(host: DnsmasqHost) -> None:
    net, other = make_network(), make_network()
    good = net.tenant(20)
    name = net.tenant(30, hostname="vm\ndhcp-script=/bin/sh")
    domain = make_network(dns_domain="example.org\n--dhcp-script=/bin/sh")
    value = net.tenant(40)
    outcome = host.put(net, good, name, domain, other, value)
    assert outcome.failed.keys() == {name.key, domain.key}
    assert all(isinstance(error, InvalidInput) for error in outcome.failed.values())
    assert "hostname" in str(outcome.failed[name.key])
    assert "dns_domain" in str(outcome.failed[domain.key])
    assert host.driver.present() == {net.key, good.key, other.key, value.key}
    written = "".join(path.read_text() for path in host.settings.confs.rglob("*") if path.is_file())
    assert "dhcp-script" not in written


def test_files_that_cannot_be_written_concern_their_network_alone(host: DnsmasqHost) -> None:
    net, other = make_network(), make_network()
    host.settings.confs.mkdir(exist_ok=True)
    host.files(net).directory.write_text("in the way")
    outcome = host.put(net, net.tenant(), other)
    assert outcome.done == {other.key}
    error = outcome.failed[net.key]
    assert isinstance(error, OperationRefused)
    assert str(host.files(net).directory) in str(error)
    assert dhcp_namespace(net.id) not in netns.names()
    host.files(net).directory.unlink(missing_ok=True)
    assert host.put(net).ok


def test_on_a_full_disk_nothing_is_half_written(host: DnsmasqHost, small: Path) -> None:
    # The driver's directory is on a file system of its own, without room.
    driver = host.make_driver_at(small)
    net = make_network()
    ports = [net.tenant(20 + number) for number in range(3)]
    assert driver.converge(Update(put=wanted(net, ports[0]))).ok
    directory = small / str(net.id)
    before = sorted(directory.rglob("*"))
    fill(small / "filler")
    outcome = driver.converge(Update(put=wanted(*ports[1:])))
    assert outcome.failed.keys() == {port.key for port in ports[1:]}
    assert "No space left" in str(outcome.failed[ports[1].key])
    assert sorted(directory.rglob("*")) == before
    (small / "filler").unlink()
    assert driver.converge(Update(put=wanted(*ports))).ok
    assert driver.converge(Update(complete=True)).ok
    driver.close()


def test_waiting_port_is_reported_once_its_network_is_served(host: DnsmasqHost) -> None:
    net = make_network()
    port = net.tenant()
    outcome = host.put(port)
    assert outcome.waiting.keys() == {port.key}
    assert host.driver.present() == frozenset()
    assert host.put(net).ok
    assert host.driver.present() == {net.key, port.key}
    assert KeysChanged("their network is served now", {port.key}) in host.events
    assert host.put(port).ok


def test_a_place_is_where_the_device_is(host: DnsmasqHost) -> None:
    net = make_network()
    assert host.driver.location(net.id, net.value.server) == DhcpLocation(
        netns=dhcp_namespace(net.id), device=device_name("tap", net.value.server.id)
    )


def test_what_the_host_lacks_is_said_with_what_to_do(host: DnsmasqHost, tmp_path: Path) -> None:
    assert host.driver.problems() == ()
    (tmp_path / "file").write_text("")
    settings = evolve(host.settings, confs=tmp_path / "file" / "dhcp", command="dnsmasq-of-nobody")
    command, confs = host.make_driver_at(settings.confs, settings=settings).problems()
    assert "dnsmasq-of-nobody" in command
    assert "install it" in command
    assert "dnsmasq_command" in command
    assert "dhcp_confs" in confs


def test_the_plan_reads_like_what_an_operator_would_do(host: DnsmasqHost) -> None:
    net = make_network()
    port = net.tenant()
    lines = "\n".join(host.plan(net, port).lines())
    device = device_name("tap", net.value.server.id)
    assert f"ip netns add {dhcp_namespace(net.id)}" in lines
    assert f"plug {device}" in lines
    assert f"write {host.files(net).host_of(port.port)}: '{port.mac}," in lines
    assert f"dnsmasq/{net.id}: dnsmasq --" in lines
    assert host.put(net, port).ok
    drop: Update = Update(drop=frozenset({net.key}))
    lines = "\n".join(host.driver.plan(drop, host.driver.observe(drop)).lines())
    assert f"rm -r {host.files(net).directory}" in lines
    assert f"ip netns delete {dhcp_namespace(net.id)}" in lines


def test_dropping_an_absent_network_does_nothing(host: DnsmasqHost) -> None:
    assert host.driver.converge(Update(drop=frozenset({NetworkKey(NetworkId(uuid4()))}))).ok


def test_what_is_logged_is_where_the_operator_wants_it(host: DnsmasqHost, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    host.settings = evolve(host.settings, log_directory=logs)
    host.restart()
    net = make_network()
    port = net.tenant()
    assert host.put(net, port).ok
    assert host.lease(port) is not None
    wait_until(lambda: f"DHCPACK({device_name('tap', net.value.server.id)})" in file_contents(logs))
    assert host.drop(net).ok
    assert not list(logs.iterdir())


def file_contents(directory: Path) -> str:
    return "".join(path.read_text() for path in directory.rglob("*") if path.is_file())


def test_a_dnsmasq_that_does_not_start_says_why_and_leaves_nothing(
    host: DnsmasqHost, tmp_path: Path
) -> None:
    further = tmp_path / "further.conf"
    further.write_text("no-such-option\n")
    host.settings = evolve(host.settings, config_file=further)
    host.restart()
    net = make_network()
    port = net.tenant()
    outcome = host.put(net, port)
    assert outcome.failed.keys() == {net.key}
    assert outcome.waiting.keys() == {port.key}
    assert "bad option" in str(outcome.failed[net.key])
    assert not host.driver.present()
    assert not host.interface.present()
    further.write_text("")
    assert host.put(net, port).ok
