"""Tokens of a server that change while clients are connected."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress

import pytest

from netfw.drivers.values.subscription import Service
from netfw.errors import BackendUnavailable
from tests.lab.backends.transports.raw_client import Callers, eventually, request, token_file

pytestmark = pytest.mark.spec("RPC-06")

ONE, TWO = "one 0123456789abcdef l2", "two 0123456789abcdeg dhcp,metadata"
BOTH = f"{ONE}\n{TWO}\n"


@pytest.fixture
def serve(here, transport):
    """Return a function that serves with both tokens; it returns a client maker and the handler."""

    def started(port):
        where = f"tcp:127.0.0.1:{port}"
        handler = Callers()
        server_tokens = token_file(here / "tokens", BOTH)
        transport(listen=where, token_file=server_tokens).serve("server", handler)

        def client(line):
            own = token_file(here / line.split()[0], f"{line}\n")
            return transport(connect=where, token_file=own)

        return client, handler

    return started


class Connected:
    """Counts the connections of a client: each is confirmed by a notification."""

    def __init__(self, client):
        self.count = 0
        self._changed = threading.Condition()
        client.subscribe("news", self._hear)

    def _hear(self, _message):
        with self._changed:
            self.count += 1
            self._changed.notify_all()

    def wait(self, count):
        with self._changed:
            return self._changed.wait_for(lambda: self.count >= count, 60)


def test_token_determines_the_services_of_a_client(serve):
    client, handler = serve(24120)
    for line in (ONE, TWO, "one 0123456789abcdef"):
        client(line).call(request(), 20)
    assert [(caller.host, caller.services) for _, caller in handler.seen] == [
        ("one", {Service.L2, Service.POPULATION}),
        ("two", {Service.DHCP, Service.METADATA}),
        ("one", {Service.L2, Service.POPULATION}),
    ]


def test_revoked_token_ends_its_connections_and_no_others(here, serve, caplog):
    client, _ = serve(24121)
    one, two = client(ONE), client(TWO)
    lost, kept = Connected(one), Connected(two)
    assert lost.wait(1)
    assert kept.wait(1)
    token_file(here / "tokens", f"{TWO}\n")
    assert eventually(lambda: "its token was revoked" in caplog.text)
    assert eventually(lambda: "a wrong token for host 'one'" in caplog.text), "it tries again"
    with pytest.raises(BackendUnavailable):
        one.call(request(), 0.5)
    two.call(request(), 20)
    assert kept.count == 1, "it was not disconnected"
    token_file(here / "tokens", BOTH)
    one.call(request(), 60)
    assert lost.wait(2)


def test_last_token_can_be_revoked(here, serve, caplog):
    client, _ = serve(24122)
    one = client(ONE)
    assert Connected(one).wait(1)
    token_file(here / "tokens", f"# {ONE}\n")
    assert eventually(lambda: "its token was revoked" in caplog.text)
    with pytest.raises(BackendUnavailable):
        one.call(request(), 0.5)


def test_changed_services_of_a_token_apply_to_open_connections(here, serve):
    client, handler = serve(24123)
    one = client(ONE)
    assert Connected(one).wait(1)
    token_file(here / "tokens", f"{ONE},l3\n")

    def services():
        with suppress(BackendUnavailable):  # a call under way ends with the connection
            one.call(request(), 20)
        return handler.seen[-1][1].services if handler.seen else ()

    assert eventually(lambda: Service.L3 in services())


def broken_files(path):
    """Break the file in several ways, one after the other."""
    token_file(path, "one short\n")
    yield "line 1"
    path.unlink()
    yield "no such file"
    path.mkdir()
    yield "Is a directory"
    path.rmdir()
    token_file(path, BOTH)
    path.chmod(0o644)
    yield "other users can read"
    path.unlink()


def test_unreadable_file_keeps_the_former_tokens_and_is_retried(here, serve, caplog):
    caplog.set_level(logging.INFO)
    client, _ = serve(24124)
    one = client(ONE)
    connected = Connected(one)
    assert connected.wait(1)
    for problem in broken_files(here / "tokens"):
        assert eventually(lambda text=problem: text in caplog.text)
        client(TWO).call(request(), 20)
        one.call(request(), 20)
    assert connected.count == 1, "it was never disconnected"
    token_file(here / "tokens", f"{TWO}\n")
    assert eventually(lambda: "its token was revoked" in caplog.text)
    assert caplog.text.count("the former tokens stay valid") < 20, "each problem is logged once"


def test_certificate_binds_its_host_unless_an_option_says_otherwise(here, transport, authority):
    handler = Callers()
    made = authority.vouch_for("server", "IP:127.0.0.1"), authority.vouch_for("compute-7")
    server, client = (
        {
            "tls_certificate": str(each.certificate),
            "tls_key": str(each.key),
            "tls_ca": str(authority.certificate),
        }
        for each in made
    )
    for port, options in ((24125, {}), (24126, {"certificate_is_host": False})):
        where = f"tls:127.0.0.1:{port}"
        transport(listen=where, **server, **options).serve("server", handler)
        transport(connect=where, **client).call(request(), 20)
    assert [caller.host for _, caller in handler.seen] == ["compute-7", None]
