"""A private RabbitMQ: a broker in one directory, on loopback addresses of a sandbox."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self
from urllib.parse import quote

from netfw.errors import BackendBroken
from netfw.testing.lab import sandbox
from netfw.testing.lab.services.certificates import Certificate
from netfw.testing.lab.wait import suspend

START_SECONDS = 300.0
PORT, TLS_PORT = 5672, 5671
USER, PASSWORD = "netfw", "a password of tests"

_PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
_MORTAL = ("setpriv", "--pdeathsig", "KILL")
"""A process that is started with it ends when the test run ends, however that ends."""
_PROTOCOL = b"AMQP\x00\x00\x09\x01"


class PrivateRabbitmq:
    """RabbitMQ and the port mapper of Erlang that it needs, both as processes of this one.

    Messages and queues that clients declared durable survive a restart.
    """

    def __init__(
        self,
        directory: Path,
        *,
        tls: Certificate | None = None,
        authority: Path | None = None,
    ) -> None:
        self.directory = directory
        self._tls, self._authority = tls, authority
        self._mapper: subprocess.Popen[bytes] | None = None
        self._broker: subprocess.Popen[bytes] | None = None

    def url(self, password: str = PASSWORD, port: int = PORT) -> str:
        """Return the URL for clients."""
        return f"rabbit://{USER}:{quote(password)}@127.0.0.1:{port}/"

    def start(self) -> Self:
        """Start it, and return when it answers.

        :raises BackendBroken: it is not installed, or does not start.
        """
        sandbox.require()
        if not _PROGRAM.exists():
            raise BackendBroken("rabbitmq-server is not installed: run tools/install-packages")
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "rabbitmq.conf").write_text(self._configuration())
        (self.directory / "plugins").write_text("[].")
        environment = self._environment()
        if self._mapper is None:
            mapper = (*_MORTAL, "epmd", "-address", "127.0.0.1")
            self._mapper = self._launch(mapper, environment)
        self._broker = self._launch((*_MORTAL, str(_PROGRAM)), environment)
        deadline = time.monotonic() + START_SECONDS
        while not _answers():
            if self._broker.poll() is not None or time.monotonic() > deadline:
                log_tail = self.log()[-2000:]
                self.stop(keep=True)
                raise BackendBroken(f"RabbitMQ does not start: {log_tail}")
            time.sleep(0.05)
        return self

    def run(self, script: str) -> str:
        """Run shell commands, such as ``rabbitmqctl``, as the broker's operator.

        :raises subprocess.CalledProcessError: a command fails.
        """
        environment = self._environment()
        environment["PATH"] = f"{_PROGRAM.parent}:{environment['PATH']}"
        argv = ("sh", "-e", "-c", script)
        return subprocess.run(
            argv, env=environment, check=True, capture_output=True, text=True
        ).stdout

    def log(self) -> str:
        """Return the broker's log so far."""
        file = self.directory / "log" / "broker.log"
        log_text = file.read_text(errors="replace") if file.exists() else ""
        return log_text + (self.directory / "output").read_text(errors="replace")

    def kill(self) -> None:
        """Kill the broker, as a crash of its machine would."""
        if self._broker is not None:
            self._broker.kill()
            self._broker.wait()
            self._broker = None

    def pause(self) -> None:
        """Suspend the broker: connections stay, and nothing is answered."""
        if self._broker is not None:
            suspend(self._broker.pid)

    def resume(self) -> None:
        """Resume the broker."""
        if self._broker is not None:
            self._broker.send_signal(signal.SIGCONT)

    def stop(self, *, keep: bool = False) -> None:
        """End all processes and, by default, remove the files."""
        self.kill()
        if self._mapper is not None:
            self._mapper.kill()
            self._mapper.wait()
            self._mapper = None
        if not keep:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _launch(
        self, argv: tuple[str, ...], environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        with (self.directory / "output").open("ab") as output:
            return subprocess.Popen(
                argv, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    def _configuration(self) -> str:
        lines = {
            "listeners.tcp.default": f"127.0.0.1:{PORT}",
            "default_user": USER,
            "default_pass": PASSWORD,
            "log.file": "broker.log",
            "log.file.level": "info",
        }
        if self._tls is not None:
            lines |= {
                "listeners.ssl.default": f"127.0.0.1:{TLS_PORT}",
                "ssl_options.cacertfile": str(self._authority),
                "ssl_options.certfile": str(self._tls.certificate),
                "ssl_options.keyfile": str(self._tls.key),
                "ssl_options.verify": "verify_peer",
                "ssl_options.fail_if_no_peer_cert": "true",
            }
        return "".join(f"{name} = {value}\n" for name, value in lines.items())

    def _environment(self) -> dict[str, str]:
        here = self.directory
        return {
            **os.environ,
            "HOME": str(here),
            "ERL_EPMD_PORT": "4370",
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": "netfw@localhost",
            "RABBITMQ_CONFIG_FILE": str(here / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(here / "plugins"),
            "RABBITMQ_LOG_BASE": str(here / "log"),
            "RABBITMQ_MNESIA_BASE": str(here / "data"),
            "RABBITMQ_PID_FILE": str(here / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-start_epmd false +S 1:1",
            "RUNNING_UNDER_SYSTEMD": "yes",  # its script becomes the broker, and does not wait
        }


def _answers() -> bool:
    try:
        with socket.create_connection(("127.0.0.1", PORT), timeout=5) as probe:
            probe.sendall(_PROTOCOL)
            return probe.recv(1) == b"\x01"
    except OSError:
        return False
