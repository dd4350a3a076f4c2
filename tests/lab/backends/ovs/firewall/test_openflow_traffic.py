"""What the kernels of two instances make of each other through the firewall in the switch."""

import pytest

from netfw.plan import Update
from tests.lab.backends.ovs.firewall.environment import (
    ICMP,
    IN,
    OUT,
    QUIET,
    TCP,
    TIMEOUT,
    UDP,
    V4,
    V6,
    arrives,
    everything,
    group,
    is_dropped,
    network,
    port,
    rule,
    wired,
)

WEB = {"protocol": TCP, "port_min": 80, "port_max": 80}
TALK = {"protocol": UDP, "port_min": 500, "port_max": 500}


@pytest.fixture
def duo(pair):
    """Return two instances: 1 may open all connections, 2 none and accepts none."""
    pair.filter({**port(1, 1), **port(2, 2), **group(1, *everything(OUT)), **group(2)})
    return pair


@pytest.mark.spec("FW-04")
def test_a_connection_ends_with_its_rule_and_others_live_on(duo):
    duo.filter(group(2, rule(IN, **WEB), rule(IN, V6, protocol=TCP)))
    ends = {}
    for address in ("10.0.0.2", "fd00:1::2"):
        listener = duo.listen(2, address, 80)
        client = duo.connect(1, address, 80)
        assert client is not None
        ends[address] = client, duo.keep(listener.accept()[0])
    assert duo.connect(1, "10.0.0.2", 81, QUIET) is None
    duo.filter(group(2, rule(IN, V6, protocol=TCP)))
    for address, lives in (("10.0.0.2", False), ("fd00:1::2", True)):
        client, server = ends[address]
        server.settimeout(TIMEOUT if lives else QUIET)
        client.sendall(b"still there?")
        if lives:
            assert server.recv(99) == b"still there?"
        else:
            with pytest.raises(TimeoutError):
                server.recv(99)


def test_errors_about_what_is_allowed_come_back(duo):
    duo.filter(group(2, rule(IN, **TALK)))
    one = duo.udp(1, "10.0.0.1", 4000)
    one.connect(("10.0.0.2", 500))  # nobody is there
    one.settimeout(TIMEOUT)
    one.send(b"hello?")
    with pytest.raises(ConnectionRefusedError):
        one.recv(99)


@pytest.mark.parametrize("stateful", [True, False])
def test_fragments_pass_with_the_first_of_them(duo, stateful):
    ways = (IN,) if stateful else (IN, OUT)
    pings = [rule(way, protocol=ICMP, port_min=8, port_max=0) for way in (IN,)]
    answers = [] if stateful else [rule(OUT, protocol=ICMP, port_min=0, port_max=0)]
    duo.filter(group(2, *[rule(w, **TALK) for w in ways], *pings, *answers, stateful=stateful))
    duo.vms[1].run(["ping", "-c1", f"-W{TIMEOUT:g}", "-s4000", "10.0.0.2"])
    one, two = duo.udp(1, "10.0.0.1", 500), duo.udp(2, "10.0.0.2", 500)
    assert arrives(one, two, b"x" * 3000)
    assert arrives(two, one, b"y" * 3000)
    other = duo.udp(2, "10.0.0.2", 501)
    assert is_dropped(one, other, b"z" * 3000)


@pytest.mark.spec("FW-02")
def test_a_stateful_port_receives_replies_of_a_stateless_one(duo):
    rules = [rule(IN, **TALK), rule(OUT, protocol=UDP), rule(IN, **WEB), rule(OUT, protocol=TCP)]
    duo.filter(group(2, *rules, stateful=False))
    one, two = duo.udp(1, "10.0.0.1", 4000), duo.udp(2, "10.0.0.2", 500)
    assert arrives(one, two)
    assert arrives(two, one)
    duo.listen(2, "10.0.0.2", 80)
    assert duo.connect(1, "10.0.0.2", 80) is not None
    duo.filter(group(2, *rules[:1], stateful=False))
    assert arrives(one, two)
    assert is_dropped(two, one)


@pytest.mark.spec("FW-08")
def test_equal_addresses_of_two_networks_do_not_know_each_other(host):
    for number in (1, 2, 3, 4):
        host.instance(number, address=(number - 1) % 2 + 1)
    host.switch.observe(None)
    places = {**network(1), **network(2)}
    plugs = {**wired(1), **wired(2), **wired(3, 2), **wired(4, 2)}
    assert host.switch.converge(Update(put={**places, **plugs})).ok
    guests = {}
    for number, net, rules in ((1, 1, 1), (2, 1, 1), (3, 2, 2), (4, 2, 3)):
        guests |= port(number, rules, net=net, sources=host.sources(number, (number - 1) % 2 + 1))
    groups = {**group(2, rule(OUT, V4)), **group(3, rule(IN, protocol=UDP))}
    host.filter({**guests, **group(1, *everything(IN, OUT)), **groups})
    assert host.vms[1].ping("10.0.0.2", timeout=TIMEOUT).lost == 0
    assert host.vms[3].ping("10.0.0.2", timeout=0.5).lost == 3
    one, two = host.udp(1, "10.0.0.1", 4000), host.udp(2, "10.0.0.2", 500)
    one_twin, two_twin = host.udp(3, "10.0.0.1", 4000), host.udp(4, "10.0.0.2", 500)
    assert arrives(one, two)
    assert is_dropped(two_twin, one_twin)  # it answers what was asked on the other network
    assert arrives(two, one)
    assert arrives(one_twin, two_twin)


@pytest.mark.spec("FW-05")
def test_a_stolen_address_is_of_no_use(duo):
    duo.filter(group(2, *everything(IN)))
    assert duo.vms[1].ping("10.0.0.2", timeout=TIMEOUT).lost == 0
    duo.vms[1].run(["ip", "addr", "add", "10.0.0.66/24", "dev", "eth0"])
    thief, two = duo.udp(1, "10.0.0.66", 500), duo.udp(2, "10.0.0.2", 500)
    assert is_dropped(thief, two)
    honest = duo.udp(1, "10.0.0.1", 501)
    assert arrives(honest, two)


@pytest.mark.spec("FW-06")
def test_pieces_of_a_forbidden_answer_are_forbidden_as_well(duo):
    # A DHCP server that cuts its answers into pieces is forbidden, too.
    duo.filter({**group(1, *everything(IN, OUT)), **group(2, *everything(IN, OUT))})
    server, client = duo.udp(1, "10.0.0.1", 67), duo.udp(2, "10.0.0.2", 68)
    assert is_dropped(server, client, b"x" * 300)
    assert is_dropped(server, client, b"x" * 3000)
    assert arrives(client, server, b"x" * 3000)
