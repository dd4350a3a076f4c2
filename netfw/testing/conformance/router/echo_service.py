"""Echo service of the lab's machines: one thread for the sockets of all of them."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections.abc import Callable

from netfw.testing.conformance.router.environment import ReceivedEcho

Handler = Callable[[socket.socket], None]


class EchoService:
    """One thread that serves the sockets of all machines, and records the echo requests."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._lock = threading.Lock()
        self._seen: dict[bytes, ReceivedEcho] = {}
        self._round = 0
        self._rounds = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="netfw-echo", daemon=True)
        self._ended = False
        self._waker, self._woken = socket.socketpair()
        self.serve(self._woken, _drain)
        self._thread.start()

    def serve(self, opened: socket.socket, handler: Handler) -> None:
        """Call *handler* whenever there is something to read."""
        opened.setblocking(False)
        with self._lock:  # epoll can be changed while the thread waits in it
            self._selector.register(opened, selectors.EVENT_READ, handler)

    def release(self, opened: socket.socket) -> None:
        """Close a socket."""
        with self._lock, contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(opened)
        opened.close()

    def record(self, token: bytes, echo: ReceivedEcho) -> None:
        """Record that the request with *token* arrived."""
        with self._lock:
            self._seen[token] = echo

    def recorded(self, token: bytes) -> ReceivedEcho | None:
        """Return how the request with *token*, which was answered, arrived at a machine.

        The kernel queues a request before it answers it, so that the second of two more rounds of
        the thread has read it.
        """
        for _ in range(2):
            self._wait_round()
        with self._lock:
            return self._seen.pop(token, None)

    def close(self) -> None:
        self._ended = True
        self._wake()
        self._thread.join()
        self.release(self._woken)
        self._waker.close()
        self._selector.close()

    def _wake(self) -> None:
        self._waker.sendall(b"\0")

    def _wait_round(self) -> None:
        """Wait until the thread has ended one more round."""
        with self._rounds:
            until = self._round + 1
            self._wake()
            self._rounds.wait_for(lambda: self._round >= until)

    def _run(self) -> None:
        while not self._ended:
            for key, _ in self._selector.select():
                with contextlib.suppress(OSError, ValueError):
                    key.data(key.fileobj)
            with self._rounds:
                self._round += 1
                self._rounds.notify_all()


def _drain(woken: socket.socket) -> None:
    woken.recv(4096)
