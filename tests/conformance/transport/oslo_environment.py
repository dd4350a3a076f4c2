"""Transports over a broker that all tests share, with a relay before it."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar

from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.transport import SharedAddress, Transport
from netfw.testing.conformance.transport.environment import TransportEnvironment
from netfw.testing.conformance.transport.suite import TransportConformance
from netfw.testing.lab.services.fault_proxy import FaultProxy
from netfw.testing.lab.services.rabbitmq import PORT, PrivateRabbitmq


class OsloTransports(TransportConformance):
    """A broker is between everybody; ``broker`` is set by a fixture."""

    TIMEOUT: ClassVar[float] = 20.0
    PORTS: ClassVar[Iterator[int]] = itertools.count(15_000 + secrets.randbelow(1_000))
    broker: ClassVar[PrivateRabbitmq]

    def make(self, **options: Any) -> Transport:
        """Return a transport through the relay; no two tests share queues."""
        return create(
            Transport,
            "oslo",
            {
                "transport_url": self.broker.url(port=self.port),
                "max_message_size": self.LIMIT,
                "threads": self.WORKERS,
                "prefix": self.prefix,
                "reconnect_interval": 0.05,
                "reconnect_interval_max": 0.5,
                **options,
            },
            LocalHostResources(),
        )

    @contextmanager
    def make_environment(self) -> Iterator[TransportEnvironment]:
        self.prefix = f"t{secrets.token_hex(4)}"
        self.port = next(self.PORTS)
        self.relay = FaultProxy(("127.0.0.1", self.port), ("127.0.0.1", PORT))
        try:
            with super().make_environment() as environment:
                yield environment
        finally:
            self.relay.close()

    def make_server(self, shared: SharedAddress | None = None) -> Transport:
        return self.make(**(shared.options if shared else {}))

    def make_client(self) -> Transport:
        return self.make()

    def outage(self) -> AbstractContextManager[None]:
        return self.relay.outage()

    def unauthorized_clients(self) -> Iterable[Transport]:
        return [self.make(transport_url=self.broker.url("a wrong password", self.port))]

    def log_text(self) -> str:
        return self.broker.log()
