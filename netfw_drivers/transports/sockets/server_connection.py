"""A client's connection, as the server sees it."""

from __future__ import annotations

import ssl
import time
from typing import Protocol

from attrs import frozen

from netfw.drivers.transport import Caller, Message
from netfw.errors import ConfigError
from netfw_drivers.transports.sockets import tokens
from netfw_drivers.transports.sockets.authentication import (
    AccessDenied,
    PeerAuthenticator,
    certified_caller,
)
from netfw_drivers.transports.sockets.connection import FramedConnection
from netfw_drivers.transports.sockets.framing import Frame, Malformed, encode
from netfw_drivers.transports.sockets.options import Settings

PROTOCOL = 1
_UNANSWERED = 16
"""Requests of one client that are under way at most; it waits with the others."""
_TOPICS = 1000
"""Topics that one client can listen to."""


@frozen(eq=False, kw_only=True)
class Call:
    """A request and where its answer goes."""

    connection: ServerConnection
    number: int
    message: Message
    caller: Caller
    deadline: float
    """When, in terms of :func:`time.monotonic`, nobody waits for the answer any more."""
    limit: int
    """Size of the largest frame that the client takes."""


class ConnectionOwner(Protocol):
    """What the server does about its guests."""

    authenticator: PeerAuthenticator

    def log_refusal(self, peer: str, reason: str) -> None:
        """Somebody is refused."""

    def request(self, call: Call) -> None:
        """Have a request answered, by :meth:`ServerConnection.answer`."""

    def subscribed(self, guest: ServerConnection, topic: str) -> None:
        """A guest listens to a topic."""

    def unsubscribed(self, guest: ServerConnection, topic: str) -> None:
        """A guest listens no more."""

    def disconnected(self, guest: ServerConnection) -> None:
        """A guest's connection is no more."""


class ServerConnection(FramedConnection):
    """Proves who the client is, then takes requests and keeps the topics it listens to."""

    def __init__(
        self, front: ConnectionOwner, settings: Settings, peer: str, caller: Caller | None
    ) -> None:
        super().__init__(settings)
        self._front, self._peer = front, peer
        self._caller = caller
        self._nonce = tokens.nonce()
        self._admitted = False
        self._unanswered = 0
        self._dismissed = False
        self._hints: dict[str, bytes] = {}
        self.topics: set[str] = set()
        self.gone.add_done_callback(lambda _: front.disconnected(self))

    def start_handshake(self, secured: ssl.SSLObject | None) -> None:
        """Begin the conversation, once TLS is done where it is spoken."""
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
        """Pass a hint on; while the client reads nothing, the last one of each topic is kept."""
        if self.is_write_paused:
            self._hints[topic] = data
        else:
            self.send(data)

    def answer(self, data: bytes) -> None:
        """Send an answer, and take the next request."""
        self._unanswered -= 1
        if self.backlog > 2 * self.settings.message_size:
            self.refuse("it does not read its answers")
        self.send(data)
        self._regulate()

    @property
    def has_unanswered(self) -> bool:
        """Whether it has asked for something that it was not told yet."""
        return self._unanswered > 0

    def stop_requests(self) -> None:
        """Take no more requests; those that were taken are answered."""
        self._dismissed = True
        self._regulate()

    def log_refusal(self, reason: str) -> None:
        self._front.log_refusal(self._peer, reason)

    def handle_frame(self, frame: Frame) -> None:
        if not self._admitted or self._caller is None:
            self._check(frame)
        elif frame.kind == "call":
            self._call(frame, self._caller)
        elif frame.kind == "listen":
            self._listen(frame.texts("topics"))
        elif frame.kind == "unlisten":
            for topic in self.topics & set(frame.texts("topics")):
                self.topics.discard(topic)
                self._front.unsubscribed(self, topic)
        else:
            raise Malformed(f"{frame.kind[:40]!r} is nothing that a client says")

    def pause_writing(self) -> None:
        super().pause_writing()
        self._regulate()

    def resume_writing(self) -> None:
        super().resume_writing()
        hints, self._hints = self._hints, {}
        for topic, data in hints.items():
            if topic in self.topics:
                self.notify(topic, data)
        self._regulate()

    def _check(self, frame: Frame) -> None:
        """Whether the client knows a token.  The same is done for one who names an unknown host."""
        if frame.kind != "proof":
            raise Malformed(f"{frame.kind[:40]!r} before it is known who speaks")
        host, nonce, given = frame.text("host"), frame.text("nonce"), frame.text("proof")
        try:
            known = self._front.authenticator.tokens().get(host)
        except ConfigError as exc:
            self.refuse(str(exc))
            return
        token = known or tokens.dummy_token()
        if not tokens.proves(given, token, "client", self._nonce, nonce) or known is None:
            self.send(encode({"kind": "refused", "text": "the server does not know that token"}))
            self.refuse(f"a wrong token for host {host[:100]!r}")
            return
        self._caller = _agree(self._caller, Caller(f"token:{host}", token.speaks_for))
        if self._caller is None:
            self.refuse(f"its certificate speaks for another host than its token, {host[:100]!r}")
            return
        self._welcome(tokens.proof(token, "server", self._nonce, nonce))

    def _welcome(self, proof: str) -> None:
        self._admitted = True
        self.admit()
        limit = self.settings.message_size
        self.send(encode({"kind": "welcome", "protocol": PROTOCOL, "proof": proof, "limit": limit}))

    def _call(self, frame: Frame, caller: Caller) -> None:
        call = Call(
            connection=self,
            number=frame.number,
            message=frame.message(),
            caller=caller,
            deadline=time.monotonic() + min(frame.amount("timeout", 60.0), 86_400.0),
            limit=int(min(frame.amount("limit", 1 << 30), self.settings.message_size)),
        )
        self._unanswered += 1
        self._front.request(call)
        self._regulate()

    def _listen(self, topics: tuple[str, ...]) -> None:
        if len(self.topics | set(topics)) > _TOPICS:
            raise Malformed(f"it listens to more than {_TOPICS} topics")
        for topic in topics:
            self.topics.add(topic)
            self._front.subscribed(self, topic)
        self.send(encode({"kind": "listening", "topics": list(topics)}))

    def _regulate(self) -> None:
        self.set_reading_paused(
            self._dismissed or self._unanswered >= _UNANSWERED or self.is_write_paused
        )


def _agree(certified: Caller | None, token: Caller) -> Caller | None:
    """Who has shown both a certificate and a token; ``None``: they speak for different hosts."""
    if certified is None:
        return token
    if certified.host and token.host and certified.host != token.host:
        return None
    return Caller(certified.name, certified.host or token.host)
