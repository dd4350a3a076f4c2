"""The life of ports: who is admitted, what is reported, and what reaches them."""

import pytest

from netfw.testing.lab.wait import TIMEOUT, wait_until
from tests.system.captures import listening
from tests.system.l2.agent_host import MESH4, POPULATED4
from tests.system.l2.environment import SOON, Site

DEAD = "4095"
pytestmark = pytest.mark.flavours(MESH4)


@pytest.mark.spec("L2-12", "L2-08", "L2-14")
def test_dead_are_strangers_ports_of_other_hosts_and_what_is_switched_off(site: Site):
    net = site.network("vxlan")
    living = site.port(net, "host1")
    off = site.port(net, "host1", admin_state_up=False)
    elsewhere, stranger = site.port(net, "host2"), site.port(net, "host1")
    site.topology.write()
    one = site.plug(living)
    outcasts = {
        off: site.plug(off),
        elsewhere: site.plug(elsewhere, host="host1"),
        stranger: site.plug(stranger),
    }
    site.topology.ports.remove(stranger)
    site.settle()
    with listening(one, *outcasts.values()) as captures:
        for port, instance in outcasts.items():
            assert site["host1"].tag(port) == DEAD
            assert instance.ping(living.v4, count=1, timeout=0.3).lost
            assert one.ping(port.v4, count=1, timeout=0.3).lost
        assert [each.received() for each in captures] == 4 * [[]]
    wait_until(lambda: site["host1"].reported(off).get("status") == "DOWN")
    wait_until(lambda: site["host1"].reported(living).get("status") == "ACTIVE")
    off.more["admin_state_up"] = True
    elsewhere.host = "host1"
    site.topology.ports.append(stranger)
    site.settle()
    for port, instance in outcasts.items():
        assert site["host1"].tag(port) == site["host1"].tag(living)
        # A neighbour that was looked for in vain is looked for anew after a second only.
        instance.run(["ip", "neigh", "flush", "dev", "eth0"])
        assert instance.ping(living.v4).lost == 0
        wait_until(lambda port=port: site["host1"].reported(port).get("status") == "ACTIVE")


@pytest.mark.spec("L2-08", "L2-12")
def test_a_port_that_is_deleted_though_it_is_plugged_is_dead(site: Site):
    couple = site.couple("vlan", "host1", "host1")
    site.settle()
    couple.await_reach()
    site.topology.ports.remove(couple.ports[1])
    site.settle()
    assert site["host1"].tag(couple.ports[1]) == DEAD
    assert couple.instances[0].ping(couple.ports[1].v4, timeout=0.3).received == 0


@pytest.mark.spec("L2-10", "L2-14", "L2-44")
def test_what_is_plugged_and_unplugged_is_reported_and_counted(site: Site):
    # A status that changes while ``ready`` stays the same is written within a second.
    host = site["host1"]
    wait_until(lambda: host.status()["counts"]["ports"] == 0)
    couple = site.couple("vxlan", "host1", "host1")
    for port in couple.ports:
        wait_until(lambda port=port: host.reported(port).get("status") == "ACTIVE")
    wait_until(lambda: host.status()["counts"]["ports"] == 2, host.status)
    assert host.status()["ready"]
    site.unplug(couple.ports[0])
    wait_until(lambda: host.reported(couple.ports[0]).get("status") == "DOWN")
    wait_until(lambda: host.status()["counts"]["ports"] == 1, host.status)
    assert host.reported(couple.ports[1])["status"] == "ACTIVE"


@pytest.mark.flavours(MESH4, POPULATED4)
@pytest.mark.spec("L2-19", "L2-31")
def test_a_port_moves_from_host_to_host(site: Site, record_property):
    # Its instance is on both hosts while it migrates; the binding says which one is live.
    couple = site.couple("vxlan", "host3", "host1")
    peer, moving = couple.ports
    site.settle()
    couple.await_reach()
    target = site.plug(moving, host="host2")
    wait_until(lambda: site["host2"].tag(moving) == DEAD)
    assert target.ping(peer.v4, timeout=0.3).received == 0
    with couple.instances[0].pinging(moving.v4) as ping:
        moving.host = "host2"
        site.settle()
        # As the hypervisor does when the instance goes on: tell everybody where it is now.
        wait_until(lambda: not target.ping(peer.v4, count=1, timeout=SOON).lost)
        wait_until(lambda: not couple.instances[0].ping(moving.v4, timeout=SOON).lost)
        outage = ping.stop().outage
    record_property("outage of the port itself", f"{outage:.2f} s")
    assert site["host1"].tag(moving) == DEAD
    assert couple.instances[1].ping(peer.v4, timeout=0.3).received == 0
    site.unplug(moving, host="host1")
    site.settle()
    assert target.ping(peer.v4).lost == 0


@pytest.mark.spec("L2-17")
def test_changes_of_a_network_reach_its_ports(site: Site):
    couple = site.couple("vxlan", "host1", "host2")
    bystanders = site.couple("vxlan", "host1", "host2")
    site.settle()
    couple.await_reach()
    bystanders.await_reach()
    with bystanders.instances[0].pinging(bystanders.ports[1].v4) as ping:
        couple.net.body["segmentation_id"] = 5555
        site.settle()
        assert couple.reach()
        couple.net.body["admin_state_up"] = False
        site.settle()
        assert couple.instances[0].ping(couple.ports[1].v4, timeout=0.3).received == 0
        couple.net.body["admin_state_up"] = True
        couple.net.body["mtu"] = 1300
        site.settle()
        assert couple.reach()
        couple.net.body.update(network_type="geneve", segmentation_id=5556)
        site.settle()
        assert couple.reach()
        assert ping.stop().lost == 0


@pytest.mark.spec("L2-16")
def test_unwirable_port_leaves_other_ports_alone(site: Site):
    good = site.couple("vlan", "host1", "host2")
    bad = site.port(site.network("vlan", physical_network="physnet9"), "host1")
    site.topology.write()
    site.plug(bad)
    good.await_reach()
    wait_until(lambda: site["host1"].reported(bad).get("status"))
    reported = site["host1"].reported(bad)
    assert reported["status"] == "DEGRADED", reported
    assert "map its physical network" in reported["reason"], reported
    assert site["host1"].tag(bad) == DEAD


@pytest.mark.spec("L2-11")
def test_a_port_whose_number_changed_is_followed(site: Site):
    couple = site.couple("vxlan", "host1", "host2")
    site.settle()
    couple.await_reach()
    device, host = couple.ports[0].device, site["host1"]
    former = host.vsctl("get", "Interface", device, "ofport")
    host.vsctl("set", "Interface", device, "ofport_request=777")
    wait_until(lambda: host.vsctl("get", "Interface", device, "ofport") == "777")
    site.settle()
    couple.await_reach()
    assert not [flow for flow in host.flows() if f"in_port={former}," in flow]


@pytest.mark.spec("L2-11")
def test_a_port_that_is_plugged_again_is_wired_again(site: Site):
    couple = site.couple("vxlan", "host1", "host2")
    site.settle()
    couple.await_reach()
    host, port = site["host1"], couple.ports[0]
    for _ in range(3):
        host.vsctl(
            "del-port", port.device, "--", "add-port", "br-int", port.device, "--",
            "set", "Interface", port.device, f"external_ids:iface-id={port.id}",
            f'external_ids:attached-mac="{port.mac}"',
        )  # fmt: skip
    site.settle()
    couple.await_reach()


@pytest.mark.spec("L2-26")
def test_a_port_speaks_only_for_its_own_addresses(site: Site):
    couple = site.couple("vxlan", "host1", "host2")
    thief = site.port(couple.net, "host1")
    trusted = site.port(couple.net, "host1", port_security_enabled=False)
    site.topology.write()
    instances = site.plug(thief), site.plug(trusted)
    site.settle()
    couple.await_reach()
    for instance, passes in zip(instances, (False, True), strict=True):
        instance.run(["ip", "addr", "flush", "dev", "eth0"])
        instance.configure(["10.0.9.9/16"])
        seconds = TIMEOUT if passes else 0.5  # it returns as soon as all are answered
        found = instance.ping(couple.ports[1].v4, timeout=seconds)
        assert bool(found.received) is passes


@pytest.mark.spec("L2-05")
def test_ports_of_other_bridges_are_reported_and_left_alone(site: Site):
    host = site["host1"]
    port = site.port(site.network("vxlan"), "host1")
    site.topology.write()
    host.host.ovs.add_bridge("br-other")
    try:
        host.vsctl(
            "add-port", "br-other", "other1", "--", "set", "Interface", "other1",
            "type=internal", f"external_ids:iface-id={port.id}",
            f'external_ids:attached-mac="{port.mac}"',
        )  # fmt: skip
        wait_until(
            lambda: host.reported(port).get("status") == "ACTIVE", lambda: host.reported(port)
        )
        assert host.vsctl("get", "Port", "other1", "tag") == "[]"
        assert "NORMAL" in host.ofctl("dump-flows", "br-other")
        host.vsctl("del-port", "other1")
        wait_until(lambda: host.reported(port).get("status") == "DOWN", lambda: host.reported(port))
    finally:
        host.vsctl("del-br", "br-other")
