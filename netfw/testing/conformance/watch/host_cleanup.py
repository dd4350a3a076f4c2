"""Resources of hosts that are made while a test runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from netfw.drivers.registry.local_host_resources import LocalHostResources


@contextmanager
def closed_hosts() -> Iterator[None]:
    """Close the resources of the hosts that are made in this context: no driver owns them."""
    made: list[LocalHostResources] = []
    original = LocalHostResources.__init__

    def init(host: LocalHostResources) -> None:
        original(host)
        made.append(host)

    LocalHostResources.__init__ = init  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        LocalHostResources.__init__ = original  # type: ignore[method-assign]
        for host in made:
            host.close()
