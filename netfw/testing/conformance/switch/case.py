"""Base class of the parts of the switch suite."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest

from netfw.drivers.base import Capability
from netfw.drivers.host_driver import HostCapability, HostDriver
from netfw.drivers.switch import SwitchDriver
from netfw.drivers.values.events import Event, FeedLost, KeysChanged
from netfw.drivers.values.switch_values import Admission, SwitchKey, SwitchValue
from netfw.model.values.address import IpAddress, Mac
from netfw.plan import Outcome, Update
from netfw.testing.conformance.switch.environment import (
    Pair,
    StateDump,
    SwitchEnvironment,
    SwitchNetwork,
    SwitchTestPort,
    TrafficProbe,
    wanted,
)

MakeDriver = Callable[..., SwitchDriver]


class Events:
    """Events of a driver."""

    def __init__(self, driver: SwitchDriver, timeout: float) -> None:
        self._timeout = timeout
        self._lock = threading.Condition()
        self._events: list[Event] = []
        driver.watch(self._take)

    def forget(self) -> None:
        with self._lock:
            self._events.clear()

    def await_keys(self, *keys: Hashable) -> None:
        """Wait until all of *keys* were announced as changed."""
        assert self._await(lambda: set(keys) <= self._keys()), f"never announced: {keys}"

    def await_loss(self) -> None:
        """Wait until the feed was announced as lost."""
        assert self._await(lambda: any(isinstance(e, FeedLost) for e in self._events))

    def _keys(self) -> set[Hashable]:
        changed = (event.keys for event in self._events if isinstance(event, KeysChanged))
        return set(itertools.chain.from_iterable(changed))

    def _await(self, condition: Callable[[], bool]) -> bool:
        with self._lock:
            return self._lock.wait_for(condition, self._timeout)

    def _take(self, event: Event) -> None:
        with self._lock:
            self._events.append(event)
            self._lock.notify_all()


class SwitchCase:
    """Fixtures and assertions of the tests.

    The hook is `shared_environment`: all tests of the class use what it yields, and each of them
    has to leave it as it was.
    """

    timeout: ClassVar[float] = 10.0
    """Seconds to wait for an expected event."""
    numbers: ClassVar[Iterator[int]] = itertools.count(2000)
    """Numbers of ports, unique across tests: a switch may have learned those of another test."""
    environment: SwitchEnvironment

    @pytest.fixture(scope="class")
    @classmethod
    def shared_environment(cls) -> Iterator[SwitchEnvironment]:
        """Yield the two hosts, without ports and without state of a driver."""
        raise NotImplementedError(
            "override the `shared_environment` fixture with one that yields yours"
        )

    @pytest.fixture(scope="class")
    @classmethod
    def blank(cls, shared_environment: SwitchEnvironment) -> Mapping[int, StateDump]:
        """Return the switches as a driver sets them up when nothing is desired."""
        return {host: emptied(shared_environment, host) for host in (0, 1)}

    @pytest.fixture
    def make_driver(
        self, shared_environment: SwitchEnvironment, blank: Mapping[int, StateDump]
    ) -> Iterator[MakeDriver]:
        with self.drivers(shared_environment, blank) as make:
            yield make

    @contextmanager
    def drivers(
        self, environment: SwitchEnvironment, blank: Mapping[int, StateDump]
    ) -> Iterator[MakeDriver]:
        """Yield a factory of drivers; check at the end that they left nothing behind."""
        self.environment = environment
        made: list[SwitchDriver] = []
        working: dict[int, SwitchDriver] = {}

        def make(host: int = 0) -> SwitchDriver:
            if host in working:  # one at a time works on a switch
                environment.killed(working[host])
            made.append(environment.make_driver(host))
            working[host] = made[-1]
            return made[-1]

        yield make
        for driver in made:
            driver.close()
        environment.clear()
        for host in working:
            _check_clean(environment, host, blank[host])

    @pytest.fixture
    def driver(self, make_driver: MakeDriver) -> Iterator[SwitchDriver]:
        driver = make_driver()
        yield driver
        driver.close()

    @pytest.fixture
    def far(self, make_driver: MakeDriver) -> Iterator[SwitchDriver]:
        """Yield the driver of the other host."""
        driver = make_driver(1)
        yield driver
        driver.close()

    def require(self, driver: HostDriver[Any, Any], capability: Capability) -> None:
        """Skip the test if the driver does not declare *capability*."""
        if capability not in driver.describe().capabilities:
            pytest.skip(f"the driver does not declare the capability {capability.value!r}")

    def make_ports(
        self, net: SwitchNetwork, count: int, host: int = 0
    ) -> tuple[SwitchTestPort, ...]:
        """Make new ports, and plug them."""
        numbers = [next(self.numbers) for _ in range(count)]
        made = tuple(SwitchTestPort(number=number, net=net, host=host) for number in numbers)
        self.environment.plug(*made)
        return made

    def bring(
        self, driver: SwitchDriver, update: Update[SwitchKey, SwitchValue]
    ) -> Outcome[SwitchKey]:
        """Converge until no key is waiting, as the agent does."""
        until = time.monotonic() + self.timeout
        outcome = driver.converge(update)
        while outcome.waiting and not outcome.failed and time.monotonic() < until:
            time.sleep(0.01)
            outcome = driver.converge(update)
        assert outcome.ok, outcome
        return outcome

    def events(self, driver: SwitchDriver) -> Events:
        """Record the events of *driver* from now on."""
        self.require(driver, HostCapability.WATCH)
        return Events(driver, self.timeout)

    def await_devices(self, driver: SwitchDriver, *ports: SwitchTestPort) -> None:
        """Wait until the driver reports exactly these ports as plugged."""
        ids = {port.id for port in ports}
        until = time.monotonic() + self.timeout
        while driver.devices().keys() != ids and time.monotonic() < until:
            time.sleep(0.01)
        assert driver.devices().keys() == ids

    def wire(
        self,
        driver: SwitchDriver,
        *things: SwitchNetwork | SwitchTestPort,
        admission: Admission = Admission.LIVE,
    ) -> None:
        """Put *things*, and wait until they are applied."""
        self.bring(driver, Update(put=wanted(*things, admission=admission)))

    def assert_exchange(self, probe: TrafficProbe, expected: Iterable[Pair] = ()) -> None:
        """Check that exactly the *expected* pairs receive."""
        pairs = frozenset(expected)
        self.environment.settle()
        received = probe.exchange(pairs)
        assert received == pairs, _describe(pairs - received, received - pairs)

    def assert_announcement(
        self,
        sender: SwitchTestPort,
        mac: Mac,
        address: IpAddress,
        receiver: SwitchTestPort,
        received: bool,
    ) -> None:
        """Check that *receiver* receives the announcement of *sender*, or does not."""
        self.environment.settle()
        announced = self.environment.announces(sender, mac, address, receiver, expected=received)
        result = "is received, but should not be," if announced else "is not received"
        assert announced == received, f"that {mac} has {address} {result} by {receiver}"

    def assert_answer(self, sender: SwitchTestPort, address: IpAddress, answer: Mac | None) -> None:
        """Check that a request for *address* is answered with *answer*; ``None``: not at all."""
        self.environment.settle()
        assert self.environment.resolve(sender, address, expected=answer is not None) == answer


def _describe(missing: Iterable[Pair], leaked: Iterable[Pair]) -> str:
    words = [f"{two} receives nothing from {one}" for one, two in missing]
    return "; ".join(words + [f"{two} receives from {one}, but should not" for one, two in leaked])


def _check_clean(environment: SwitchEnvironment, host: int, blank: StateDump) -> None:
    """Fail the test that left something behind, instead of the next one."""
    try:
        left = emptied(environment, host).keys() ^ blank.keys()
        assert not left, f"left on host {host}: {sorted(left)}"
    except BaseException:
        environment.scrub(host)
        emptied(environment, host)
        raise


def emptied(environment: SwitchEnvironment, host: int) -> StateDump:
    """Return the state after a driver has removed all that drivers made."""
    driver = environment.make_driver(host)
    outcome = driver.gc([])
    assert outcome.ok, outcome
    assert driver.present() == frozenset()
    driver.close()
    return environment.dump_state(host)
