"""A proxy between two ends of a connection, which a test can cut, stall or tamper with."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Endpoint = str | tuple[str, int]
"""The path of a unix socket, or an address and a port."""
Tamper = Callable[[bytes], bytes]
"""Transforms the bytes that are relayed."""


def _as_they_are(data: bytes) -> bytes:
    return data


class FaultProxy:
    """A proxy that listens at *here* and relays everything to *there*, and back."""

    def __init__(self, here: Endpoint, there: Endpoint) -> None:
        self._here, self._there = here, there
        self._lock = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._listening: socket.socket | None = None
        self._flowing = threading.Event()
        self._flowing.set()
        self.accepted = 0
        """The number of connections so far."""
        self.tamper_forth: Tamper = _as_they_are
        self.tamper_back: Tamper = _as_they_are
        self.restore()

    def restore(self) -> None:
        """Accept connections again."""
        if isinstance(self._here, str):
            with suppress(FileNotFoundError):
                os.unlink(self._here)
        listening = socket.socket(_family(self._here), socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(self._here)
        listening.listen(64)
        self._listening = listening
        threading.Thread(target=self._accept, args=(listening,), daemon=True).start()

    def cut(self) -> None:
        """Refuse connections, and close the open ones."""
        with self._lock:
            listening, self._listening = self._listening, None
        if listening is not None:
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
            listening.close()
        self.sever()

    def sever(self) -> None:
        """Close the open connections; new ones are accepted."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def outage(self) -> Iterator[None]:
        """Cut the proxy while the block runs."""
        self.cut()
        try:
            yield
        finally:
            self.restore()

    @contextmanager
    def stalled(self) -> Iterator[None]:
        """Keep everything connected, and relay nothing while the block runs."""
        self._flowing.clear()
        try:
            yield
        finally:
            self._flowing.set()

    def close(self) -> None:
        """Release everything.  Idempotent."""
        self._flowing.set()
        self.cut()

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                near, _ = listening.accept()
            except OSError:
                return
            self.accepted += 1
            far = socket.socket(_family(self._there), socket.SOCK_STREAM)
            try:
                far.connect(self._there)
            except OSError:
                near.close()
                far.close()
                continue
            with self._lock:
                is_cut = self._listening is not listening
                if not is_cut:
                    self._pairs.append((near, far))
            if is_cut:  # while it was accepted
                near.close()
                far.close()
                return
            ends = threading.Semaphore(0)
            for one, other in ((near, far), (far, near)):
                threading.Thread(
                    target=self._pass_on, args=(one, other, one is near, ends), daemon=True
                ).start()

    def _pass_on(
        self, one: socket.socket, other: socket.socket, forth: bool, ends: threading.Semaphore
    ) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                self._flowing.wait()
                if changed := (self.tamper_forth if forth else self.tamper_back)(data):
                    other.sendall(changed)
        for end in (one, other):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        if ends.acquire(blocking=False):  # the second of the two
            one.close()
            other.close()
        else:
            ends.release()


def _family(endpoint: Endpoint) -> socket.AddressFamily:
    return socket.AF_UNIX if isinstance(endpoint, str) else socket.AF_INET
