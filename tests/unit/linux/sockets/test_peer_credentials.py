from __future__ import annotations

import os
import socket

from netfw.linux.sockets.peer_credentials import (
    PeerCredentials,
    read_peer_credentials,
    read_peer_groups,
)


def test_credentials_are_those_of_the_process_at_the_other_end() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        expected = PeerCredentials(os.getpid(), os.geteuid(), os.getegid())
        assert read_peer_credentials(ours) == expected
        assert read_peer_groups(ours) == frozenset(os.getgroups())


def test_connection_over_tcp_has_no_user() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as client,
    ):
        assert read_peer_credentials(client) == PeerCredentials(pid=0, uid=-1, gid=-1)
        assert read_peer_groups(client) == frozenset()


def test_groups_include_those_of_the_user_database() -> None:
    root = PeerCredentials(pid=1, uid=0, gid=54321)
    assert {54321} | set(os.getgrouplist("root", 54321)) == root.groups()
    assert PeerCredentials(pid=1, uid=54321, gid=7).groups() == {7}
