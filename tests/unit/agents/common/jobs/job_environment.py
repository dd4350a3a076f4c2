"""An agent with jobs on drivers in memory, whose loop the test turns."""

import time

from netfw.agents.common.loop import Intervals, Loop
from netfw.agents.common.retry_queue import RetryBackoff
from netfw.errors import BackendUnavailable
from netfw.state.memory_source import MemorySource

_TIMEOUT = 60.0
"""Seconds after which nothing more is expected of a busy machine."""


class FakeClock:
    """A clock that the test moves."""

    def __init__(self):
        self.time = 1000.0

    def now(self):
        return self.time


class RecordingSource(MemorySource):
    """A source in memory that can be away, and counts what it is asked."""

    away = False

    def __init__(self, *items):
        super().__init__(*items)
        self.asked = []

    def request(self, request):
        self.asked.append(request)
        if self.away:
            raise BackendUnavailable("the source does not answer")
        return super().request(request)


class JobAgentEnvironment:
    """An agent, its source and its loop; a subclass makes agent and drivers."""

    def __init__(self, *items, source=None):
        self.source = RecordingSource(*items) if source is None else source
        self.clock = FakeClock()

    def make_agent(self):
        raise NotImplementedError

    def drivers(self):
        raise NotImplementedError

    def begin(self):
        """Start an agent, where one was killed before."""
        for driver in self.drivers():
            driver.machine.sinks.clear()
        self.agent = self.make_agent()
        timing = Intervals(report=0, audit=0, pull=0, pauses=RetryBackoff(1.0, 8.0))
        self.loop = Loop(self.source, self.agent, lambda: timing, clock=self.clock)
        self.agent.watch(self.loop._events.event)
        self.source.watch(self.agent.subscription, self.loop.notify)

    def turn(self, after=0.0):
        """Let time pass, and the loop do what is due."""
        self.clock.time += after
        self.loop.turn()
        return self.loop.status

    def until(self, condition, pace=0.0):
        """Turn the loop whenever it has news, until *condition* of its status holds."""
        deadline = time.monotonic() + _TIMEOUT
        status = self.turn()
        while not condition(status):
            assert time.monotonic() < deadline, status
            self.loop._events.ready.wait(0.05)
            status = self.turn(pace)
        return status

    def ready(self, pace=0.0):
        """Have all be as it should, and everything heard of it."""
        return self.until(
            lambda status: status.ready and not self.loop._events.ready.is_set(), pace
        )

    def until_failed(self):
        """Have a key fail, no other in a job, and every event handled."""
        return self.until(
            lambda status: (
                status.degraded
                and not self.agent._jobs.is_busy
                and not self.loop._events.ready.is_set()
            )
        )

    def until_called(self, driver, calls):
        """Wait until the driver was called so many times."""
        deadline = time.monotonic() + _TIMEOUT
        while len(driver.calls) < calls:
            assert time.monotonic() < deadline, driver.calls
            time.sleep(0.01)

    def asked(self, kind):
        return [request for request in self.source.asked if isinstance(request, kind)]
