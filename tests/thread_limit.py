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
