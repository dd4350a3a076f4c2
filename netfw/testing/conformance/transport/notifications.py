"""Hints: they reach everybody who listens, and hold up nobody who sends."""

from __future__ import annotations

import threading
import time

from netfw.drivers.transport import Message, Stop, Transport
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.transport.environment import (
    SERVER,
    RecordingListener,
    TransportStage,
    echo,
)

MANY = 500


def hint(topic: str, method: str = "hint") -> Message:
    """A hint."""
    return Message(topic=topic, method=method)


class TransportHints(TransportStage):
    """One test and more per promise about ``publish`` and ``subscribe``."""

    @proves(Transport, 3)
    def test_a_hint_reaches_everybody_who_listens_and_nobody_else(self) -> None:
        with self.stage() as stage:
            server = stage.server()
            server.serve(SERVER, echo)
            one, other = stage.client(), stage.client()
            ears = [RecordingListener() for _ in range(4)]
            one.subscribe("news", ears[0])
            one.subscribe("news", ears[1])
            other.subscribe("news", ears[2])
            other.subscribe("weather", ears[3])
            for ear in ears:
                assert ear.hears(self.PATIENCE), "nobody said that it can be reached"
                ear.forget()
            server.publish(hint("news"))
            for ear in ears[:3]:
                assert ear.hears(self.PATIENCE)
                assert {message.topic for message in ear.heard} == {"news"}
            server.publish(hint("weather"))
            assert ears[3].hears(self.PATIENCE)
            assert {message.topic for message in ears[3].heard} == {"weather"}

    @proves(Transport, 4)
    def test_who_subscribes_is_told_when_he_can_be_reached(self) -> None:
        """Whoever was told, and asks after that, misses nothing."""
        with self.stage() as stage:
            server, client, ear = stage.server(), stage.client(), RecordingListener()
            client.subscribe("news", ear)  # nobody is there yet
            server.serve(SERVER, echo)
            for _ in range(3):
                assert ear.hears(self.PATIENCE), "it is never told"
                ear.forget()
                server.publish(hint("news"))
                assert ear.hears(self.PATIENCE), "a hint was lost after it was told"
                ear.forget()
                ear = RecordingListener()
                client.subscribe("news", ear)

    @proves(Transport, 3)
    def test_publishing_waits_for_nobody(self) -> None:
        with self.stage() as stage:
            server = stage.server()
            server.serve(SERVER, echo)
            stuck, quick = stage.client(), stage.client()
            gate, ear = threading.Event(), RecordingListener()
            began = threading.Event()

            def blocking(message: Message) -> None:
                began.set()
                gate.wait(30)

            stuck.subscribe("news", blocking)
            quick.subscribe("news", ear)
            try:
                assert began.wait(self.PATIENCE)
                assert ear.hears(self.PATIENCE)
                ear.forget()
                began_at = time.monotonic()
                for _ in range(MANY):
                    server.publish(hint("news"))
                assert time.monotonic() - began_at < self.PATIENCE / 2, "publish waits"
                assert ear.hears(self.PATIENCE), "one who is stuck holds up another"
            finally:
                gate.set()

    @proves(Transport, 3)
    def test_publishing_fails_because_of_nobody(self) -> None:
        with self.stage() as stage:
            server, client, ear = stage.server(), stage.client(), RecordingListener()
            server.publish(hint("news"))
            server.serve(SERVER, echo)
            server.publish(hint("news"))

            def failing(message: Message) -> None:
                raise RuntimeError("a listener that breaks its contract")

            client.subscribe("news", failing)
            client.subscribe("news", ear)
            assert ear.hears(self.PATIENCE)
            assert stage.hint_arrives(server, ear, "news")
            gone = stage.client()
            gone.subscribe("news", RecordingListener())
            gone.close()
            assert stage.hint_arrives(server, ear, "news")

    @proves(Transport, 4)
    def test_registrations_survive_an_interruption(self) -> None:
        with self.stage() as stage:
            server, client, ear = stage.server(), stage.client(), RecordingListener()
            server.serve(SERVER, echo)
            client.subscribe("news", ear)
            assert ear.hears(self.PATIENCE)
            stage.settle(client)
            for _ in range(2):
                ear.forget()
                with self.outage():
                    server.publish(hint("news"))
                assert ear.hears(self.PATIENCE), "no hint that some may have been lost"
                assert stage.hint_arrives(server, ear, "news"), "the listener was forgotten"
                stage.settle(client)

    @proves(Transport, 4)
    def test_clients_find_a_server_that_was_started_again(self) -> None:
        with self.stage() as stage:
            server, client, ear = stage.server(), stage.client(), RecordingListener()
            server.serve(SERVER, echo)
            client.subscribe("news", ear)
            assert ear.hears(self.PATIENCE)
            stage.settle(client)
            for _ in range(2):
                server.close()
                server = stage.server()
                server.serve(SERVER, echo)
                stage.settle(client)
                assert stage.hint_arrives(server, ear, "news"), "the listener was forgotten"

    @proves(Transport, 4)
    def test_nobody_needs_to_be_there_when_a_client_is_made(self) -> None:
        with self.stage() as stage:
            client, ear = stage.client(), RecordingListener()
            with self.outage():
                began = time.monotonic()
                client.subscribe("news", ear)
                assert time.monotonic() - began < self.SLACK, "subscribe waits"
            server = stage.server()
            server.serve(SERVER, echo)
            assert ear.hears(self.PATIENCE)
            assert stage.hint_arrives(server, ear, "news")
            stage.settle(client)

    def test_nothing_is_heard_after_the_end_of_a_subscription(self) -> None:
        with self.stage() as stage:
            server, client = stage.server(), stage.client()
            server.serve(SERVER, echo)
            ended, going_on = RecordingListener(), RecordingListener()
            stop = client.subscribe("news", ended)
            client.subscribe("news", going_on)
            assert stage.hint_arrives(server, ended, "news")
            stop()
            stop()
            ended.forget()
            for _ in range(3):  # whoever is told of the first later than the other is by the third
                assert stage.hint_arrives(server, going_on, "news"), "the other one is ended, too"
            assert not ended.heard, "it hears although it was stopped"

    def test_a_listener_can_end_its_own_subscription(self) -> None:
        with self.stage() as stage:
            server, client, ear = stage.server(), stage.client(), RecordingListener()
            server.serve(SERVER, echo)
            stops: list[Stop] = []
            over = threading.Event()

            def listener(message: Message) -> None:
                if stops:
                    stops[0]()
                    over.set()

            stops.append(client.subscribe("news", listener))
            client.subscribe("news", ear)
            assert stage.hint_arrives(server, ear, "news")
            assert over.wait(self.PATIENCE), "it waits for itself"
