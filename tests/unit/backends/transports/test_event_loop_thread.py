"""The event loop of the socket transport on a machine that refuses threads."""

import pytest

from netfw.errors import BackendUnavailable
from netfw_drivers.transports.sockets.event_loop_thread import LoopThread
from tests.thread_limit import no_threads


async def answer():
    return 42


def test_loop_whose_thread_was_refused_starts_with_a_later_call():
    loop = LoopThread("test")
    with no_threads(), pytest.raises(BackendUnavailable):
        loop.run(answer())
    assert not loop.started
    assert loop.run(answer()).result(60) == 42
    loop.close()
