"""Connections that are lost or closed at a bad moment."""

import socket
import threading
from typing import Any

import pytest

from netfw.errors import BackendUnavailable
from netfw.ovs.openflow import OpenFlow, messages
from netfw.ovs.openflow.messages import OpenFlowMessage, Type


@pytest.fixture
def greeter(tmp_path):
    """Yield the address of a switch that sends only a hello."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "switch"))
        listening.listen()
        accepted = []

        def greet() -> None:
            while True:
                try:
                    accepted.append(listening.accept()[0])
                except OSError:
                    return
                accepted[-1].sendall(messages.hello())

        thread = threading.Thread(target=greet, daemon=True)
        thread.start()
        yield f"unix:{tmp_path / 'switch'}"
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()
        for each in accepted:
            each.close()


def test_listener_is_added_when_the_connection_is_lost_at_that_moment(greeter):
    client = OpenFlow(greeter, timeout=60.0)
    states, back = [], threading.Event()

    def listen(up: bool) -> None:
        states.append(up)
        if states == [True, False, True]:
            back.set()
        elif states == [True]:
            client.connection.send(messages.hello())

    try:
        client.wait_connected()
        connection: Any = client.connection
        with connection._state_lock:  # the loss is not noticed yet
            connection._hang_up()
            client.on_state(listen)
        assert back.wait(60)
    finally:
        client.close()


@pytest.mark.parametrize("kind", [Type.BARRIER_REPLY, Type.ERROR])
def test_answer_that_arrives_while_the_connection_is_closed_is_dropped(kind, greeter):
    client, answered = OpenFlow(greeter), []
    try:
        client.wait_connected()
        connection: Any = client.connection
        future = connection.ask(
            1, messages.message(Type.BARRIER_REQUEST, 1), lambda: answered.append(True)
        )
        waiting = connection._waiting[1]
        connection._fail_waiting()  # by the thread that closes it
        connection._answer(waiting, OpenFlowMessage(messages.VERSION, kind, 1, bytes(16)))
        with pytest.raises(BackendUnavailable):
            future.result(0)
        assert answered == []
    finally:
        client.close()
