"""Notifications to the service manager, by the protocol of ``sd_notify(3)``."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import MutableMapping

LOG = logging.getLogger(__name__)
SOCKET = "NOTIFY_SOCKET"
WATCHDOG, WATCHDOG_PROCESS = "WATCHDOG_USEC", "WATCHDOG_PID"
_LONGEST_STATUS = 200


class SdNotifier:
    """Notifies the service manager that has started this process; without one nothing is sent.

    A manager that does not answer never stops a daemon: a message that cannot be sent is dropped.
    """

    def __init__(self, address: str | None = None, watchdog: float | None = None) -> None:
        self._address = "\0" + address[1:] if address and address[0] == "@" else address
        self.watchdog = watchdog
        """Seconds without a sign of life after which the manager ends the daemon; ``None``: it
        does not watch."""
        self._lock = threading.Lock()
        self._ready = False
        self._status = ""

    @classmethod
    def from_environment(cls, environ: MutableMapping[str, str] = os.environ) -> SdNotifier:
        """Return the notifier of the manager that *environ* names, and remove it there."""
        micros, pid = environ.pop(WATCHDOG, ""), environ.pop(WATCHDOG_PROCESS, "")
        watches = micros.isdecimal() and int(micros) and pid in ("", str(os.getpid()))
        return cls(environ.pop(SOCKET, None), int(micros) / 1e6 if watches else None)

    def set_ready(self) -> None:
        """Report that the daemon has started; again after a reload."""
        with self._lock:
            self._ready = True
            self._send("READY=1")

    def set_status(self, text: str) -> None:
        """Report a line for operators."""
        text = " ".join(text.split())[:_LONGEST_STATUS]
        with self._lock:
            if text != self._status:
                self._status = text
                self._send(f"STATUS={text}")

    def report_alive(self) -> None:
        """Report that the daemon is alive, for the watchdog."""
        self._send("WATCHDOG=1")

    def begin_reload(self) -> None:
        """Report that the configuration is read again; `end_reload` follows."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def end_reload(self) -> None:
        """Report that the configuration was read; a daemon that had not started has not now."""
        if self._ready:
            self._send("READY=1")

    def stop(self) -> None:
        """Report that the daemon is about to end."""
        self._send("STOPPING=1")

    def _send(self, *lines: str) -> None:
        if self._address is None:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.setblocking(False)
                sender.sendto("\n".join(lines).encode(errors="replace"), self._address)
        except OSError as exc:
            LOG.debug("service manager: %s cannot be sent: %s", lines[0], exc)
