"""What people do to bridges, cables and tunnels while the switch driver works."""

import pytest

from netfw.drivers.values.events import FeedLost, KeysChanged
from netfw.drivers.values.switch_values import Endpoint, Tunnel
from netfw.errors import BackendUnavailable
from netfw.model.segment import NetworkType
from netfw.model.values.address import as_address
from netfw.plan import Update
from netfw.testing.lab.wait import wait_until
from tests.lab.backends.ovs.switch.environment import network, port

PEER = Endpoint(NetworkType.VXLAN, as_address("192.0.2.77"))


@pytest.fixture
def wired(make_lab, hosts):
    """Return a host with a VXLAN and a VLAN network with a port each, and a tunnel."""
    (host,) = make_lab(hosts=1).hosts.values()
    host.ovs.vsctl("add-br", "br-ex", "--", "set", "Bridge", "br-ex", "datapath_type=netdev")
    there = hosts(
        host,
        tunnel_types=["vxlan"],
        local_ip=str(host.address.ip),
        bridge_mappings={"physnet1": "br-ex"},
    )
    there.overlay = {
        **network(1, network_type="vxlan", segmentation_id=5),
        PEER: Tunnel("peer", mesh=True),
    }
    there.underlay = network(
        2, network_type="vlan", physical_network="physnet1", segmentation_id=500
    )
    networks = {**there.overlay, **there.underlay}
    assert there.driver.converge(Update(put=networks)).ok
    there.instance(1), there.instance(2)
    there.driver.observe(None)  # what was plugged is known
    there.everything = Update(put={**networks, **port(1, 1), **port(2, 2)}, complete=True)
    assert there.driver.converge(there.everything).ok
    there.driver.observe(None)
    there.heard = []
    there.driver.watch(there.heard.append)
    return there


def lost(host) -> bool:
    return any(isinstance(event, FeedLost) for event in host.heard)


def records(host) -> str:
    return host.ovs.vsctl("get", "Bridge", "br-int", "external_ids")


def test_removed_records_are_noticed_and_written_again(wired):
    before = records(wired)
    assert "netfw-vlan-1" in before
    wired.ovs.vsctl("clear", "Bridge", "br-int", "external_ids")
    wait_until(lambda: lost(wired))
    assert wired.driver.converge(wired.everything).ok
    assert records(wired) == before
    wired.driver.observe(None)
    wired.heard.clear()
    assert wired.driver.converge(Update(put=network(3))).ok
    assert wired.driver.converge(Update(drop=frozenset(network(3)))).ok
    wired.driver.observe(None)
    assert wired.heard == []


def test_a_renumbered_tunnel_is_noticed_and_used_again(wired):
    name = f"vxlan-{int(PEER.address):08x}"
    wired.ovs.vsctl("set", "Interface", name, "ofport_request=77")
    wait_until(lambda: any(isinstance(e, KeysChanged) and PEER in e.keys for e in wired.heard))
    wait_until(lambda: wired.ovs.vsctl("get", "Interface", name, "ofport").strip() == "77")
    assert wired.driver.converge(wired.everything).ok
    assert any("in_port=77" in flow for flow in wired.flows("br-tun"))


def test_a_renumbered_link_is_noticed_and_used_again(wired):
    wired.ovs.vsctl("set", "Interface", "patch-tun", "ofport_request=77")
    wait_until(lambda: lost(wired))
    wait_until(lambda: wired.ovs.vsctl("get", "Interface", "patch-tun", "ofport").strip() == "77")
    assert wired.driver.converge(wired.everything).ok
    assert any("in_port=77" in flow for flow in wired.flows("br-int"))


@pytest.mark.spec("L2-03")
def test_work_goes_on_without_a_physical_bridge_and_it_is_wired_again_when_it_is_back(wired):
    before = len(wired.flows("br-ex"))
    wired.ovs.vsctl("del-br", "br-ex")
    wait_until(lambda: lost(wired))
    wired.instance(3)
    wired.driver.observe(None)  # what was plugged is known
    more = Update(put={**wired.everything.put, **port(3, 1)}, complete=True)
    outcome = wired.driver.converge(more)
    assert not outcome.failed, outcome
    assert outcome.waiting.keys() == {*wired.underlay, *port(2, 2)}
    assert all("ovs-vsctl add-br br-ex" in why for why in outcome.waiting.values())
    assert wired.tag(3) == wired.tag(1)
    wired.ovs.ofctl("del-flows", wired.ovs.management("br-int"))
    assert not wired.driver.converge(more).failed
    assert wired.driver.converge(Update(drop=frozenset(port(3, 1)))).ok
    wired.heard.clear()
    wired.ovs.vsctl("add-br", "br-ex", "--", "set", "Bridge", "br-ex", "datapath_type=netdev")
    wait_until(lambda: lost(wired))
    wait_until(lambda: wired.driver.converge(wired.everything).ok)
    assert len(wired.flows("br-ex")) == before


@pytest.mark.spec("L2-02")
def test_removed_own_bridges_are_made_again_in_one_call(wired):
    before = {name: len(wired.flows(name)) for name in ("br-int", "br-tun")}
    wired.ovs.vsctl("del-br", "br-tun")
    wait_until(lambda: lost(wired))
    wait_until(lambda: wired.driver.converge(wired.everything).ok)
    assert {name: len(wired.flows(name)) for name in before} == before


@pytest.mark.spec("L2-03")
def test_after_a_start_with_the_wrong_datapath_the_right_one_puts_all_right(wired):
    # There is no kernel module here: a bridge of the type system does not work.
    wired.configure(datapath_type="system")
    for _ in range(2):
        with pytest.raises(BackendUnavailable, match=r"br-int .* set datapath_type = netdev"):
            wired.start().converge(wired.everything)
    wired.configure(datapath_type="netdev")
    driver = wired.start()
    assert driver.plan(wired.everything, driver.observe(None)).stages
    outcome = driver.converge(wired.everything)
    assert outcome.ok, outcome
    assert driver.plan(wired.everything, driver.observe(None)).stages == ()
