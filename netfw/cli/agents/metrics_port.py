"""A port of an agent for monitors: metrics, liveness and readiness over HTTP."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Self

from prometheus_client import ProcessCollector, generate_latest
from prometheus_client.registry import Collector

from netfw.agents.common.status import AgentStatus
from netfw.cli.agents.metrics_file import make_registry
from netfw.cli.runtime.health import HealthEndpoints
from netfw.http.listen_sockets import listen_tcp, parse_address
from netfw.http.server import HttpServer, HttpSettings

LOG = logging.getLogger(__name__)

OPTION = "[agent] metrics_bind"
LOOPBACK = "127.0.0.1"
LIMITS = HttpSettings(
    threads=2,
    queue=16,
    backlog=16,
    connections=32,
    idle=120.0,
    reading=5.0,
    writing=10.0,
    body=0,
    headers=8 * 1024,
    unsent=8 * 1024 * 1024,
)
"""Prometheus keeps one connection, and asks once a minute or more often."""

StatusReasons = Callable[[AgentStatus], Sequence[str]]


class MetricsPort:
    """Serves the metrics and the readiness of one agent at *address*; a context manager.

    The agent only stores its status here: clients wait for threads of this port alone.

    :raises ConfigError: nothing can listen at the address.
    """

    def __init__(
        self,
        address: str,
        status: AgentStatus,
        more: Sequence[Collector],
        *,
        reasons: StatusReasons,
        stuck: Callable[[], str],
    ) -> None:
        """*reasons* says why a status is not ready, *stuck* why the agent does not get on."""
        text = f"{LOOPBACK}:{address}" if address.isdecimal() else address
        self._listening = listen_tcp(*parse_address(text, option=OPTION), option=OPTION)
        self._status, self._more = status, (*more, ProcessCollector(registry=None))
        app = HealthEndpoints(
            description=f"this is {status.binary}",
            stuck=stuck,
            ready=lambda: _unready(self._status, reasons),
            metrics=self._render,
        )
        self._server = HttpServer(app, self._listening, LIMITS, name="metrics")

    def __call__(self, status: AgentStatus) -> None:
        self._status = status

    def __enter__(self) -> Self:
        self._server.start()
        LOG.info("metrics are on %s port %d", *self._server.address[:2])
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(1.0)
        self._listening.close()

    def _render(self) -> bytes:
        return generate_latest(make_registry(self._status, self._more))


def _unready(status: AgentStatus, reasons: StatusReasons) -> Sequence[str]:
    return () if status.ready else reasons(status) or ("it has not converged yet",)
