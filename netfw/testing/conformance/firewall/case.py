"""Fixtures and assertions that the parts of the firewall suite share."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest

from netfw.drivers.base import Capability
from netfw.drivers.firewall import (
    FilteredPort,
    FirewallCapability,
    FirewallDriver,
    FirewallKey,
    FirewallValue,
)
from netfw.drivers.host_driver import HostDriver
from netfw.model.values.protocol import ICMP, ICMPV6, TCP
from netfw.plan import Outcome, Update
from netfw.testing.conformance.firewall.connection_script import ConnectionScript
from netfw.testing.conformance.firewall.environment import (
    Delivery,
    FirewallEnvironment,
    FirewallTestPort,
)
from netfw.testing.conformance.firewall.factories import State
from netfw.testing.conformance.firewall.packets import ECHO, Packet, Sent
from netfw.testing.conformance.watch.suite import WatchedSuite

MakeDriver = Callable[[], FirewallDriver]
_WAYS = {
    FirewallCapability.SPOOF_GUARD,
    FirewallCapability.STATELESS_GROUPS,
    FirewallCapability.ADDRESS_GROUPS,
}
UNFILTERED = "the driver does not declare FILTERING: it lets everything pass"


class FirewallCase(WatchedSuite):
    """Fixtures and assertions of the tests.

    The hook is `shared_environment`: all tests of the class use what it yields.  A driver that does
    not declare ``FirewallCapability.FILTERING`` has to let everything pass: what should be blocked
    must arrive.
    """

    numbers: ClassVar[Iterator[int]] = itertools.count(2)
    """Numbers of ports, unique across tests: connections of another test may be tracked."""
    environment: FirewallEnvironment
    filtering: bool
    _now: State
    _ports: dict[FirewallKey, FirewallTestPort]
    _free: dict[int, list[int]]

    @pytest.fixture(scope="class")
    @classmethod
    def shared_environment(cls) -> Iterator[FirewallEnvironment]:
        """Yield the host, without state of a driver."""
        raise NotImplementedError(
            "override the `shared_environment` fixture with one that yields yours"
        )

    @pytest.fixture(scope="class")
    @classmethod
    def blank(cls, shared_environment: FirewallEnvironment) -> frozenset[str]:
        """Return the state of the host when nothing is desired."""
        return emptied(shared_environment)

    @pytest.fixture
    def make_driver(
        self, shared_environment: FirewallEnvironment, blank: frozenset[str]
    ) -> Iterator[MakeDriver]:
        with self.drivers(shared_environment, blank) as make:
            yield make

    @contextmanager
    def drivers(
        self, environment: FirewallEnvironment, blank: frozenset[str]
    ) -> Iterator[MakeDriver]:
        """Yield a factory of drivers; check at the end that they left nothing behind."""
        self.environment, self._now = environment, {}
        self._ports, self._free = {}, {0: [0, 1, 2, 3], 1: [4, 5]}
        made: list[FirewallDriver] = []

        def make() -> FirewallDriver:
            if made:  # one at a time works on a host
                environment.killed(made[-1])
            driver = environment.make_driver()
            self.filtering = FirewallCapability.FILTERING in driver.describe().capabilities
            made.append(driver)
            return driver

        yield make
        for driver in made:
            driver.close()
            environment.killed(driver)
        left = emptied(environment) ^ blank
        assert not left, f"left behind: {sorted(left)}"

    @pytest.fixture
    def driver(self, make_driver: MakeDriver) -> FirewallDriver:
        return make_driver()

    def untried_contracts(self) -> Mapping[str, str]:
        """Return the contract of firewalls for a driver that filters nothing."""
        if getattr(self, "filtering", True):
            return {}
        return {FirewallDriver.__name__: UNFILTERED}

    def require(self, driver: HostDriver[Any, Any], capability: Capability) -> None:
        """Skip the test if the driver does not declare *capability*.

        A driver that filters nothing runs the tests of all ways to filter.
        """
        is_required = self.filtering or capability not in _WAYS
        if is_required and capability not in driver.describe().capabilities:
            pytest.skip(f"the driver does not declare the capability {capability.value!r}")

    def make_ports(self, count: int, network: int = 0) -> tuple[FirewallTestPort, ...]:
        """Make ports with new addresses."""
        made = tuple(
            FirewallTestPort(
                plug_point=self.environment.plug_points[self._free[network].pop(0)],
                number=next(FirewallCase.numbers),
            )
            for _ in range(count)
        )
        self._ports |= {port.key: port for port in made}
        return made

    def twin(self, port: FirewallTestPort) -> FirewallTestPort:
        """Make a port of the other network with the same addresses."""
        plug_point = self.environment.plug_points[self._free[1].pop(0)]
        made = FirewallTestPort(plug_point=plug_point, number=port.number)
        self._ports[made.key] = made
        return made

    def apply(
        self, driver: FirewallDriver, state: Mapping[FirewallKey, FirewallValue]
    ) -> Outcome[FirewallKey]:
        """Converge to exactly *state*."""
        update = self.update_to(state)
        self.wire(state)
        outcome = driver.converge(update)
        assert outcome.ok, str(outcome)
        self.environment.settle()
        return outcome

    def update_to(
        self, state: Mapping[FirewallKey, FirewallValue]
    ) -> Update[FirewallKey, FirewallValue]:
        """Return the update from the present state to *state*, and record it as applied."""
        changed = {k: v for k, v in state.items() if self._now.get(k) != v}
        gone = frozenset(self._now.keys() - state.keys())
        self._now = dict(state)
        return Update(put=changed, drop=gone)

    def wire(self, state: Mapping[FirewallKey, FirewallValue]) -> None:
        """Have the switch admit the ports of *state*."""
        ports = {
            self._ports[key]: value
            for key, value in state.items()
            if isinstance(value, FilteredPort)
        }
        self.environment.wire(ports)

    def assert_passes(self, one: FirewallTestPort, two: FirewallTestPort, *sent: Sent) -> None:
        self.assert_deliveries(Delivery(one, two, packet, expected=True) for packet in sent)

    def assert_blocked(self, one: FirewallTestPort, two: FirewallTestPort, *sent: Sent) -> None:
        self.assert_deliveries(
            Delivery(one, two, packet, expected=not self.filtering) for packet in sent
        )

    def assert_deliveries(self, deliveries: Iterable[Delivery]) -> None:
        """Check that exactly the expected packets arrive."""
        carried = tuple(deliveries)
        results = self.environment.carry(carried)
        wrong = [
            f"{delivery} should {'pass' if delivery.expected else 'not pass'}"
            for delivery, arrived in zip(carried, results, strict=True)
            if arrived is not delivery.expected
        ]
        assert not wrong, "\n".join(wrong)

    def dialogue(
        self,
        one: FirewallTestPort,
        two: FirewallTestPort,
        port: int,
        *,
        protocol: int = TCP,
        version: int = 4,
    ) -> ConnectionScript:
        """Make a connection without packets yet."""
        number = next(FirewallCase.numbers)
        opening = one.packet(
            two, protocol, port, version=version, source_port=30000 + number % 30000, body=b""
        )
        if protocol in (ICMP, ICMPV6):
            opening = one.ping(two, version=version, identifier=number & 0xFFFF)
        return ConnectionScript(one, two, opening)

    def opened(
        self, one: FirewallTestPort, two: FirewallTestPort, port: int, **more: int
    ) -> ConnectionScript:
        """Open a connection, and check that it works."""
        return self.open(self.dialogue(one, two, port, **more))

    def open(self, dialogue: ConnectionScript) -> ConnectionScript:
        """Perform the handshake, and check that the connection works."""
        for sender, receiver, packet in dialogue.handshake():
            self.assert_passes(sender, receiver, packet)
        self.assert_lives(dialogue)
        return dialogue

    def assert_lives(self, *dialogues: ConnectionScript) -> None:
        """Check both directions; the replying side sends first, which only state allows."""
        for dialogue in dialogues:
            self.assert_passes(dialogue.two, dialogue.one, dialogue.back())
            dialogue.went_back()
            self.assert_passes(dialogue.one, dialogue.two, dialogue.forth())
            dialogue.went_forth()

    def assert_cut(self, *dialogues: ConnectionScript) -> None:
        """Check that neither direction passes; the replying side sends first."""
        for dialogue in dialogues:
            self.assert_blocked(dialogue.two, dialogue.one, dialogue.back())
            self.assert_blocked(dialogue.one, dialogue.two, dialogue.forth())


def pings(one: FirewallTestPort, two: FirewallTestPort) -> tuple[Packet, Packet]:
    """Make an echo request of each family."""
    return one.ping(two), one.ping(two, version=6, icmp=ECHO[6])


def emptied(environment: FirewallEnvironment) -> frozenset[str]:
    """Return the state after a driver has removed all that drivers made."""
    driver = environment.make_driver()
    outcome = driver.gc([])
    assert outcome.ok, str(outcome)
    assert driver.present() == frozenset()
    driver.close()
    environment.killed(driver)
    return environment.dump_state()
