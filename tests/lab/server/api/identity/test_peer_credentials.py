"""Who is at the other end of a real unix socket: a process of another user, as the kernel says."""

from __future__ import annotations

import os
import socket

import pytest

from netfw.errors import Unauthorized
from netfw.linux.sockets.peer_credentials import read_peer_credentials
from netfw.server.api.identity.factory import Methods
from netfw.server.api.identity.noauth import NoAuth
from netfw.server.api.identity.proxy import TrustedProxy

UID, GID = 54321, 54322


def connected_as(uid, gid, path):
    """Return the credentials of a connection that a process of that user made."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        os.chmod(path, 0o777)
        listener.listen()
        child = os.fork()
        if child == 0:
            os.setgroups([])
            os.setgid(gid)
            os.setuid(uid)
            client = socket.socket(socket.AF_UNIX)
            client.connect(str(path))
            client.recv(1)
            os._exit(0)
        connection, _ = listener.accept()
        with connection:
            credentials = read_peer_credentials(connection)
            connection.send(b".")
        os.waitpid(child, 0)
    return credentials.pid, credentials.uid, credentials.gid


@pytest.fixture
def environ(tmp_path):
    for directory in (tmp_path, *tmp_path.parents[:2]):
        os.chmod(directory, 0o755)

    def made(uid, gid, **headers):
        place = tmp_path / f"{uid}.sock"
        place.unlink(missing_ok=True)
        credentials = connected_as(uid, gid, place)
        assert credentials[1:] == (uid, gid)
        return {"netfw.peer_credentials": credentials, **headers}

    return made


@pytest.mark.spec("API-10")
def test_root_is_an_administrator_and_another_user_is_refused(environ):
    identity = Methods([NoAuth(admin_uids=frozenset({0}))], lambda who: "admin" in who.roles)
    assert identity(environ(0, 0)).admin
    with pytest.raises(Unauthorized, match="admin_users"):
        identity(environ(UID, GID, HTTP_X_ROLES="admin"))


@pytest.mark.spec("API-10")
def test_a_named_group_is_let_in(environ):
    noauth = NoAuth(admin_uids=frozenset({0}), admin_gids=frozenset({GID}))
    assert Methods([noauth], lambda who: "admin" in who.roles)(environ(UID, GID)).admin


@pytest.mark.spec("API-16")
def test_proxy_is_trusted_by_its_user(environ):
    proxy = TrustedProxy(uids=frozenset({UID}))
    headers = {"HTTP_X_USER_ID": "alice", "HTTP_X_PROJECT_ID": "red", "HTTP_X_ROLES": "member"}
    identity = Methods([proxy], lambda who: "admin" in who.roles)
    assert identity(environ(UID, GID, **headers)).project_id == "red"
    with pytest.raises(Unauthorized, match="trusted_prox"):
        identity(environ(0, 0, **headers))
