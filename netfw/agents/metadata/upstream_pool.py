"""Connection pool to the metadata service.

A connection is used for one instance only: bytes that a defective service leaves on it, such as the
response to a request that an instance hid in another, cannot reach another instance.
"""

from __future__ import annotations

import http.client
import logging
import ssl
import threading
import time
from collections import deque
from contextlib import suppress

from attrs import frozen

from netfw.agents.metadata.upstream_connection import (
    UpstreamConnection,
    UpstreamRequest,
    UpstreamResponse,
)
from netfw.errors import ConfigError
from netfw.http.http_error import RETRY_AFTER, HttpError

LOG = logging.getLogger(__name__)

_IDLE = 15.0
"""Seconds after which an idle connection is not reused: services close idle ones."""
_REPEATABLE = frozenset({"GET", "HEAD", "OPTIONS"})


@frozen(kw_only=True)
class TlsTrust:
    """The TLS settings: certificate authorities and client certificate."""

    authorities: str = ""
    """File of CA certificates; empty: those of the machine."""
    certificate: str = ""
    key: str = ""
    insecure: bool = False
    """Do not verify the server's certificate."""

    def context(self) -> ssl.SSLContext:
        """Build the TLS context.

        :raises ConfigError: a file cannot be used.
        """
        if self.key and not self.certificate:
            raise ConfigError("nova_client_priv_key needs nova_client_cert")
        try:
            context = ssl.create_default_context(cafile=self.authorities or None)
            if self.certificate:
                context.load_cert_chain(self.certificate, self.key or None, password=_no_password)
        except (OSError, ValueError) as exc:
            files = ", ".join(filter(None, (self.authorities, self.certificate, self.key)))
            raise ConfigError(
                f"TLS to the metadata service cannot be had with {files}: {exc}; look at "
                "auth_ca_cert, nova_client_cert and nova_client_priv_key"
            ) from exc
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


@frozen(kw_only=True)
class UpstreamConfig:
    """The address and limits of the metadata service."""

    host: str
    port: int
    tls: TlsTrust | None = None
    timeout: float = 50.0
    """Seconds for a request in all."""
    connecting: float = 5.0
    """Seconds of these for the connection."""

    def __str__(self) -> str:
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.tls is None else 'https'}://{name}:{self.port}"


class UpstreamPool:
    """Connections to the service, for all threads.

    :raises ConfigError: the files of TLS cannot be used.
    """

    def __init__(self, service: UpstreamConfig, *, spare: int = 32) -> None:
        self._service, self._spare = service, spare
        self._context = None if service.tls is None else service.tls.context()
        self._lock = threading.Lock()
        self._idle: deque[UpstreamConnection] = deque()
        self._closed = False
        self.problem = ""
        """Why the last request got no answer; empty: it did."""

    def send(self, request: UpstreamRequest, instance: str) -> UpstreamResponse:
        """Send a request of the instance with that id to the service; return its response.

        :raises HttpError: there is none; the error response for the guest.
        """
        until = time.monotonic() + self._service.timeout
        try:
            response = self._send(request, instance, until)
        except TimeoutError as exc:
            raise self._error(504, "does not answer in time", exc) from exc
        except _Unreachable as exc:
            raise self._error(503, "cannot be reached", exc.__cause__) from exc
        except (OSError, http.client.HTTPException) as exc:
            raise self._error(502, "gave no proper answer", exc) from exc
        self._set_problem("")
        return response

    def close(self) -> None:
        """Close idle connections; those in use are closed after their exchange."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, deque()
        for connection in idle:
            connection.close()

    def _send(self, request: UpstreamRequest, instance: str, until: float) -> UpstreamResponse:
        connection = self._reuse(instance) if request.method in _REPEATABLE else None
        if connection is not None:
            with suppress(ConnectionError, http.client.RemoteDisconnected):
                return self._exchange(connection, request, until)
        return self._exchange(self._connect(instance, until), request, until)

    def _exchange(
        self, connection: UpstreamConnection, request: UpstreamRequest, until: float
    ) -> UpstreamResponse:
        try:
            response, reusable = connection.exchange(request, until)
        except BaseException:
            connection.close()
            raise
        if not (reusable and self._keep(connection)):
            connection.close()
        return response

    def _keep(self, connection: UpstreamConnection) -> bool:
        """Return *connection* to the pool; close the oldest beyond its size, and those too old."""
        with self._lock:
            if self._closed:
                return False
            oldest = connection.idle_since - _IDLE
            self._idle.append(connection)
            while len(self._idle) > self._spare or self._idle[0].idle_since < oldest:
                self._idle.popleft().close()
        return True

    def _reuse(self, instance: str) -> UpstreamConnection | None:
        """Take a reusable connection of *instance* from the pool, the most recently used first."""
        while True:
            with self._lock:
                own = (each for each in reversed(self._idle) if each.instance == instance)
                connection = next(own, None)
                if connection is None:
                    return None
                self._idle.remove(connection)
            if time.monotonic() - connection.idle_since < _IDLE and connection.is_reusable:
                return connection
            connection.close()

    def _connect(self, instance: str, until: float) -> UpstreamConnection:
        service = self._service
        try:
            return UpstreamConnection(
                (service.host, service.port),
                self._context,
                instance=instance,
                until=until,
                connecting=service.connecting,
            )
        except (TimeoutError, ssl.SSLError):
            raise
        except (OSError, UnicodeError) as exc:
            raise _Unreachable from exc

    def _error(self, status: int, what: str, exc: BaseException | None) -> HttpError:
        self._set_problem(f"{self._service} {what}: {exc}")
        words = {502: "HTTPBadGateway", 503: "ServiceUnavailable", 504: "HTTPGatewayTimeout"}
        headers = {"Retry-After": RETRY_AFTER} if status == 503 else {}
        return HttpError(status, words[status], f"the metadata service {what}", headers)

    def _set_problem(self, problem: str) -> None:
        if problem and not self.problem:
            LOG.warning("metadata service %s", problem)
        elif self.problem and not problem:
            LOG.warning("metadata service %s: recovered", self._service)
        self.problem = problem


class _Unreachable(Exception):
    """There is no connection to the service."""


def _no_password() -> str:
    raise ValueError("the key has a passphrase, which cannot be entered here")
