"""A real netfw-server, and who is who to it: by its unix socket, by TCP, behind a proxy."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from netfw.testing.lab.wait import wait_until
from tests.lab.other_users import run_as

UID, GID = 54321, 54322
PORT = 9696
CONF = """
[DEFAULT]
state_path = {path}
[api]
socket = {path}/api.sock
socket_mode = 0666
bind = 127.0.0.1:9696
[identity]
methods = noauth, tokens, proxy
noauth_other_users = {others}
token_file = {path}/tokens
trusted_proxy_users = 4242
trusted_proxies = 127.0.0.7
"""


class Server:
    """The process, and raw requests to it."""

    def __init__(self, path: Path, others: str) -> None:
        self.path, self.others = path, others
        (path / "netfw.conf").write_text(CONF.format(path=path, others=others))
        (path / "tokens").touch(mode=0o600)
        command = [Path(sys.executable).parent / "netfw-server", "--config-file"]
        with (path / "log").open("wb") as log:
            self.process = subprocess.Popen([*command, path / "netfw.conf"], stderr=log)
        wait_until(self._serves, (path / "log").read_text, seconds=240)

    def _serves(self) -> bool:
        log = (self.path / "log").read_bytes()
        assert self.process.poll() is None, log.decode()
        return b" serves: " in log

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()

    def ask(self, *lines: str, uid: int = 0, source: str | None = None) -> tuple[int, str]:
        """Ask for the networks as a user over the unix socket, or by TCP from *source*."""
        named = any(line.lower().startswith("host:") for line in lines)
        host = () if named else ("Host: localhost",)
        head = ["GET /v2.0/networks HTTP/1.1", "Connection: close", *host, *lines]
        request = "\r\n".join([*head, "", ""]).encode()
        if source is None:
            answer = run_as(uid, GID if uid else 0, lambda: self._answer(request))
        else:
            client = socket.create_connection(("127.0.0.1", PORT), source_address=(source, 0))
            answer = _exchange(client, request)
        text = answer.decode()
        return int(text.split()[1]), text

    def _answer(self, request: bytes) -> bytes:
        client = socket.socket(socket.AF_UNIX)
        client.connect(str(self.path / "api.sock"))
        return _exchange(client, request)


def _exchange(client: socket.socket, request: bytes) -> bytes:
    with client:
        client.sendall(request)
        return b"".join(iter(lambda: client.recv(65536), b""))


@pytest.fixture(scope="module", params=["refused", "members"])
def server(request):
    with tempfile.TemporaryDirectory(dir="/run") as path:
        os.chmod(path, 0o755)
        started = Server(Path(path), request.param)
        try:
            yield started
        finally:
            started.stop()


@pytest.mark.spec("API-10")
def test_unix_socket_client_is_identified_by_peer_credentials(server):
    assert server.ask()[0] == 200
    status, text = server.ask("X-Roles: admin", uid=UID)
    assert status == 401
    assert "WWW-Authenticate: Token" in text
    assert set(json.loads(text.partition("\r\n\r\n")[2])) == {"NeutronError"}
    assert server.ask(uid=UID)[0] == (200 if server.others == "members" else 401)


@pytest.mark.spec("API-10", "API-04")
def test_tcp_client_needs_a_token(server):
    host = "Host: 127.0.0.1"
    assert server.ask(host, source="127.0.0.1")[0] == 401
    command = [Path(sys.executable).parent / "netfw", "token", "alice", "--project", "red"]
    made = subprocess.run(
        [*command, "--file", server.path / "tokens"], capture_output=True, text=True, check=True
    )
    server.process.send_signal(1)
    given = f"X-Auth-Token: {made.stdout.strip()}"
    wait_until(lambda: server.ask(host, given, source="127.0.0.1")[0] == 200, "the new token")
    assert server.ask(host, given + "x", source="127.0.0.1")[0] == 401


@pytest.mark.spec("API-16", "API-13")
def test_identity_headers_are_accepted_only_from_a_trusted_proxy(server):
    headers = ("Host: api", "X-User-Id: alice", "X-Project-Id: red", "X-Roles: member")
    assert server.ask(*headers, source="127.0.0.7")[0] == 200
    assert server.ask(*headers, uid=4242)[0] == 200
    assert server.ask(*headers, source="127.0.0.8")[0] == 401
    assert server.ask(*headers, "X-Roles: admin", source="127.0.0.7")[0] == 400
    # A name with underscores is not the header that the proxy looks after.
    assert server.ask(*headers[:3], "X_Roles: admin", source="127.0.0.7")[0] == 401
    assert server.ask("Host: api", "X-Project-Id: a\x01b", source="127.0.0.7")[0] == 400
