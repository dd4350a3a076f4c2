"""The firewall in the switch, by real packets, beyond what its contract says."""

import pytest
from openflow_host import (
    ICMP,
    IN,
    OUT,
    UDP,
    V6,
    arrives,
    everything,
    group,
    members,
    port,
    rule,
)


@pytest.fixture
def duo(pair):
    """Both in group 1, which lets everything out and nothing in."""
    pair.filter({**port(1, 1), **port(2, 1), **group(1, *everything(OUT))}, complete=True)
    return pair


@pytest.mark.spec("FW-01")
def test_nothing_passes_until_a_rule_allows_it_and_then_only_that(duo):
    assert duo.vms[1].ping("10.0.0.2", timeout=0.5).lost == 3
    duo.filter(group(1, *everything(OUT), rule(IN, protocol=ICMP)))
    assert duo.vms[1].ping("10.0.0.2").lost == 0
    assert duo.vms[1].ping("fd00:1::2", timeout=0.5).lost == 3
    duo.filter(group(1, *everything(OUT), rule(IN, V6, protocol=ICMP)))
    assert duo.vms[1].ping("fd00:1::2").lost == 0
    assert duo.vms[1].ping("10.0.0.2", timeout=0.5).lost == 3


def test_what_the_receiver_denies_leaves_no_connection(duo):
    one, two = duo.udp(1, "10.0.0.1", 500), duo.udp(2, "10.0.0.2", 500)
    assert not arrives(one, two)
    assert not arrives(two, one)
    assert not [line for line in duo.connections() if "10.0.0.1" in line]


@pytest.mark.spec("FW-04")
def test_a_stream_of_replies_alone_ends_with_the_rule(duo):
    allowed = group(1, *everything(OUT), rule(IN, protocol=UDP, port_min=500, port_max=500))
    duo.filter(allowed)
    client, server = duo.udp(1, "10.0.0.1", 4000), duo.udp(2, "10.0.0.2", 500)
    assert arrives(client, server)
    assert arrives(server, client)
    duo.filter(group(1, *everything(OUT), rule(IN, protocol=UDP, port_min=501, port_max=501)))
    assert not arrives(server, client)
    duo.filter(allowed)
    assert arrives(server, client)


@pytest.mark.spec("FW-03")
def test_members_come_and_go(duo):
    remote = rule(IN, remote_group_id=next(iter(group(2))).group)
    duo.filter({**group(1, *everything(OUT), remote)})
    assert duo.vms[1].ping("10.0.0.2", timeout=0.5).lost == 3
    duo.filter(members(2, "10.0.0.1"))
    assert duo.vms[1].ping("10.0.0.2").lost == 0
    duo.filter({}, drop=members(2, "10.0.0.1"))
    assert duo.vms[1].ping("10.0.0.2", timeout=0.5).lost == 3
