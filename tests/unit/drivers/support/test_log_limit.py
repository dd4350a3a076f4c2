"""What one sender can write to a log."""

import logging
import math
import time

import pytest

from netfw.drivers.support.log_limit import ALL_AT_ONCE, AT_ONCE, MAX_SENDERS, SenderLimit


def whole_seconds():
    """Return a time, not before now, to which seconds are added without rounding."""
    return float(math.ceil(time.monotonic()))


@pytest.fixture
def limit():
    return SenderLimit()


@pytest.fixture
def lines(caplog, limit):
    log = logging.getLogger("netfw.test.log_limit")
    log.addFilter(limit)

    def write(count, **extra):
        caplog.clear()
        for number in range(count):
            log.warning("line %d", number, extra=extra)
        return caplog.messages

    yield write
    log.removeFilter(limit)


def test_a_sender_has_some_lines_at_once_and_takes_none_from_others(lines):
    assert AT_ONCE <= len(lines(AT_ONCE * 50, sender="a")) < AT_ONCE * 2
    assert len(lines(1, sender="b")) == 1
    assert len(lines(AT_ONCE * 2)) == AT_ONCE * 2


def test_suppressed_lines_are_counted(lines, monkeypatch):
    now = whole_seconds()
    monkeypatch.setattr("netfw.drivers.support.log_limit.time.monotonic", lambda: now)
    lines(AT_ONCE + 5, sender="a")
    now += 1.0
    assert lines(1, sender="a") == ["line 0 (and 5 more suppressed)"]


def test_invented_senders_share_a_limit_and_their_lines_are_counted(lines, monkeypatch):
    now = whole_seconds()
    monkeypatch.setattr("netfw.drivers.support.log_limit.time.monotonic", lambda: now)
    written = sum(len(lines(1, sender=number)) for number in range(ALL_AT_ONCE + 50))
    assert written == ALL_AT_ONCE
    assert len(lines(1)) == 1, "a line without a sender is not limited"
    now += 1.0
    assert lines(1, sender="another") == ["line 0 (and 50 more suppressed)"]


def test_flood_of_one_sender_leaves_lines_to_the_others(lines, monkeypatch):
    now = whole_seconds()
    monkeypatch.setattr("netfw.drivers.support.log_limit.time.monotonic", lambda: now)
    assert len(lines(ALL_AT_ONCE * 2, sender="a")) == AT_ONCE
    assert len(lines(1, sender="b")) == 1


def test_the_memory_of_senders_is_bounded(limit):
    for sender in range(MAX_SENDERS + 5):
        limit.filter(logging.makeLogRecord({"sender": sender}))
    assert len(limit._buckets) == MAX_SENDERS
