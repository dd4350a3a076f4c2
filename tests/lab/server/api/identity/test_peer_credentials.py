"""Who is at the other end of a real unix socket: a process of another user, as the kernel says."""

from __future__ import annotations

import os
import socket
import tempfile

import pytest

from netfw.errors import Unauthorized
from netfw.linux.sockets.peer_credentials import PeerCredentials, read_peer_credentials
from netfw.server.api.identity.factory import Methods
from netfw.server.api.identity.noauth import NoAuth
from netfw.server.api.identity.proxy import TrustedProxy
from tests.lab.other_users import run_as

UID, GID = 54321, 54322


def environ(uid: int, gid: int, **headers: str) -> dict[str, object]:
    """Return the environ of a request from a process of that user."""
    # Not in a directory of pytest: every run closes the one that all share to other users.
    with tempfile.TemporaryDirectory(dir="/run") as directory:
        os.chmod(directory, 0o755)
        credentials = credentials_of(uid, gid, f"{directory}/socket")
    assert (credentials.uid, credentials.gid) == (uid, gid)
    return {"netfw.peer_credentials": (credentials.pid, uid, gid), **headers}


def credentials_of(uid: int, gid: int, path: str) -> PeerCredentials:
    """Return the credentials of a connection that a process of that user made."""

    def connect() -> bytes:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
        return b""

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        os.chmod(path, 0o777)
        listener.listen()
        run_as(uid, gid, connect)
        with listener.accept()[0] as connection:
            return read_peer_credentials(connection)


@pytest.mark.spec("API-10")
def test_root_is_an_administrator_and_another_user_is_refused() -> None:
    identity = Methods([NoAuth(admin_uids=frozenset({0}))], lambda who: "admin" in who.roles)
    assert identity(environ(0, 0)).admin
    with pytest.raises(Unauthorized, match="noauth_admin_users"):
        identity(environ(UID, GID, HTTP_X_ROLES="admin"))


@pytest.mark.spec("API-10")
def test_a_named_group_is_let_in() -> None:
    noauth = NoAuth(admin_uids=frozenset({0}), admin_gids=frozenset({GID}))
    assert Methods([noauth], lambda who: "admin" in who.roles)(environ(UID, GID)).admin


@pytest.mark.spec("API-16")
def test_proxy_is_trusted_by_its_user() -> None:
    proxy = TrustedProxy(uids=frozenset({UID}))
    headers = {"HTTP_X_USER_ID": "alice", "HTTP_X_PROJECT_ID": "red", "HTTP_X_ROLES": "member"}
    identity = Methods([proxy], lambda who: "admin" in who.roles)
    assert identity(environ(UID, GID, **headers)).project_id == "red"
    with pytest.raises(Unauthorized, match="trusted_prox"):
        identity(environ(0, 0, **headers))
