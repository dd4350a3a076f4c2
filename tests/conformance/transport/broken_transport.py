"""Transports that are wrong, each in one way, and the tests that refuse it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import ClassVar

from attrs import evolve

from netfw.drivers.transport import Caller, Handler, Listener, Message, Stop
from netfw.errors import BackendBroken, BackendUnavailable, Conflict, NetfwError
from netfw_drivers.transports.sockets.transport import SocketTransport

ANSWERED_IN_VAIN = "test_who_waits_for_an_answer_is_told_when_his_transport_is_closed"
ARRIVE = "test_messages_arrive_as_they_were_sent"
BREAKS = "test_a_request_whose_connection_breaks_is_not_sent_again"
CLOSED = "test_a_server_that_is_closed_lets_handlers_finish"
DETAILS = "test_the_details_of_other_errors_stay_with_the_server"
EARLY = "test_a_request_waits_for_a_server_that_comes_in_time"
END_WAITS = "test_the_end_of_a_registration_waits_for_its_handlers"
ERRORS = "test_errors_arrive_as_they_were_raised"
EVERYBODY = "test_a_hint_reaches_everybody_who_listens_and_nobody_else"
FAILS = "test_publishing_fails_because_of_nobody"
HUGE_ANSWER = "test_an_answer_that_is_too_large_is_not_sent"
HUGE_REQUEST = "test_a_request_that_is_too_large_is_not_sent"
INTERRUPTION = "test_registrations_survive_an_interruption"
LATE = "test_a_late_answer_is_nobody_elses"
LISTENER_ENDS = "test_a_listener_can_end_its_own_subscription"
HANDLER_ENDS = "test_a_handler_can_end_its_own_registration"
NO_TOPIC = "test_a_topic_that_nobody_serves_is_not_answered"
NOBODY_NEEDED = "test_nobody_needs_to_be_there_when_a_client_is_made"
NOTHING_HEARD = "test_nothing_is_heard_after_the_end_of_a_subscription"
ONCE = "test_a_topic_is_served_once_by_one_object"
OWN = "test_everybody_gets_the_answer_to_his_own_request"
RESTARTED = "test_clients_find_a_server_that_was_started_again"
SHARED = "test_an_address_is_shared_only_by_those_who_share_it"
SLOW = "test_a_slow_handler_holds_up_nobody"
STRANGERS = "test_strangers_are_refused_and_it_is_said_why"
TIME_OUT = "test_a_call_that_nobody_answers_ends_with_its_time_out"
TOLD = "test_who_subscribes_is_told_when_he_can_be_reached"
TOO_MANY = "test_when_there_are_too_many_requests_everybody_is_told_in_time"
WAITS = "test_publishing_waits_for_nobody"


class BrokenTransport(SocketTransport):
    """The transport without a broker, with one thing wrong."""

    VERSION = 1
    refused_by: ClassVar[frozenset[str]]


class WaitsLonger(BrokenTransport):
    """Takes time-outs for advice."""

    refused_by = frozenset({TIME_OUT, LATE, TOO_MANY, STRANGERS})

    def call(self, message: Message, timeout: float) -> Message:
        return super().call(message, timeout + 1.5)


class TriesAgain(BrokenTransport):
    """Sends a request again when its connection broke."""

    refused_by = frozenset({BREAKS})

    def call(self, message: Message, timeout: float) -> Message:
        try:
            return super().call(message, timeout)
        except BackendUnavailable as exc:
            if "carried out" not in str(exc):
                raise
        return super().call(message, timeout)


class AnswersAll(BrokenTransport):
    """Gives whoever asks next what was answered late."""

    refused_by = frozenset({
        LATE, OWN, ARRIVE, DETAILS, SLOW, HUGE_REQUEST, HUGE_ANSWER, HANDLER_ENDS,
    })  # fmt: skip

    def serve(self, topic: str, handler: Handler) -> Stop:
        late: list[Message] = []

        def mixing(message: Message, caller: Caller) -> Message:
            late.append(handler(message, caller))
            return late[-2] if len(late) > 1 else late[-1]

        return super().serve(topic, mixing)


class LosesFields(BrokenTransport):
    """Carries what it thinks that matters."""

    refused_by = frozenset({ARRIVE})

    def call(self, message: Message, timeout: float) -> Message:
        return super().call(evolve(message, request_id=""), timeout)


class AnswersAnything(BrokenTransport):
    """Answers for topics that nobody serves."""

    refused_by = frozenset({NO_TOPIC, END_WAITS})

    def call(self, message: Message, timeout: float) -> Message:
        try:
            return super().call(message, timeout)
        except BackendUnavailable as exc:
            if "nobody answers" in str(exc):
                return message
            raise


class TellsTooMuch(BrokenTransport):
    """Passes on whatever a handler said."""

    refused_by = frozenset({DETAILS})

    def serve(self, topic: str, handler: Handler) -> Stop:
        def telling(message: Message, caller: Caller) -> Message:
            try:
                return handler(message, caller)
            except RuntimeError as exc:
                raise BackendBroken(str(exc)) from exc

        return super().serve(topic, telling)


class KnowsOneError(BrokenTransport):
    """Takes all errors for one."""

    refused_by = frozenset({ERRORS})

    def serve(self, topic: str, handler: Handler) -> Stop:
        def telling(message: Message, caller: Caller) -> Message:
            try:
                return handler(message, caller)
            except NetfwError as exc:
                raise BackendBroken(str(exc)) from exc

        return super().serve(topic, telling)


class TellsOne(BrokenTransport):
    """Has one listener for each topic: the last."""

    refused_by = frozenset({EVERYBODY, LISTENER_ENDS, NOTHING_HEARD})

    def subscribe(self, topic: str, listener: Listener) -> Stop:
        stop = super().subscribe(topic, listener)
        if len(self._ears[topic]) > 1 and not getattr(listener, "__name__", ""):
            self._ears[topic] = self._ears[topic][-1:]
        return stop


class TellsEverybody(BrokenTransport):
    """Does not look at topics."""

    refused_by = frozenset({EVERYBODY})

    def _heard(self, message: Message) -> None:
        for ears in tuple(self._ears.values()):
            for ear in ears:
                ear.offer(message)

    def publish(self, message: Message) -> None:
        for topic in ("news", "weather"):
            super().publish(evolve(message, topic=topic))


class WaitsForListeners(BrokenTransport):
    """Publishes slowly, one at a time."""

    refused_by = frozenset({WAITS})

    def publish(self, message: Message) -> None:
        super().publish(message)
        threading.Event().wait(0.01)


class FailsWithNobody(BrokenTransport):
    """Is surprised when nobody serves."""

    refused_by = frozenset({FAILS})

    def publish(self, message: Message) -> None:
        if self._server is None and not self._closed:
            raise BackendUnavailable("nobody is there")
        super().publish(message)


class SaysNothing(BrokenTransport):
    """Does not say when it can be reached."""

    refused_by = frozenset({
        EVERYBODY, TOLD, WAITS, FAILS, INTERRUPTION, RESTARTED, NOBODY_NEEDED, SHARED,
    })  # fmt: skip

    def _heard(self, message: Message) -> None:
        if message.method != "listening":
            super()._heard(message)


class ForgetsListeners(BrokenTransport):
    """Listens on its first connection only."""

    refused_by = frozenset({INTERRUPTION, RESTARTED})

    def subscribe(self, topic: str, listener: Listener) -> Stop:
        told: list[Message] = []

        def once(message: Message) -> None:
            if message.method == "listening":
                told.append(message)
            if len(told) < 2:
                listener(message)

        return super().subscribe(topic, once)


class NeedsAServer(BrokenTransport):
    """Waits until somebody is there before it subscribes."""

    refused_by = frozenset({NOBODY_NEEDED, TOLD})

    def subscribe(self, topic: str, listener: Listener) -> Stop:
        if self._settings.connect:
            try:
                self.call(Message(topic="server", method="anybody"), 1.5)
            except BackendUnavailable:
                if topic == "news" and not self._ears:
                    return lambda: None
        return super().subscribe(topic, listener)


class CallsNobody(BrokenTransport):
    """Gives up at once when nobody is there."""

    refused_by = frozenset({EARLY})

    def call(self, message: Message, timeout: float) -> Message:
        relay = str(self._settings.connect[0]).removeprefix("unix:")
        if not Path(relay).with_name("server").exists():
            raise BackendUnavailable("nobody is there")
        return super().call(message, timeout)


class HearsForEver(BrokenTransport):
    """Does not end a subscription."""

    refused_by = frozenset({NOTHING_HEARD})

    def subscribe(self, topic: str, listener: Listener) -> Stop:
        super().subscribe(topic, listener)
        return lambda: None


class WaitsForItself(BrokenTransport):
    """Ends a registration from outside only."""

    refused_by = frozenset({HANDLER_ENDS, LISTENER_ENDS})

    def serve(self, topic: str, handler: Handler) -> Stop:
        return _waiting_for_itself(super().serve(topic, handler))

    def subscribe(self, topic: str, listener: Listener) -> Stop:
        return _waiting_for_itself(super().subscribe(topic, listener))


def _waiting_for_itself(stop: Stop) -> Stop:
    def wait() -> None:
        if threading.current_thread().name.startswith(("netfw-rpc-worker", "netfw-notifications")):
            raise RuntimeError("it would wait for ever")
        stop()

    return wait


class StopsEarly(BrokenTransport):
    """Ends a registration while its handler runs."""

    refused_by = frozenset({END_WAITS})

    def serve(self, topic: str, handler: Handler) -> Stop:
        stop = super().serve(topic, handler)
        return lambda: threading.Thread(target=stop, daemon=True).start()


class OneAtATime(BrokenTransport):
    """Has one worker, whatever it is told."""

    refused_by = frozenset({SLOW, TOO_MANY, BREAKS})

    def serve(self, topic: str, handler: Handler) -> Stop:
        lock = threading.Lock()

        def alone(message: Message, caller: Caller) -> Message:
            with lock:
                return handler(message, caller)

        return super().serve(topic, alone)


class TakesAnySize(BrokenTransport):
    """Has no limit."""

    refused_by = frozenset({HUGE_REQUEST, HUGE_ANSWER})

    def __init__(self, settings: object) -> None:
        super().__init__(evolve(settings, message_size=1 << 30))  # type: ignore[type-var]


class ServesTwice(BrokenTransport):
    """Takes the newest handler of a topic."""

    refused_by = frozenset({ONCE})

    def serve(self, topic: str, handler: Handler) -> Stop:
        try:
            return super().serve(topic, handler)
        except Conflict:
            if not self._desk.serves(topic):
                raise
            return lambda: None


class CanNotShare(BrokenTransport):
    """Has an address that others can take."""

    refused_by = frozenset({SHARED})

    def share(self) -> object:  # type: ignore[override]
        with self._lock:
            shared = super().share()
            self._shut()
        return shared


class LeavesCallsWaiting(BrokenTransport):
    """Is closed without a word to those who wait."""

    refused_by = frozenset({ANSWERED_IN_VAIN})

    def close(self) -> None:
        self._client._fail = lambda *_: None  # type: ignore[method-assign]
        super().close()


class AbandonsHandlers(BrokenTransport):
    """Is closed while handlers run."""

    refused_by = frozenset({CLOSED})

    def close(self) -> None:
        closing = threading.Thread(target=super().close, daemon=True)
        closing.start()
        closing.join(0.1)


BROKEN: tuple[type[BrokenTransport], ...] = tuple(BrokenTransport.__subclasses__())
