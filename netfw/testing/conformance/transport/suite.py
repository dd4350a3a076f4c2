"""The suite of `Transport`: subclass it, override the hooks, run pytest.

Configure the transports that the hooks make to carry messages of at most ``LIMIT`` bytes and to
handle ``WORKERS`` requests at a time.
"""

from __future__ import annotations

import pytest

from netfw.drivers.transport import Stop, Transport
from netfw.errors import BackendUnavailable, Conflict
from netfw.testing.conformance.common.promises import proves, proves_raise
from netfw.testing.conformance.transport.calls import TransportCalls
from netfw.testing.conformance.transport.environment import (
    SERVER,
    BackgroundCall,
    RecordingListener,
    echo,
    request,
)
from netfw.testing.conformance.transport.notifications import TransportHints

_RETURN = 1.0
"""Seconds within which a call that does not wait returns."""


class TransportConformance(TransportCalls, TransportHints):
    """One test or more per promise of :class:`Transport`."""

    @proves_raise(Transport, "serve", Conflict)
    def test_a_topic_is_served_once_by_one_object(self) -> None:
        with self.make_environment() as environment:
            server = environment.server()
            stop = server.serve(SERVER, echo)
            with pytest.raises(Conflict):
                server.serve(SERVER, echo)
            server.serve("another", echo)
            stop()
            server.serve(SERVER, echo)
            client = environment.client()
            environment.settle(client)
            environment.settle(client, "another")

    @proves_raise(Transport, "share_address", Conflict)
    def test_an_address_is_shared_only_with_its_own_workers(self) -> None:
        with self.make_environment() as environment:
            first = environment.server()
            shared = first.share_address()
            if shared.options or shared.descriptors:
                for other in (environment.server(), environment.server()):
                    with pytest.raises(Conflict):
                        other.share_address()
                    with pytest.raises(Conflict):
                        other.serve(SERVER, echo)
            servers = [environment.server(shared) for _ in range(2)]
            for server in servers:
                server.serve(SERVER, echo)
            clients = [environment.client() for _ in range(4)]
            listeners = [RecordingListener() for _ in clients]
            for client, listener in zip(clients, listeners, strict=True):
                client.subscribe("news", listener)
                environment.settle(client)
                assert listener.wait_for(self.TIMEOUT)
                listener.forget()
            for server in servers:
                server.publish(request("notification", topic="news"))
            assert all(listener.wait_for(self.TIMEOUT) for listener in listeners)
            servers[0].close()
            for client in clients:
                environment.settle(client)

    @proves(Transport, 7)
    def test_the_end_of_a_registration_waits_for_its_handlers(self) -> None:
        with self.make_environment() as environment:
            server, client, gate = (
                environment.server(),
                environment.client(),
                environment.gatekeeper(),
            )
            stop = server.serve(SERVER, gate)
            server.serve("another", echo)
            environment.settle(client)
            call = BackgroundCall(lambda: client.call(request("wait"), self.TIMEOUT))
            assert gate.holds(self.TIMEOUT)
            stopping = BackgroundCall(stop)
            assert not stopping.ends(_RETURN), "it does not wait for the handler"
            gate.open()
            assert stopping.ends(self.TIMEOUT)
            assert gate.ended == 1
            assert call.ends(self.TIMEOUT)
            assert call.error is None, "the answer of a handler that has ended is lost"
            with pytest.raises(BackendUnavailable):
                client.call(request("echo"), self.SHORT)
            stop()
            environment.settle(client, "another")

    def test_a_handler_can_end_its_own_registration(self) -> None:
        with self.make_environment() as environment:
            server, client = environment.server(), environment.client()
            stops: list[Stop] = []

            def handler(message: object, caller: object) -> object:
                if request("stop") == message:
                    stops[0]()
                return message

            stops.append(server.serve(SERVER, handler))  # type: ignore[arg-type]
            environment.settle(client)
            assert client.call(request("stop"), self.TIMEOUT).method == "stop"

    @proves(Transport, 7)
    def test_closing_a_transport_fails_its_waiting_calls(self) -> None:
        with self.make_environment() as environment:
            gate = environment.gatekeeper()
            client = environment.pair(gate)
            call = BackgroundCall(lambda: client.call(request("wait"), 60.0))
            assert gate.holds(self.TIMEOUT)
            closing = BackgroundCall(client.close)
            assert call.ends(self.TIMEOUT), "it goes on waiting"
            assert isinstance(call.error, BackendUnavailable), call.error
            assert closing.ends(self.TIMEOUT)
            client.close()
            with pytest.raises(BackendUnavailable):
                client.call(request("echo"), self.SHORT)
            client.publish(request("notification", topic="news"))

    @proves(Transport, 7)
    def test_a_server_that_is_closed_lets_handlers_finish(self) -> None:
        with self.make_environment() as environment:
            server, client, gate = (
                environment.server(),
                environment.client(),
                environment.gatekeeper(),
            )
            server.serve(SERVER, gate)
            environment.settle(client)
            call = BackgroundCall(lambda: client.call(request("wait"), self.TIMEOUT))
            assert gate.holds(self.TIMEOUT)
            closing = BackgroundCall(server.close)
            assert not closing.ends(_RETURN), "it does not wait for the handler"
            gate.open()
            assert closing.ends(self.TIMEOUT)
            assert gate.ended == 1
            assert call.ends(self.TIMEOUT)
            assert call.error is None, "the answer of a handler that has ended is lost"
            with pytest.raises(BackendUnavailable):
                client.call(request("echo"), self.SHORT)


CONTRACTS = (Transport,)
"""The contracts that the suite tests."""
