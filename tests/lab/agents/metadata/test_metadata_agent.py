"""The metadata agent: what instances get, and what the service is told of them."""

from __future__ import annotations

import hashlib
import hmac
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from netfw.testing.lab.services.certificates import PrivateAuthority
from netfw.testing.lab.wait import wait_until
from tests.lab.agents.metadata.environment import (
    FIRST,
    NETWORK,
    OTHER,
    PORTS,
    PROJECT,
    ROUTER,
    SECRET,
    Agent,
    instance,
)
from tests.lab.agents.metadata.environment import address as address_of
from tests.lab.agents.metadata.recording_service import (
    RecordingService,
    Response,
    Seen,
    serving_context,
)

Make = Callable[..., Agent]


def signed(id: str) -> str:
    return hmac.new(SECRET.encode(), id.encode(), hashlib.sha256).hexdigest()


@pytest.mark.spec("MD-04", "MD-05", "MD-06", "MD-10")
def test_request_is_forwarded_with_the_instance_id_and_answered(
    lasting_agent: Agent, known: RecordingService
) -> None:
    known.behave = lambda _: Response(
        body=b'{"uuid": 1}', headers=(("Content-Type", "application/json"), ("ETag", '"x"'))
    )
    got = lasting_agent.ask("/openstack/latest/meta_data.json?a=b%20c", headers={"Accept": "a/b"})
    assert (got.status, got.body) == (200, b'{"uuid": 1}')
    assert (got.headers["Content-Type"], got.headers["ETag"]) == ("application/json", '"x"')
    [seen] = known.seen
    assert (seen.method, seen.target) == ("GET", "/openstack/latest/meta_data.json?a=b%20c")
    assert dict(seen.headers) == {
        "Host": f"127.0.0.1:{known.port}",
        "Accept": "a/b",
        "Accept-Encoding": "identity",
        "X-Forwarded-For": address_of(FIRST),
        "X-Instance-ID": instance(FIRST),
        "X-Tenant-ID": PROJECT,
        "X-Instance-ID-Signature": signed(instance(FIRST)),
    }


@pytest.mark.spec("MD-05")
def test_an_address_means_another_instance_on_another_network(
    lasting_agent: Agent, known: RecordingService
) -> None:
    for network, expected in ((NETWORK, instance(FIRST)), (OTHER, instance(1))):
        assert lasting_agent.ask(network=network).status == 200
        assert known.seen[-1].values("X-Instance-ID") == [expected]
    mapped = lasting_agent.ask(of=f"::ffff:{address_of(FIRST)}")
    assert (mapped.status, known.seen[-1].values("X-Forwarded-For")) == (200, ["10.0.0.10"])


@pytest.mark.spec("MD-05", "MD-11")
def test_request_is_forwarded_only_for_exactly_one_instance(
    lasting_agent: Agent, known: RecordingService
) -> None:
    both = {"X-Neutron-Router-ID": str(ROUTER)}
    refused = [
        lasting_agent.ask(headers=both),
        lasting_agent.ask(network=None),
        lasting_agent.ask(of=None),
        lasting_agent.ask(network="x"),
        lasting_agent.ask(of="10.0.0.10, 10.0.0.11"),
        lasting_agent.ask(headers={"X_Neutron_Network_ID": str(NETWORK)}, network=None),
    ]
    assert [each.status for each in refused] == [400] * 6
    unknown = [
        lasting_agent.ask(of="10.0.200.1"),
        lasting_agent.ask(of="2001:db8::1"),
        lasting_agent.ask(network=ROUTER),
        lasting_agent.ask(network=None, headers=both),
        lasting_agent.ask(of="10.0.0.200", network=OTHER),
    ]
    assert [each.status for each in unknown] == [404] * 5
    assert known.seen == []
    assert all(each.body.count(b"\n") == 1 for each in (*refused, *unknown))


@pytest.mark.spec("MD-06", "MD-10")
def test_a_guest_that_forges_gains_nothing(lasting_agent: Agent, known: RecordingService) -> None:
    victim = instance(FIRST + 1)
    forged = {
        "X-Instance-ID": victim,
        "x-instance-id-signature": signed(victim),
        "X-TENANT-ID": "admin",
        "X_Instance_ID": victim,
        "X-Instance_ID": victim,
        "X-Tenant_Id": "admin",
        "X-Forwarded_For": "10.0.0.11",
        "Forwarded": "for=10.0.0.11",
        "X-Metadata-Provider": "other",
        "Connection": "X-Instance-ID, X-Instance-ID-Signature, X-Tenant-ID, X-Forwarded-For",
        "Via": "me",
    }
    assert lasting_agent.ask(headers=forged).status == 200
    [seen] = known.seen
    assert seen.values("X-Instance-ID") == [instance(FIRST)]
    assert seen.values("X-Instance-ID-Signature") == [signed(instance(FIRST))]
    assert seen.values("X-Tenant-ID") == [PROJECT]
    assert seen.values("X-Forwarded-For") == [address_of(FIRST)]
    assert not [*seen.values("Forwarded"), *seen.values("X-Metadata-Provider")]


@pytest.mark.spec("MD-07")
def test_answers_are_passed_through_as_they_are(
    lasting_agent: Agent, known: RecordingService
) -> None:
    for status in (200, 204, 302, 400, 401, 403, 404, 409, 429, 500, 503, 599):
        known.behave = lambda _, status=status: Response(  # type: ignore[misc]
            status=status,
            body=b"what it says",
            headers=(("Content-Type", "text/x"), ("Location", "http://127.0.0.1:1/elsewhere")),
        )
        got = lasting_agent.ask()
        assert (got.status, got.headers["Content-Type"]) == (status, "text/x")
        assert got.body == (b"" if status == 204 else b"what it says")
    assert len(known.seen) == 12, "a redirect was followed, or an answer asked for twice"


def test_methods_and_bodies_are_passed_on(lasting_agent: Agent, known: RecordingService) -> None:
    known.behave = lambda seen: Response(body=seen.body)
    for method, body in (
        ("POST", b"password"),
        ("PUT", b"x" * 300_000),
        ("DELETE", b""),
        ("POST", b""),
    ):
        got = lasting_agent.ask(
            method=method, body=body or None, headers={"Content-Type": "text/x"}
        )
        assert (got.status, got.body) == (200, body)
        assert (known.seen[-1].method, known.seen[-1].body) == (method, body)
    assert known.seen[0].values("Content-Type") == ["text/x"]
    known.behave = lambda _: Response(body=b"12345")
    head = lasting_agent.ask(method="HEAD")
    assert (head.status, head.body, head.headers["Content-Length"]) == (200, b"", "5")
    assert lasting_agent.ask(method="HEAD", of="10.0.200.1").body == b""


LONG = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"
BROKEN = [
    b"",
    b"SSH-2.0-OpenSSH_9.2\r\n",
    b"HTTP/1.1 200 OK\r\n",
    LONG,
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"HTTP/1.1 103 Early Hints\r\n\r\n",
    b"HTTP/1.1 700 Odd\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n",
    b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n" + b"x" * 17_000_000,
]


@pytest.mark.spec("MD-07")
def test_a_service_that_talks_nonsense_is_a_bad_gateway(
    lasting_agent: Agent, known: RecordingService
) -> None:
    for raw in BROKEN:
        known.behave = lambda _, raw=raw: Response(raw=raw)  # type: ignore[misc]
        got = lasting_agent.ask()
        assert (got.status, got.body) == (502, b"the metadata service gave no proper answer\n"), raw
    known.behave = lambda _: Response()
    assert lasting_agent.ask().status == 200
    assert "Traceback" not in lasting_agent.log.read_text()


@pytest.mark.nightly
@pytest.mark.spec("MD-07")
def test_unreachable_and_slow_services_have_distinct_errors(
    make_agent: Make, service: RecordingService
) -> None:
    agent = make_agent(service.port, metadata={"nova_metadata_timeout": 5})
    agent.start()
    release = threading.Event()
    service.behave = lambda _: Response(body=b"%d" % release.wait(30))
    assert agent.ask().status == 504
    release.set()
    service.close()
    away = agent.ask()
    assert (away.status, away.headers["Retry-After"]) == (503, "1")
    agent.wait(lambda status: "cannot be reached" in str(status["warnings"]))
    with RecordingService(("127.0.0.1", service.port)):
        assert agent.ask().status == 200
        agent.wait(lambda status: "the metadata service" not in status["warnings"])
    assert "Traceback" not in agent.log.read_text()


@pytest.mark.spec("MD-07")
def test_a_service_that_drips_is_given_up_in_time(make_agent: Make) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        agent = make_agent(listening.getsockname()[1], metadata={"nova_metadata_timeout": 0.6})
        agent.start()
        with ThreadPoolExecutor(1) as pool:
            asking = pool.submit(agent.ask)
            began = time.monotonic()
            connection, _ = listening.accept()
            with connection, suppress(OSError):  # the agent hangs up before it answers
                connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                while not asking.done() and time.monotonic() - began < 20:
                    connection.sendall(b"y")
                    time.sleep(0.02)
            assert asking.result().status == 504


def test_connection_closed_by_the_service_is_replaced(
    agent: Agent, service: RecordingService
) -> None:
    assert agent.ask().status == 200
    service.close()
    with RecordingService(("127.0.0.1", service.port)) as again:
        assert [agent.ask().status for _ in range(3)] == [200] * 3
        assert len(again.seen) == 3


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> PrivateAuthority:
    return PrivateAuthority(tmp_path_factory.mktemp("authority"))


@pytest.mark.spec("MD-06", "MD-11")
def test_tls_needs_an_authority_or_the_word_that_it_does_not(
    make_agent: Make, authority: PrivateAuthority, tmp_path: Path
) -> None:
    certificate = authority.vouch_for("service", "IP:127.0.0.1")
    context = serving_context(certificate.certificate, certificate.key)
    with RecordingService(context=context) as service:
        agent = make_agent(service.port, metadata={"nova_metadata_protocol": "https"})
        agent.start()
        assert (agent.ask().status, service.seen) == (502, [])
        agent.wait(lambda status: "certificate verify failed" in str(status["warnings"]))
        agent.configure(nova_metadata_insecure=True)
        agent.hang_up()
        assert agent.ask().status == 200
        agent.configure(nova_metadata_insecure=False, auth_ca_cert=authority.certificate)
        agent.hang_up()
        assert agent.ask().status == 200
        agent.configure(auth_ca_cert=tmp_path / "missing")
        agent.hang_up()
        assert agent.ask().status == 200, "what cannot be is not taken over"
        assert "auth_ca_cert" in agent.log.read_text()


@pytest.mark.spec("MD-06", "MD-11")
def test_a_service_may_ask_for_the_certificate_of_the_agent(
    make_agent: Make, authority: PrivateAuthority
) -> None:
    certificate = authority.vouch_for("strict-service", "IP:127.0.0.1")
    mine = authority.vouch_for("agent")
    context = serving_context(certificate.certificate, certificate.key, authority.certificate)
    with RecordingService(context=context) as service:
        tls = {"nova_metadata_protocol": "https", "auth_ca_cert": authority.certificate}
        agent = make_agent(service.port, metadata=tls)
        agent.start()
        assert (agent.ask().status, service.seen) == (502, [])
        agent.configure(nova_client_cert=mine.certificate, nova_client_priv_key=mine.key)
        agent.hang_up()
        assert agent.ask().status == 200


@pytest.mark.spec("MD-04")
def test_five_hundred_requests_at_once_are_all_answered(
    make_agent: Make, service: RecordingService
) -> None:
    agent = make_agent(service.port, metadata={"metadata_cache_seconds": 300})
    agent.start()

    def behave(seen: Seen) -> Response:
        return Response(body=seen.values("X-Instance-ID")[0].encode(), after=0.05)

    service.behave = behave

    def boot(number: int) -> bool:
        who = FIRST + number % PORTS
        got = agent.ask(of=address_of(who))
        return (got.status, got.body) == (200, instance(who).encode())

    with ThreadPoolExecutor(500) as pool:
        assert all(pool.map(boot, range(500)))
    agent.wait(lambda status: status["counts"]["requests"] >= 500)
    assert agent.status()["counts"]["port_lookups"] <= PORTS


@pytest.mark.spec("MD-04")
def test_request_beyond_the_queue_limit_is_refused_at_once(
    make_agent: Make, service: RecordingService
) -> None:
    agent = make_agent(
        service.port,
        metadata={"metadata_workers": 2, "metadata_backlog": 3, "liveness_interval": 0},
    )
    agent.start()
    release = threading.Event()
    service.behave = lambda _: Response(body=b"%d" % release.wait(30))
    with ThreadPoolExecutor(20) as pool:
        waiting = [pool.submit(agent.ask, of=address_of(FIRST + each)) for each in range(20)]
        wait_until(lambda: sum(each.done() for each in waiting) >= 10)
        release.set()
        answers = [each.result() for each in waiting]
    assert {each.status for each in answers} == {200, 503}
    assert all(each.headers.get("Retry-After") == "1" for each in answers if each.status == 503)
    assert agent.ask().status == 200
