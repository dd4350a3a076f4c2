"""Conntrack with real connections through a namespace."""

from __future__ import annotations

import errno
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from ipaddress import ip_address, ip_network

import pytest
from attrs import evolve

from netfw.errors import NotFound
from netfw.linux import netns
from netfw.linux.conntrack import PROTOCOLS, Conntrack, ConntrackStatus, ConntrackTuple, Filter

TCP, UDP = PROTOCOLS["tcp"], PROTOCOLS["udp"]


@pytest.fixture
def tracked(shell, space) -> Iterator[Conntrack]:
    """Yield the table of a namespace that tracks connections, with addresses of both families."""
    shell("ip address add 10.9.0.1/32 dev lo")
    shell("ip address add fd00:9::1/128 dev lo nodad")
    _await_route(space, "fd00:9::1")
    for command in ("iptables", "ip6tables"):
        shell(f"{command} -A INPUT -m conntrack --ctstate NEW -j ACCEPT")
    with Conntrack(space) as table:
        yield table


def _await_route(space, address: str) -> None:
    """Wait for the route to an own IPv6 address, which the kernel adds after the address."""

    def is_there() -> bool:
        with socket.socket(socket.AF_INET6) as probe:
            return probe.connect_ex((address, 9)) == errno.ECONNREFUSED

    deadline = time.monotonic() + 60
    while not netns.run_in(space, is_there):
        assert time.monotonic() < deadline, f"no route to {address}"
        time.sleep(0.01)


@pytest.fixture
def connect(space) -> Iterator:
    """Open TCP connections that stay open, or send datagrams, within the namespace."""
    with ExitStack() as stack:

        def open_(address: str, *, kind=socket.SOCK_STREAM, mark: int = 0) -> int:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            server = stack.enter_context(socket.socket(family, kind))
            server.bind((address, 0))
            if kind == socket.SOCK_STREAM:
                server.listen()
            client = stack.enter_context(socket.socket(family, kind))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, mark)
            client.connect(server.getsockname())
            client.send(b"x")
            if kind == socket.SOCK_STREAM:
                stack.enter_context(server.accept()[0])
            return client.getsockname()[1]

        yield lambda *args, **kwargs: netns.run_in(space, open_, *args, **kwargs)


def test_a_connection_is_listed_with_all_that_matters(tracked, connect):
    port = connect("10.9.0.1")
    (connection,) = tracked.connections()
    destination = connection.original.destination_port
    assert connection.original == ConntrackTuple(
        protocol=TCP,
        source=ip_address("10.9.0.1"),
        destination=ip_address("10.9.0.1"),
        source_port=port,
        destination_port=destination,
    )
    assert connection.reply.source_port == destination
    assert (
        ConntrackStatus.ASSURED | ConntrackStatus.CONFIRMED | ConntrackStatus.SEEN_REPLY
        in connection.status
    )
    assert (connection.family, connection.mark, connection.zone) == (4, 0, 0)
    assert connection.timeout > 60


def test_the_listing_agrees_with_the_conntrack_command(tracked, connect, shell):
    for address in ("10.9.0.1", "fd00:9::1"):
        connect(address)
        connect(address, kind=socket.SOCK_DGRAM)
    shell("ping -c 1 10.9.0.1")
    listed = sorted(
        (c.family, c.original.protocol, str(c.original.source), c.original.source_port or 0)
        for c in tracked.connections()
    )
    lines = [
        line.split()
        for family in ("ipv4", "ipv6")
        for line in shell(f"conntrack -L -f {family} -o extended 2>/dev/null").splitlines()
    ]
    words = [(dict(w.split("=") for w in reversed(line) if "=" in w), line) for line in lines]
    assert listed == sorted(
        (4 if line[0] == "ipv4" else 6, int(line[3]), pairs["src"], int(pairs.get("sport", 0)))
        for pairs, line in words
    )
    assert len(listed) == 5


@pytest.mark.parametrize(
    ("wanted", "left"),
    [
        (Filter(family=6), {(4, TCP), (4, UDP)}),
        (Filter(protocol=UDP), {(4, TCP), (6, TCP)}),
        (Filter(family=4, protocol=TCP), {(4, UDP), (6, TCP), (6, UDP)}),
        (Filter(address=ip_network("10.9.0.0/24")), {(6, TCP), (6, UDP)}),
        (Filter(source=ip_network("fd00:9::/64")), {(4, TCP), (4, UDP)}),
        (Filter(destination=ip_network("fd00:9::1")), {(4, TCP), (4, UDP)}),
        (Filter(zone=3), {(4, TCP), (4, UDP), (6, TCP), (6, UDP)}),
        (Filter(), set()),
    ],
)
def test_exactly_what_the_filter_means_is_removed_and_counted(tracked, connect, wanted, left):
    for address in ("10.9.0.1", "fd00:9::1"):
        connect(address)
        connect(address, kind=socket.SOCK_DGRAM)
    assert tracked.remove(wanted) == 4 - len(left)
    assert {(c.family, c.original.protocol) for c in tracked.connections()} == left
    assert tracked.remove(wanted) == 0


def test_connections_are_distinguished_by_mark(tracked, connect, shell):
    shell("iptables -t mangle -A OUTPUT -m mark ! --mark 0 -j CONNMARK --save-mark")
    ports = {mark: connect("10.9.0.1", mark=mark) for mark in (0x11, 0x12, 0x21)}
    (one,) = tracked.connections(Filter(mark=0x11))
    assert (one.mark, one.original.source_port) == (0x11, ports[0x11])
    assert tracked.remove(Filter(mark=0x10, mark_mask=0xF0)) == 2
    assert [c.mark for c in tracked.connections()] == [0x21]


def test_connections_are_distinguished_by_zone(tracked, connect, shell):
    shell("iptables -t raw -A OUTPUT -p tcp -j CT --zone 5")
    shell("iptables -t raw -A PREROUTING -p tcp -j CT --zone 5")
    shell("iptables -t raw -A OUTPUT -p udp -j CT --zone-orig 6")
    shell("iptables -t raw -A PREROUTING -p udp -j CT --zone-orig 6")
    connect("10.9.0.1")
    connect("10.9.0.1", kind=socket.SOCK_DGRAM)
    connect("fd00:9::1")
    assert sorted(c.zone for c in tracked.connections()) == [0, 5, 6]
    assert tracked.remove(Filter(zone=5)) == 1
    assert tracked.remove(Filter(zone=6)) == 1
    assert [c.zone for c in tracked.connections()] == [0]


def test_hundreds_are_listed_and_removed(tracked, connect):
    for _ in range(500):
        connect("10.9.0.1", kind=socket.SOCK_DGRAM)
    assert len(tracked.connections(Filter(protocol=UDP))) == 500
    assert tracked.remove(Filter(protocol=UDP)) == 500
    assert tracked.connections() == ()


def test_concurrent_removals_count_each_connection_once(tracked, connect, space):
    for _ in range(300):
        connect("10.9.0.1", kind=socket.SOCK_DGRAM)
    counts = []
    barrier = threading.Barrier(2)

    def remove() -> None:
        with Conntrack(space) as table:
            barrier.wait()
            counts.append(table.remove(Filter(protocol=UDP)))

    threads = [threading.Thread(target=remove) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(counts) == 300


def test_a_connection_that_only_has_the_same_addresses_is_not_removed(tracked, connect):
    connect("10.9.0.1")
    (entry,) = tracked._entries([Filter()])
    assert tracked._delete([evolve(entry, id=entry.id ^ 1)]) == 0
    assert tracked._delete([entry]) == 1


def test_table_stays_in_its_namespace_in_every_thread(tracked, connect):
    connect("10.9.0.1")
    seen = []
    thread = threading.Thread(target=lambda: seen.append(len(tracked.connections())))
    thread.start()
    thread.join()
    assert seen == [1]
    with Conntrack() as own:
        assert own.connections() == ()


def test_a_missing_namespace_is_not_found():
    with pytest.raises(NotFound, match="nope"):
        Conntrack("nope")
