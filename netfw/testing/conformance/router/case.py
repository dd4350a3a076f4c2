"""What the parts of the router suite have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest

from netfw.drivers.base import Capability
from netfw.drivers.host_driver import HostDriver
from netfw.drivers.router import RouterDriver
from netfw.drivers.values.router_values import RouterDriverKey
from netfw.model.values.address import IpAddress
from netfw.plan import Outcome, Update
from netfw.testing.conformance.router.environment import (
    Machine,
    ReceivedEcho,
    RouterEnvironment,
    Stream,
)
from netfw.testing.conformance.router.factories import Floating, Site
from netfw.testing.lab.wait import wait_until

MakeDriver = Callable[[], RouterDriver]
FAMILIES = (4, 6)


class RouterCase:
    """Fixtures and assertions of the tests.

    The hook is `shared_environment`: all tests of the class use what it yields, and each of them
    has to leave it was.
    """

    HOOKS: ClassVar[tuple[str, ...]] = ("shared_environment",)
    environment: RouterEnvironment

    @pytest.fixture(scope="class")
    @classmethod
    def shared_environment(cls) -> Iterator[RouterEnvironment]:
        """Yield the host, without routers and without state of a driver."""
        raise NotImplementedError(
            "override the `shared_environment` fixture with one that yields yours"
        )

    @pytest.fixture(scope="class")
    @classmethod
    def blank(cls, shared_environment: RouterEnvironment) -> frozenset[str]:
        """Return the state of the host when nothing is desired."""
        return emptied(shared_environment)

    @pytest.fixture
    def make_driver(
        self, shared_environment: RouterEnvironment, blank: frozenset[str]
    ) -> Iterator[MakeDriver]:
        with self.drivers(shared_environment, blank) as make:
            yield make

    @contextmanager
    def drivers(
        self, environment: RouterEnvironment, blank: frozenset[str]
    ) -> Iterator[MakeDriver]:
        """Yield a factory of drivers; check at the end that they left nothing behind."""
        self.environment = environment
        working: list[RouterDriver] = []

        def make() -> RouterDriver:
            while working:  # one at a time works on a host
                environment.killed(working.pop())
            working.append(environment.make_driver())
            return working[-1]

        yield make
        for driver in working:
            environment.killed(driver)
        environment.dismiss()
        left = emptied(environment) - blank
        assert not left, f"left behind: {sorted(left)}"

    @pytest.fixture
    def driver(self, make_driver: MakeDriver) -> RouterDriver:
        return make_driver()

    def require(self, driver: HostDriver[Any, Any], capability: Capability) -> None:
        """Skip the test if the driver does not declare *capability*."""
        if capability not in driver.describe().capabilities:
            pytest.skip(f"the driver does not declare the capability {capability.value!r}")

    def bring(
        self,
        driver: RouterDriver,
        site: Site,
        *floating: Floating,
        environment: RouterEnvironment | None = None,
    ) -> None:
        """Put a router and floating IPs; again only those that wait until their gateway is wired.

        For what is done, one ``converge`` has to be enough.  *environment*: another host.
        """
        host = environment or self.environment
        host.admit(site.ports)
        wanted = site.wanted(*floating)
        outcome = driver.converge(Update(put=wanted))
        assert not outcome.failed, str(outcome)
        assert site.key in outcome.done, str(outcome)
        host.await_wired(site.ports)
        if outcome.waiting:
            rest = Update(put={key: wanted[key] for key in outcome.waiting})
            wait_until(
                lambda: driver.converge(rest).ok,
                lambda: f"still waiting: {outcome}",
                seconds=self.environment.timeout,
            )

    def drop(self, driver: RouterDriver, *things: Site | Floating) -> None:
        """Drop *things*, and check that they are removed."""
        outcome: Outcome[RouterDriverKey] = driver.converge(
            Update(drop=frozenset(each.key for each in things))
        )
        assert outcome.ok, str(outcome)

    def instance(
        self,
        site: Site,
        net: int = 0,
        number: int = 20,
        *,
        environment: RouterEnvironment | None = None,
        **options: Any,
    ) -> Machine:
        """Return a machine on a network behind the router; *environment*: on another host."""
        inside = site.nets[net]
        return (environment or self.environment).machine(
            inside.id, inside.interfaces(number), inside.gateways(), **options
        )

    def outside(
        self,
        site: Site,
        number: int = 1,
        *,
        environment: RouterEnvironment | None = None,
        **options: Any,
    ) -> Machine:
        """Return a machine on the external network; it reaches IPv6 networks by the router."""
        inside_v6 = [each.ip for each in site.gateway.port.addresses if each.version == 6]
        return (environment or self.environment).machine(
            site.external.id, site.external.interfaces(number), inside_v6, **options
        )

    def arrives(self, source: Machine, to: IpAddress, *request: Any) -> ReceivedEcho:
        """Return how a request of *source* arrived; it may take a moment after a change."""
        found: list[ReceivedEcho] = []

        def attempt() -> bool:
            echo = source.reach(to, *request)
            found.extend([] if echo is None else [echo])
            return bool(found)

        wait_until(attempt, f"{source.name} does not reach {to}", seconds=self.environment.timeout)
        return found[0]

    def connected(self, source: Machine, to: IpAddress, port: int) -> Stream:
        """Return a connection of *source*; it may take a moment."""
        found: list[Stream] = []

        def attempt() -> bool:
            stream = source.connect(to, port)
            found.extend([] if stream is None else [stream])
            return bool(found)

        what = f"{source.name} does not connect to {to}"
        wait_until(attempt, what, seconds=self.environment.timeout)
        return found[0]

    def assert_unreachable(self, source: Machine, to: IpAddress, *request: Any) -> None:
        """Check that a request of *source* gets no answer."""
        echo = source.reach(to, *request)
        assert echo is None, f"{source.name} should not reach {to} and did: {echo}"


def emptied(environment: RouterEnvironment) -> frozenset[str]:
    """Return the state after a driver has removed all that drivers made."""
    driver = environment.make_driver()
    outcome: Outcome[RouterDriverKey] = driver.gc([])
    assert outcome.ok, str(outcome)
    environment.killed(driver)
    return environment.dump_state()
