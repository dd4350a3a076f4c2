"""Mutations of the socket transport: each breaks one promise."""

from __future__ import annotations

import threading
from pathlib import Path

from attrs import evolve

from netfw.drivers.transport import Caller, Message, Stop, Transport
from netfw.errors import BackendBroken, BackendUnavailable, Conflict, InvalidInput, NetfwError
from tests.conformance.common.mutations import Mutations, breaks, breaks_raise

MUTATIONS = Mutations()


@MUTATIONS.override(
    "call", breaks(Transport, 1), breaks_raise(Transport, "call", BackendUnavailable)
)
def exceed_timeout(transport, original, message, timeout):
    """Wait longer than the time-out."""
    return original(message, timeout + 1.5)


@MUTATIONS.override("call", breaks(Transport, 5))
def report_refusal_as_failure(transport, original, message, timeout):
    """Report that the servers refuse this peer as a failure of their handler."""
    try:
        return original(message, timeout)
    except BackendUnavailable as exc:
        if transport.unreachable_reason(message.topic) is None:
            raise
        raise BackendBroken(str(exc)) from exc


@MUTATIONS.override("call", breaks(Transport, 1))
def resend_after_broken_connection(transport, original, message, timeout):
    """Send a request again after its connection broke."""
    try:
        return original(message, timeout)
    except BackendUnavailable as exc:
        if "may have been executed" not in str(exc):
            raise
    return original(message, timeout)


@MUTATIONS.override("serve", breaks(Transport, 1, 6))
def return_late_answer_of_another_call(transport, original, topic, handler):
    """Answer a call with the late answer of another."""
    late: list[Message] = []

    def answer_late(message: Message, caller: Caller) -> Message:
        late.append(handler(message, caller))
        return late[-2] if len(late) > 1 else late[-1]

    return original(topic, answer_late)


@MUTATIONS.override("call", breaks(Transport, 1))
def drop_request_id(transport, original, message, timeout):
    """Drop the request id of a message."""
    return original(evolve(message, request_id=""), timeout)


@MUTATIONS.override(
    "call", breaks(Transport, 1), breaks_raise(Transport, "call", BackendUnavailable)
)
def answer_unserved_topic(transport, original, message, timeout):
    """Answer for topics without a server."""
    try:
        return original(message, timeout)
    except BackendUnavailable as exc:
        if "no server answers" in str(exc):
            return message
        raise


@MUTATIONS.override("serve", breaks(Transport, 2), breaks_raise(Transport, "call", BackendBroken))
def send_error_details(transport, original, topic, handler):
    """Send the text of internal errors to the client."""

    def handle(message: Message, caller: Caller) -> Message:
        try:
            return handler(message, caller)
        except RuntimeError as exc:
            raise BackendBroken(str(exc)) from exc

    return original(topic, handle)


@MUTATIONS.override("serve", breaks(Transport, 2), breaks_raise(Transport, "call", NetfwError))
def send_one_error_class(transport, original, topic, handler):
    """Send every error as ``BackendBroken``."""

    def handle(message: Message, caller: Caller) -> Message:
        try:
            return handler(message, caller)
        except NetfwError as exc:
            raise BackendBroken(str(exc)) from exc

    return original(topic, handle)


@MUTATIONS.override("subscribe", breaks(Transport, 3))
def keep_last_listener_only(transport, original, topic, listener):
    """Keep only the last listener of a topic."""
    stop = original(topic, listener)
    if len(transport._subscribers[topic]) > 1 and not getattr(listener, "__name__", ""):
        transport._subscribers[topic] = transport._subscribers[topic][-1:]
    return stop


@MUTATIONS.override("_handle_notification", breaks(Transport, 3))
def ignore_topics(transport, _, message):
    """Deliver messages to the listeners of all topics."""
    for subscribers in tuple(transport._subscribers.values()):
        for subscriber in subscribers:
            subscriber.offer(message)


@ignore_topics.also("publish")
def _(transport, original, message):
    for topic in ("news", "weather"):
        original(evolve(message, topic=topic))


@MUTATIONS.override("publish", breaks(Transport, 3))
def publish_slowly(transport, original, message):
    """Block in ``publish``."""
    original(message)
    threading.Event().wait(0.01)


@MUTATIONS.override("publish", breaks(Transport, 3))
def raise_without_server(transport, original, message):
    """Raise an error in ``publish`` without a server."""
    if transport._server is None and not transport._closed:
        raise BackendUnavailable("there is no server")
    original(message)


@MUTATIONS.override("_handle_notification", breaks(Transport, 4))
def suppress_listening_message(transport, original, message):
    """Suppress the message that a subscription is active."""
    if message.method != "subscribed":
        original(message)


@MUTATIONS.override("subscribe", breaks(Transport, 4))
def subscribe_on_first_connection_only(transport, original, topic, listener):
    """Deliver messages of the first connection only."""
    starts: list[Message] = []

    def once(message: Message) -> None:
        if message.method == "subscribed":
            starts.append(message)
        if len(starts) < 2:
            listener(message)

    return original(topic, once)


@MUTATIONS.override("subscribe", breaks(Transport, 4))
def require_server_to_subscribe(transport, original, topic, listener):
    """Ignore a subscription while there is no server."""
    if transport._settings.connect:
        try:
            transport.call(Message(topic="server", method="anybody"), 1.5)
        except BackendUnavailable:
            if topic == "news" and not transport._subscribers:
                return lambda: None
    return original(topic, listener)


@MUTATIONS.override("call", breaks(Transport, 4))
def fail_call_without_server(transport, original, message, timeout):
    """Fail a call at once while there is no server."""
    relay = str(transport._settings.connect[0]).removeprefix("unix:")
    if not Path(relay).with_name("server").exists():
        raise BackendUnavailable("there is no server")
    return original(message, timeout)


@MUTATIONS.override("subscribe")
def never_end_subscription(transport, original, topic, listener):
    """Leave a subscription active after its end."""
    original(topic, listener)
    return lambda: None


@MUTATIONS.override("serve")
def refuse_to_stop_from_handler(transport, original, topic, handler):
    """Refuse to end a registration from its own handler."""
    return _refuse_own_thread(original(topic, handler))


@refuse_to_stop_from_handler.also("subscribe")
def _(transport, original, topic, listener):
    return _refuse_own_thread(original(topic, listener))


def _refuse_own_thread(stop: Stop) -> Stop:
    def wait() -> None:
        if threading.current_thread().name.startswith(("netfw-rpc-worker", "netfw-notifications")):
            raise RuntimeError("it would wait for itself")
        stop()

    return wait


@MUTATIONS.override("serve", breaks(Transport, 7))
def stop_without_waiting(transport, original, topic, handler):
    """End a registration while its handler runs."""
    stop = original(topic, handler)
    return lambda: threading.Thread(target=stop, daemon=True).start()


@MUTATIONS.override("serve", breaks(Transport, 6))
def serialize_handlers(transport, original, topic, handler):
    """Run one handler at a time."""
    lock = threading.Lock()

    def handle(message: Message, caller: Caller) -> Message:
        with lock:
            return handler(message, caller)

    return original(topic, handle)


@MUTATIONS.override("__init__", breaks(Transport, 5), breaks_raise(Transport, "call", InvalidInput))
def accept_any_size(transport, original, settings):
    """Accept messages of any size."""
    original(evolve(settings, max_message_size=1 << 30))  # type: ignore[type-var]


@MUTATIONS.override("serve", breaks_raise(Transport, "serve", Conflict))
def serve_topic_twice(transport, original, topic, handler):
    """Accept a second handler of one topic."""
    try:
        return original(topic, handler)
    except Conflict:
        if not transport._handlers.serves(topic):
            raise
        return lambda: None


@MUTATIONS.override("share_address", breaks_raise(Transport, "share_address", Conflict))
def close_shared_address(transport, original):
    """Close the address after it was shared."""
    with transport._lock:
        shared = original()
        transport._stop_server()
    return shared


@MUTATIONS.override("close", breaks(Transport, 7))
def leave_calls_waiting(transport, original):
    """Leave waiting calls without an error when the transport is closed."""
    transport._client._fail = lambda *_: None  # type: ignore[method-assign]
    original()


@MUTATIONS.override("close", breaks(Transport, 7))
def close_without_waiting(transport, original):
    """Close while handlers run."""
    closing = threading.Thread(target=original, daemon=True)
    closing.start()
    closing.join(0.1)
