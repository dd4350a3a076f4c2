"""RabbitMQ with a user for each host, by the commands of the documentation."""

from __future__ import annotations

import gc
import re
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import amqp
import pytest

from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.transport import Message, Transport
from netfw.testing.lab.services.rabbitmq import PORT, PrivateRabbitmq
from tests import ROOT
from tests.lab.backends.transports.raw_client import Callers, eventually, request

pytestmark = [
    pytest.mark.spec("RPC-06"),
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
HOSTS = ("host-1.example", "host-2.example")
PASSWORD = "a-password-of-tests"


def documented_commands(name: str) -> str:
    """Return the block of shell commands that begins with the comment *name*."""
    text = (ROOT / "docs" / "transports.md").read_text()
    blocks = [each for each in re.findall(r"```sh\n(.*?)```", text, re.S) if f"# {name}" in each]
    assert len(blocks) == 1
    return str(blocks[0])


@pytest.fixture(scope="module")
def broker() -> Iterator[PrivateRabbitmq]:
    made = PrivateRabbitmq(Path(tempfile.mkdtemp(prefix="rabbitmq-", dir="/run")))
    try:
        made.start()
        made.run(f"SERVER_PASSWORD={PASSWORD}\n{documented_commands('the broker, once')}")
        for host in HOSTS:
            given = f"HOST={host}\nHOST_PASSWORD={PASSWORD}\n"
            made.run(given + documented_commands("each host"))
        yield made
    finally:
        made.stop()
        gc.collect()


@pytest.fixture
def transport(broker: PrivateRabbitmq, closing: Any) -> Callable[[str], Transport]:
    def made(user: str) -> Transport:
        options = {
            "transport_url": f"rabbit://{user}:{PASSWORD}@127.0.0.1:{PORT}/netfw",
            "reconnect_interval": 0.1,
            "reconnect_interval_max": 0.5,
        }
        transport = create(Transport, "oslo", options, LocalHostResources())
        closing.callback(transport.close)
        return transport

    return made


@pytest.fixture
def channel(broker: PrivateRabbitmq, closing: Any) -> Callable[[], Any]:
    """Return a function that opens channels of an attacker with credentials of the first host."""
    connection = amqp.Connection(
        host=f"127.0.0.1:{PORT}", userid=HOSTS[0], password=PASSWORD, virtual_host="netfw",
        login_method="AMQPLAIN", confirm_publish=True,
    )  # fmt: skip
    connection.connect()
    closing.callback(connection.close)
    channels: Callable[[], Any] = connection.channel
    return channels


def serve(transport: Callable[[str], Transport], handler: Callers) -> Transport:
    """Return a server that has its queue: a host may not check that."""
    server = transport("server")
    server.serve("server", handler)
    transport("server").call(request(), 60)
    return server


def test_hosts_call_and_are_notified_with_users_of_their_own(
    transport: Callable[[str], Transport],
) -> None:
    handler, heard = Callers(), dict[str, set[str]]()
    server = serve(transport, handler)
    handler.seen.clear()
    for host in HOSTS:
        client, heard[host] = transport(host), set()
        for topic in (f"l2.{host}", "l2."):
            client.subscribe(topic, lambda message, at=host: heard[at].add(message.method))
        assert client.call(request(), 60).method == "echo"
    assert {(caller.name, caller.host) for _, caller in handler.seen} == {("broker", None)}
    for host in HOSTS:
        method = f"for-{host}"

        def published(name: str = method, to: str = host) -> bool:
            server.publish(Message(topic=f"l2.{to}", method=name))
            server.publish(Message(topic="l2.", method="for-all"))
            return {name, "for-all"} <= heard[to]

        assert eventually(published)
    assert not any("for-" + one in heard[other] for one, other in (HOSTS, HOSTS[::-1]))


def test_host_cannot_reach_the_queues_of_others(
    transport: Callable[[str], Transport], channel: Callable[[], Any]
) -> None:
    serve(transport, Callers())
    other, subscribed = transport(HOSTS[1]), threading.Event()
    other.subscribe(f"l2.{HOSTS[1]}", lambda message: subscribed.set())
    assert subscribed.wait(60)
    own, message = f"netfw.notification.l2.{HOSTS[0]}.0", amqp.Message("{}")
    victim = f"netfw.notification.l2.{HOSTS[1]}"
    channel().queue_declare(own, auto_delete=True)
    channel().queue_bind(own, "netfw", routing_key=own)
    attacks: dict[str, Callable[[Any], Any]] = {
        "read requests": lambda at: at.basic_consume("netfw.call.server"),
        "read requests by another name": lambda at: at.queue_bind(
            own, "netfw", routing_key="netfw.call.server"
        ),
        "read all": lambda at: at.queue_bind(own, "netfw", routing_key="#"),
        "purge requests": lambda at: at.queue_purge("netfw.call.server"),
        "delete requests": lambda at: at.queue_delete("netfw.call.server"),
        "read notifications": lambda at: at.basic_consume(victim),
        "follow notifications": lambda at: at.queue_bind(own, f"{victim}_fanout"),
        "delete notifications": lambda at: at.exchange_delete(f"{victim}_fanout"),
        "notify others": lambda at: at.basic_publish(message, f"{victim}_fanout", ""),
        "probe others": lambda at: at.basic_publish(message, "netfw", f"{victim}.0"),
        "answer for the server": lambda at: at.basic_publish(message, "", "reply_0"),
        "serve requests": lambda at: at.queue_declare("netfw.call.server.0"),
    }
    for name, attack in attacks.items():
        with pytest.raises(amqp.AccessRefused):
            pytest.fail(f"{name}: {attack(channel())}")
