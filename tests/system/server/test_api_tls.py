"""The API by TLS."""

from __future__ import annotations

import re
import socket
import ssl
import subprocess
import time
import warnings
from pathlib import Path
from urllib.request import urlopen

import pytest

from netfw.testing.lab import sandbox
from tests.system.server.environment import running_server

SOON = 30.0
"""Seconds; less than until the server gives up clients that send nothing."""


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Return a self-signed certificate for 127.0.0.1; its key is beside it."""
    names = ["-subj", "/CN=netfw", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(
        ["openssl", "req", "-x509", "-nodes", "-newkey", "rsa:2048", *names, *files],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    return tmp_path / "cert.pem"


@pytest.mark.spec("API-15")
def test_tls_is_served_and_nothing_else(tmp_path: Path, certificate: Path) -> None:
    sandbox.require()
    key = certificate.with_name("key.pem")
    api = {"tls_certificate": certificate, "tls_key": key, "threads": 2, "read_timeout": 60}
    with running_server(tmp_path / "run", 9697, api=api) as server:
        trusting = ssl.create_default_context(cafile=str(certificate))
        with urlopen(f"{server.url}/v2.0/networks", context=trusting, timeout=10) as reply:
            assert reply.read() == b'{"networks":[]}'
        assert _versions(server.url, trusting).startswith(b'{"versions"')
        with pytest.raises(OSError):
            urlopen(server.url.replace("https", "http"), timeout=10)
        silent = [socket.create_connection(("127.0.0.1", 9697)) for _ in range(8)]
        began = time.monotonic()
        assert _versions(server.url, trusting).startswith(b'{"versions"')
        assert time.monotonic() - began < SOON, "clients that say nothing hold up the others"
        for each in silent:
            each.close()
        _stall(server.url, trusting)
        _follow_on(trusting)
        with pytest.raises(ssl.SSLError):
            _shake_hands_by(ssl.TLSVersion.TLSv1_1)
        assert "Traceback" not in server.log


def _versions(url: str, context: ssl.SSLContext) -> bytes:
    with urlopen(url, context=context, timeout=60) as reply:
        return bytes(reply.read())


def _stall(url: str, context: ssl.SSLContext) -> None:
    """Check that handshakes and requests that stop in the middle block no others."""
    stalled = [socket.create_connection(("127.0.0.1", 9697)) for _ in range(8)]
    for each in stalled[:4]:
        each.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    shaken = [context.wrap_socket(each, server_hostname="127.0.0.1") for each in stalled[4:]]
    for each in shaken:
        each.sendall(b"GET / HTTP/1.1\r\nHo")
    began = time.monotonic()
    assert _versions(url, context).startswith(b'{"versions"')
    assert time.monotonic() - began < SOON, "clients that stop in the middle hold up the others"
    shaken[0].sendall(b"st: a\r\n\r\n")
    assert shaken[0].recv(100).startswith(b"HTTP/1.1 200 ")
    for each in [*stalled[:4], *shaken]:
        each.close()


def _follow_on(context: ssl.SSLContext) -> None:
    """Check that several requests sent at once, with a long body, are answered in order."""
    body = b'{"network": {"name": "%s"}}' % (b"a" * 200_000)
    head = b"POST /v2.0/networks HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(
        body
    )
    last = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    plain = socket.create_connection(("127.0.0.1", 9697), timeout=10)
    with context.wrap_socket(plain, server_hostname="127.0.0.1") as client:
        client.sendall(last.replace(b"Connection: close\r\n", b"") * 3 + head + body + last)
        message = b""
        while piece := client.recv(65_536):
            message += piece
    statuses = re.findall(rb"HTTP/1\.1 ([0-9]+) ", message)
    assert statuses == [b"200", b"200", b"200", b"400", b"200"]


def _shake_hands_by(version: ssl.TLSVersion) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = version
    with socket.create_connection(("127.0.0.1", 9697), timeout=10) as plain:
        context.wrap_socket(plain).close()
