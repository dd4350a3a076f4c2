"""A client of the socket transport knows at once that its server is away, and why."""

from __future__ import annotations

import time

import pytest

from netfw.drivers.values.subscription import Service, Subscription
from netfw.errors import BackendUnavailable
from netfw.state.rpc.client import RemoteSource
from tests.lab.backends.transports.raw_client import Callers, eventually, request, token_file

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


@pytest.mark.parametrize("address", ["unix:{here}/server.sock", "tcp:127.0.0.1:24110"])
def test_address_where_nothing_listens_is_logged_with_its_option(here, transport, caplog, address):
    line = token_file(here / "client", "host1 0123456789abcdef\n")
    client = transport(connect=address.format(here=here), token_file=line)
    client.subscribe("news", lambda message: None)
    assert eventually(lambda: "not connected to" in caplog.text)
    assert "; is the server running, and is this its address ([socket] connect)?" in caplog.text


@pytest.mark.spec("RPC-01")
def test_reads_and_reports_do_not_wait_for_a_server_that_was_lost(here, transport):
    # A client without subscriptions does not miss its return either.
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


@pytest.mark.spec("RPC-01")
def test_refusal_is_a_reason_before_the_first_connection_and_ends_calls_at_once(here, transport):
    address, methods = "tcp:127.0.0.1:24108", []
    known, own = "host1 0123456789abcdef", "host1 fedcba9876543210"
    tokens = token_file(here / "server", f"{known}\n")
    transport(listen=address, token_file=tokens).serve("server", Callers())
    client = transport(connect=address, token_file=token_file(here / "client", f"{own}\n"))
    source = RemoteSource(client, timeout=LONG)
    client.subscribe("news", lambda message: methods.append(message.method))
    began = time.monotonic()
    with pytest.raises(BackendUnavailable, match="does not know that token"):
        next(source.snapshot(Subscription("host1", {Service.L2})))
    with pytest.raises(BackendUnavailable, match="does not know that token"):
        client.call(request(), LONG)
    assert time.monotonic() - began < LONG / 2
    assert address in client.unreachable_reason("server")
    assert eventually(lambda: methods == ["disconnected"])
    token_file(here / "server", f"{known}\n{own}\n")
    client.call(request(), LONG)
    assert client.unreachable_reason("server") is None


@pytest.mark.spec("RPC-01")
def test_token_file_that_vanishes_is_a_reason_until_it_is_back(here, transport):
    address, line = "tcp:127.0.0.1:24109", "host1 0123456789abcdef"
    options = {"token_file": token_file(here / "server", f"{line}\n")}
    server = transport(listen=address, **options)
    server.serve("server", Callers())
    client = transport(connect=address, token_file=token_file(here / "client", f"{line}\n"))
    client.call(request(), LONG)
    (here / "client").unlink()
    server.close()
    transport(listen=address, **options).serve("server", Callers())
    assert eventually(lambda: "no such file" in str(client.unreachable_reason("server")))
    with pytest.raises(BackendUnavailable, match="no such file"):
        client.call(request(), LONG)
    token_file(here / "client", f"{line}\n")
    assert eventually(lambda: client.unreachable_reason("server") is None)
