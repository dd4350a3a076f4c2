"""What the tests of the live page ask, and the commits that they announce."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from netfw.drivers.state_source import Cursor
from tests.server.api.environment import Client, Reply


class Commits:
    """The commits of a database that the test announces."""

    def __init__(self) -> None:
        self.cursor = Cursor("epoch", 7)
        self.listeners: list[Any] = []

    def listen(self, listener: Any) -> Callable[[], None]:
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def commit(self) -> None:
        self.cursor = Cursor(self.cursor.epoch, self.cursor.seq + 1)
        for each in tuple(self.listeners):
            each(self.cursor, None)


def read(client: Client, path: str, /, **query: Any) -> Reply:
    return client.raw("GET", f"/live/{path}", query=urlencode(query))


def shown(client: Client, path: str = "topology", /, **query: Any) -> dict[str, Any]:
    reply = read(client, path, **query)
    assert reply.status == 200, reply.data
    return dict(reply.json)


def make_subnet(client: Client, network: str, number: int) -> dict[str, Any]:
    cidr = f"10.0.{number}.0/24"
    return client.make("subnets", network_id=network, cidr=cidr, ip_version=4)


def two_ports(client: Client, **attributes: Any) -> tuple[str, str]:
    network = client.network(name="green")["id"]
    make_subnet(client, network, 1)
    made = [client.make("ports", network_id=network, name=n, **attributes) for n in ("a", "b")]
    return made[0]["id"], made[1]["id"]


def steps(trace: dict[str, Any]) -> dict[str, str]:
    return {step["title"]: step["state"] for step in trace["steps"]}
