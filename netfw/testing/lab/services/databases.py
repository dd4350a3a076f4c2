"""Private database servers: each in one directory, on a unix socket there and nowhere else.

Their data survives the server, but not the machine: nothing is flushed to the disk.
"""

from __future__ import annotations

import getpass
import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Self

from netfw.errors import BackendBroken

START_SECONDS = 300.0


class PrivateServer:
    """The common part of the servers: a directory, a process, a client command."""

    NAME: ClassVar[str]

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    def _launch(self, argv: Sequence[str | Path], ready: Sequence[str | Path]) -> None:
        """Start *argv* and wait until the command *ready* succeeds."""
        with (self.directory / "server.log").open("wb") as log:
            self._process = subprocess.Popen(argv, stdout=log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + START_SECONDS
        while subprocess.run(ready, capture_output=True, check=False).returncode:
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop(keep=True)
                log_end = (self.directory / "server.log").read_text(errors="replace")[-2000:]
                raise BackendBroken(f"{self.NAME} does not start: {log_end}")
            time.sleep(0.05)

    @property
    def pid(self) -> int:
        """The process, or the one that it runs in.

        :raises BackendBroken: it does not run.
        """
        if self._process is None:
            raise BackendBroken(f"{self.NAME} does not run")
        return self._process.pid

    def kill(self) -> None:
        """Kill the server and its children, as a crash of its machine would."""
        if self._process is None:
            return
        parent = self._process.pid
        self._process.send_signal(signal.SIGSTOP)  # it begins nothing more
        os.waitid(os.P_PID, parent, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        self._process = None
        while any(map(_runs, children)):
            time.sleep(0.001)

    def stop(self, *, keep: bool = False) -> None:
        """Stop the server and, by default, remove its files."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)  # at once, and with its children
            try:
                self._process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        if not keep:
            shutil.rmtree(self.directory, ignore_errors=True)


class PrivatePostgres(PrivateServer):
    """PostgreSQL.  It refuses to run as root, so it runs as another user of a user namespace."""

    NAME = "PostgreSQL"

    def __init__(self, directory: Path, *, flushed: bool = False) -> None:
        """Prepare a server; *flushed*: commits reach the disk, as in production."""
        super().__init__(directory)
        self._flushed = "on" if flushed else "off"

    def start(self) -> Self:
        """Create a cluster if there is none, and start it.

        :raises BackendBroken: it is not installed, or does not start.
        """
        programs, data = _postgres_programs(), self.directory / "data"
        self._programs = programs
        if not data.exists():
            flags = ("-U", "netfw", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
            _run(*_unprivileged(), programs / "initdb", "-D", data, *flags)
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.directory),
            "fsync": self._flushed,
            "full_page_writes": self._flushed,
            "max_connections": "100",
            "shared_buffers": "32MB",
            "autovacuum": "off",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        self._launch(
            [*_unprivileged(), *_MORTAL, programs / "postgres", "-D", data, *options],
            [programs / "pg_isready", "-q", "-h", self.directory, "-U", "netfw", "-d", "postgres"],
        )
        return self

    def create(self, name: str, template: str = "template0") -> str:
        """Create a database, a copy of *template*, and return its URL."""
        self._say("createdb", "-T", template, name)
        return f"postgresql://netfw@/{name}?host={self.directory}"

    def drop(self, name: str) -> None:
        """Remove a database, even if clients are connected."""
        self._say("dropdb", "--if-exists", "--force", name)

    def _say(self, program: str, *words: str) -> None:
        _run(self._programs / program, "-h", self.directory, "-U", "netfw", *words)


class PrivateMariadb(PrivateServer):
    """MariaDB."""

    NAME = "MariaDB"

    def __init__(self, directory: Path, *, flushed: bool = False) -> None:
        """Prepare a server; *flushed*: commits reach the disk, as in production."""
        super().__init__(directory)
        self._flushed = flushed

    def start(self) -> Self:
        """Create the system tables if there are none, and start the server.

        :raises BackendBroken: it is not installed, or does not start.
        """
        data, user = self.directory / "data", f"--user={getpass.getuser()}"
        # Temporary tables are named by the process id, which another sandbox may have as well.
        own = ("--innodb-log-file-size=16M", f"--tmpdir={self.directory}")
        if not data.exists():
            flags = ("--auth-root-authentication-method=normal", "--skip-test-db")
            _run("mariadb-install-db", "--no-defaults", f"--datadir={data}", user, *flags, *own)
        options = (
            "--skip-networking",
            "--skip-log-bin",
            f"--innodb-flush-log-at-trx-commit={1 if self._flushed else 2}",
            f"--innodb-doublewrite={int(self._flushed)}",
            "--innodb-buffer-pool-size=64M",
            "--innodb-use-native-aio=0",
            "--max-connections=100",
            f"--pid-file={self.directory}/pid",
        )
        self._launch(
            [
                *(*_MORTAL, _program("mariadbd"), "--no-defaults", user, f"--datadir={data}"),
                *(f"--socket={self._socket}", *options, *own),
            ],
            self._client("SELECT 1"),
        )
        return self

    @property
    def _socket(self) -> Path:
        return self.directory / "s.sock"

    def create(self, name: str) -> str:
        """Create an empty database and return its URL."""
        self._say(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        return f"mariadb://root@localhost/{name}?unix_socket={self._socket}"

    def drop(self, name: str) -> None:
        """Remove a database."""
        self._say(f"DROP DATABASE IF EXISTS {name}")

    def _say(self, statement: str) -> None:
        _run(*self._client(statement))

    def _client(self, statement: str) -> tuple[str, ...]:
        socket = f"--socket={self._socket}"
        return ("mariadb", "--no-defaults", socket, "-u", "root", "-e", statement)


_MORTAL = ("setpriv", "--pdeathsig", "KILL")
"""A process that is started with it ends when the test run ends, however that ends."""


def _unprivileged() -> tuple[str, ...]:
    """Return the command prefix that maps root to another user, in a new user namespace.

    Files stay root's.
    """
    if os.geteuid() != 0:
        return ()
    try:
        user = pwd.getpwnam("postgres").pw_uid
    except KeyError:
        user = pwd.getpwnam("nobody").pw_uid
    return ("unshare", "--user", f"--map-user={user}", f"--map-group={user}")


def _postgres_programs() -> Path:
    """Return the programs of the newest version: Debian keeps versions apart."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=_version)
    if programs:
        return programs[-1].parent
    return Path(_program("initdb")).parent


def _version(path: Path) -> int:
    name = path.parts[-3]
    return int(name) if name.isdigit() else 0


def _program(name: str) -> str:
    path = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if path is None:
        raise BackendBroken(f"{name} is not installed: run tools/install-packages")
    return path


def _runs(pid: str) -> bool:
    """Return whether the process exists and is not a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in ("Z", "X")


def _run(*argv: str | Path) -> None:
    try:
        subprocess.run(argv, capture_output=True, check=True)
    except FileNotFoundError as exc:
        raise BackendBroken(f"{argv[0]} is not installed: run tools/install-packages") from exc
    except subprocess.CalledProcessError as exc:
        output = (exc.stderr or exc.stdout).decode(errors="replace")[-2000:]
        raise BackendBroken(f"{argv[0]} failed: {output}") from exc
