"""Server side of a connection."""

from __future__ import annotations

import asyncio
import ssl
import time
from typing import Protocol

from attrs import frozen

from netfw.drivers.transport import Caller, Message
from netfw_drivers.transports.sockets import tokens
from netfw_drivers.transports.sockets.authentication import (
    AccessDenied,
    PeerAuthenticator,
    certified_caller,
)
from netfw_drivers.transports.sockets.connection import FramedConnection
from netfw_drivers.transports.sockets.framing import PROTOCOL, Frame, Malformed, encode
from netfw_drivers.transports.sockets.options import Settings

_MAX_UNANSWERED = 16
"""Requests of one client in flight at most; further ones are not read."""
_MAX_TOPICS = 1000
"""Topics that one client can subscribe to."""


@frozen(eq=False, kw_only=True)
class IncomingRequest:
    """Request, and the connection for its answer."""

    connection: ServerConnection
    number: int
    message: Message
    caller: Caller
    deadline: float
    """Time of :func:`time.monotonic` after which the caller has given up."""
    limit: int
    """Size of the largest frame that the client accepts."""


class ConnectionOwner(Protocol):
    """Callbacks of a connection to its server."""

    authenticator: PeerAuthenticator

    def log_refusal(self, peer: str, reason: str) -> None:
        """Log that *peer* was refused."""

    def request(self, call: IncomingRequest) -> None:
        """Process a request, and pass its answer to :meth:`ServerConnection.answer`."""

    def subscribed(self, connection: ServerConnection, topic: str) -> None:
        """Add a subscriber of a topic."""

    def unsubscribed(self, connection: ServerConnection, topic: str) -> None:
        """Remove a subscriber of a topic."""

    def disconnected(self, connection: ServerConnection) -> None:
        """Remove a closed connection."""


class ServerConnection(FramedConnection):
    """Authenticates the client, then handles its requests and subscriptions."""

    def __init__(
        self, owner: ConnectionOwner, settings: Settings, peer: str, caller: Caller | None
    ) -> None:
        super().__init__(settings)
        self._owner, self._peer = owner, peer
        self._caller = caller
        self._nonce = tokens.nonce()
        self._admitted = False
        self.token: tokens.Token | None = None
        """The token that the client proved."""
        self._unanswered = 0
        self._stopping = False
        self._keepalive_timer: asyncio.TimerHandle | None = None
        self._pending: dict[str, bytes] = {}
        self.topics: set[str] = set()
        self.gone.add_done_callback(lambda _: owner.disconnected(self))

    def start_handshake(self, secured: ssl.SSLObject | None) -> None:
        """Start the handshake, after that of TLS if there is one."""
        try:
            if secured is not None and self.settings.tls.authorities:
                certificate = secured.getpeercert() or {}
                names_host = self.settings.tls.names_host
                self._caller = certified_caller(certificate, names_host=names_host)
        except AccessDenied as exc:
            self.refuse(str(exc))
            return
        if self._caller is not None and (secured is None or self.settings.token_file is None):
            self._welcome("")
        else:
            self.send(encode({"kind": "prove", "protocol": PROTOCOL, "nonce": self._nonce}))

    def notify(self, topic: str, data: bytes) -> None:
        """Send a notification; while the client does not read, keep the last one of each topic."""
        if self.is_write_paused:
            self._pending[topic] = data
        else:
            self.send(data)

    def answer(self, data: bytes) -> None:
        """Send an answer, and resume reading requests."""
        self._unanswered -= 1
        if self.backlog > 2 * self.settings.max_message_size:
            self.refuse("it does not read its answers")
        self.send(data)
        self._update_reading()

    @property
    def has_unanswered(self) -> bool:
        """Whether requests are unanswered."""
        return self._unanswered > 0

    def stop_requests(self) -> None:
        """Read no more requests; those already read are answered."""
        self._stopping = True
        self._update_reading()

    def log_refusal(self, reason: str) -> None:
        self._owner.log_refusal(self._peer, reason)

    def handle_frame(self, frame: Frame) -> None:
        if not self._admitted or self._caller is None:
            self._check(frame)
        elif frame.kind == "call":
            self._call(frame, self._caller)
        elif frame.kind == "subscribe":
            self._subscribe(frame.texts("topics"))
        elif frame.kind == "unsubscribe":
            for topic in self.topics & set(frame.texts("topics")):
                self.topics.discard(topic)
                self._owner.unsubscribed(self, topic)
        else:
            raise Malformed(f"{frame.kind[:40]!r} is not a frame of a client")

    def pause_writing(self) -> None:
        super().pause_writing()
        self._update_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        pending, self._pending = self._pending, {}
        for topic, data in pending.items():
            if topic in self.topics:
                self.notify(topic, data)
        self._update_reading()

    def _check(self, frame: Frame) -> None:
        """Check the client's proof of a token, in the same time for an unknown host."""
        if frame.kind != "proof":
            raise Malformed(f"{frame.kind[:40]!r} before authentication")
        host, nonce, given = frame.text("host"), frame.text("nonce"), frame.text("proof")
        token = tokens.find_proven(
            given, self._owner.authenticator.tokens_of(host), self._nonce, nonce
        )
        if token is None:
            self.send(encode({"kind": "refused", "text": "the server does not know that token"}))
            self.refuse(f"a wrong token for host {host[:100]!r}")
            return
        caller = Caller(f"token:{host}", token.speaks_for, token.services)
        self._caller = _agree(self._caller, caller)
        if self._caller is None:
            self.refuse(f"its certificate speaks for another host than its token, {host[:100]!r}")
            return
        self.token = token
        self._welcome(tokens.proof(token, "server", self._nonce, nonce))

    def _welcome(self, proof: str) -> None:
        self._admitted = True
        self.admit()
        limit = self.settings.max_message_size
        self.send(encode({"kind": "welcome", "protocol": PROTOCOL, "proof": proof, "limit": limit}))

    def _call(self, frame: Frame, caller: Caller) -> None:
        call = IncomingRequest(
            connection=self,
            number=frame.number,
            message=frame.message(),
            caller=caller,
            deadline=time.monotonic() + min(frame.amount("timeout", 60.0), 86_400.0),
            limit=int(min(frame.amount("limit", 1 << 30), self.settings.max_message_size)),
        )
        self._unanswered += 1
        self._owner.request(call)
        self._update_reading()

    def _subscribe(self, topics: tuple[str, ...]) -> None:
        if len(self.topics | set(topics)) > _MAX_TOPICS:
            raise Malformed(f"it subscribes to more than {_MAX_TOPICS} topics")
        for topic in topics:
            self.topics.add(topic)
            self._owner.subscribed(self, topic)
        self.send(encode({"kind": "subscribed", "topics": list(topics)}))

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._update_keepalive(paused=False)

    def _update_reading(self) -> None:
        paused = self._stopping or self._unanswered >= _MAX_UNANSWERED or self.is_write_paused
        self.set_reading_paused(paused)
        self._update_keepalive(paused=paused)

    def _update_keepalive(self, *, paused: bool) -> None:
        """Start or stop the timer of keepalives: while reading is paused, probes are not read."""
        if not paused and self._keepalive_timer is not None:
            self._keepalive_timer.cancel()
            self._keepalive_timer = None
        elif paused and self._keepalive_timer is None:
            self._schedule_keepalive()

    def _schedule_keepalive(self) -> None:
        self._keepalive_timer = self._loop.call_later(self.settings.idle / 2, self._keep_alive)

    def _keep_alive(self) -> None:
        """Send what answers a probe, unless the write buffer is full."""
        if not self.is_write_paused:
            self._subscribe(())
        self._schedule_keepalive()


def _agree(certified: Caller | None, token: Caller) -> Caller | None:
    """Combine certificate and token; ``None``: they are for different hosts."""
    if certified is None:
        return token
    if certified.host and token.host and certified.host != token.host:
        return None
    return Caller(certified.name, certified.host or token.host, token.services)
