"""What the firewall in the switch outlives, and what it announces."""

import pytest
from attrs import evolve

from netfw.drivers.values.events import BackendRecovered, FeedLost, KeysChanged
from netfw.drivers.values.keys import PortKey
from netfw.errors import BackendUnavailable
from netfw.plan import Update
from tests.lab.backends.ovs.event_recorder import EventRecorder
from tests.lab.backends.ovs.firewall.environment import (
    ICMP,
    IN,
    OUT,
    TIMEOUT,
    FilteredHost,
    arrives,
    everything,
    group,
    group_id,
    is_dropped,
    members,
    network,
    port,
    rule,
    wired,
)

FRIENDS = rule(IN, remote_group_id=group_id(2))
STATE = {
    **port(1, 1),
    **port(2, 1, 3),
    **group(1, *everything(OUT), FRIENDS),
    **group(3, rule(IN, protocol=ICMP)),
    **members(2, "10.0.0.1", "10.0.0.2"),
}


@pytest.fixture
def duo(pair):
    pair.filter(STATE, complete=True)
    return pair


def durations(host) -> dict[str, float]:
    """Return the age of each flow of the firewall, in seconds."""
    output = host.ovs.ofctl("-OOpenFlow14", "dump-flows", host.ovs.management("br-int"))
    found = {}
    for line in output.splitlines():
        if "cookie=0x6e6602" in line:
            head, _, tail = line.partition("n_packets=")
            words = dict(w.split("=", 1) for w in head.replace(",", " ").split() if "=" in w)
            key = f"{words['table']} {tail.partition('n_bytes=')[2].partition(',')[2]}"
            found[key] = float(words["duration"].rstrip("s"))
    return found


@pytest.mark.spec("FW-10")
def test_a_restart_touches_no_flow_and_loses_no_packet(duo):
    before = durations(duo)
    with duo.vms[1].pinging("10.0.0.2", timeout=TIMEOUT) as stream:
        duo.start()
        assert duo.switch.converge(
            Update(put={**network(1), **wired(1), **wired(2)}, complete=True)
        ).ok
        assert not duo.firewall.plan(
            Update(put=STATE, complete=True), duo.firewall.observe(None)
        ).stages
        duo.filter(STATE, complete=True)
        assert stream.stop().lost == 0
    after = durations(duo)
    assert after.keys() == before.keys()
    assert all(after[key] >= before[key] for key in before)


@pytest.mark.spec("FW-10")
def test_after_a_restart_an_update_harms_nothing_that_it_does_not_mention(duo):
    duo.start()
    assert duo.switch.converge(Update(put={**network(1), **wired(1), **wired(2)})).ok
    duo.filter(members(2, "10.0.0.77"))
    assert duo.firewall.present() == {*STATE, *members(2, "10.0.0.77")}
    assert duo.vms[1].ping("10.0.0.2", timeout=TIMEOUT).lost == 0
    duo.filter({}, drop=members(2, "10.0.0.1"))
    assert duo.vms[2].ping("10.0.0.1", timeout=TIMEOUT).lost == 0


def test_a_switch_that_lost_its_flows_gets_them_back(duo):
    recorder = EventRecorder(duo.firewall)
    duo.host.restart_switch()
    recorder.until(lambda event: isinstance(event, BackendRecovered))
    assert duo.vms[1].ping("10.0.0.2", timeout=0.5).lost == 3
    wanted = {**network(1), **wired(1), **wired(2)}
    assert duo.switch.converge(Update(put=wanted, complete=True)).ok
    duo.filter(STATE, complete=True)
    assert duo.vms[1].ping("10.0.0.2", timeout=TIMEOUT).lost == 0


def test_removed_flows_are_announced_and_come_back(duo):
    recorder = EventRecorder(duo.firewall)
    target = duo.ovs.management("br-int")
    before = set(duo.flows())
    duo.ovs.ofctl("-OOpenFlow14", "del-flows", target, "table=81,reg8=1/0xffff")
    (key,) = port(1)
    recorder.until(lambda event: isinstance(event, KeysChanged) and event.keys == {key})
    duo.ovs.ofctl("-OOpenFlow14", "del-flows", target, "table=72")
    recorder.until(lambda event: isinstance(event, FeedLost))
    duo.firewall.observe(None)
    duo.filter({key: STATE[key]})
    assert set(duo.flows()) == before


def test_a_device_that_gets_a_number_is_announced(host):
    recorder = EventRecorder(host.firewall)
    outcome = host.firewall.converge(Update(put=port(5, 1)))
    assert outcome.waiting.keys() == port(5).keys()
    host.instance(5)
    (key,) = port(5)
    recorder.until(lambda event: isinstance(event, KeysChanged) and key in event.keys)
    host.filter(port(5, 1))
    assert host.firewall.present() == {key}
    recorder.events.clear()
    host.ovs.vsctl("del-port", "tap5")
    recorder.until(lambda event: isinstance(event, KeysChanged) and key in event.keys)
    outcome = host.firewall.converge(Update(put=port(5, 1)))
    assert outcome.waiting.keys() == {key}
    assert host.firewall.present() == frozenset()


def test_all_addresses_as_a_member_allow_every_sender(duo):
    duo.filter({}, drop=[*members(2, "10.0.0.1", "10.0.0.2"), *group(3)])
    duo.filter(members(2, "0.0.0.0/0"))
    assert duo.vms[1].ping("10.0.0.2", timeout=TIMEOUT).lost == 0
    assert duo.vms[1].ping("fd00:1::2", timeout=0.5).lost == 3


def test_a_member_with_a_mac_address_matches_that_mac_only(duo):
    duo.filter({}, drop=[*members(2, "10.0.0.1", "10.0.0.2"), *group(3)])
    duo.filter(members(2, "0.0.0.0/0", mac="fa:16:3e:00:00:01"))
    assert duo.vms[1].ping("10.0.0.2", timeout=TIMEOUT).lost == 0
    assert duo.vms[2].ping("10.0.0.1", timeout=0.5).lost == 3
    two, one = duo.udp(2, "10.0.0.2", 7), duo.udp(1, "10.0.0.1", 7)
    assert is_dropped(two, one)
    assert arrives(one, two)
    assert arrives(two, one)


def test_two_ports_can_change_their_devices(duo):
    one, two = (PortKey(key.port) for key in (*port(1), *port(2)))
    swapped = {
        one: evolve(STATE[one], device="tap2", sources=STATE[two].sources),
        two: evolve(STATE[two], device="tap1", sources=STATE[one].sources),
    }
    duo.filter(swapped)
    assert duo.firewall.present() == STATE.keys()
    assert duo.vms[2].ping("10.0.0.1", timeout=TIMEOUT).lost == 0


@pytest.mark.spec("FW-08")
def test_a_network_finds_no_connections_of_one_that_had_its_number_before(duo):
    # Ports that come later leave the connections of its own alone.
    assert duo.vms[1].ping("10.0.0.2", timeout=TIMEOUT).lost == 0
    before = [line for line in duo.connections() if "10.0.0.2" in line]
    assert before
    duo.filter(port(1, 1, 3))
    duo.filter({}, drop=port(1))
    duo.filter(port(1, 1))
    assert [line for line in duo.connections() if "10.0.0.2" in line]
    duo.filter({}, drop=[*port(1), *port(2)])
    duo.filter(port(1, 1))
    assert not [line for line in duo.connections() if "10.0.0.2" in line]


def test_a_restarted_driver_forgets_no_connections(duo):
    assert duo.vms[1].ping("10.0.0.2", timeout=TIMEOUT).lost == 0
    for complete in (False, True):
        duo.start()
        assert duo.switch.converge(Update(put={**network(1), **wired(1), **wired(2)})).ok
        duo.filter(STATE if complete else port(2, 1, 3), complete=complete)
        assert [line for line in duo.connections() if "10.0.0.2" in line]


def test_before_there_is_a_bridge_it_plans_and_waits(make_lab):
    (host,) = make_lab(hosts=1).hosts.values()
    early = FilteredHost(host)
    try:
        update = Update(put={**port(1, 1), **group(1, FRIENDS)})
        plan = early.firewall.plan(update, early.firewall.observe(update))
        assert plan.waiting.keys() == port(1).keys()
        assert early.firewall.present() == frozenset()
        with pytest.raises(BackendUnavailable, match="no bridge br-int"):
            early.firewall.converge(update)
        assert early.switch.converge(Update(put=network(1))).ok
        assert early.firewall.converge(update).done == group(1).keys()
    finally:
        early.close()


def test_a_bridge_that_is_made_anew_gets_its_filters_anew(duo):
    duo.ovs.vsctl("del-br", "br-int")
    duo.firewall.observe(None)
    assert duo.firewall.present() == frozenset()
    wanted = {**network(1), **wired(1), **wired(2)}
    duo.switch.converge(Update(put=wanted, complete=True))
    outcome = duo.firewall.converge(Update(put=STATE, complete=True))
    assert outcome.waiting.keys() == {*port(1), *port(2)}
    assert duo.firewall.present() == STATE.keys() - outcome.waiting.keys()
