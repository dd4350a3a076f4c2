"""Notifications: they reach every subscriber, and never delay the publisher."""

from __future__ import annotations

import threading
import time

from netfw.drivers.transport import Message, Stop, Transport
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.transport.environment import (
    SERVER,
    RecordingListener,
    TransportHooks,
    echo,
)

MANY = 500


def notification(topic: str, method: str = "notification") -> Message:
    """Return a notification."""
    return Message(topic=topic, method=method)


class TransportHints(TransportHooks):
    """One test and more per promise about ``publish`` and ``subscribe``."""

    @proves(Transport, 3)
    def test_a_hint_reaches_exactly_the_listeners_of_its_topic(self) -> None:
        with self.make_environment() as environment:
            server = environment.server()
            server.serve(SERVER, echo)
            one, other = environment.client(), environment.client()
            listeners = [RecordingListener() for _ in range(4)]
            one.subscribe("news", listeners[0])
            one.subscribe("news", listeners[1])
            other.subscribe("news", listeners[2])
            other.subscribe("weather", listeners[3])
            for listener in listeners:
                assert listener.wait_for(self.TIMEOUT), "the connection was not announced"
                listener.forget()
            server.publish(notification("news"))
            for listener in listeners[:3]:
                assert listener.wait_for(self.TIMEOUT)
                assert {message.topic for message in listener.received} == {"news"}
            server.publish(notification("weather"))
            assert listeners[3].wait_for(self.TIMEOUT)
            assert {message.topic for message in listeners[3].received} == {"weather"}

    @proves(Transport, 4)
    def test_a_subscriber_is_notified_when_its_subscription_is_active(self) -> None:
        """Check that a subscriber that reads after its notification misses nothing."""
        with self.make_environment() as environment:
            server, client, listener = (
                environment.server(),
                environment.client(),
                RecordingListener(),
            )
            client.subscribe("news", listener)  # no server yet
            server.serve(SERVER, echo)
            for _ in range(3):
                assert listener.wait_for(self.TIMEOUT), "it is never notified"
                listener.forget()
                server.publish(notification("news"))
                assert listener.wait_for(self.TIMEOUT), (
                    "a notification was lost after the confirmation"
                )
                listener.forget()
                listener = RecordingListener()
                client.subscribe("news", listener)

    @proves(Transport, 3)
    def test_publishing_waits_for_no_listener(self) -> None:
        with self.make_environment() as environment:
            server = environment.server()
            server.serve(SERVER, echo)
            stuck, quick = environment.client(), environment.client()
            gate, listener = threading.Event(), RecordingListener()
            began = threading.Event()

            def blocking(message: Message) -> None:
                began.set()
                gate.wait(30)

            stuck.subscribe("news", blocking)
            quick.subscribe("news", listener)
            try:
                assert began.wait(self.TIMEOUT)
                assert listener.wait_for(self.TIMEOUT)
                listener.forget()
                began_at = time.monotonic()
                for _ in range(MANY):
                    server.publish(notification("news"))
                assert time.monotonic() - began_at < self.TIMEOUT / 2, "publish waits"
                assert listener.wait_for(self.TIMEOUT), "a blocked subscriber delays another"
            finally:
                gate.set()

    @proves(Transport, 3)
    def test_publishing_never_fails_because_of_a_listener(self) -> None:
        with self.make_environment() as environment:
            server, client, listener = (
                environment.server(),
                environment.client(),
                RecordingListener(),
            )
            server.publish(notification("news"))
            server.serve(SERVER, echo)
            server.publish(notification("news"))

            def failing(message: Message) -> None:
                raise RuntimeError("a listener that breaks its contract")

            client.subscribe("news", failing)
            client.subscribe("news", listener)
            assert listener.wait_for(self.TIMEOUT)
            assert environment.notification_arrives(server, listener, "news")
            gone = environment.client()
            gone.subscribe("news", RecordingListener())
            gone.close()
            assert environment.notification_arrives(server, listener, "news")

    @proves(Transport, 4)
    def test_registrations_survive_an_interruption(self) -> None:
        with self.make_environment() as environment:
            server, client, listener = (
                environment.server(),
                environment.client(),
                RecordingListener(),
            )
            server.serve(SERVER, echo)
            client.subscribe("news", listener)
            assert listener.wait_for(self.TIMEOUT)
            environment.settle(client)
            for _ in range(2):
                listener.forget()
                with self.outage():
                    server.publish(notification("news"))
                assert listener.wait_for(self.TIMEOUT), (
                    "no notification that some may have been lost"
                )
                assert environment.notification_arrives(server, listener, "news"), (
                    "the listener was forgotten"
                )
                environment.settle(client)

    @proves(Transport, 4)
    def test_clients_find_a_server_that_was_started_again(self) -> None:
        with self.make_environment() as environment:
            server, client, listener = (
                environment.server(),
                environment.client(),
                RecordingListener(),
            )
            server.serve(SERVER, echo)
            client.subscribe("news", listener)
            assert listener.wait_for(self.TIMEOUT)
            environment.settle(client)
            for _ in range(2):
                server.close()
                server = environment.server()
                server.serve(SERVER, echo)
                environment.settle(client)
                assert environment.notification_arrives(server, listener, "news"), (
                    "the listener was forgotten"
                )

    @proves(Transport, 4)
    def test_a_client_can_be_created_without_a_server(self) -> None:
        with self.make_environment() as environment:
            client, listener = environment.client(), RecordingListener()
            with self.outage():
                began = time.monotonic()
                client.subscribe("news", listener)
                assert time.monotonic() - began < self.SLACK, "subscribe waits"
            server = environment.server()
            server.serve(SERVER, echo)
            assert listener.wait_for(self.TIMEOUT)
            assert environment.notification_arrives(server, listener, "news")
            environment.settle(client)

    def test_nothing_is_received_after_the_end_of_a_subscription(self) -> None:
        with self.make_environment() as environment:
            server, client = environment.server(), environment.client()
            server.serve(SERVER, echo)
            ended, going_on = RecordingListener(), RecordingListener()
            stop = client.subscribe("news", ended)
            client.subscribe("news", going_on)
            assert environment.notification_arrives(server, ended, "news")
            stop()
            stop()
            ended.forget()
            for _ in range(3):  # by the third, the first was delivered to both
                assert environment.notification_arrives(server, going_on, "news"), (
                    "the other one is ended, too"
                )
            assert not ended.received, "it is notified although it was stopped"

    def test_a_listener_can_end_its_own_subscription(self) -> None:
        with self.make_environment() as environment:
            server, client, listener = (
                environment.server(),
                environment.client(),
                RecordingListener(),
            )
            server.serve(SERVER, echo)
            stops: list[Stop] = []
            over = threading.Event()

            def stop_once(message: Message) -> None:
                if stops:
                    stops[0]()
                    over.set()

            stops.append(client.subscribe("news", stop_once))
            client.subscribe("news", listener)
            assert environment.notification_arrives(server, listener, "news")
            assert over.wait(self.TIMEOUT), "it waits for itself"
