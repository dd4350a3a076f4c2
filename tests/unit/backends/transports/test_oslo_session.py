"""A session with a broker that does not answer, on a machine that lacks threads."""

import logging
import threading

import pytest

from netfw.errors import BackendUnavailable
from netfw_drivers.transports.oslo.options import Settings
from netfw_drivers.transports.oslo.session import OsloSession
from tests.thread_limit import no_threads, threads_left

SETTINGS = Settings(url="rabbit://127.0.0.1:1/", connect=0.1, pause=0.01, pause_max=0.01)


@pytest.fixture
def session():
    made = OsloSession(SETTINGS)
    yield made
    made.close()


@pytest.mark.parametrize("left", [0, 1])
def test_session_that_cannot_be_opened_leaves_no_thread(left):
    threads = set(threading.enumerate())
    with threads_left(left), pytest.raises(BackendUnavailable, match="can't start new thread"):
        OsloSession(SETTINGS)
    assert set(threading.enumerate()) <= threads


def test_topic_that_got_no_thread_is_served_later(session):
    with no_threads(), pytest.raises(BackendUnavailable, match="agents cannot be served"):
        session.serve("agents", lambda message, caller: message)
    session.serve("agents", lambda message, caller: message)()


def test_registrations_end_without_a_thread_for_it(session, caplog):
    unsubscribe = session.subscribe("hints", lambda message: None)
    session.serve("agents", lambda message, caller: message)
    with no_threads(), caplog.at_level(logging.WARNING):
        unsubscribe()
        session.close()
    assert "a connection stays open: can't start new thread" in caplog.text
