"""Spans, exported to a receiver of OTLP over HTTP."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from netfw import request_id, tracing
from netfw.cli.runtime.otel import CLOSE_TIMEOUT, OtelTracer
from netfw.tracing import RecentTraces
from tests.thread_limit import no_threads
from tests.unit.cli.runtime.otlp_receiver import OtlpReceiver, otlp_receiver

pytestmark = pytest.mark.slow

OTHER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
THIRD = "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[OtlpReceiver]:
    with otlp_receiver(tmp_path / "spans") as receiver:
        yield receiver


@pytest.fixture
def tracer(receiver: OtlpReceiver) -> Iterator[OtelTracer]:
    tracer = OtelTracer(receiver.url, 1.0, program="netfw-server", host="host1")
    with tracing.tracing(tracer):
        yield tracer
    tracer.close()


@pytest.mark.spec("DRV-43")
def test_spans_have_parents_links_attributes_and_the_request_id(
    receiver: OtlpReceiver, tracer: OtelTracer
) -> None:
    with request_id.bind("req-1"), tracing.span("outer", [OTHER, THIRD], keys=3) as outer:
        outer.set("status", 201)
        with tracing.inner_span("inner"):
            context = tracing.current()
    tracer.close()
    (outer_span,), (inner_span,) = receiver.spans("outer"), receiver.spans("inner")
    assert outer_span.trace == inner_span.trace == OTHER.split("-")[1]
    assert (outer_span.parent, inner_span.parent) == (OTHER.split("-")[2], outer_span.id)
    assert outer_span.links == (THIRD.split("-")[1],)
    attributes = {"keys": 3, "status": 201, "netfw.request_id": "req-1"}
    assert outer_span.attributes == attributes
    assert outer_span.service == "netfw-server"
    assert context == f"00-{inner_span.trace}-{inner_span.id}-01"


def test_work_outside_of_any_span_is_not_traced(receiver: OtlpReceiver, tracer: OtelTracer) -> None:
    with tracing.inner_span("poll"):
        assert tracing.current() == ""
    tracer.close()
    assert receiver.spans() == []


def test_a_trace_that_is_not_sampled_has_no_spans_in_any_process(receiver: OtlpReceiver) -> None:
    tracer = OtelTracer(receiver.url, 0.0, program="netfw-server", host="host1")
    with tracing.tracing(tracer), tracing.span("outer"):
        context = tracing.current()
        with tracing.inner_span("inner"):
            pass
    tracer.close()
    assert int(context[-2:], 16) & 1 == 0
    assert receiver.spans() == []


def test_a_receiver_that_is_away_delays_nothing() -> None:
    threads = set(threading.enumerate())
    tracer = OtelTracer("http://127.0.0.1:1/v1/traces", 1.0, program="x", host="x")
    began = time.monotonic()
    with tracing.tracing(tracer):
        for _ in range(5000):
            with tracing.span("lost"):
                pass
    spent, began = time.monotonic() - began, time.monotonic()
    tracer.close()
    assert time.monotonic() - began < CLOSE_TIMEOUT + 10
    assert spent < 30
    assert set(threading.enumerate()) <= threads, "no thread goes on to try"


def test_a_process_without_threads_ends_without_its_last_spans(
    receiver: OtlpReceiver, tracer: OtelTracer, caplog: pytest.LogCaptureFixture
) -> None:
    with no_threads():
        tracer.close()
    assert "the last spans are lost: can't start new thread" in caplog.text


def test_origins_are_followed_once_by_their_own_thread(tracer: OtelTracer) -> None:
    tracing.follow([OTHER, THIRD, OTHER])
    others: list[tuple[str, ...]] = []
    thread = threading.Thread(target=lambda: others.append(tracing.take_followed()))
    thread.start()
    thread.join()
    assert others == [()]
    assert tracing.take_followed() == (OTHER, THIRD)
    assert tracing.take_followed() == ()


@pytest.mark.parametrize(
    ("raws", "found"),
    [
        ([OTHER, THIRD], (OTHER, THIRD)),
        ([OTHER] * 100, (OTHER,) * tracing.MAX_ORIGINS),
        (["", None, 7, OTHER.upper(), f"{OTHER}\n", "00-" + "0" * 32 + "-b7ad6b7169203331-01"], ()),
        ({"a": OTHER}, ()),
        (None, ()),
        (OTHER, ()),
    ],
)
def test_contexts_of_peers_are_checked(raws: object, found: tuple[str, ...]) -> None:
    assert tracing.valid_contexts(raws) == found


def test_recent_traces_are_bounded() -> None:
    traces = RecentTraces(limit=2)
    for commit in (1, 2, 3):
        traces.note(commit, [OTHER[:-1] + str(commit)])
    traces.note(4, [])
    assert traces.of([1, 2, 3, 4, 2]) == (OTHER[:-1] + "2", OTHER[:-1] + "3")


@pytest.mark.spec("DRV-43")
def test_nothing_is_imported_for_a_process_that_exports_nothing() -> None:
    code = (
        "import sys, netfw.cli.server.main, netfw.cli.agents.l2, netfw.cli.runtime.daemon;"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert not any("opentelemetry" in name for name in done.stdout.split())


def test_without_a_tracer_there_is_one_span_that_records_nothing() -> None:
    assert tracing.span("a", [OTHER], keys=1) is tracing.inner_span("b") is tracing.NO_SPAN
    tracing.follow([OTHER])
    assert (tracing.current(), tracing.take_followed()) == ("", ())
