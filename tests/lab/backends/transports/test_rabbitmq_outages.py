"""The transport over RabbitMQ when the broker dies, hangs, comes back, or asks for certificates."""

from __future__ import annotations

import gc
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import amqp
import pytest

from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.transport import Message, Transport
from netfw.errors import BackendBroken, BackendUnavailable
from netfw.testing.lab.services.certificates import PrivateAuthority
from netfw.testing.lab.services.rabbitmq import PASSWORD, TLS_PORT, USER, PrivateRabbitmq
from tests.lab.backends.transports.raw_client import Callers, call_error, eventually, request

pytestmark = [
    # kombu leaves sockets of connections that broke to the garbage collector
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
MESSAGE = {"topic": "server", "method": "answer"}
LONG = 30.0
"""Seconds; a wait for the broker, or for a heartbeat of 60 s, would take longer."""


@pytest.fixture(scope="module")
def broker(authority: PrivateAuthority) -> Iterator[PrivateRabbitmq]:
    """Yield one broker for all tests: it takes seconds to start."""
    certificate = authority.vouch_for("broker", "IP:127.0.0.1")
    made = PrivateRabbitmq(
        Path(tempfile.mkdtemp(prefix="rabbitmq-", dir="/run")),
        tls=certificate,
        authority=authority.certificate,
    )
    try:
        yield made.start()
    finally:
        made.stop()
        gc.collect()


@pytest.fixture
def over(broker, closing):
    """Return a function that makes transports over the broker."""

    def made(url: str = "", **options: Any) -> Transport:
        given = {
            "transport_url": url or broker.url(),
            "reconnect_interval": 0.1,
            "reconnect_interval_max": 0.5,
            "heartbeat_timeout": 4,
            **options,
        }
        transport = create(Transport, "oslo", given, LocalHostResources())
        closing.callback(transport.close)
        return transport

    return made


def answers(client, seconds=30.0):
    """Return whether a request is answered in the end."""

    def call():
        try:
            return client.call(request(), 1)
        except BackendUnavailable:
            return None

    return eventually(call, seconds)


@contextmanager
def raw_channel() -> Iterator[amqp.Channel]:
    """Yield a channel that changes the broker's queues beside the transports."""
    with amqp.Connection("127.0.0.1", USER, PASSWORD, login_method="AMQPLAIN") as connection:
        yield connection.channel()


@pytest.mark.nightly
@pytest.mark.spec("RPC-06")
def test_message_over_the_limit_of_its_receiver_is_refused(over, caplog):
    # This includes an answer and a notification: their senders have other limits.
    server, client, heard = over(), over(max_message_size=4096), []
    server.serve("server", lambda message, _: Message(**MESSAGE, body=b"," * 5000))
    client.subscribe("news", lambda message: heard.append(message.body))
    assert eventually(lambda: heard), "not subscribed"
    with pytest.raises(
        BackendBroken, match="has 5000 bytes, and 4096 is the limit: max_message_size"
    ):
        client.call(request(), LONG)
    heard.clear()
    server.publish(Message(topic="news", method="large", body=b"," * 5000))
    assert eventually(lambda: "it has 5000 bytes, and 4096 is the limit" in caplog.text)
    server.publish(Message(topic="news", method="small", body=b"small"))
    assert eventually(lambda: heard)
    assert heard == [b"small"]


@pytest.mark.spec("RPC-01")
def test_everything_goes_on_after_a_broker_was_killed(broker, over):
    server, client, heard = over(), over(), []
    server.serve("server", Callers())
    client.subscribe("news", lambda message: heard.append(message.method))
    assert answers(client)
    assert eventually(lambda: heard)
    broker.kill()
    began = time.monotonic()
    with pytest.raises(BackendUnavailable):
        client.call(request(), 1.0)
    server.publish(Message(topic="news", method="while it was away"))
    assert time.monotonic() - began < LONG
    heard.clear()
    broker.start()
    hints = {"subscribed", "while it was away"}  # the first may be merged into the second
    assert eventually(lambda: hints & {*heard}), "no hint that some may have been lost"
    assert answers(client)
    server.publish(Message(topic="news", method="now"))
    assert eventually(lambda: "now" in heard)


@pytest.mark.nightly
@pytest.mark.spec("RPC-01", "RPC-06")
def test_requests_are_answered_after_an_outage_that_lost_an_answer(broker, over):
    # The server finds that the queue for the answer is gone: it reconnects before its client.
    server = over(f"{broker.url()}?kombu_missing_consumer_retry_timeout=1")
    client = over(f"{broker.url()}?rabbit_retry_interval=10&rabbit_interval_max=10")
    received, released, failed = threading.Event(), threading.Event(), threading.Event()

    def handle(message, caller):
        if message.method == "slow":
            received.set()
            assert released.wait(60)
        return message

    def call_slowly():
        with pytest.raises(BackendUnavailable, match="connection to the broker was lost"):
            client.call(Message(topic="server", method="slow"), 30)
        failed.set()

    server.serve("server", handle)
    assert answers(client)
    threading.Thread(target=call_slowly, daemon=True).start()
    try:
        assert received.wait(30)
        broker.kill()
        assert failed.wait(30), "a request waits that nothing answers"
    finally:
        released.set()
        broker.start()
    assert client.call(request(), 50)
    # They are closed when the last call on them has timed out: 50 s, and two pauses of 10 s.
    assert eventually(lambda: not threads("netfw-broker-close"), 120), "former connections stay"


@pytest.mark.spec("RPC-01")
def test_client_knows_that_the_server_is_away_while_the_broker_is_there(broker, over):
    client, server, heard = over(prefix="away"), over(prefix="away"), []
    received, released, failed = threading.Event(), threading.Event(), threading.Event()

    def handle(message, caller):
        if message.method == "slow":
            received.set()
            assert released.wait(60)
        return message

    def call():
        with pytest.raises(BackendUnavailable, match="no server of server any more"):
            client.call(request("slow"), 300)
        failed.set()

    client.subscribe("news", lambda message: heard.append(message.method))
    assert client.unreachable_reason("server") is None, "there was no server yet"
    server.serve("server", handle)
    assert answers(client)
    threading.Thread(target=call, daemon=True).start()
    assert received.wait(30)
    closing = threading.Thread(target=server.close, daemon=True)
    closing.start()
    try:
        assert eventually(lambda: "disconnected" in heard)
        assert "no consumer" in client.unreachable_reason("server")
        assert failed.wait(30), "a request waits that nothing answers"
    finally:
        released.set()
        closing.join(60)
    heard.clear()
    over(prefix="away").serve("server", Callers())
    assert eventually(lambda: client.unreachable_reason("server") is None)
    assert eventually(lambda: heard[-1:] == ["subscribed"])


@pytest.mark.spec("RPC-01")
def test_client_knows_that_the_broker_is_away(broker, over):
    client, heard = over(), []
    over().serve("server", Callers())
    client.subscribe("news", lambda message: heard.append(message.method))
    assert answers(client)
    assert client.unreachable_reason("server") is None
    broker.kill()
    try:
        assert eventually(lambda: "disconnected" in heard)
        assert "broker at 127.0.0.1" in client.unreachable_reason("server")
    finally:
        broker.start()
    assert eventually(lambda: client.unreachable_reason("server") is None)


@pytest.mark.spec("RPC-01")
def test_a_topic_is_served_as_soon_as_the_broker_has_a_queue_for_it(broker, over, caplog):
    # A foreign queue of that name is in the way, until it is deleted.
    server, client = over(prefix="taken"), over(prefix="taken")
    with raw_channel() as channel:
        channel.queue_declare("taken.call.server", arguments={"x-max-length": 1}, auto_delete=False)
    server.serve("server", Callers())
    assert eventually(lambda: "cannot be served yet" in caplog.text)
    assert "inequivalent arg 'x-max-length'" in caplog.text
    with pytest.raises(BackendUnavailable):
        client.call(request(), 0.5)
    with raw_channel() as channel:
        channel.queue_delete("taken.call.server")
    assert answers(client)


def threads(name: str) -> list[threading.Thread]:
    """Return the threads whose names begin with *name*."""
    return [thread for thread in threading.enumerate() if thread.name.startswith(name)]


def callers() -> list[threading.Thread]:
    """Return the threads in which requests wait."""
    return threads("netfw-call")


def connections() -> dict[int, amqp.Connection]:
    """Return the connections to brokers that this process has."""
    found = [each for each in gc.get_objects() if isinstance(each, amqp.Connection)]
    made = (each for each in found if hasattr(each, "_transport"))  # not in its constructor
    return {id(each): each for each in made if each.connected}


@pytest.mark.spec("RPC-01")
def test_waiting_for_a_topic_uses_one_channel(over):
    before, client = connections(), over()
    for _ in range(2):
        assert eventually(lambda: "no server of" in call_error(client, 2, "unserved"))
    used = [len(each.channels) for key, each in connections().items() if key not in before]
    assert used, "nobody asked"
    assert max(used) <= 2, f"channels of each connection, one of them its own: {used}"


@pytest.mark.spec("RPC-01")
def test_waiting_for_a_topic_ends_on_close(over):
    before, client, errors = connections(), over(), []

    def ask() -> None:
        try:
            client.call(Message(topic="unserved", method="a"), 30)
        except BackendUnavailable as error:
            errors.append(str(error))

    asking = [threading.Thread(target=ask) for _ in range(4)]
    for thread in asking:
        thread.start()
    assert eventually(lambda: any(key not in before for key in connections()))
    assert eventually(callers)
    client.close()
    for thread in asking:
        thread.join(60)
    assert errors == ["this transport was closed"] * 4
    assert eventually(lambda: not callers())
    assert not [each for key, each in connections().items() if key not in before]


@pytest.mark.spec("RPC-01")
def test_requests_that_meet_a_close_say_so(over, caplog):
    # More requests than threads: some wait for an answer, some for a thread, some come late.
    client, errors = over(), []

    def ask() -> None:
        try:
            client.call(Message(topic="unserved", method="a"), 30)
        except BackendUnavailable as error:
            errors.append(str(error))

    asking = [threading.Thread(target=ask) for _ in range(100)]
    for thread in asking[:60]:
        thread.start()
    assert eventually(callers)
    closing = threading.Thread(target=client.close)
    closing.start()
    for thread in asking[60:]:
        thread.start()
    for thread in (closing, *asking):
        thread.join(30)
    assert set(errors) == {"this transport was closed"}
    assert len(errors) == len(asking)
    assert eventually(lambda: not callers())
    assert not caplog.records


@pytest.mark.spec("RPC-06")
def test_a_broker_that_hangs_costs_no_more_than_the_time_out(broker, over):
    server, client = over(heartbeat_timeout=60), over(heartbeat_timeout=60)
    server.serve("server", Callers())
    assert answers(client)
    broker.pause()
    try:
        began = time.monotonic()
        for _ in range(3):
            with pytest.raises(BackendUnavailable):
                client.call(request(), 0.5)
        for n in range(100):
            server.publish(Message(topic="news", method=f"{n}"))
        assert time.monotonic() - began < LONG
    finally:
        broker.resume()
    assert answers(client)


@pytest.mark.nightly
def test_a_transport_can_be_closed_while_the_broker_is_away(broker, over):
    server, client = over(), over()
    server.serve("server", Callers())
    client.subscribe("news", lambda message: None)
    assert answers(client)
    broker.kill()
    try:
        closing = [threading.Thread(target=each.close) for each in (server, client)]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join(20)
        assert not any(thread.is_alive() for thread in closing)
    finally:
        broker.start()


@pytest.mark.spec("RPC-06")
def test_certificates_for_the_broker_are_in_the_url(broker, over, authority, caplog):
    certificate = authority.vouch_for("netfw-server")
    ca = f"?ssl=1&ssl_ca_file={authority.certificate}"
    own = f"&ssl_cert_file={certificate.certificate}&ssl_key_file={certificate.key}"
    url = broker.url(port=TLS_PORT)
    server, client = over(url + ca + own), over(url + ca + own)
    server.serve("server", Callers())
    assert answers(client)
    for stranger in (over(url + ca), over(url)):
        with pytest.raises(BackendUnavailable, match="no broker"):
            stranger.call(request(), 1.5)
    elsewhere = Path(tempfile.mkdtemp(prefix="ca-"))
    try:
        other = PrivateAuthority(elsewhere)
        suspicious = over(f"{url}?ssl=1&ssl_ca_file={other.certificate}{own}")
        assert eventually(lambda: "certificate verify failed" in call_error(suspicious, 1.5))
    finally:
        shutil.rmtree(elsewhere)


@pytest.mark.spec("RPC-06")
def test_a_wrong_password_is_said_and_the_right_one_is_not(broker, over, caplog):
    stranger = over(broker.url("wrong"))
    refused = re.compile(r"ACCESS_REFUSED|Login was refused")
    assert eventually(lambda: refused.search(call_error(stranger, 1.5)))
    assert "a%20password" not in caplog.text
    assert "a password" not in caplog.text
