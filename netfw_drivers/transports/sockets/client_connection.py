"""Client side of a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from netfw.drivers.support.error_codec import decode_error
from netfw.drivers.transport import Message
from netfw.errors import BackendUnavailable, NetfwError
from netfw_drivers.transports.sockets import tokens
from netfw_drivers.transports.sockets.connection import CLOSED, FramedConnection
from netfw_drivers.transports.sockets.framing import PROTOCOL, Frame, Malformed, encode
from netfw_drivers.transports.sockets.options import Settings
from netfw_drivers.transports.sockets.tokens import Token


class HandshakeRefused(BackendUnavailable):
    """A process listens at the address, and one of the two sides refuses the other."""


class ClientConnection(FramedConnection):
    """Authenticates client and server to each other, then dispatches answers and notifications.

    Both sides must know *token*.  Unless *verified* (TLS, or a unix socket), a server that does not
    request the token is refused: any process could listen there.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        token: Token | None,
        verified: bool,
        answered: Callable[[int, Message | NetfwError], None],
        on_notification: Callable[[Message], None],
    ) -> None:
        super().__init__(settings)
        self._token, self._verified = token, verified
        self._answered, self._on_notification = answered, on_notification
        self._nonces: tuple[str, str] | None = None
        self._refused = False
        self.limit = settings.max_message_size
        """Size of the largest frame that both sides take."""
        self.ready = asyncio.get_running_loop().create_future()
        """Done when requests can be sent; fails when they never can."""
        self.gone.add_done_callback(self._give_up)

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to *topics*; the server confirms each."""
        named = sorted(topics)
        for start in range(0, len(named), 100):
            self.send(encode({"kind": "subscribe", "topics": named[start : start + 100]}))

    def unsubscribe(self, topic: str) -> None:
        """Unsubscribe from *topic*."""
        self.send(encode({"kind": "unsubscribe", "topics": [topic]}))

    def probe(self) -> None:
        """Have the server send a frame: it confirms a subscription to no topic."""
        self.send(encode({"kind": "subscribe", "topics": []}))

    def log_refusal(self, reason: str) -> None:
        """Log nothing: ``gone`` carries the reason."""

    def handle_frame(self, frame: Frame) -> None:
        if not self.ready.done():
            try:
                self._shake_hands(frame)
            except Malformed:
                self._refused = True
                raise
        elif frame.kind == "answer":
            self._answered(frame.number, frame.message())
        elif frame.kind == "error":
            self._answered(frame.number, decode_error(frame.body))
        elif frame.kind == "notification":
            self._on_notification(frame.message())
        elif frame.kind == "subscribed":
            for topic in frame.texts("topics"):
                self._on_notification(Message(topic=topic, method="subscribed"))
        else:
            raise Malformed(f"{frame.kind[:40]!r} is not a frame of a server")

    def _shake_hands(self, frame: Frame) -> None:
        if frame.kind in ("prove", "welcome"):
            _check_protocol(frame.header.get("protocol"))
        if frame.kind == "prove":
            self._prove(frame.text("nonce"))
        elif frame.kind == "welcome":
            self._check(frame.text("proof"))
            self.limit = int(min(self.settings.max_message_size, frame.amount("limit", 1 << 30)))
            self.admit()
            self.ready.set_result(None)
        elif frame.kind == "refused":
            self._refused = True
            self.close(f"it refused this client: {frame.text('text')[:200]}", at_once=True)
        else:
            raise Malformed(f"{frame.kind[:40]!r} before a handshake")

    def _prove(self, server_nonce: str) -> None:
        if self._token is None:
            raise Malformed("the server asks for a token: set token_file")
        nonce = tokens.nonce()
        self._nonces = server_nonce, nonce
        proof = tokens.proof(self._token, "client", server_nonce, nonce)
        host = self._token.host
        self.send(encode({"kind": "proof", "host": host, "nonce": nonce, "proof": proof}))

    def _check(self, proof: str) -> None:
        """Raise unless the server has proved its identity."""
        if self._nonces is None or self._token is None:
            if not self._verified:
                raise Malformed("the process that listens there requests no token: it is no server")
        elif not tokens.proves(proof, self._token, "server", *self._nonces):
            raise Malformed(
                "the process that listens there does not know the token: it is no server"
            )

    def _give_up(self, gone: asyncio.Future[str]) -> None:
        if not self.ready.done():
            reason = gone.result()
            if reason == CLOSED:  # TLS 1.3 verifies a client after its side of the handshake
                reason += " during the handshake: the log of the server has the reason"
            error = HandshakeRefused if self._refused else BackendUnavailable
            self.ready.set_exception(error(reason))
            self.ready.exception()  # the connecting task may have given up before


def _check_protocol(version: object) -> None:
    if version != PROTOCOL:
        quoted = repr(version)[:40]
        raise Malformed(
            f"the server has version {quoted} of the socket protocol and this client version "
            f"{PROTOCOL}: install releases of netfw with the same version on both"
        )
