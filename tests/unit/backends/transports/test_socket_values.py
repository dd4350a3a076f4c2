"""Frames, addresses, tokens and options of the transport without a broker."""

import json
import os
import ssl
import struct
from contextlib import suppress
from queue import SimpleQueue

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netfw.drivers.registry.loader import check_options, create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.transport import Message, Transport
from netfw.drivers.values.subscription import Service
from netfw.errors import ConfigError
from netfw_drivers.transports.sockets import tokens
from netfw_drivers.transports.sockets.address import (
    OpenSocket,
    TcpAddress,
    UnixAddress,
    parse_address,
)
from netfw_drivers.transports.sockets.authentication import (
    PeerAuthenticator,
    client_context,
    server_context,
)
from netfw_drivers.transports.sockets.framing import FrameReader, Malformed, encode, encode_message
from netfw_drivers.transports.sockets.options import Tls, settings_from
from netfw_drivers.transports.sockets.token_cache import TokenCache
from netfw_drivers.transports.sockets.transport import SocketTransport

MESSAGES = st.builds(
    Message,
    topic=st.text(max_size=20),
    method=st.text(max_size=20),
    version=st.text(max_size=5),
    body=st.binary(max_size=200),
    request_id=st.text(max_size=20),
)


@settings(max_examples=30, deadline=None)
@given(st.lists(MESSAGES, max_size=4), st.lists(st.integers(1, 50), max_size=20))
def test_frames_arrive_in_whatever_pieces(messages, pieces):
    data = b"".join(encode_message("call", each, number=n) for n, each in enumerate(messages))
    reader, arrived = FrameReader(10_000), []
    while data:
        size = pieces.pop() if pieces else len(data)
        reader.add(data[:size])
        data = data[size:]
        while (frame := reader.next()) is not None:
            arrived.append(frame)
    assert [frame.message() for frame in arrived] == messages
    assert [frame.number for frame in arrived] == list(range(len(messages)))
    assert not reader.halfway


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=60))
def test_what_is_no_frame_is_malformed_or_unfinished(data):
    reader = FrameReader(1000)
    reader.add(data)
    with suppress(Malformed):
        while (frame := reader.next()) is not None:
            assert isinstance(frame.header, dict)
            frame.message()


def test_a_frame_that_is_too_large_is_refused_by_its_length_alone():
    reader = FrameReader(1000)
    reader.add(struct.pack("!I", 1001))
    with pytest.raises(Malformed, match="1001 bytes is larger than the limit of 1000"):
        reader.next()
    assert not reader.halfway


@pytest.mark.parametrize(
    "frame",
    [b"", b"\0", b"\0\5abc", b"\0\2[]", b"\0\1{", b"\0\3\xff\xff\xff", b"\xff\xff" + b"[" * 65535],
)
def test_headers_that_cannot_be_read_are_malformed(frame):
    reader = FrameReader(100_000)
    reader.add(struct.pack("!I", len(frame)) + frame)
    with pytest.raises(Malformed):
        reader.next()


@pytest.mark.parametrize(
    ("header", "ask"),
    [
        ({"kind": 7}, lambda frame: frame.kind),
        ({"number": True}, lambda frame: frame.number),
        ({"number": "1"}, lambda frame: frame.number),
        ({"topics": ["a", 1]}, lambda frame: frame.texts("topics")),
        ({"topics": "a"}, lambda frame: frame.texts("topics")),
        ({"timeout": -1}, lambda frame: frame.amount("timeout", 1)),
        ({"timeout": "1"}, lambda frame: frame.amount("timeout", 1)),
        ({"topic": "a", "method": None}, lambda frame: frame.message()),
        ({"nonce": "\ud800"}, lambda frame: frame.text("nonce")),
        ({"topics": ["\ud800"]}, lambda frame: frame.texts("topics")),
    ],
)
def test_fields_of_the_wrong_kind_are_malformed(header, ask):
    reader = FrameReader(1000)
    reader.add(encode(header))
    with pytest.raises(Malformed):
        ask(reader.next())


def test_a_number_that_is_none_is_malformed():
    head = b'{"timeout": NaN}'
    reader = FrameReader(1000)
    reader.add(struct.pack("!IH", 2 + len(head), len(head)) + head)
    with pytest.raises(Malformed):
        reader.next().amount("timeout", 1)
    assert json.loads(head)["timeout"] != 0


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("unix:/run/a b.sock", UnixAddress("/run/a b.sock")),
        ("tcp:127.0.0.1:5000", TcpAddress("127.0.0.1", 5000, False)),
        ("tls:[2001:db8::1]:5000", TcpAddress("2001:db8::1", 5000, True)),
        ("tls:server.example:5000", TcpAddress("server.example", 5000, True)),
        ("fd:7", OpenSocket(7)),
    ],
)
def test_addresses_are_read_as_they_are_written(text, address):
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text",
    ["", "unix:", "unix:relative", "unix:/" + "x" * 200, "tcp:1.2.3.4", "tcp::5", "tcp:a:70000",
     "tcp:a:b", "udp:a:5", "fd:x", "fd:-1", "127.0.0.1:5"],
)  # fmt: skip
def test_what_is_no_address_is_refused_with_a_hint(text):
    with pytest.raises(ConfigError):
        parse_address(text)


def test_only_addresses_of_this_machine_are_loopback():
    hosts = {"127.0.0.1": True, "127.8.8.8": True, "::1": True, "localhost": True,
             "0.0.0.0": False, "::": False, "192.0.2.1": False, "elsewhere": False}  # fmt: skip
    assert {host: TcpAddress(host, 1, False).is_loopback for host in hosts} == hosts


def test_tokens_are_read_line_by_line():
    text = "# a comment\n\nfor-every-host-here-1\ncompute-7 0123456789abcdef\n"
    assert tokens.parse_tokens(text, "f") == (
        tokens.Token("*", "for-every-host-here-1"),
        tokens.Token("compute-7", "0123456789abcdef"),
    )
    assert [each.speaks_for for each in tokens.parse_tokens(text, "f")] == [None, "compute-7"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("short\n", "at least 16"),
        ("a b ccccccccccccccccccc\n", "at least 16"),
        ("0123456789abcdef l2\n", "at least 16"),
        ("a 0123456789abcdef l2 dhcp\n", "commas and no spaces"),
        ("a 0123456789abcdef l2, dhcp\n", "commas and no spaces"),
        ("a 0123456789abcdef l2,dhpc\n", "'dhpc' is no service .*did you mean 'dhcp'"),
        ("a 0123456789abcdef population\n", "is no service"),
        ("0123456789abcdef\n0123456789abcdef\n", "line 2: has the host and token of line 1"),
        ("".join(f"a 0123456789abcde{each}\n" for each in range(9)), "9 tokens"),
    ],
)
def test_what_is_no_token_is_refused(text, problem):
    with pytest.raises(ConfigError, match=problem):
        tokens.parse_tokens(text, "f")


def test_words_that_may_be_a_secret_are_not_quoted():
    secret = "0123456789abcdef"
    with pytest.raises(ConfigError, match="the third word names no service") as caught:
        tokens.parse_tokens(f"a l2,dhcp,l3,metadata {secret}\n", "f")
    assert secret not in str(caught.value)


def test_a_host_may_have_tokens_for_each_of_its_agents():
    text = "a 0123456789abcdef l2\na 0123456789abcdeg dhcp,metadata\n* 0123456789abcdeh l3\n"
    found = tokens.parse_tokens(text, "f")
    assert [(each.speaks_for, each.services) for each in found] == [
        ("a", {Service.L2, Service.POPULATION}),
        ("a", {Service.DHCP, Service.METADATA}),
        (None, {Service.L3}),
    ]
    assert tokens.by_host(found) == {"a": found[:2], "*": found[2:]}
    for token in found:
        given = tokens.proof(token, "client", "n", "m")
        assert tokens.find_proven(given, tokens.by_host(found)[token.host], "n", "m") == token
        assert tokens.find_proven(given, (), "n", "m") is None
        assert (
            tokens.find_proven(given, found[2:] if token.host == "a" else found[:2], "n", "m")
            is None
        )


def test_tokens_that_hosts_share_are_warned_of(tmp_path, caplog):
    path = tmp_path / "tokens"
    path.touch(mode=0o600)
    path.write_text("a 0123456789abcdef l2\nb 0123456789abcdef l2\nc 0123456789abcdeg l2\n")
    TokenCache(str(path))
    assert [record.getMessage() for record in caplog.records] == [
        f"token_file: {path} has the same token for hosts a, b: each of them can act for the "
        "others; give each host a token of its own"
    ]
    caplog.clear()
    path.write_text("a 0123456789abcdef l2\nb 0123456789abcdeg l2\na 0123456789abcdeh dhcp\n")
    TokenCache(str(path))
    assert not caplog.records


@pytest.mark.parametrize("text", ["", "# only\n"])
def test_file_without_a_token_is_refused(tmp_path, text):
    path = tmp_path / "tokens"
    path.touch(mode=0o600)
    path.write_text(text)
    with pytest.raises(ConfigError, match="has no token"):
        tokens.require_tokens(str(path))


def test_world_readable_tokens_are_refused(tmp_path):
    path = tmp_path / "tokens"
    path.write_text("0123456789abcdef\n")
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod"):
        tokens.read_tokens(str(path))
    path.chmod(0o640)
    assert len(tokens.read_tokens(str(path))) == 1
    with pytest.raises(ConfigError, match="cannot be read"):
        tokens.read_tokens(str(tmp_path / "absent"))


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        (
            "token_file",
            "/nowhere",
            "the tokens in /nowhere cannot be read: there is no such file; write lines of HOST "
            "TOKEN SERVICES into it, with tokens of `openssl rand -hex 32`",
        ),
        (
            "token_file",
            "/",
            f"the tokens in / cannot be read by user {os.geteuid()}: Is a directory",
        ),
        ("allowed_users", ["nobody-of-that-name"], "there is no user 'nobody-of-that-name'"),
        ("allowed_groups", ["nobody-of-that-name"], "there is no group 'nobody-of-that-name'"),
    ],
)
def test_a_server_names_the_option_of_what_is_missing(option, value, problem):
    options = check_options("socket", SocketTransport, {option: value})
    with pytest.raises(ConfigError) as refusal:
        PeerAuthenticator(settings_from(options))
    assert str(refusal.value) == f"[socket] {option}: {problem}"


@pytest.mark.parametrize(
    ("option", "tls"),
    [
        ("tls_ca", Tls(authorities="/nowhere.pem")),
        ("tls_certificate", Tls(certificate="/nowhere.pem", key="/nowhere.pem")),
        ("tls_key", Tls(certificate=__file__, key="/nowhere.pem")),
    ],
)
def test_missing_files_of_tls_are_named(option, tls):
    with pytest.raises(ConfigError, match=rf"\[socket\] {option}: .*'/nowhere.pem'"):
        server_context(tls)


def test_files_of_tls_without_a_certificate_are_named():
    with pytest.raises(ConfigError, match=r"\[socket\] tls_ca: .*test_socket_values.py .*PEM"):
        client_context(Tls(authorities=__file__))
    with pytest.raises(ConfigError, match=r"\[socket\] tls_certificate and tls_key: .*PEM"):
        server_context(Tls(certificate=__file__, key=__file__))


def test_a_proof_is_for_one_token_one_side_and_one_conversation():
    token = tokens.Token("*", "0123456789abcdef")
    good = tokens.proof(token, "client", "a", "b")
    assert tokens.proves(good, token, "client", "a", "b")
    for other in (
        (tokens.Token("*", "0123456789abcdeF"), "client", "a", "b"),
        (tokens.Token("x", "0123456789abcdef"), "client", "a", "b"),
        (token, "server", "a", "b"),
        (token, "client", "b", "a"),
    ):
        assert not tokens.proves(good, *other)
    assert not tokens.proves("ä", token, "client", "a", "b")


def settings_of(**options):
    return settings_from(check_options("socket", SocketTransport, options))


def test_without_options_it_is_a_socket_of_this_host():
    made = settings_of()
    assert made.listen == made.connect == (UnixAddress("/var/lib/netfw/messages.sock"),)
    assert made.socket_mode == 0o660


@pytest.mark.spec("RPC-06")
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"listen": "tcp:127.0.0.1:5"}, "token_file"),
        (
            {"listen": "tcp:0.0.0.0:5", "token_file": "t"},
            "tls:0.0.0.0:5, or set allow_plaintext_tcp",
        ),
        ({"listen": "tls:0.0.0.0:5", "token_file": "t"}, "tls_certificate"),
        ({"listen": "tls:0.0.0.0:5", "tls_certificate": "c", "tls_key": "k"}, "tls_ca"),
        ({"connect": "tcp:127.0.0.1:5"}, "token_file"),
        ({"connect": "tcp:192.0.2.1:5", "token_file": "t"}, "allow_plaintext_tcp"),
        ({"connect": "fd:3"}, "only for listening"),
        ({"socket_mode": "rw"}, "octal"),
        ({"socket_mode": "1777"}, "0777"),
        ({"transfer_timeout": "nan"}, "transfer_timeout"),
        ({"reconnect_interval": 0}, "reconnect_interval"),
    ],
)
def test_what_would_admit_strangers_or_cannot_be_is_refused(options, says):
    with pytest.raises(ConfigError) as refusal:
        settings_of(**options)
    assert says in str(refusal.value)


def test_what_is_safe_is_accepted():
    settings_of(listen="tcp:127.0.0.1:5,unix:/a", token_file="t")
    settings_of(listen="tcp:0.0.0.0:5", token_file="t", allow_plaintext_tcp=True)
    settings_of(listen="tls:0.0.0.0:5", tls_certificate="c", tls_key="k", tls_ca="a")
    settings_of(listen="", connect="tls:server:5")


def test_making_one_touches_nothing_and_closing_it_starts_nothing():
    transport = create(Transport, "socket", {}, LocalHostResources())
    assert transport.describe().name == "socket"
    transport.publish(Message(topic="news", method="notification"))
    transport.close()
    transport.close()


def test_files_that_are_missing_are_said_without_anything_being_started(tmp_path):
    options = {"token_file": str(tmp_path / "tokens"), "tls_ca": str(tmp_path / "ca.pem")}
    transport = create(Transport, "socket", options, LocalHostResources())
    assert ["tokens" in fault or "tls_ca" in fault for fault in transport.problems()] == [
        True,
        True,
    ]
    assert create(Transport, "socket", {}, LocalHostResources()).problems() == ()


def test_check_of_options_does_not_load_the_authorities_of_the_system(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Loading them takes 50 ms of CPU, and most agents have no connection with TLS.
    loaded: list[ssl.SSLContext] = []
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", loaded.append)
    assert create(Transport, "socket", {}, LocalHostResources()).problems() == ()
    assert not loaded


@pytest.mark.spec("RPC-01")
def test_within_one_process_nothing_needs_to_listen():
    transport = create(Transport, "socket", {"listen": "", "connect": ""}, LocalHostResources())
    received = SimpleQueue()
    try:
        stop = transport.serve("server", lambda message, caller: message)
        transport.subscribe("news", received.put)
        message = Message(topic="server", method="echo", body=b"x")
        assert transport.call(message, 5) == message
        assert received.get(timeout=60).method == "subscribed"
        stop()
    finally:
        transport.close()
    assert received.empty()
