"""Threads for calls elsewhere: results, errors, and what is left when they end."""

from __future__ import annotations

import threading
import traceback

import pytest

from netfw.errors import BackendUnavailable
from netfw.linux import netns
from netfw.linux.netns_thread import NetnsThread, run_in_thread
from tests.thread_limit import no_threads


def fail(text: str) -> None:
    raise LookupError(text)


def test_calls_are_executed_by_one_other_thread() -> None:
    entered: list[int] = []
    with NetnsThread(lambda: entered.append(threading.get_ident()), name="one") as thread:
        assert thread.run(divmod, 7, 2) == (3, 1)
        assert entered == [thread.run(threading.get_ident)]
        assert thread.run(thread.run, threading.get_ident) == entered[0], "its own calls, too"
        assert thread.run(threading.current_thread).name == "one"
    assert entered != [threading.get_ident()]


def test_an_error_of_a_call_is_raised_in_the_calling_thread() -> None:
    with NetnsThread(lambda: None) as thread:
        with pytest.raises(LookupError, match="gone") as caught:
            thread.run(fail, "gone")
        assert thread.run(int) == 0
    frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert frames.index("run") < frames.index("fail"), "of both threads"


def test_a_thread_that_cannot_enter_is_not_left_behind() -> None:
    before = threading.active_count()
    with pytest.raises(LookupError, match="no entry"):
        NetnsThread(lambda: fail("no entry"))
    assert threading.active_count() == before


def test_a_closed_thread_takes_no_call() -> None:
    before = threading.active_count()
    thread = NetnsThread(lambda: None, name="closed")
    thread.close()
    thread.close()
    assert threading.active_count() == before
    with pytest.raises(RuntimeError, match="the thread closed was closed"):
        thread.run(int)


def test_several_threads_may_call_one() -> None:
    found: list[int] = []
    with NetnsThread(lambda: None) as thread:
        callers = [
            threading.Thread(target=lambda: found.append(thread.run(threading.get_ident)))
            for _ in range(20)
        ]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
    assert len(found) == 20
    assert len(set(found)) == 1


def test_a_single_call_has_a_thread_of_its_own() -> None:
    before = threading.active_count()
    assert run_in_thread(lambda: threading.current_thread().name, "single") == "single"
    with pytest.raises(LookupError, match="gone"):
        run_in_thread(lambda: fail("gone"), "single")
    assert threading.active_count() == before


def test_refused_thread_names_the_namespace_that_is_not_entered() -> None:
    refusal = "entering namespace blue failed: can't start new thread"
    with no_threads():
        with pytest.raises(BackendUnavailable, match=refusal):
            netns.worker("blue")
        with pytest.raises(BackendUnavailable, match=refusal):
            netns.run_in("blue", int)
