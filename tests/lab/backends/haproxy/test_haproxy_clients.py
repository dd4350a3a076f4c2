"""What guests get from a real proxy, and what they cannot do to it."""

from __future__ import annotations

import socket
import time
from contextlib import suppress

import pytest

from netfw.plan import Update
from netfw.testing.conformance.metadata.lab_environment import ip
from netfw.testing.conformance.metadata.requests import request
from netfw.testing.conformance.metadata.suite import LINK_LOCAL, METADATA
from netfw.testing.lab.wait import wait_until
from tests.lab.backends.haproxy.environment import DEVICE, HaproxyEnvironment, memory, status

pytestmark = pytest.mark.spec("MD-01", "MD-02")


def put(env: HaproxyEnvironment, **options: object) -> None:
    outcome = env.driver(**options).converge(Update(put={env.key: env.proxy}))
    assert outcome.ok, outcome


@pytest.mark.spec("MD-10")
def test_the_agent_sees_a_target_without_host_whatever_the_guest_wrote(env: HaproxyEnvironment):
    put(env)
    answer = env.ask(request(line=b"GET http://169.254.169.254/a?b=1 HTTP/1.1"))
    assert status(answer) == b"200"
    (received,) = env.agent.take()
    assert received.line == "GET /a?b=1 HTTP/1.1"
    assert received.values("host") == ["169.254.169.254"]


@pytest.mark.parametrize(
    ("wrong", "answer"),
    [
        (request(line=b"DELETE / HTTP/1.1"), b"405"),
        (request(line=b"OPTIONS * HTTP/1.1"), b"405"),
        (request(line=b"GET * HTTP/1.1"), b"400"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"400"),
        (request(line=b"GET / HTTP/0.9"), b"400"),
        (request(b"Transfer-Encoding: chunked", line=b"PUT / HTTP/1.1", body=b"0\r\n\r\n"), b"400"),
        (request(b"X-Other: \x01"), b"400"),
        (request(b"Content-Length: 65537", line=b"PUT / HTTP/1.1", body=b"a" * 65537), b"413"),
    ],
    ids=["method", "star", "no path", "HTTP/2", "version", "chunks", "control character", "size"],
)
def test_what_no_client_of_a_metadata_service_sends_is_refused(
    env: HaproxyEnvironment, wrong: bytes, answer: bytes
):
    put(env)
    assert status(env.ask(wrong)) == answer
    assert env.agent.take() == []


def test_each_request_goes_to_the_agent_on_a_connection_of_its_own(env: HaproxyEnvironment):
    # The bytes that one guest leaves unread cannot become the beginning of another's request.
    put(env)
    stay = request(end=b"Host: 169.254.169.254\r\n")
    assert env.ask(stay + stay + request()).count(b"metadata") == 3
    assert (len(env.agent.take()), env.agent.connections) == (3, 3)


def test_a_guest_that_waits_for_leave_to_send_gets_it(env: HaproxyEnvironment):
    # Some clients ask before they send a body; the proxy has to answer, not the agent.
    put(env)
    with env.room.connect(METADATA, 80) as client:
        client.sendall(
            request(b"Expect: 100-continue", b"Content-Length: 2", line=b"PUT / HTTP/1.1")
        )
        client.settimeout(5)
        assert status(client.recv(1000)) == b"100"
        client.sendall(b"ok")
        assert status(client.recv(1000)) == b"200"
    (received,) = env.agent.take()
    assert received.body == b"ok"
    assert received.values("expect") == []


def test_clients_get_503_without_the_agent_and_are_served_on_its_return(env: HaproxyEnvironment):
    put(env)
    before = env.pids()
    env.agent_goes()
    with env.room.connect(METADATA, 80) as client:
        client.sendall(request())
        client.settimeout(10)
        assert status(client.recv(1000)) == b"503"
    env.agent_comes()
    assert status(env.ask()) == b"200"
    assert env.pids() == before


def test_an_agent_that_does_not_answer_in_time_is_not_waited_for(env: HaproxyEnvironment):
    put(env, metadata_proxy_answer_timeout=1)
    env.agent_goes()
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(env.socket_path))
        env.socket_path.chmod(0o666)
        silent.listen()
        with env.room.connect(METADATA, 80) as client:
            client.sendall(request())
            client.settimeout(10)
            assert status(client.recv(1000)) == b"504"
    env.socket_path.unlink()


@pytest.mark.parametrize(
    "drip",
    [b"GET / HTTP/1.1\r\n", b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\na"],
    ids=["head", "body"],
)
def test_a_guest_that_takes_its_time_is_cut_off(env: HaproxyEnvironment, drip: bytes):
    put(env, metadata_proxy_request_timeout=1, metadata_proxy_maxconn=5)
    slow = [env.room.connect(METADATA, 80) for _ in range(5)]
    begin = time.monotonic()
    for client in slow:
        client.sendall(drip)
    with env.room.connect(METADATA, 80) as honest:  # it waits for its turn, and gets it
        honest.sendall(request())
        honest.settimeout(10)
        assert status(honest.recv(1000)) == b"200"
    assert time.monotonic() - begin < 9  # and not the ten seconds of the default
    for client in slow:
        client.settimeout(9)
        assert status(client.recv(1000)) == b"408"
        client.close()


def test_one_guest_cannot_have_all_connections(env: HaproxyEnvironment):
    put(env, metadata_proxy_maxconn=32)
    many = []
    for _ in range(40):
        with suppress(OSError):  # those beyond its share are closed, some while they connect
            many.append(env.room.connect(METADATA, 80))
            many[-1].sendall(b"GET / HTTP/1.1\r\n")
    assert len(many) >= 4, "its share"
    begin = time.monotonic()
    assert status(env.ask_link_local()) == b"200"
    assert time.monotonic() - begin < 8  # and not when those are cut off
    for client in many:
        client.close()


def test_headers_by_which_proxies_speak_for_guests_are_not_passed_on(env: HaproxyEnvironment):
    put(env)
    names = (
        b"Client-IP", b"True-Client-IP", b"X-Cluster-Client-IP", b"X-Client-IP", b"X-Real-IP",
        b"X-Original-URL", b"X-HTTP-Method-Override",
    )  # fmt: skip
    env.ask(request(*(name + b": forged" for name in names)))
    (received,) = env.agent.take()
    assert "forged" not in str(received)


@pytest.mark.parametrize(("tight", "wide"), [("base", "burst"), ("burst", "base")])
def test_address_over_the_rate_limit_gets_429_and_others_do_not(
    env: HaproxyEnvironment, tight: str, wide: str
):
    options = {f"{tight}_window_duration": 600, f"{tight}_query_rate_limit": 3}
    put(env, rate_limit_enabled=True, **options, **{f"{wide}_query_rate_limit": 1000})
    assert [status(env.ask()) for _ in range(5)] == [b"200"] * 3 + [b"429"] * 2
    assert len(env.agent.take()) == 3
    assert status(env.ask_link_local()) == b"200"


def test_it_listens_before_its_address_is_there(env: HaproxyEnvironment):
    # The kernel takes a second to check an IPv6 address; metadata does not wait for it.
    ip("-n", "meta", "addr", "del", "fe80::a9fe:a9fe/64", "dev", DEVICE)
    put(env)
    assert status(env.ask()) == b"200"
    ip("-n", "meta", "addr", "add", "fe80::a9fe:a9fe/64", "dev", DEVICE)
    wait_until(lambda: status(env.ask_link_local()) == b"200")
    assert env.agent.take()[-1].values("x-forwarded-for") == ["fe80::5"]


def test_it_is_small(env: HaproxyEnvironment):
    put(env)
    for _ in range(100):
        assert status(env.ask(address=LINK_LOCAL)) == b"200"
    (pid,) = env.pids()
    found = memory(pid)
    assert found["Private_Dirty"] < 6000, found
    with open(f"/proc/{pid}/status") as file:
        assert "Threads:\t1\n" in file.read()
