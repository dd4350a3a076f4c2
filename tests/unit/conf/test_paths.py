"""Where a server keeps its file and its sockets: made where they are missing, or said at once."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from netfw.cli.commands import db
from netfw.errors import ConfigError
from netfw.http.listen_sockets import listen_unix, removal
from netfw.server.db.engine.engines import create_sqlite_file, default_url


def test_sqlite_file_is_readable_by_its_owner_and_group(tmp_path: Path) -> None:
    state = tmp_path / "lib" / "netfw"
    create_sqlite_file(default_url(str(state)), "state_path")
    file = state / "netfw.db"
    assert (state.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o751, 0o640)
    file.chmod(0o600)
    create_sqlite_file(default_url(str(state)), "state_path")
    assert file.stat().st_mode & 0o777 == 0o600, "what is there keeps its permissions"


def test_a_place_that_cannot_be_is_said_with_its_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    conf = tmp_path / "netfw.conf"
    conf.write_text(f"[DEFAULT]\nstate_path = {tmp_path}/file\n")
    assert db.main(["--config-file", str(conf), "upgrade"]) == 2
    output = capsys.readouterr().err
    assert f"{tmp_path}/file/netfw.db" in output
    assert "[DEFAULT] state_path" in output
    with pytest.raises(ConfigError, match=r"\[api\] socket"):
        listen_unix(tmp_path / "file" / "api.sock", option="[api] socket")


def test_a_socket_gets_its_directory_and_goes_with_its_server(tmp_path: Path) -> None:
    path = tmp_path / "run" / "api.sock"
    first = listen_unix(path)
    assert path.parent.stat().st_mode & 0o777 == 0o751
    remove = removal(path)
    first.close()
    second = listen_unix(path)
    remove()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))  # that of another server stays
    removal(path)()
    assert not path.exists()
    second.close()
    with listen_unix(tmp_path / "open" / "api.sock", 0o666):
        assert (tmp_path / "open").stat().st_mode & 0o777 == 0o755
