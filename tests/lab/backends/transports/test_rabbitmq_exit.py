"""A process that served over RabbitMQ ends although the broker is gone."""

from __future__ import annotations

import gc
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.transport import Transport
from netfw.errors import BackendUnavailable
from netfw.testing.lab.services.rabbitmq import PrivateRabbitmq
from tests.lab.backends.transports.raw_client import request

pytestmark = [
    # kombu leaves sockets of connections that broke to the garbage collector
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
LONG = 120.0
"""Seconds; the end takes a few, and without an end the test fails."""
SERVER = """
import sys
import threading
from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.transport import Transport

def handle(message, caller):
    print("received", flush=True)
    released.wait()
    print("answered", flush=True)
    return message

released = threading.Event()

server = create(Transport, "oslo", {"transport_url": sys.argv[1]}, LocalHostResources())
server.serve("server", handle)
sys.stdin.readline()
released.set()
sys.stdin.readline()
server.close()
"""


@pytest.fixture
def broker() -> Iterator[PrivateRabbitmq]:
    made = PrivateRabbitmq(Path(tempfile.mkdtemp(prefix="rabbitmq-", dir="/run")))
    try:
        yield made.start()
    finally:
        made.stop()
        gc.collect()


@pytest.mark.nightly
@pytest.mark.spec("RPC-01")
def test_server_with_an_answer_that_the_broker_does_not_take_ends(broker: PrivateRabbitmq) -> None:
    options = {"transport_url": broker.url()}
    client = create(Transport, "oslo", options, LocalHostResources())

    def call() -> None:
        with suppress(BackendUnavailable):
            client.call(request(), LONG)

    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, broker.url()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    calling = threading.Thread(target=call)
    calling.start()
    try:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stdout.readline() == "received\n"
        broker.kill()
        server.stdin.write("\n")
        server.stdin.flush()
        assert server.stdout.readline() == "answered\n"
        server.stdin.write("\n")
        server.stdin.flush()
        assert server.wait(LONG) == 0
    finally:
        server.kill()
        server.communicate()
        client.close()
        calling.join()
