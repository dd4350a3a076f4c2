"""netfw-dhcp-agent as a process: real clients get their leases, whatever happens to it."""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from ipaddress import IPv4Address, ip_address, ip_network

import pytest

from netfw.testing.lab.ini import ini
from netfw.testing.lab.wait import wait_until
from tests.lab.agents.dhcp.environment import NAMESPACE, NETWORK, port_id
from tests.nightly import nightly


@pytest.mark.spec("DHCP-05", "DHCP-06", "DHCP-07", "DHCP-08", "DHCP-49")
def test_an_instance_gets_its_lease_and_the_next_one_too(site):
    site.port(11)
    site.write()
    client = site.client(11)
    site.start()
    lease = client.lease()
    assert lease.ip == IPv4Address("10.0.0.11")
    assert lease.server == ip_address("10.0.0.2")
    site.port(12)
    site.write()
    assert site.client(12).lease().ip == IPv4Address("10.0.0.12")
    wait_until(lambda: {port_id(11), port_id(12)} <= _ready(site.status_reports()))
    counts = {"networks": 1, "subnets": 1, "ports": 2}
    site.dhcp.wait_for(lambda status: status.get("counts") == counts)
    assert client.renew().ip == lease.ip


def _ready(reported):
    return {each["id"] for each in reported.get("resources", ()) if each["status"] == "ACTIVE"}


@pytest.mark.spec("DHCP-10", "DHCP-09", "DHCP-44")
@pytest.mark.parametrize("ending", [nightly("stop"), "kill"])
def test_all_ports_are_served_over_a_restart(site, ending):
    site.port(11)
    site.write()
    client = site.client(11)
    site.start()
    lease, pid = client.lease(), site.pid()
    getattr(site.dhcp, ending)()
    assert client.renew().ip == lease.ip
    assert site.pid() == pid
    site.port(12)
    site.write()  # while nobody looks
    site.dhcp.start()
    assert site.pid() == pid
    assert client.renew().ip == lease.ip
    assert site.client(12).lease().ip == IPv4Address("10.0.0.12")


@pytest.mark.nightly
@pytest.mark.spec("DHCP-09")
def test_garbage_of_an_earlier_run_is_removed(site):
    site.port(11)
    site.write()
    site.start()
    assert NAMESPACE in site.host.run(["ip", "netns", "list"])
    site.dhcp.kill()
    site.content["assignments"] = []
    site.write()
    site.dhcp.start()
    assert NAMESPACE not in site.host.run(["ip", "netns", "list"])
    assert site.pid() is None
    assert not (site.directory / "dhcp" / "dhcp" / NETWORK).exists()


@pytest.mark.spec("DHCP-09")
def test_agent_with_lost_files_serves_again_without_orphans(site):
    site.dhcp.options["agent"]["enable_isolated_metadata"] = "true"
    site.dhcp.options["haproxy"] = {"metadata_proxy_syslog": ""}
    site.port(11)
    site.write()
    client = site.client(11)
    site.start()
    lease, former = client.lease(), site.processes()
    assert len(former) == 2
    site.dhcp.kill()
    shutil.rmtree(site.dhcp.directory)
    site.dhcp.start()
    assert len(site.processes()) == 2
    assert former.isdisjoint(site.processes())
    assert client.lease().ip == lease.ip


@pytest.mark.spec("DHCP-47", "DHCP-49")
def test_a_dnsmasq_that_is_killed_is_there_again(site):
    site.port(11)
    site.write()
    client = site.client(11)
    site.start()
    lease, pid = client.lease(), site.pid()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: site.pid() not in (None, pid))
    assert client.renew().ip == lease.ip


@pytest.mark.nightly
@pytest.mark.spec("DHCP-47", "DHCP-49")
def test_a_dnsmasq_that_dies_again_and_again_is_started_with_back_off(site):
    site.port(11)
    site.write()
    client = site.client(11)
    site.start()
    lease, killed = client.lease(), set()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        time.sleep(0.05)
        pid = site.pid()
        if pid is not None and pid not in killed:
            time.sleep(0.05)  # it has started
            with suppress(ProcessLookupError):  # its parent ends by itself
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
    assert len(killed) < 15
    wait_until(lambda: site.pid() not in {None, *killed})
    assert client.renew().ip == lease.ip


@pytest.mark.spec("DHCP-47")
def test_where_the_operator_wants_it_the_death_of_a_dnsmasq_ends_the_agent(site):
    site.port(11)
    site.write()
    site.dhcp.options["dnsmasq"]["check_child_process_action"] = "exit"
    site.start()
    process = site.dhcp.process
    os.kill(site.pid(), signal.SIGKILL)
    assert process.wait(30) == 1
    assert "ends, as it is configured to" in site.dhcp.log.read_text()
    assert not (site.dhcp.directory / "status.json").exists()


@pytest.mark.nightly
@pytest.mark.spec("DHCP-03")
def test_a_dnsmasq_that_cannot_start_is_tried_again_after_pauses_and_the_reason_is_said(site):
    site.dhcp.options["dnsmasq"]["dnsmasq_config_file"] = "/no/such.conf"
    site.dhcp.options["agent"]["retry_interval"] = 1
    site.port(11)
    site.write()
    site.wiring.start()
    site.dhcp.spawn()
    status = site.dhcp.wait_for(lambda status: bool(status.get("degraded")))
    assert "/no/such.conf" in status["degraded"][f"network {NETWORK}"]
    began = time.monotonic()
    later = site.dhcp.wait_for(lambda now: now["passes"] > status["passes"] + 8)
    assert time.monotonic() - began > 2, later


@pytest.mark.spec("DHCP-10")
def test_a_hangup_reads_the_files_again(site):
    site.start()
    site.dhcp.options["agent"]["report_interval"] = 7
    site.dhcp.options["DEFAULT"]["log_level"] = "info"
    site.dhcp.conf.write_text(ini(site.dhcp.options))
    os.kill(site.dhcp.pid, signal.SIGHUP)
    wait_until(lambda: "report_interval is now 7.0" in site.dhcp.log.read_text())
    assert site.dhcp.status()["ready"]


def test_file_without_a_server_port_gets_an_error_with_advice(site):
    site.port(11)
    site.content["ports"] = [p for p in site.content["ports"] if p["id"] != port_id(0)]
    site.write()
    site.dhcp.spawn()
    status = site.dhcp.wait_for(lambda status: bool(status.get("degraded")))
    assert "give network" in status["degraded"][f"network {NETWORK}"]


@pytest.mark.spec("DHCP-03")
def test_a_port_is_served_without_an_option_that_cannot_be_sent(site):
    site.port(11)
    site.port(12, extra_dhcp_opts=[{"opt_name": "no-such-option", "opt_value": "1"}])
    site.write()
    clients = {number: site.client(number) for number in (11, 12)}
    site.wiring.start()
    site.dhcp.spawn()
    status = site.dhcp.wait_for(lambda status: bool(status.get("degraded")))
    assert set(status["degraded"]) == {f"port {port_id(12)}"}
    assert "no-such-option" in str(status["degraded"])
    for number, client in clients.items():
        assert client.lease().ip == IPv4Address(f"10.0.0.{number}")
    wait_until(lambda: _ready(site.status_reports()) == {port_id(11), port_id(12)})
    site.port(12)
    site.write()
    site.dhcp.wait_for(lambda status: status["ready"])
    assert clients[12].lease().ip == IPv4Address("10.0.0.12")


@pytest.mark.spec("DHCP-04", "DHCP-09", "DHCP-49")
def test_killed_again_and_again_while_it_begins_it_ends_with_all_networks_served(site):
    site.port(11)
    site.write()
    client = site.client(11)
    site.start()
    lease, pid = client.lease(), site.pid()
    more = [site.network(number) for number in range(2, 8)]
    site.write()
    site.dhcp.kill()
    for pause in (0.8, 0.9, 1.0, 1.1, 1.2, 1.4):
        site.dhcp.spawn()
        time.sleep(pause)
        site.dhcp.kill()
    site.dhcp.start()
    assert site.pid() == pid
    assert client.renew().ip == lease.ip
    assert len({site.pid(network) for network in more} - {None}) == len(more)
    assert site.plan().status == 0


@pytest.mark.spec("DRV-40")
def test_what_it_would_do_is_said_and_done(site):
    site.dhcp.options["agent"]["enable_isolated_metadata"] = "true"
    site.dhcp.options["haproxy"] = {"metadata_proxy_syslog": ""}
    site.port(11)
    site.write()
    site.wiring.start()
    result = site.plan()
    assert result.status == 3
    assert NAMESPACE in result.output
    assert "waiting: network" in result.output
    assert "refused" not in result.output, result.output  # the proxy's place is made before it
    assert NAMESPACE not in site.host.run(["ip", "netns", "list"])
    site.dhcp.start()
    assert site.plan().status == 0, site.plan().output


@pytest.mark.spec("DHCP-26", "DHCP-60", "DHCP-61")
def test_isolated_instances_find_a_metadata_proxy_while_no_router_leads_them(site):
    site.dhcp.options["agent"]["enable_isolated_metadata"] = "true"
    site.dhcp.options["haproxy"] = {"metadata_proxy_syslog": ""}
    site.port(11)
    site.write()
    client = site.client(11)
    site.start()
    lease = client.lease()
    service = ip_network("169.254.169.254/32")
    assert service in {route.destination for route in lease.routes}
    assert "503" in site.answer(client)  # of the proxy: no metadata agent is there
    site.port(1, device_owner="network:router_interface", device_id=NETWORK)
    site.write()
    wait_until(lambda: not site.answer(client))
    assert service not in {route.destination for route in client.lease().routes}
    site.remove(1)
    site.write()
    wait_until(lambda: "503" in site.answer(client))
    site.content["assignments"] = []
    site.write()
    wait_until(lambda: NAMESPACE not in site.host.run(["ip", "netns", "list"]))
    site.dhcp.wait_for(lambda status: status["ready"])


@pytest.mark.nightly
def test_one_that_is_to_become_ready_ends_in_time_though_no_server_is_there(tmp_path):
    conf = tmp_path / "agent.conf"
    conf.write_text(
        f"[DEFAULT]\nhost = here\nstate_path = {tmp_path}\n"
        "[agent]\nstate_source = server\ninterface_driver = null\n"
        f"[socket]\nconnect = unix:{tmp_path}/nobody.sock\n"
    )
    words = ["--config-file", str(conf), "--once", "--timeout", "5"]
    done = subprocess.run(
        [sys.executable, "-m", "netfw.cli.agents.dhcp", *words],
        check=False, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    reported = [line for line in done.stderr.splitlines() if line.startswith("netfw-dhcp-agent: ")]
    assert "nobody.sock" in reported[0], done.stderr
    assert "No such file" in reported[0]
