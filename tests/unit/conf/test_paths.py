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
    state = tmp_path / "netfw"
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


READING = (["current"], ["check"], ["outbox"], ["mark-restored"], ["downgrade", "base"])


@pytest.mark.parametrize("words", READING)
@pytest.mark.parametrize("option", ["[database] connection", "[DEFAULT] state_path"])
def test_only_an_upgrade_creates_a_database(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], option: str
) -> None:
    state = tmp_path / "netfw"
    value = {"[database] connection": f"sqlite:///{state}/netfw.db"}.get(option, state)
    conf = tmp_path / "netfw.conf"
    conf.write_text(f"{option.replace(' ', chr(10))} = {value}\n")
    assert db.main(["--config-file", str(conf), *words]) == 2
    assert not state.exists()
    assert capsys.readouterr().err == (
        f"netfw-db: {state}/netfw.db: there is no such file; `netfw-db upgrade` creates it, or "
        f"change {option}\n"
    )
    assert db.main(["--config-file", str(conf), "upgrade"]) == 0
    assert db.main(["--config-file", str(conf), *words]) == 0


def test_a_database_below_two_missing_directories_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conf = tmp_path / "netfw.conf"
    conf.write_text(f"[database]\nconnection = sqlite:///{tmp_path}/typo/netfw/netfw.db\n")
    assert db.main(["--config-file", str(conf), "upgrade"]) == 2
    assert capsys.readouterr().err == (
        f"netfw-db: the database cannot be {tmp_path}/typo/netfw/netfw.db: there is no directory "
        f"{tmp_path}/typo; make it, or change [database] connection\n"
    )
    assert not (tmp_path / "typo").exists()


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
