"""Streams between instances: what was sent, what arrived, what was answered, packet by packet."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping

from netfw.testing.lab.instance import Instance
from netfw.testing.lab.wait import wait_until

INTERVAL = 0.005
GRACE = 2.0
_POLL = 0.05
_ANY = {4: "0.0.0.0", 6: "::"}
_FAMILY = {4: socket.AF_INET, 6: socket.AF_INET6}
_Packet = tuple[bytes, tuple[str, int]]


class Stream:
    """Numbered datagrams from one instance to another, which sends each of them back."""

    def __init__(
        self, one: Instance, two: Instance, target: str, port: int, source: int = 0
    ) -> None:
        version = 6 if ":" in target else 4
        self._sender_socket = one.call(socket.socket, _FAMILY[version], socket.SOCK_DGRAM)
        self._receiver_socket = two.call(socket.socket, _FAMILY[version], socket.SOCK_DGRAM)
        self._receiver_socket.bind((_ANY[version], port))
        self._sender_socket.bind((_ANY[version], source))
        self._to = (target, port)
        self.sent = 0
        self.arrived: set[int] = set()
        self.answered: set[int] = set()
        self._ended, self._heard = threading.Event(), threading.Event()
        self._threads = [
            threading.Thread(target=work, daemon=True)
            for work in (self._send, self._answer, self._receive)
        ]
        for each in (self._sender_socket, self._receiver_socket):
            each.settimeout(_POLL)
        for thread in self._threads:
            thread.start()

    @property
    def lost(self) -> int:
        """How many were sent and not answered; of a stream that has been stopped."""
        return self.sent - len(self.answered)

    def await_passing(self) -> None:
        """Wait until something that is sent from now on is answered."""
        now = self.sent
        wait_until(
            lambda: any(number >= now for number in tuple(self.answered)), lambda: vars(self)
        )

    def is_cut(self, seconds: float = 0.3) -> bool:
        """Return whether nothing of what is sent for some time arrives."""
        now = self.sent
        wait_until(lambda: self.sent > now + 1, "something is sent")
        time.sleep(seconds)
        return not any(number > now for number in tuple(self.arrived))

    def await_cut(self) -> None:
        wait_until(self.is_cut)

    def stop(self, grace: float = GRACE) -> Stream:
        """Send no more, and give what is under way its time."""
        self._ended.set()
        self._threads[0].join()
        deadline = time.monotonic() + grace
        while self.lost and self.arrived and time.monotonic() < deadline:
            time.sleep(0.01)
        self._heard.set()
        for thread in self._threads:
            thread.join()
        for each in (self._sender_socket, self._receiver_socket):
            each.close()
        return self

    def _send(self) -> None:
        while not self._ended.wait(INTERVAL):
            number, self.sent = self.sent, self.sent + 1
            with contextlib.suppress(OSError):  # no neighbour, a full queue: it is lost
                self._sender_socket.sendto(number.to_bytes(8), self._to)

    def _answer(self) -> None:
        for content, sender in self._packets(self._receiver_socket):
            self.arrived.add(int.from_bytes(content))
            with contextlib.suppress(OSError):
                self._receiver_socket.sendto(content, sender)

    def _receive(self) -> None:
        for content, _ in self._packets(self._sender_socket):
            self.answered.add(int.from_bytes(content))

    def _packets(self, ear: socket.socket) -> Iterator[_Packet]:
        while not self._heard.is_set():
            with contextlib.suppress(OSError):  # nothing came for a while, or was refused
                yield ear.recvfrom(64)


@contextlib.contextmanager
def streaming(
    one: Instance, two: Instance, target: str, port: int, source: int = 0
) -> Iterator[Stream]:
    stream = Stream(one, two, target, port, source)
    try:
        yield stream
    finally:
        stream.stop(0)


class Connection:
    """A TCP connection between two instances."""

    def __init__(self, one: Instance, two: Instance, target: str, port: int) -> None:
        version = 6 if ":" in target else 4
        listener = two.call(socket.socket, _FAMILY[version], socket.SOCK_STREAM)
        with listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((_ANY[version], port))
            listener.listen()
            self._near = one.call(socket.socket, _FAMILY[version], socket.SOCK_STREAM)
            self._near.settimeout(10)
            self._near.connect((target, port))
            listener.settimeout(10)
            self._far, _ = listener.accept()
        self._said = 0

    def carries(self, timeout: float = 10.0) -> bool:
        """Return whether a word gets through, and its answer back, in time."""
        return self._passes(self._near, self._far, timeout) and self.answers(timeout)

    def answers(self, timeout: float = 10.0) -> bool:
        """Return whether a word of the far end gets through in time without one of the near end."""
        return self._passes(self._far, self._near, timeout)

    def send(self) -> None:
        """Send a word from the near end."""
        self._send(self._near)

    def reply(self, timeout: float = 10.0) -> bool:
        """Return whether the last word gets to the far end in time; if so, send the next one."""
        if not self._receives(self._far, timeout):
            return False
        self._send(self._far)
        return True

    def receive(self, timeout: float = 10.0) -> bool:
        """Return whether the last word gets to the near end in time."""
        return self._receives(self._near, timeout)

    def _passes(self, mouth: socket.socket, ear: socket.socket, timeout: float) -> bool:
        self._send(mouth)
        return self._receives(ear, timeout)

    def _send(self, mouth: socket.socket) -> None:
        self._said += 1
        mouth.sendall(self._said.to_bytes(4))

    def _receives(self, ear: socket.socket, timeout: float) -> bool:
        word = self._said.to_bytes(4)
        ear.settimeout(timeout)
        try:
            heard = b""
            while not heard.endswith(word):
                if not (chunk := ear.recv(64)):
                    return False
                heard += chunk
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        for each in (self._near, self._far):
            each.close()


def connects(one: Instance, two: Instance, target: str, port: int, timeout: float = 0.3) -> bool:
    """Return whether a new TCP connection can be opened."""
    version = 6 if ":" in target else 4
    listener = two.call(socket.socket, _FAMILY[version], socket.SOCK_STREAM)
    caller = one.call(socket.socket, _FAMILY[version], socket.SOCK_STREAM)
    with listener, caller:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((_ANY[version], port))
        listener.listen()
        caller.settimeout(timeout)
        try:
            caller.connect((target, port))
        except OSError:
            return False
        return True


def introduce(one: Instance, mac: str, *addresses: str) -> None:
    """Have an instance know its neighbour, so that it sends from the first moment on."""
    one.namespaces.ip(*(f"neigh replace {address} lladdr {mac} dev eth0" for address in addresses))


class SteadyConnections:
    """TCP connections that carry words both ways all the time, in a background thread.

    All send at the same times: a switch in userspace works per wake-up more than per packet.
    """

    def __init__(self, connections: Mapping[str, Connection]) -> None:
        self._connections = connections
        self._ended = threading.Event()
        self.carried = 0
        """How many words each of them carried."""
        self.problems: dict[str, str] = {}
        """By name, why a connection broke."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop after the words that are under way.  Idempotent."""
        self._ended.set()
        self._thread.join()
        for each in self._connections.values():
            each.close()

    def _run(self) -> None:
        while not self.problems and not self._ended.wait(4 * INTERVAL):
            for step in (Connection.send, Connection.reply, Connection.receive):
                for name, connection in self._connections.items():
                    self._take(step, name, connection)
            self.carried += 1

    def _take(
        self, step: Callable[[Connection], bool | None], name: str, connection: Connection
    ) -> None:
        """Take one step of a round, unless the connection broke in an earlier one."""
        if name in self.problems:
            return
        try:
            if step(connection) is False:
                self.problems[name] = f"no answer after {self.carried} words"
        except OSError as error:
            self.problems[name] = f"{error} after {self.carried} words"
