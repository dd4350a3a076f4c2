"""A process that cannot start threads."""

import threading
from contextlib import contextmanager


@contextmanager
def no_threads():
    """Have the kernel refuse every new thread: there is no room for its stack."""
    former = threading.stack_size(1 << 46)
    try:
        yield
    finally:
        threading.stack_size(former)


@contextmanager
def refused_threads(refuses):
    """Refuse each new thread for which *refuses* returns true."""
    begin = threading.Thread.start

    def start(thread):
        if refuses(thread):
            raise RuntimeError("can't start new thread")
        begin(thread)

    threading.Thread.start = start
    try:
        yield
    finally:
        threading.Thread.start = begin


def threads_left(count):
    """Refuse every thread after the next *count* ones."""
    started = []

    def refuses(thread):
        started.append(thread)
        return len(started) > count

    return refused_threads(refuses)
