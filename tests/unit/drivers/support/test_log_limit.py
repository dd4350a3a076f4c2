"""What one sender can write to a log."""

import logging

import pytest

from netfw.drivers.support.log_limit import AT_ONCE, MAX_SENDERS, SenderLimit


@pytest.fixture
def lines(caplog):
    log = logging.getLogger("netfw.test.log_limit")
    limit = SenderLimit()
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
    now = 0.0
    monkeypatch.setattr("netfw.drivers.support.log_limit.time.monotonic", lambda: now)
    lines(AT_ONCE + 5, sender="a")
    now = 1.0
    assert lines(1, sender="a") == ["line 0 (and 5 more suppressed)"]


def test_the_memory_of_senders_is_bounded(lines):
    for sender in range(MAX_SENDERS + 5):
        lines(1, sender=sender)
    assert len(lines(AT_ONCE, sender=0)) == AT_ONCE
