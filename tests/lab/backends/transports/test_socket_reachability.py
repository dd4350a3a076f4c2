"""A client of the socket transport knows at once that its server is away, and why."""

from __future__ import annotations

import time

import pytest

from netfw.drivers.values.subscription import Service, Subscription
from netfw.errors import BackendUnavailable
from netfw.state.rpc.client import RemoteSource
from tests.lab.backends.transports.raw_client import Callers, eventually, request

LONG = 300.0
"""Seconds; no test waits for so long."""


@pytest.mark.spec("RPC-01")
def test_reason_arises_with_the_loss_of_a_server_and_ends_with_its_return(here, transport):
    address, heard = f"unix:{here}/server.sock", []
    client = transport(connect=address)
    client.subscribe("news", lambda message: heard.append(message.method))
    with pytest.raises(BackendUnavailable):
        client.call(request(), 0.1)
    assert client.unreachable_reason("server") is None, "there was no server yet"
    for _ in range(2):
        heard.clear()
        server = transport(listen=address)
        server.serve("server", Callers())
        assert eventually(lambda: "subscribed" in heard)
        assert client.unreachable_reason("server") is None
        assert server.unreachable_reason("server") is None
        heard.clear()
        server.close()
        assert eventually(lambda: "disconnected" in heard)
        assert address in client.unreachable_reason("server")


@pytest.mark.spec("RPC-01")
def test_reads_and_reports_do_not_wait_for_a_server_that_was_lost(here, transport):
    """Nor does a client without subscriptions miss its return."""
    address = f"unix:{here}/server.sock"
    client = transport(connect=address)
    source = RemoteSource(client, timeout=LONG)
    server = transport(listen=address)
    server.serve("server", Callers())
    client.call(request(), LONG)
    server.close()
    began = time.monotonic()
    assert eventually(lambda: client.unreachable_reason("server"))
    with pytest.raises(BackendUnavailable, match=r"the server is away: .*server\.sock"):
        next(source.snapshot(Subscription("host1", {Service.L2})))
    with pytest.raises(BackendUnavailable, match="the server is away"):
        source.report(())
    assert time.monotonic() - began < LONG / 2
    transport(listen=address).serve("server", Callers())
    assert eventually(lambda: client.unreachable_reason("server") is None)
