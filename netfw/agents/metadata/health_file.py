"""Liveness: a file with the time at which a worker of the agent last answered.

The agent asks itself, through its own socket, like any proxy; the worker that gets the request
writes the file.  So an old file tells of an agent whose threads all hang, too.
"""

from __future__ import annotations

import http.client
import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from netfw.agents.metadata.proxy_app import PROBE

LOG = logging.getLogger(__name__)

_PATIENCE = 1.0
"""Seconds that the end of the agent waits for an answer of its own."""


class HealthProbe:
    """Keeps the file young while requests at the socket are answered.

    *every* says, each time anew, how many seconds to wait; 0: no file.
    """

    def __init__(self, file: Path, door: Path, every: Callable[[], float]) -> None:
        self._file, self._door, self._every = file, door, every
        self.word = secrets.token_hex(16)
        """By which the agent knows itself; no guest can guess it."""
        self.trouble = ""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="netfw-liveness", daemon=True)

    def start(self) -> None:
        """Begin; twice is once."""
        if not self._thread.is_alive() and not self._stopped.is_set():
            self._thread.start()

    def close(self) -> None:
        """The agent ends on purpose: there is no file of one that does not live."""
        begun = self._thread.is_alive()
        self._stopped.set()
        if begun:
            self._thread.join(_PATIENCE)
            self._file.unlink(missing_ok=True)

    def note(self) -> None:
        """Write the time; called by a worker."""
        if self._stopped.is_set():
            return
        temporary = self._file.with_name(f".{self._file.name}.{os.getpid()}")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(f"{datetime.now(UTC).isoformat(timespec='milliseconds')}\n")
            temporary.replace(self._file)
        except OSError as exc:
            self._say(f"the liveness file cannot be written: {exc}")
        else:
            self._say("")

    def _run(self) -> None:
        pause = 0.0
        while not self._stopped.wait(pause):
            every = self._every()
            if every:
                self._ask(every)
            pause = every or 1.0

    def _ask(self, patience: float) -> None:
        """Have a worker write the file, if one is free within *patience* seconds."""
        connection = http.client.HTTPConnection("netfw")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            try:
                sock.settimeout(max(1.0, patience))
                sock.connect(str(self._door))
                connection.sock = sock
                connection.request("GET", "/", headers={PROBE: self.word, "Connection": "close"})
                status = connection.getresponse().status
            except (OSError, http.client.HTTPException) as exc:
                self._say(f"the agent does not answer itself: {exc}")
            else:
                if status == http.client.SERVICE_UNAVAILABLE:
                    self._say("all workers are busy")

    def _say(self, trouble: str) -> None:
        if trouble != self.trouble:
            LOG.warning("%s", trouble or "workers answer again")
        self.trouble = trouble
