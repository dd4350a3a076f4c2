"""Requests and answers: each reaches its destination, or the caller gets an error."""

from __future__ import annotations

import pytest

from netfw.drivers.transport import Caller, Message, Transport
from netfw.errors import (
    BackendBroken,
    BackendUnavailable,
    Conflict,
    CursorLost,
    InvalidInput,
    NetfwError,
    NotFound,
)
from netfw.testing.conformance.common.promises import proves, proves_raise
from netfw.testing.conformance.transport.environment import (
    SERVER,
    BackgroundCall,
    TransportHooks,
    request,
    until,
)

ERRORS: tuple[NetfwError, ...] = (
    NotFound("there is no port 7"),
    Conflict("address 192.0.2.7 is taken"),
    CursorLost("too old"),
    BackendUnavailable("the database does not answer"),
    BackendBroken("the disk is full"),
    InvalidInput({"port.name": "is too long", "port.mac": "ist keine MAC-Adresse: ä"}),
)
SECRET = "the password of the database"


class TransportCalls(TransportHooks):
    """One test and more per promise about ``call`` and ``serve``."""

    @proves(Transport, 1)
    def test_messages_arrive_as_they_were_sent(self) -> None:
        seen: list[Message] = []

        def handler(message: Message, caller: Caller) -> Message:
            assert caller.name
            seen.append(message)
            return Message(
                topic="elsewhere", method="done", version="2.7", body=message.body[::-1],
                request_id="req-2",
            )  # fmt: skip

        with self.make_environment() as environment:
            client = environment.pair(handler)
            for body in (b"", bytes(range(256)), "häßlich ☃".encode(), b"x" * (self.LIMIT // 2)):
                seen.clear()
                sent = Message(
                    topic=SERVER, method="do_it", version="1.3", body=body, request_id="req-ä"
                )
                answer = client.call(sent, self.TIMEOUT)
                assert seen == [sent]
                assert answer == Message(
                    topic="elsewhere", method="done", version="2.7", body=body[::-1],
                    request_id="req-2",
                )  # fmt: skip

    @proves(Transport, 1, 6)
    def test_each_call_gets_its_own_answer(self) -> None:
        with self.make_environment() as environment:
            clients = [environment.pair(), environment.client()]

            def work(name: str, client: Transport) -> list[bytes]:
                bodies = [f"{name}.{n}".encode() for n in range(10)]
                answers = [client.call(request("echo", body), self.TIMEOUT) for body in bodies]
                return [sent for sent, got in zip(bodies, answers, strict=True) if got.body != sent]

            calls = [
                BackgroundCall(lambda name=f"{n}", client=client: work(name, client))  # type: ignore[misc]
                for n in range(4)
                for client in clients
            ]
            for call in calls:
                assert call.ends(self.TIMEOUT)
                assert call.error is None, call.error
                assert call.result == [], "answers to other requests"

    @proves(Transport, 1)
    @proves_raise(Transport, "call", BackendUnavailable)
    def test_an_unanswered_call_ends_with_its_time_out(self) -> None:
        with self.make_environment() as environment:
            client = environment.client()
            for _ in range(2):
                call = BackgroundCall(lambda: client.call(request("anybody"), self.SHORT))
                assert call.ends(self.SHORT + self.SLACK), "it waits longer than its time-out"
                assert isinstance(call.error, BackendUnavailable), call.error
                assert str(call.error), "it does not say why"

    @proves(Transport, 1)
    @proves_raise(Transport, "call", BackendUnavailable)
    def test_a_topic_without_a_server_is_not_answered(self) -> None:
        with self.make_environment() as environment:
            client = environment.pair()
            call = BackgroundCall(lambda: client.call(request("it", topic="nobody"), self.SHORT))
            assert call.ends(self.SHORT + self.SLACK)
            assert isinstance(call.error, BackendUnavailable), call.error

    @proves(Transport, 4)
    def test_a_request_waits_for_a_server_that_comes_in_time(self) -> None:
        with self.make_environment() as environment:
            client = environment.client()
            with pytest.raises(BackendUnavailable):  # then whatever is in between is connected
                client.call(request("anybody"), self.SHORT)
            early = [b"one", b"other"]
            calls = [
                BackgroundCall(lambda body=body: client.call(request("early", body), self.TIMEOUT))  # type: ignore[misc]
                for body in early
            ]
            assert not calls[0].ends(self.SHORT), "it does not wait"
            seen: list[Message] = []

            def handler(message: Message, caller: Caller) -> Message:
                seen.append(message)
                return message

            environment.server().serve(SERVER, handler)
            for call in calls:
                assert call.ends(self.TIMEOUT + self.SLACK)
                assert call.error is None, f"it was lost: {call.error}"
            assert sorted(message.body for message in seen) == early, "sent twice, or too late"

    @proves(Transport, 1)
    def test_a_late_answer_reaches_no_other_call(self) -> None:
        with self.make_environment() as environment:
            gate = environment.gatekeeper()
            client = environment.pair(gate)

            def is_held() -> bool:
                """Have a call time out; return whether its request arrived before."""
                slow = BackgroundCall(lambda: client.call(request("wait", b"late"), self.SHORT))
                assert slow.ends(self.SHORT + self.SLACK), "it waits longer than its time-out"
                assert isinstance(slow.error, BackendUnavailable)
                return gate.holds(0)

            assert until(is_held, self.TIMEOUT), "no request arrives within its time-out"
            gate.open()
            for n in range(5):
                body = f"in time {n}".encode()
                assert client.call(request("echo", body), self.TIMEOUT).body == body

    @proves(Transport, 1)
    def test_a_request_whose_connection_breaks_is_not_sent_again(self) -> None:
        with self.make_environment() as environment:
            gate = environment.gatekeeper()
            client = environment.pair(gate)
            call = BackgroundCall(lambda: client.call(request("wait"), 4 * self.SHORT))
            assert gate.holds(self.TIMEOUT)
            with self.outage():
                pass
            environment.settle(client)
            assert call.ends(4 * self.SHORT + self.SLACK), "it waits longer than its time-out"
            assert isinstance(call.error, BackendUnavailable), call.error
            assert not gate.holds(0.3, count=2), "the request was carried out twice"

    @proves(Transport, 2)
    @proves_raise(Transport, "call", NetfwError)
    def test_errors_arrive_as_they_were_raised(self) -> None:
        def handler(message: Message, caller: Caller) -> Message:
            if message.method == "fail":
                raise ERRORS[int(message.body)]
            return message

        with self.make_environment() as environment:
            client = environment.pair(handler)
            for number, error in enumerate(ERRORS):
                with pytest.raises(NetfwError) as caught:
                    client.call(request("fail", str(number).encode()), self.TIMEOUT)
                assert type(caught.value) is type(error)
                assert str(caught.value) == str(error)
                if isinstance(error, InvalidInput):
                    assert getattr(caught.value, "problems", None) == error.problems

    @proves(Transport, 2)
    @proves_raise(Transport, "call", BackendBroken)
    def test_the_details_of_other_errors_stay_with_the_server(self) -> None:
        def handler(message: Message, caller: Caller) -> Message:
            if message.method == "fail":
                raise RuntimeError(SECRET)
            return message

        with self.make_environment() as environment:
            client = environment.pair(handler)
            with pytest.raises(BackendBroken) as caught:
                client.call(request("fail"), self.TIMEOUT)
            error: BaseException | None = caught.value
            while error is not None:
                assert SECRET not in f"{error}{vars(error)}"
                error = error.__cause__ or error.__context__
            assert client.call(request("echo", b"on"), self.TIMEOUT).body == b"on"

    @proves(Transport, 5)
    @proves_raise(Transport, "call", InvalidInput)
    def test_a_request_that_is_too_large_is_not_sent(self) -> None:
        seen: list[str] = []

        def handler(message: Message, caller: Caller) -> Message:
            seen.append(message.method)
            return message

        with self.make_environment() as environment:
            client = environment.pair(handler)
            with pytest.raises(InvalidInput):
                client.call(request("huge", b"x" * (2 * self.LIMIT)), self.TIMEOUT)
            assert client.call(request("small"), self.TIMEOUT).method == "small"
            assert "huge" not in seen

    @proves(Transport, 5)
    @proves_raise(Transport, "call", BackendBroken)
    def test_an_answer_that_is_too_large_is_not_sent(self) -> None:
        def handler(message: Message, caller: Caller) -> Message:
            body = b"x" * (2 * self.LIMIT) if message.method == "huge" else b""
            return Message(topic=SERVER, method=message.method, body=body)

        with self.make_environment() as environment:
            client = environment.pair(handler)
            with pytest.raises(BackendBroken):
                client.call(request("huge"), self.TIMEOUT)
            assert client.call(request("small"), self.TIMEOUT).method == "small"

    @proves(Transport, 5)
    def test_unauthorized_clients_are_refused_with_a_logged_reason(self) -> None:
        seen: list[str] = []

        def handler(message: Message, caller: Caller) -> Message:
            seen.append(message.method)
            return message

        with self.make_environment() as environment:
            environment.pair(handler)
            clients = [environment.keep(client) for client in self.unauthorized_clients()]
            for client in clients:
                before = self.log_text()
                call = BackgroundCall(lambda caller=client: caller.call(request("spy"), self.SHORT))  # type: ignore[misc]
                assert call.ends(self.SHORT + self.SLACK)
                assert isinstance(call.error, BackendUnavailable), call.error
                logged = until(lambda text=before: self.log_text() != text, self.TIMEOUT)  # type: ignore[misc]
                assert logged, "an unauthorized client is not logged"
            assert "spy" not in seen, "the request of an unauthorized client was read"

    @proves(Transport, 6)
    def test_a_slow_handler_delays_no_other_call(self) -> None:
        with self.make_environment() as environment:
            gate = environment.gatekeeper()
            client = environment.pair(gate)
            slow = [
                BackgroundCall(lambda: client.call(request("wait"), self.TIMEOUT))
                for _ in range(self.WORKERS - 1)
            ]
            assert gate.holds(self.TIMEOUT, count=len(slow))
            for caller in (client, environment.client()):
                assert caller.call(request("echo", b"quick"), self.TIMEOUT).body == b"quick"
            gate.open()
            assert all(call.ends(self.TIMEOUT) and call.error is None for call in slow)

    @proves(Transport, 6)
    def test_excess_requests_are_answered_in_time(self) -> None:
        with self.make_environment() as environment:
            gate = environment.gatekeeper()
            client = environment.pair(gate)
            slow = [
                BackgroundCall(lambda: client.call(request("wait"), self.TIMEOUT))
                for _ in range(self.WORKERS)
            ]
            assert gate.holds(self.TIMEOUT, count=self.WORKERS)
            more = [
                BackgroundCall(lambda: client.call(request("wait"), self.SHORT)) for _ in range(20)
            ]
            for call in more:
                assert call.ends(self.SHORT + self.SLACK)
                assert isinstance(call.error, BackendUnavailable), call.error
            gate.open()
            assert all(call.ends(self.TIMEOUT) and call.error is None for call in slow)
            environment.settle(client)
