"""Upstream: the metadata service, over connections that are used again and again."""

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
"""Seconds after which a connection is not used again: services hang up on silent ones."""
_REPEATABLE = frozenset({"GET", "HEAD", "OPTIONS"})


@frozen(kw_only=True)
class TlsTrust:
    """How the service is known, and how it knows the agent."""

    authorities: str = ""
    """File of certificates; empty: those of the machine."""
    certificate: str = ""
    key: str = ""
    insecure: bool = False
    """Believe anybody."""

    def context(self) -> ssl.SSLContext:
        """What connections are made with.

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
    """Where the metadata service is."""

    host: str
    port: int
    tls: TlsTrust | None = None
    timeout: float = 50.0
    """Seconds that it may take to answer, all in all."""
    connecting: float = 5.0
    """Seconds of these that it may take to be reached."""

    def __str__(self) -> str:
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.tls is None else 'https'}://{name}:{self.port}"


class UpstreamPool:
    """The service, for all threads.

    :raises ConfigError: the files of TLS cannot be used.
    """

    def __init__(self, service: UpstreamConfig, *, spare: int = 32) -> None:
        self._service, self._spare = service, spare
        self._context = None if service.tls is None else service.tls.context()
        self._lock = threading.Lock()
        self._idle: deque[UpstreamConnection] = deque()
        self._closed = False
        self.trouble = ""
        """Why the service did not answer last time; empty: it did."""

    def ask(self, asking: UpstreamRequest) -> UpstreamResponse:
        """What the service says.

        :raises Refusal: it says nothing, and what the guest is told instead.
        """
        until = time.monotonic() + self._service.timeout
        try:
            answered = self._ask(asking, until)
        except TimeoutError as exc:
            raise self._silent(504, "does not answer in time", exc) from exc
        except _Unreachable as exc:
            raise self._silent(503, "cannot be reached", exc.__cause__) from exc
        except (OSError, http.client.HTTPException) as exc:
            raise self._silent(502, "gave no proper answer", exc) from exc
        self._note("")
        return answered

    def close(self) -> None:
        """Keep no connection; those in use end with their exchange."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, deque()
        for link in idle:
            link.close()

    def _ask(self, asking: UpstreamRequest, until: float) -> UpstreamResponse:
        link = self._used() if asking.method in _REPEATABLE else None
        if link is not None:
            with suppress(ConnectionError, http.client.RemoteDisconnected):
                return self._exchange(link, asking, until)
        return self._exchange(self._new(until), asking, until)

    def _exchange(
        self, link: UpstreamConnection, asking: UpstreamRequest, until: float
    ) -> UpstreamResponse:
        try:
            answered, usable = link.exchange(asking, until)
        except BaseException:
            link.close()
            raise
        if not (usable and self._kept(link)):
            link.close()
        return answered

    def _kept(self, link: UpstreamConnection) -> bool:
        """Keep *link* for others, and let go of those that nobody wanted."""
        with self._lock:
            if self._closed or len(self._idle) >= self._spare:
                return False
            self._idle.append(link)
            while link.idle_since - self._idle[0].idle_since > _IDLE:
                self._idle.popleft().close()
        return True

    def _used(self) -> UpstreamConnection | None:
        """A connection that was used before, the youngest first."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                link = self._idle.pop()
            if time.monotonic() - link.idle_since < _IDLE and link.is_quiet:
                return link
            link.close()

    def _new(self, until: float) -> UpstreamConnection:
        service = self._service
        try:
            return UpstreamConnection(
                (service.host, service.port),
                self._context,
                until=until,
                connecting=service.connecting,
            )
        except (TimeoutError, ssl.SSLError):
            raise
        except (OSError, UnicodeError) as exc:
            raise _Unreachable from exc

    def _silent(self, status: int, what: str, exc: BaseException | None) -> HttpError:
        self._note(f"{self._service} {what}: {exc}")
        words = {502: "HTTPBadGateway", 503: "ServiceUnavailable", 504: "HTTPGatewayTimeout"}
        headers = {"Retry-After": RETRY_AFTER} if status == 503 else {}
        return HttpError(status, words[status], f"the metadata service {what}", headers)

    def _note(self, trouble: str) -> None:
        if trouble and not self.trouble:
            LOG.warning("the metadata service %s", trouble)
        elif self.trouble and not trouble:
            LOG.warning("the metadata service %s answers again", self._service)
        self.trouble = trouble


class _Unreachable(Exception):
    """There is no connection to the service."""


def _no_password() -> str:
    raise ValueError("the key has a passphrase, which nobody can type here")
