"""netfw-ovs-agent as a process, on lab hosts with real switches and real packets."""

import signal
import time

import pytest

from netfw.testing.lab.wait import wait_until
from tests.lab.agents.l2.environment import port_id
from tests.nightly import nightly


@pytest.fixture
def cloud(make_cloud):
    cloud = make_cloud(1)
    cloud.topology.network(0)
    for number in (1, 2):
        cloud.topology.port(number, "host1")
    cloud.topology.write()
    (host,) = cloud.hosts.values()
    host.configure(f"tunnel_types = vxlan\nlocal_ip = {host.host.address.ip}")
    return cloud


@pytest.fixture
def host(cloud):
    return cloud.hosts["host1"]


@pytest.mark.spec("L2-10", "L2-14", "DRV-21", "DRV-22")
def test_what_is_plugged_is_wired_and_reported(cloud, host):
    one = host.instance(1)
    host.start_ready()
    two = host.instance(2)  # while the agent runs: by the switch's announcement
    host.wait(lambda status: status["ready"] and status["counts"]["ports"] == 2)
    assert one.ping("10.0.0.2", count=3, interval=0.05).lost == 0
    wait_until(lambda: "ACTIVE" in str(host.reported()))
    assert two.ping("10.0.0.1").lost == 0
    host.stop()
    assert not host.status_file.exists()


@pytest.mark.spec("L2-12", "L2-08", "L2-17")
def test_ports_that_are_not_to_be_admitted_are_dead(cloud, host):
    one, stranger = host.instance(1), host.instance(9)
    two = host.instance(2)
    cloud.topology.port(2, "host1", admin_state_up=False)
    cloud.topology.write()
    host.start_ready()
    assert one.ping("10.0.0.2").lost
    assert stranger.ping("10.0.0.1").lost
    cloud.topology.port(2, "host1")
    cloud.topology.write()
    wait_until(lambda: not one.ping("10.0.0.2").lost)
    cloud.topology.remove(2)  # deleted, though it is plugged
    cloud.topology.write()
    wait_until(lambda: two.ping("10.0.0.1").lost)
    wait_until(lambda: host.tag(2) == "4095")


@pytest.mark.spec("L2-19")
def test_a_port_that_migrates_away_is_cut_off_and_one_that_comes_is_wired(cloud, host):
    one, _ = host.instance(1), host.instance(2)
    cloud.topology.content["hosts"]["host2"] = {"local_ip": "198.18.0.99"}
    cloud.topology.port(2, "host2")
    cloud.topology.write()
    host.start_ready()
    assert one.ping("10.0.0.2").lost
    cloud.topology.port(2, "host1")
    cloud.topology.write()
    wait_until(lambda: not one.ping("10.0.0.2").lost)
    cloud.topology.port(2, "host2")
    cloud.topology.write()
    wait_until(lambda: one.ping("10.0.0.2").lost)


@pytest.mark.spec("L2-40", "L2-18")
@pytest.mark.parametrize("ending", [nightly("stop"), "kill"])
def test_a_restart_loses_no_packet_and_changes_no_flow(cloud, host, ending):
    one, _ = host.instance(1), host.instance(2)
    host.start_ready()
    flows, tunnels = host.flows(), host.flows("br-tun")
    tags = host.tag(1), host.tag(2)
    with one.pinging("10.0.0.2", interval=0.01) as ping:
        getattr(host, ending)()
        host.start_ready()
        assert ping.stop().lost == 0
    assert (host.flows(), host.flows("br-tun")) == (flows, tunnels)
    assert (host.tag(1), host.tag(2)) == tags


@pytest.mark.spec("L2-11")
def test_manual_change_is_repaired(cloud, host):
    one, _ = host.instance(1), host.instance(2)
    host.start_ready()
    flows, tag = host.flows(), host.tag(1)
    host.host.run(["ovs-vsctl", "set", "Port", "tap1", "tag=77"])
    wait_until(lambda: host.tag(1) == tag)
    host.host.run(["ovs-ofctl", "-O", "OpenFlow13", "del-flows", "br-int"])
    wait_until(lambda: host.flows() == flows)
    wait_until(lambda: not one.ping("10.0.0.2").lost)


@pytest.mark.spec("L2-43")
def test_with_a_topology_that_cannot_be_read_local_events_are_handled(cloud, host):
    host.start_ready()
    cloud.topology.path.write_text("{ nonsense")
    one, _ = host.instance(1), host.instance(2)
    host.wait(lambda status: status["ready"] and status["counts"]["ports"] == 2)
    assert one.ping("10.0.0.2", count=2).lost == 0


@pytest.mark.spec("L2-41")
def test_a_switch_that_is_restarted_is_rebuilt(cloud, host):
    one, _ = host.instance(1), host.instance(2)
    host.start_ready()
    flows = host.flows()
    host.host.restart_switch()
    wait_until(lambda: host.flows() == flows)
    wait_until(lambda: not one.ping("10.0.0.2").lost)


@pytest.mark.spec("L2-42")
def test_a_database_that_is_restarted_loses_no_event(cloud, host):
    one = host.instance(1)
    host.start_ready()
    host.host.ovs.stop_database()
    host.host.ovs.start_database()
    host.instance(2)
    host.wait(lambda status: status["ready"] and status["counts"]["ports"] == 2)
    assert one.ping("10.0.0.2", count=2).lost == 0


@pytest.mark.spec("L2-30", "L2-31")
@pytest.mark.parametrize("population", ["false", "true"])
def test_hosts_are_joined_by_tunnels(make_cloud, population):
    cloud = make_cloud(2)
    cloud.topology.network(0)
    cloud.topology.network(1)
    for number, host in ((1, "host1"), (2, "host2")):
        cloud.topology.port(number, host)
        cloud.topology.port(number + 10, host, network=1)
    cloud.topology.write()
    for host in cloud.hosts.values():
        host.configure(
            f"tunnel_types = vxlan\nlocal_ip = {host.host.address.ip}\n"
            f"arp_responder = {population}",
            f"l2_population = {population}",
        )
    one, two = (cloud.hosts[f"host{n}"].instance(n) for n in (1, 2))
    far = cloud.hosts["host2"].instance(12, network=1)
    far.configure(["10.0.0.12/24"])
    for host in cloud.hosts.values():
        host.start_ready()
    wait_until(lambda: not one.ping("10.0.0.2").lost)
    assert two.ping("10.0.0.1").lost == 0
    assert one.ping("10.0.0.12").lost  # another network, whatever its addresses are


@pytest.mark.spec("L2-01")
@pytest.mark.parametrize(
    ("switch", "agent", "sentence"),
    [
        ("bridge_mappings = physnet1:br-none", "", "no bridge br-none"),
        ("tunnel_types = vxlan", "", "tunnel_types need local_ip"),
        ("local_ip = ::1\noverlay_ip_version = 4\ntunnel_types = vxlan", "", "is not IPv4"),
        (
            "local_ip = 192.0.2.77\ntunnel_types = vxlan",
            "",
            "no interface of this host has 192.0.2.77",
        ),
        ("local_ip = 2001:db8::77\ntunnel_types = gre", "", "local_ip: no interface of this host"),
        ("local_ip = 0.0.0.0\ntunnel_types = gre", "", "local_ip: no interface of this host"),
        ("arp_responder = true", "", "arp_responder needs l2_population"),
        (
            "local_ip = 127.0.0.1\ntunnel_types = vxlan",
            "enable_distributed_routing = true",
            "needs l2_population",
        ),
        ("", "switch_driver = openvswich", "did you mean 'openvswitch'"),
        ("", "report_interval = never", "report_interval"),
    ],
)
def test_impossible_combinations_end_with_a_sentence_and_status_2(
    make_cloud, switch, agent, sentence
):
    cloud = make_cloud(1)
    (host,) = cloud.hosts.values()
    host.configure(switch, agent)
    done = host.once()
    assert done.status == 2
    assert sentence in done.error
    assert "Traceback" not in done.error


@pytest.mark.spec("L2-01")
def test_source_that_advertises_another_tunnel_address_causes_a_warning(cloud, host):
    host.start_ready()
    assert "local_ip" not in host.status()["warnings"]
    cloud.topology.content["hosts"]["host1"]["local_ip"] = "198.18.0.98"
    cloud.topology.write()
    host.wait(lambda status: "advertises 198.18.0.98" in status["warnings"].get("local_ip", ""))
    assert "198.18.0.98" in host.log.read_text()


@pytest.mark.spec("DRV-40")
def test_a_plan_says_what_would_change_and_changes_nothing(cloud, host):
    host.instance(1)
    before = host.host.run(["ovs-vsctl", "show"])
    flows = host.flows()
    planned = host.plan()
    assert planned.status == 3, planned
    assert f"port {port_id(1)}" in planned.output or "tap1" in planned.output
    assert "flows/br-int" in planned.output
    assert "ovsdb" in planned.output
    assert (host.host.run(["ovs-vsctl", "show"]), host.flows()) == (before, flows)
    assert host.once().status == 0
    again = host.plan()
    assert (again.status, again.output) == (0, "switch: nothing to be done\n")
    assert '"stages": []' in host.plan("--json").output


@pytest.mark.spec("L2-18")
def test_a_hangup_reloads_what_may_change(cloud, host):
    host.start_ready()
    host.configure(
        f"tunnel_types = vxlan\nlocal_ip = {host.host.address.ip}", "audit_interval = 123"
    )
    host.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "agent.audit_interval is now 123.0, was 600.0" in host.log.read_text())
    assert host.status()["ready"]


@pytest.mark.spec("L2-18")
def test_a_new_interval_takes_effect_at_once(cloud, host):
    # Nothing else would wake the agent before the 30 s of a heartbeat are over.
    host.start_ready()
    wait_until(lambda: time.time() - host.status_file.stat().st_mtime > 2)  # it has become idle
    assert "comparing everything" not in host.log.read_text()
    host.configure(
        f"tunnel_types = vxlan\nlocal_ip = {host.host.address.ip}", "audit_interval = 0.5"
    )
    host.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "comparing everything" in host.log.read_text())


@pytest.mark.spec("L2-41", "L2-44")
def test_once_says_why_a_host_did_not_become_ready(cloud, host):
    host.host.ovs.stop_switch()
    host.host.ovs.stop_database()
    done = host.once(seconds=5)
    assert done.status == 1
    assert "netfw-ovs-agent: the lock against a second agent: " in done.error
    assert "is ovsdb-server running, and is this its address (ovsdb_connection)?" in done.error
    assert "Traceback" not in done.error


@pytest.mark.spec("L2-18", "L2-41")
def test_an_agent_that_waits_for_its_switch_can_be_stopped(cloud, host):
    host.host.ovs.stop_switch()
    host.host.ovs.stop_database()
    host.start()
    host.wait(lambda status: "the lock against a second agent" in status["errors"])
    host.stop()


@pytest.mark.spec("DRV-40")
def test_a_plan_changes_no_file(cloud, host):
    host.instance(1)
    host.start_ready()
    wait_until(lambda: "ACTIVE" in str(host.reported()))
    host.kill()  # so that it does not write either, and leaves all that it wrote
    place = cloud.topology.path.parent
    other = place / "other.json"
    other.write_text("{}")
    before = _files(place)
    assert host.plan().status == 0
    assert _files(place) == before
    host.configure(file=f"path = {other}\nsettle = 0")
    before = _files(place)
    assert host.plan().status == 3
    assert _files(place) == before


def _files(place):
    return {each: each.read_bytes() for each in place.rglob("*") if each.is_file()}


def test_a_plan_refuses_misspelt_options_and_warns_of_groups(cloud, host):
    host.configure("locl_ip = 192.0.2.1")
    planned = host.plan()
    assert "[openvswitch] locl_ip is not an option, did you mean 'local_ip'?" in planned.error
    assert planned.status == 2
    host.configure(agents="l2_population = true")
    assert "[agents] is not a group, did you mean 'agent'?" in host.plan().error


@pytest.mark.parametrize("command", ["once", "plan"])
def test_configuration_without_a_topology_gets_an_error_with_advice(cloud, host, command):
    host.configure(file="")
    done = getattr(host, command)()
    assert done.status == 2
    program = {"once": "netfw-ovs-agent", "plan": "netfw"}[command]
    assert done.error == (
        f"{program}: [file] path is missing: write 'path = ...' under [file].  "
        "The topology: a YAML or JSON file, or a directory.  Needed unless [agent] state_source "
        "is another, such as server.\n"
    )


def test_an_agent_logs_what_it_is_when_it_begins_and_that_it_ended(cloud, host):
    host.start_ready()
    host.stop()
    log = host.log.read_text()
    assert ": host host1, source file, switch driver openvswitch, firewall driver none" in log
    assert "netfw-ovs-agent has ended, and leaves the host as it is" in log.splitlines()[-1]


@pytest.mark.spec("L2-44")
@pytest.mark.parametrize("seconds", [0, 60])
def test_once_leaves_no_status_file(cloud, host, seconds):
    assert host.once(seconds).status == (0 if seconds else 1)
    assert not host.status_file.exists()


@pytest.mark.spec("L2-43", "DRV-21")
def test_topology_errors_and_unfiltered_ports_are_in_the_status(cloud, host):
    host.instance(1)
    host.instance(9)
    host.start_ready()
    host.wait(lambda status: "of 1 port are not" in str(status["warnings"]))
    assert host.status()["warnings"]["unbound_devices"].endswith(": tap9")
    cloud.topology.path.write_text("{ nonsense")
    host.wait(lambda status: "topology.json" in status["errors"].get("the source", ""))
    assert host.status()["ready"]
    cloud.topology.write()
    host.wait(lambda status: status["errors"] == {})
