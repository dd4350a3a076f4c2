"""Reading one device costs one device."""

import time

from netfw.linux.ip.netlink_client import NetlinkClient, device_exists
from netfw.linux.ip.operations import AddVeth, DelLink


def test_one_link_is_what_the_list_says_of_it():
    with NetlinkClient() as network:
        network.apply([AddVeth(name="one", peer="other")])
        everything = network.links()
        assert {name: network.link(name) for name in everything} == everything
        assert network.link("nobody") is None
        network.apply([DelLink("one")])
        assert network.link("one") is None


def test_a_veth_knows_its_other_end_in_the_same_namespace_alone(blue):
    with NetlinkClient() as network:
        assert not device_exists("one")
        network.apply([AddVeth(name="one", peer="other")])
        assert device_exists("one")
        one, other = network.link("one"), network.link("other")
        assert (one.peer, other.peer) == (other.index, one.index)
        network.apply([DelLink("one")])
    assert blue.link("e0").peer is None
    assert blue.link("lo").peer is None


def test_looking_for_one_device_costs_the_same_among_few_and_many():
    with NetlinkClient() as network:
        network.apply([AddVeth(name=f"a{n}", peer=f"b{n}") for n in range(150)])
        started = time.process_time()  # of all threads, without the time of other processes
        network.links()
        listing = time.process_time() - started
        started_one = time.process_time()
        for _ in range(10):
            assert network.link("a7") is not None
        assert (time.process_time() - started_one) / 10 < listing / 5
        network.apply([DelLink(f"a{n}") for n in range(150)])
