"""A loop whose time stands still until the test moves it."""

import threading

from netfw.agents.common.loop import Intervals, Loop
from netfw.agents.common.retry_queue import RetryBackoff
from netfw.agents.l2.agent import L2Agent, L2AgentConfig
from netfw.drivers.values.agent_requests import EnsureHostMac
from netfw.drivers.values.reports import ReportResult
from netfw.errors import BackendUnavailable
from netfw.state.memory_source import MemorySource
from netfw.testing.fakes.switch import FakeSwitch
from tests.unit.agents.l2.environment import FACTS, HERE


class FakeClock:
    """A clock that the test moves."""

    def __init__(self):
        self.time = 1000.0

    def now(self):
        return self.time

    def wait(self, news, seconds):
        raise AssertionError("a loop that a test turns does not wait")


class ShyAnswers(MemorySource):
    """A source in memory that can be away."""

    def __init__(self, *items):
        super().__init__(*items)
        self.sent = []

    away = False
    pulls = 0
    reporting = 0
    """How often reports were sent, successfully or not."""
    host_mac = None
    """The MAC address that it has for every host, or why it has none."""
    considered_dead = False
    """Whether who reports next is told that he was."""

    def _answers(self):
        if self.away:
            raise BackendUnavailable("the source does not answer")

    def snapshot(self, subscription):
        self._answers()
        return super().snapshot(subscription)

    def changes(self, subscription, since):
        self.pulls += 1
        self._answers()
        return super().changes(subscription, since)

    def request(self, request):
        if not isinstance(request, EnsureHostMac):
            return super().request(request)
        self._answers()
        if isinstance(self.host_mac, Exception):
            raise self.host_mac
        return self.host_mac

    def report(self, reports):
        self.reporting += 1
        self._answers()
        self.sent.extend(reports)
        super().report(reports)
        dead, self.considered_dead = self.considered_dead, False
        return ReportResult(resync=dead)


class L2AgentEnvironment:
    """An agent on a switch in memory; ``turn`` lets it do what is due."""

    def __init__(
        self, *items, firewall=None, extensions=(), timing=None, switch=FakeSwitch, **settings
    ):
        self.source = ShyAnswers(*items)
        self.switch = switch(FACTS)
        self.machine = self.switch.machine
        self.clock = FakeClock()
        self.reports = []
        self.published = []
        self.source.listen(self.reports.append)
        self.timing = timing or Intervals(report=0, audit=0, pull=0, pauses=RetryBackoff(1.0, 8.0))
        self.begin(firewall, extensions, **settings)

    def begin(self, firewall=None, extensions=(), retired=(), hybrid=None, **settings):
        self.machine.sinks.clear()
        self.work = L2Agent(
            L2AgentConfig(host=HERE, **settings), self.switch,
            firewall=firewall, hybrid_firewall=hybrid, retired=retired, extensions=extensions,
            source=self.source,
        )  # fmt: skip
        self.loop = Loop(
            self.source, self.work, lambda: self.timing,
            clock=self.clock, publish=self.published.append,
        )  # fmt: skip
        self.work.watch(self.loop._events.event)
        self.source.watch(self.work.subscription, self.loop.notify)

    @property
    def status(self):
        return self.loop.status

    def turn(self, after=0.0):
        """Let time pass, and the loop do what is due."""
        self.clock.time += after
        self.loop.turn()
        return self.loop.status

    def pause(self):
        """Return how long the loop would wait."""
        return self.loop._pause()


def in_another_thread(function, *args):
    thread = threading.Thread(target=function, args=args)
    thread.start()
    thread.join()
