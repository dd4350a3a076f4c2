"""Distributed routers: what never leaves a host, and what no other host or instance can send."""

import itertools

import pytest

from netfw.linux.sockets.arp_nd_frames import announcement
from netfw.model.values.address import Mac, as_address
from netfw.testing.lab.wait import wait_until
from tests.lab.backends.ovs.switch.environment import mac
from tests.lab.backends.ovs.switch.routed_site import (
    RoutedSite,
    address,
    gateway,
    host_mac,
    listen,
)
from tests.lab.backends.ovs.switch.wire_frames import (
    TEST,
    Frame,
    make,
    parse,
    received,
    resend_until,
)
from tests.nightly import nightly

pytestmark = pytest.mark.spec("L2-60")
VERSIONS = (4, 6)
ALL = "ff:ff:ff:ff:ff:ff"


@pytest.mark.parametrize("kind", ["vxlan", nightly("vlan")])
def test_no_instance_can_send_as_a_router_or_a_host(make_site, kind):
    site = make_site(kind)
    forger, target = site.place(0, 1, 10, open=True), site.place(1, 1, 11, open=True)
    site.bring()
    wire, ear = listen(site, forger), listen(site, target)
    forged = (gateway(site, 1), host_mac(0), host_mac(1))
    numbers = itertools.count()
    seen: list[Frame] = []

    def send() -> None:
        for source in (*forged, mac(10)):
            for to in (mac(11), ALL):
                wire.send(make(to, source, next(numbers)))

    def genuine() -> bool:
        seen.extend(one for one in map(parse, received(ear)) if one.kind == TEST)
        return len({one.to for one in seen if one.source == mac(10)}) == 2

    resend_until(send, genuine)
    send()
    wait_until(lambda: genuine() and len(seen) >= 3, "frames that are not forged")
    assert {one.source for one in seen} == {mac(10)}


@pytest.mark.parametrize("kind", ["vxlan", nightly("vlan")])
def test_no_instance_can_claim_the_address_of_a_router_elsewhere(make_site, kind):
    site = make_site(kind)
    forger, target = site.place(0, 1, 10, open=True), site.place(1, 1, 11, open=True)
    site.bring()
    wire, ear = listen(site, forger), listen(site, target)
    own = Mac(mac(10))
    claims = [
        frame
        for version in VERSIONS
        for frame in announcement(own, as_address(address(1, 1, version)))
    ]
    numbers = itertools.count()
    seen: list[Frame] = []

    def send() -> None:
        for frame in (*claims, make(ALL, own, next(numbers))):
            wire.send(frame)

    def genuine() -> list[Frame]:
        seen.extend(map(parse, received(ear)))
        return [one for one in seen if one.kind == TEST]

    for count in (1, 2):  # the last frame follows claims that were sent after the first one
        resend_until(send, lambda least=count: len(genuine()) >= least)
    forged = {parse(frame).payload for frame in claims}
    assert not [one for one in seen if one.payload in forged]


def test_no_other_host_can_send_to_a_router(make_site):
    site = make_site("vxlan", distributed=[0])
    a, stranger = site.place(0, 1, 10, open=True), site.place(1, 1, 11, open=True)
    site.bring()
    at_router = listen(site, site.namespaces[0, 0], "qr-0-1")
    at_instance, wire = listen(site, a), listen(site, stranger)
    numbers = itertools.count()

    def send() -> None:
        for to in (gateway(site, 1), mac(10)):
            wire.send(make(to, mac(11), next(numbers)))

    def arrived() -> list[Frame]:
        return [one for one in map(parse, received(at_instance)) if one.kind == TEST]

    for _ in range(3):  # the last ones follow others that had arrived in full
        resend_until(send, arrived)
    assert not [one for one in map(parse, received(at_router)) if one.kind == TEST]
    local = listen(site, a)
    resend_until(
        lambda: local.send(make(gateway(site, 1), mac(10), next(numbers))),
        lambda: [one for one in map(parse, received(at_router)) if one.kind == TEST],
    )


def announcements(site: RoutedSite) -> list[bytes]:
    """Return frames by which the router on network 1 announces itself."""
    own = Mac(gateway(site, 1))
    found = [
        frame
        for version in VERSIONS
        for frame in announcement(own, as_address(address(1, 1, version)))
    ]
    advertised = found[-1]
    kind = 14 + 40  # of the ICMPv6 message
    return [*found, advertised[:kind] + bytes([134]) + advertised[kind + 1 :]]


@pytest.mark.parametrize("kind", ["vxlan", nightly("vlan")])
def test_what_a_router_announces_stays_on_its_host(make_site, kind):
    site = make_site(kind)
    ears = [listen(site, site.place(host, 1, 10 + host)) for host in (0, 1)]
    site.bring()
    wire, router = site.wire(0, 1), listen(site, site.namespaces[0, 0], "qr-0-1")
    numbers = itertools.count()
    seen: list[list[Frame]] = [[], [], []]

    def send() -> int:
        number = next(numbers)
        for frame in (*announcements(site), make(ALL, gateway(site, 1), number)):
            router.send(frame)
        return number

    def copies(frames: list[Frame], number: int) -> list[str]:
        content = parse(make(ALL, ALL, number)).payload
        return [one.source for one in frames if (one.kind, one.payload) == (TEST, content)]

    def heard(number: int) -> bool:
        for frames, ear in zip(seen, (*ears, wire), strict=True):
            frames.extend(map(parse, received(ear)))
        return all(copies(frames, number) for frames in seen)

    sent: list[int] = []
    resend_until(lambda: sent.append(send()), lambda: any(map(heard, sent)))
    number = send()
    wait_until(lambda: heard(number), "a frame of the router")
    last = send()
    wait_until(lambda: heard(last), "a frame of the router")
    near, far, between_hosts = seen
    contents = [parse(frame).payload for frame in announcements(site)]
    assert all(content in [one.payload for one in near] for content in contents)
    assert not [one for one in (*far, *between_hosts) if one.payload in contents]
    # Once from this host, and not again from the other one.
    assert copies(between_hosts, number) == [host_mac(0)]
    assert copies(far, number) == [gateway(site, 1)]
    assert len(copies(near, number)) == 1


@pytest.mark.parametrize("kind", ["vxlan", nightly("vlan")])
def test_frames_for_a_router_stay_on_a_host_on_which_it_is_not_yet(make_site, kind):
    site = make_site(kind)
    ear = listen(site, site.place(1, 1, 11))
    sender = listen(site, site.place(0, 1, 10))
    site.machines[0].ovs.vsctl("del-port", "qr-0-1")
    for index in (0, 1):
        assert not site.converge(index).failed
    wire = site.wire(0, 1)
    numbers = itertools.count()

    def send() -> None:
        for to in (gateway(site, 1), mac(11)):
            sender.send(make(to, mac(10), next(numbers)))

    for _ in range(3):  # the last ones follow others that had arrived in full
        resend_until(send, lambda: [one for one in map(parse, received(ear)) if one.kind == TEST])
    receivers = {one.to for one in map(parse, received(wire)) if one.kind == TEST}
    assert receivers == {mac(11)}
