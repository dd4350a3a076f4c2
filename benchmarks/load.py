"""A load generator for the API: processes that ask as fast as they may, and how long answers took.

It costs little itself: requests are bytes made before, answers are read up to their length.
`python -m benchmarks.load --help` runs it against any server.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import socket
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from statistics import median
from typing import Any
from urllib.parse import urlsplit

from attrs import frozen

PREFIX = "/v2.0"


class Client:
    """One connection that stays open."""

    def __init__(self, url: str, headers: dict[str, str] | None = None) -> None:
        self._url, self._headers = urlsplit(url), headers or {}
        self._socket = self._connect()
        self._file = self._socket.makefile("rb")

    def request(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        """Send a request, and return the status and the body of the answer."""
        return self.send(self.prepared(method, path, body))

    def prepared(self, method: str, path: str, body: object = None) -> bytes:
        """Return a request as it goes over the wire."""
        content = b"" if body is None else json.dumps(body).encode()
        lines = [f"{method} {PREFIX}{path} HTTP/1.1", f"Host: {self._url.netloc or 'localhost'}"]
        lines += [f"{name}: {value}" for name, value in self._headers.items()]
        if content:
            lines += ["Content-Type: application/json"]
        lines += [f"Content-Length: {len(content)}", "", ""]
        return "\r\n".join(lines).encode() + content

    def send(self, request: bytes) -> tuple[int, bytes]:
        """Send what was prepared, and read the answer."""
        self._socket.sendall(request)
        status = int(self._file.readline().split()[1])
        length = 0
        while (line := self._file.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        return status, self._file.read(length)

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Create one resource, and return it."""
        status, content = self.request("POST", path, body)
        if status != 201:
            raise RuntimeError(f"POST {path}: {status} {content[:300]!r}")
        found: dict[str, Any] = next(iter(json.loads(content).values()))
        return found

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def _connect(self) -> socket.socket:
        if self._url.scheme == "unix":
            made = socket.socket(socket.AF_UNIX)
            made.connect(self._url.path)
            return made
        made = socket.create_connection((self._url.hostname, self._url.port or 9696))
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made


@frozen(kw_only=True)
class Load:
    """What came of it."""

    seconds: float
    times: tuple[float, ...]
    """How long each answer took, sorted."""
    statuses: dict[int, int]

    @property
    def rate(self) -> float:
        """Answers per second."""
        return len(self.times) / self.seconds

    def within(self, part: float) -> float:
        """Return the seconds within which that *part* of the answers came."""
        return self.times[min(len(self.times) - 1, math.ceil(len(self.times) * part) - 1)]

    def __str__(self) -> str:
        return (
            f"{self.rate:7.1f}/s  median {median(self.times) * 1e3:6.1f} ms  "
            f"p99 {self.within(0.99) * 1e3:6.1f} ms  {self.statuses}"
        )


Make = Callable[[Client, int], bytes]
"""The next request of a client, which has made so many."""


def run(
    url: str,
    make: Make,
    *,
    clients: int,
    seconds: float,
    rate: float | None = None,
    headers: dict[str, str] | None = None,
) -> Load:
    """Ask by *clients* processes for that long; at *rate* requests per second in all, if given.

    At a rate, an answer's time counts from when the request was due: a server that is late is late
    for those who wait behind, too.
    """
    context = multiprocessing.get_context("fork")
    pipes = []
    began = time.monotonic() + 0.3
    for number in range(clients):
        ours, theirs = context.Pipe()
        pace = None if rate is None else clients / rate
        schedule = Schedule(began + (pace or 0) * number / clients, seconds, pace)
        process = context.Process(target=_client, args=(url, make, schedule, headers, theirs))
        process.start()
        theirs.close()
        pipes.append((ours, process))
    times: list[float] = []
    statuses: dict[int, int] = {}
    for ours, process in pipes:
        own, found = ours.recv()
        process.join()
        times += own
        for status, count in found.items():
            statuses[status] = statuses.get(status, 0) + count
    return Load(seconds=seconds, times=tuple(sorted(times)), statuses=statuses)


@frozen
class Schedule:
    """When a client begins, how long it asks, and how many seconds apart; ``None``: at once."""

    began: float
    seconds: float
    pace: float | None


def _client(
    url: str, make: Make, when: Schedule, headers: dict[str, str] | None, pipe: Connection
) -> None:
    client, began, pace = Client(url, headers), when.began, when.pace
    times: list[float] = []
    statuses: dict[int, int] = {}
    time.sleep(max(0.0, began - time.monotonic()))
    while (now := time.monotonic()) < began + when.seconds:
        due = now if pace is None else began + len(times) * pace
        request = make(client, len(times))
        time.sleep(max(0.0, due - time.monotonic()))
        start = due if pace is not None else time.monotonic()
        status, _ = client.send(request)
        times.append(time.monotonic() - start)
        statuses[status] = statuses.get(status, 0) + 1
    pipe.send((times, statuses))


def port_maker(network: str, **attributes: Any) -> Make:
    """Return a maker of requests that create ports."""
    body = {"port": {"network_id": network, "binding:host_id": "bench-host", **attributes}}

    def make(client: Client, _: int) -> bytes:
        return client.prepared("POST", "/ports", body)

    return make


def getter(path: str) -> Make:
    """Return a maker of requests that read *path*."""

    def make(client: Client, _: int) -> bytes:
        return client.prepared("GET", path)

    return make


def prepare_network(client: Client, name: str = "bench") -> str:
    """Create a network with room for a million ports, and return its id."""
    network = client.create("/networks", {"network": {"name": name}})
    subnet = {"network_id": network["id"], "cidr": "10.0.0.0/8", "ip_version": 4}
    client.create("/subnets", {"subnet": subnet})
    return str(network["id"])


def main(argv: Sequence[str] | None = None) -> int:
    """Make ports, and read them, on a server that is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="http://127.0.0.1:9696 or unix:///path/to/api.sock")
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rate", type=float, help="requests per second; as fast as can be")
    parser.add_argument("--get", metavar="PATH", help="read this instead of making ports")
    arguments = parser.parse_args(argv)
    if arguments.get:
        make = getter(arguments.get)
    else:
        make = port_maker(prepare_network(Client(arguments.url)))
    load = run(
        arguments.url,
        make,
        clients=arguments.clients,
        seconds=arguments.seconds,
        rate=arguments.rate,
    )
    print(load)
    return 0 if all(status < 400 for status in load.statuses) else 1


if __name__ == "__main__":
    sys.exit(main())
