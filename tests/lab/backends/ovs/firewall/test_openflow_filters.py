"""The firewall in the switch, by real packets, beyond what its contract says."""

from ipaddress import ip_network

import pytest

from tests.lab.backends.ovs.firewall.environment import (
    ICMP,
    IN,
    OUT,
    TIMEOUT,
    UDP,
    V6,
    arrives,
    everything,
    group,
    is_dropped,
    local,
    mac,
    members,
    port,
    rule,
)


@pytest.fixture
def duo(pair):
    """Return instances 1 and 2 in group 1, which lets everything out and nothing in."""
    pair.filter({**port(1, 1), **port(2, 1), **group(1, *everything(OUT))}, complete=True)
    return pair


@pytest.mark.spec("FW-01")
def test_nothing_passes_until_a_rule_allows_it_and_then_only_that(duo):
    assert duo.vms[1].ping("10.0.0.2", timeout=0.5).lost == 3
    duo.filter(group(1, *everything(OUT), rule(IN, protocol=ICMP)))
    assert duo.vms[1].ping("10.0.0.2", timeout=TIMEOUT).lost == 0
    assert duo.vms[1].ping("fd00:1::2", timeout=0.5).lost == 3
    duo.filter(group(1, *everything(OUT), rule(IN, V6, protocol=ICMP)))
    assert duo.vms[1].ping("fd00:1::2", timeout=TIMEOUT).lost == 0
    assert duo.vms[1].ping("10.0.0.2", timeout=0.5).lost == 3


def test_what_the_receiver_denies_leaves_no_connection(duo):
    one, two = duo.udp(1, "10.0.0.1", 500), duo.udp(2, "10.0.0.2", 500)
    assert is_dropped(one, two)
    assert is_dropped(two, one)
    assert not [line for line in duo.connections() if "10.0.0.1" in line]


@pytest.mark.spec("FW-04")
def test_a_stream_of_replies_alone_ends_with_the_rule(duo):
    allowed = group(1, *everything(OUT), rule(IN, protocol=UDP, port_min=500, port_max=500))
    duo.filter(allowed)
    client, server = duo.udp(1, "10.0.0.1", 4000), duo.udp(2, "10.0.0.2", 500)
    assert arrives(client, server)
    assert arrives(server, client)
    duo.filter(group(1, *everything(OUT), rule(IN, protocol=UDP, port_min=501, port_max=501)))
    assert is_dropped(server, client)
    duo.filter(allowed)
    assert is_dropped(server, client)  # nobody has asked
    assert arrives(client, server)
    assert arrives(server, client)


@pytest.mark.spec("FW-03")
def test_members_come_and_go(duo):
    remote = rule(IN, remote_group_id=next(iter(group(2))).group)
    duo.filter({**group(1, *everything(OUT), remote)})
    assert duo.vms[1].ping("10.0.0.2", timeout=0.5).lost == 3
    duo.filter(members(2, "10.0.0.1"))
    assert duo.vms[1].ping("10.0.0.2", timeout=TIMEOUT).lost == 0
    duo.filter({}, drop=members(2, "10.0.0.1"))
    assert duo.vms[1].ping("10.0.0.2", timeout=0.5).lost == 3


@pytest.mark.spec("FW-04")
def test_a_replying_end_may_open_connections_once_a_rule_allows_it(pair):
    # Both ends use one port: without more, questions would be taken for late answers for ever.
    exchange = {"protocol": UDP, "port_min": 500, "port_max": 500}
    asks, answers = group(1, rule(OUT, **exchange)), group(2, rule(IN, **exchange))
    pair.filter({**port(1, 1), **port(2, 2), **asks, **answers})
    one, two = pair.udp(1, "10.0.0.1", 500), pair.udp(2, "10.0.0.2", 500)
    assert arrives(one, two)
    assert arrives(two, one)
    pair.filter({**group(1, rule(IN, **exchange)), **group(2, rule(OUT, **exchange))})
    assert is_dropped(one, two)
    assert arrives(two, one)
    assert arrives(one, two)


@pytest.mark.spec("FW-04")
def test_none_passes_as_an_answer_for_one_and_as_a_question_for_the_other(pair):
    # One may only be asked, and two may not ask any more: neither may open what goes on.
    exchange = {"protocol": UDP, "port_min": 500, "port_max": 500}
    listens, talks = group(1, rule(IN, **exchange)), group(2, rule(OUT, **exchange))
    pair.filter({**port(1, 1), **port(2, 2), **listens, **talks})
    one, two = pair.udp(1, "10.0.0.1", 500), pair.udp(2, "10.0.0.2", 500)
    assert arrives(two, one)
    assert arrives(one, two)
    pair.filter(group(2, rule(IN, **exchange)))
    assert all(is_dropped(*ends) for ends in ((one, two), (two, one)) * 3)


@pytest.mark.spec("FW-05")
@pytest.mark.parametrize("stateful", [True, False])
def test_no_port_claims_another_address_whatever_the_rules_allow(pair, stateful):
    # Stateless rules are evaluated first of all, but they do not decide on source addresses.
    open_to_all = {"stateful": stateful}
    pair.filter(
        {**port(1, 1), **port(2, 2), **group(1, *everything(OUT), **open_to_all), **group(2)}
    )

    def heard(source: str, target: str) -> bool:
        match = f"in_port=tap1,icmp6,dl_src={mac(1)},dl_dst={mac(2)},ipv6_src={source}"
        frame = f"{match},icmpv6_type=136,icmpv6_code=0,nw_ttl=255,nd_target={target}"
        return bool(pair.ovs.leaves_by("br-int", frame))

    assert heard("fd00:1::1", "fd00:1::1")
    assert heard(local(1), "fd00:1::1")
    assert not heard("fd00:1::1", "fd00:1::3")
    assert not heard("::", "fd00:1::3")


@pytest.mark.spec("FW-10")
@pytest.mark.parametrize("target", [mac(2), "ff:ff:ff:ff:ff:ff"])
def test_pieces_that_stay_alone_are_tracked_once(pair, target):
    # Reassembly returns them as invalid but not tracked; anew they would fill it for ever.
    pair.filter({**port(1, 1), **port(2, 1), **group(1, *everything(IN, OUT))})
    piece = f"in_port=tap1,udp,dl_src={mac(1)},dl_dst={target},nw_src=10.0.0.1,nw_dst=10.0.0.2"
    for frag in ("first", "later"):
        traced = pair.ovs.appctl("ofproto/trace", "br-int", f"{piece},nw_frag={frag},ct_state=inv")
        assert traced.rstrip().endswith("Datapath actions: drop")


@pytest.mark.spec("FW-04")
def test_a_burst_of_answers_ends_with_the_rule_as_well(pair):
    # The switch takes several packets at once: the first turns the connection, others follow. Two
    # is in its own remote group, so that what it sent would pass as a question to itself.
    exchange, itself = (
        rule(IN, protocol=UDP, port_min=500, port_max=500),
        rule(IN, remote_prefix=ip_network("10.0.0.2")),
    )
    pair.filter(
        {**port(1, 1), **port(2, 2), **group(1, *everything(OUT)), **group(2, exchange, itself)}
    )
    one, two = pair.udp(1, "10.0.0.1", 4000), pair.udp(2, "10.0.0.2", 500)
    assert arrives(one, two)
    assert arrives(two, one)
    pair.filter(group(2, itself))
    for _ in range(300):
        one.sendto(b"asked", two.getsockname())
        for _ in range(10):
            two.sendto(b"answered", one.getsockname())
    one.settimeout(0.5)
    with pytest.raises(TimeoutError):
        one.recv(99)


@pytest.mark.spec("FW-06")
def test_fragments_that_hide_their_protocol_are_dropped(pair):
    # Without state, fragments are not reassembled: a forbidden packet could hide in the next one.
    free = {"stateful": False}
    open_to_all = {**group(1, *everything(OUT), **free), **group(2, *everything(IN), **free)}
    pair.filter({**port(1, 1), **port(2, 2), **open_to_all})

    def passes(packet: str) -> bool:
        ends = f"dl_src={mac(1)},dl_dst={mac(2)},ipv6_src=fd00:1::1,ipv6_dst=fd00:1::2"
        return bool(pair.ovs.leaves_by("br-int", f"in_port=tap1,{packet},{ends}"))

    assert passes("udp6,nw_frag=first,udp_src=5,udp_dst=0")
    assert passes("icmp6,nw_frag=first,icmpv6_type=128")
    assert passes("ipv6,nw_proto=44,nw_frag=later")
    assert not passes("udp6,nw_frag=first,udp_src=0,udp_dst=0")
    assert not passes("icmp6,nw_frag=first,icmpv6_type=0")
    assert not passes("ipv6,nw_proto=0")
