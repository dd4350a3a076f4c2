"""Who may use a transport without a broker, and who may not."""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
import threading
import time
import warnings

import pytest

from netfw.errors import BackendUnavailable, ConfigError
from netfw.testing.lab.services.certificates import PrivateAuthority
from netfw_drivers.transports.sockets.framing import FrameReader, encode
from tests import ROOT
from tests.lab.backends.transports.raw_client import (
    LONG,
    Callers,
    RawClient,
    eventually,
    make,
    request,
    token_file,
)

pytestmark = pytest.mark.spec("RPC-06")

TOKEN = "0123456789abcdef0123456789abcdef"
CALL_AS_ANOTHER_USER = """
import os, sys
from tests.lab.backends.transports.raw_client import make, request
client = make(connect=sys.argv[1])  # what is imported may be readable for root only
os.setgroups([int(sys.argv[2])] if sys.argv[2] else [])
os.setresgid(65534, 65534, 65534)
os.setresuid(54321, 54321, 54321)
try:
    print(client.call(request("spy"), float(sys.argv[3])).method)
except Exception as exc:
    print(type(exc).__name__, exc)
client.close()
"""


def call_as_another_user(where, group="", seconds=LONG):
    """Send a request as another user, and return the answer."""
    argv = [sys.executable, "-c", CALL_AS_ANOTHER_USER, where, group, str(seconds)]
    return subprocess.run(
        argv, cwd=ROOT, check=True, capture_output=True, text=True, timeout=2 * LONG
    ).stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_unix_peer_is_identified_by_its_credentials(here, transport, caplog):
    handler = Callers()
    where = f"unix:{here}/s"
    transport(listen=where, socket_mode="0666").serve("server", handler)
    output = call_as_another_user(where)
    assert "BackendUnavailable" in output
    assert "user 54321 is not allowed" in output
    assert "user 54321" in caplog.text
    transport(connect=where).call(request("friend"), LONG)
    assert [(method, caller.name) for method, caller in handler.seen] == [("friend", "uid:0")]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_users_and_groups_can_be_allowed(here, transport):
    handler = Callers()
    where = [f"unix:{here}/{name}" for name in ("user", "group", "neither")]
    transport(listen=where[0], socket_mode="0666", allowed_users="54321").serve("server", handler)
    transport(listen=where[1], socket_mode="0666", allowed_groups="777").serve("server", handler)
    transport(listen=where[2], socket_mode="0666", allowed_users="root").serve("server", handler)
    assert call_as_another_user(where[0]).strip() == "spy"
    assert call_as_another_user(where[1], "777").strip() == "spy"
    assert "not allowed" in call_as_another_user(where[1], "778")
    assert "not allowed" in call_as_another_user(where[2], "777")
    assert {caller.name for _, caller in handler.seen} == {"uid:54321"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_user_without_write_permission_cannot_connect(here, transport, caplog):
    where = f"unix:{here}/s"
    transport(listen=where, allowed_users="54321").serve("server", Callers())
    assert os.stat(here / "s").st_mode & 0o777 == 0o660
    assert eventually(lambda: "Permission denied" in call_as_another_user(where, seconds=1.5))


def test_a_user_that_does_not_exist_is_a_fault_of_the_configuration(here, transport):
    server = transport(listen=f"unix:{here}/s", allowed_users="nobody-of-that-name")
    with pytest.raises(ConfigError, match="nobody-of-that-name"):
        server.serve("server", Callers())
    assert not list(here.iterdir())


def test_token_determines_the_host_of_a_client(here, transport):
    handler = Callers()
    where = "tcp:127.0.0.1:24100"
    server_tokens = token_file(here / "all", f"any-{TOKEN}\nhost1 one-{TOKEN}\nhost2 two-{TOKEN}\n")
    transport(listen=where, token_file=server_tokens).serve("server", handler)
    for name, text in (("one", f"host1 one-{TOKEN}\n"), ("any", f"any-{TOKEN}\n")):
        client = transport(connect=where, token_file=token_file(here / name, text))
        client.call(request(name), LONG)
    wrong = {
        "another's": f"host2 one-{TOKEN}\n",
        "nobody's": f"host3 one-{TOKEN}\n",
        "every": f"one-{TOKEN}\n",
    }
    for text in wrong.values():
        client = transport(connect=where, token_file=token_file(here / "wrong", text))
        with pytest.raises(BackendUnavailable, match="does not know that token"):
            client.call(request("spy"), LONG)
    assert [(method, caller.host) for method, caller in handler.seen] == [
        ("one", "host1"),
        ("any", None),
    ]


def test_a_token_can_be_replaced_while_a_server_runs(here, transport):
    where = "tcp:127.0.0.1:24101"
    tokens = token_file(here / "t", f"{TOKEN}\n")
    transport(listen=where, token_file=tokens).serve("server", Callers())
    transport(connect=where, token_file=tokens).call(request(), LONG)
    fresh = token_file(here / "fresh", f"new-{TOKEN}\n")
    token_file(here / "t", f"new-{TOKEN}\n")
    assert transport(connect=where, token_file=fresh).call(request(), LONG)


def test_token_is_never_sent_and_a_peer_without_it_is_no_server(here, transport):
    # Another process listens at the port while the server is away.
    heard: list[bytes] = []

    def squat(squatter, *frames):
        connection, _ = squatter.accept()
        with connection:
            reader = FrameReader(1 << 20)
            for frame in frames:
                connection.sendall(encode(frame))
                if frame["kind"] == "prove":
                    while reader.next() is None:
                        data = connection.recv(65536)
                        heard.append(data)
                        reader.add(data)
            heard.append(connection.recv(65536))

    welcome = {"kind": "welcome", "protocol": 2, "proof": "00" * 32, "limit": 1 << 20}
    cases = {
        24102: [welcome],
        24112: [{"kind": "prove", "protocol": 2, "nonce": "11" * 16}, welcome],
    }
    for port, frames in cases.items():
        squatter = socket.create_server(("127.0.0.1", port))
        thread = threading.Thread(target=squat, args=(squatter, *frames))
        thread.start()
        client = transport(
            connect=f"tcp:127.0.0.1:{port}", token_file=token_file(here / "t", f"{TOKEN}\n")
        )
        with pytest.raises(BackendUnavailable, match="it is no server"):
            client.call(request("secret", b"secret"), LONG)
        client.close()
        thread.join()
        squatter.close()
    assert TOKEN.encode() not in b"".join(heard)
    assert b"secret" not in b"".join(heard)


def test_frames_before_authentication_are_refused(here, transport, raw, caplog):
    handler = Callers()
    tokens = token_file(here / "t", f"{TOKEN}\n")
    transport(listen="tcp:127.0.0.1:24103", token_file=tokens).serve("server", handler)
    for header in (
        {"kind": "call", "number": 1, "topic": "server", "method": "spy", "version": "",
         "request_id": ""},
        {"kind": "subscribe", "topics": ["news"]},
        {"kind": "proof", "host": "*", "nonce": "", "proof": ""},
        {"kind": "proof", "host": "*", "nonce": 7, "proof": ""},
        {"kind": "proof"},
        {"kind": None},
    ):  # fmt: skip
        client: RawClient = raw(("127.0.0.1", 24103))
        assert client.receive().kind == "prove"
        client.send(**header)
        assert client.is_dropped(LONG)
    assert not handler.seen
    assert caplog.text.count("refused 127.0.0.1 port") == 6


@pytest.fixture
def other_authority(here):
    """Return an authority that signs certificates that are not to be trusted."""
    return PrivateAuthority(here / "other-ca", "somebody else")


def test_tls_admits_only_clients_with_a_certificate_of_the_authority(
    here, transport, authority, other_authority, caplog
):
    handler = Callers()
    server = authority.vouch_for("server", "IP:127.0.0.1")
    tls = {
        "tls_certificate": str(server.certificate),
        "tls_key": str(server.key),
        "tls_ca": str(authority.certificate),
    }
    where = "tls:127.0.0.1:24104"
    transport(listen=where, **tls).serve("server", handler)

    def client(issuer, name, ca=authority):
        certificate = issuer.vouch_for(name)
        return transport(
            connect=where,
            tls_certificate=str(certificate.certificate),
            tls_key=str(certificate.key),
            tls_ca=str(ca.certificate),
        )

    client(authority, "compute-7").call(request("friend"), LONG)
    strangers = {
        "a certificate of somebody else": client(other_authority, "compute-7"),
        "no certificate": transport(connect=where, tls_ca=str(authority.certificate)),
    }
    for who, stranger in strangers.items():
        caplog.clear()
        stranger.subscribe("news", lambda message: None)  # so that it tries again and again
        assert eventually(lambda: "refused 127.0.0.1 port" in caplog.text), who
        reason = "during the handshake: the log of the server has the reason"
        assert eventually(lambda text=reason: text in caplog.text), who
        with pytest.raises(BackendUnavailable):
            pytest.fail(f"{who}: {stranger.call(request('spy'), 0.7)}")
        stranger.close()
    suspicious = client(authority, "compute-7", ca=other_authority)
    with pytest.raises(BackendUnavailable, match=r"certificate verify failed.*; check tls_ca"):
        suspicious.call(request("spy"), LONG)
    assert [(method, caller.host) for method, caller in handler.seen] == [("friend", "compute-7")]


def test_a_server_with_another_name_is_not_believed(here, transport, authority):
    server = authority.vouch_for("elsewhere")
    transport(
        listen="tls:127.0.0.1:24105",
        tls_certificate=str(server.certificate),
        tls_key=str(server.key),
        token_file=token_file(here / "t", f"{TOKEN}\n"),
    ).serve("server", Callers())
    client = transport(
        connect="tls:127.0.0.1:24105",
        tls_ca=str(authority.certificate),
        token_file=str(here / "t"),
    )
    with pytest.raises(BackendUnavailable, match="IP address mismatch"):
        client.call(request("spy"), LONG)


def test_certificate_and_token_must_speak_for_the_same_host(here, transport, authority, caplog):
    handler = Callers()
    server = authority.vouch_for("server2", "IP:127.0.0.1")
    where = "tls:127.0.0.1:24106"
    tokens = token_file(here / "all", f"host1 one-{TOKEN}\nhost2 two-{TOKEN}\n")
    ca = {"tls_ca": str(authority.certificate)}
    transport(
        listen=where, token_file=tokens, **ca,
        tls_certificate=str(server.certificate), tls_key=str(server.key),
    ).serve("server", handler)  # fmt: skip
    certificate = authority.vouch_for("host1")
    for name, text in (("own", f"host1 one-{TOKEN}\n"), ("other", f"host2 two-{TOKEN}\n")):
        client = transport(
            connect=where, token_file=token_file(here / name, text), **ca,
            tls_certificate=str(certificate.certificate), tls_key=str(certificate.key),
        )  # fmt: skip
        if name == "own":
            client.call(request(name), LONG)
        else:
            with pytest.raises(BackendUnavailable):  # it connects again and again until then
                client.call(request(name), 2)
    assert eventually(lambda: "speaks for another host" in caplog.text)
    assert [(method, caller.host) for method, caller in handler.seen] == [("own", "host1")]


def test_client_that_is_closed_while_it_connects_leaves_no_socket(here, transport, authority):
    server, certificate = (
        authority.vouch_for("server3", "IP:127.0.0.1"),
        authority.vouch_for("host3"),
    )
    where, ca = "tls:127.0.0.1:24107", {"tls_ca": str(authority.certificate)}
    own = {"tls_certificate": str(server.certificate), "tls_key": str(server.key)}
    transport(listen=where, **ca, **own).serve("server", Callers())
    own = {"tls_certificate": str(certificate.certificate), "tls_key": str(certificate.key)}
    gc.collect()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for number in range(200):
            client = make(connect=where, **ca, **own)
            client.subscribe("news", lambda message: None)
            time.sleep(number * 0.0001)  # another moment of the attempt each time
            client.close()
            del client
            gc.collect()
    assert not [each for each in found if "unclosed" in str(each.message)]
