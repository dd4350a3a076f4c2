"""Base class of the parts of the DHCP suite."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest

from netfw.drivers.base import Capability
from netfw.drivers.dhcp import DhcpDriver, DhcpKey, ServerPort
from netfw.drivers.host_driver import HostDriver
from netfw.drivers.values.events import Event, ProcessDied
from netfw.model.values.ids import NetworkId
from netfw.plan import Outcome, Update
from netfw.testing.conformance.dhcp.environment import DhcpClientVm, DhcpEnvironment, FoundServer
from netfw.testing.conformance.dhcp.factories import ServedNetwork, Tenant, wanted
from netfw.testing.lab.dhcp_lease import ClientLease

MakeDriver = Callable[..., DhcpDriver]


class Deaths:
    """The processes whose death a driver reported."""

    def __init__(self, driver: DhcpDriver) -> None:
        self._lock = threading.Condition()
        self._keys: set[Hashable] = set()
        driver.watch(self._take)

    def wait_for(self, key: Hashable, timeout: float) -> bool:
        """Return whether the death of a server of *key* is reported within *timeout* seconds."""
        with self._lock:
            return self._lock.wait_for(lambda: key in self._keys, timeout)

    def _take(self, event: Event) -> None:
        if isinstance(event, ProcessDied):
            with self._lock:
                self._keys |= event.keys
                self._lock.notify_all()


class DhcpCase:
    """Fixtures and assertions of the tests.

    The hook is `shared_environment`: all tests of the class use what it yields, and each of them
    has to leave it as it was.
    """

    HOOKS: ClassVar[tuple[str, ...]] = ("shared_environment",)
    environment: DhcpEnvironment
    _servers: dict[NetworkId, ServerPort]

    @pytest.fixture(scope="class")
    @classmethod
    def shared_environment(cls) -> Iterator[DhcpEnvironment]:
        """Yield the hosts, without servers and without state of a driver."""
        raise NotImplementedError(
            "override the `shared_environment` fixture with one that yields yours"
        )

    @pytest.fixture(scope="class")
    @classmethod
    def blank(cls, shared_environment: DhcpEnvironment) -> frozenset[str]:
        """Return the state of the hosts when nothing is desired."""
        return emptied(shared_environment)

    @pytest.fixture
    def make_driver(
        self, shared_environment: DhcpEnvironment, blank: frozenset[str]
    ) -> Iterator[MakeDriver]:
        with self.drivers(shared_environment, blank) as make:
            yield make

    @contextmanager
    def drivers(self, environment: DhcpEnvironment, blank: frozenset[str]) -> Iterator[MakeDriver]:
        """Yield a factory of drivers; check at the end that they left nothing behind."""
        self.environment, self._servers = environment, {}
        working: dict[bool, DhcpDriver] = {}

        def make(second: bool = False) -> DhcpDriver:
            if second in working:  # one at a time works on a host
                environment.killed(working[second])
            working[second] = environment.make_driver(second)
            return working[second]

        yield make
        for driver in working.values():
            environment.killed(driver)
        environment.dismiss()
        left = emptied(environment) - blank
        assert not left, f"left behind: {sorted(left)}"

    @pytest.fixture
    def driver(self, make_driver: MakeDriver) -> DhcpDriver:
        return make_driver()

    def require(self, driver: HostDriver[Any, Any], capability: Capability) -> None:
        """Skip the test if the driver does not declare *capability*."""
        if capability not in driver.describe().capabilities:
            pytest.skip(f"the driver does not declare the capability {capability.value!r}")

    def bring(self, driver: DhcpDriver, *things: ServedNetwork | Tenant) -> None:
        """Put *things*, and check that they are applied."""
        self.admit(*things)
        outcome = driver.converge(Update(put=wanted(*things)))
        assert outcome.ok, str(outcome)

    def drop(self, driver: DhcpDriver, *things: ServedNetwork | Tenant) -> None:
        """Drop *things*, and check that they are removed."""
        outcome = driver.converge(Update(drop=frozenset(wanted(*things))))
        assert outcome.ok, str(outcome)

    def admit(self, *things: ServedNetwork | Tenant) -> None:
        """Have the switch admit the servers of networks once they are plugged."""
        for thing in things:
            if isinstance(thing, ServedNetwork):
                self._servers[thing.id] = thing.value.server
                self.environment.admit(thing.id, thing.value.server)

    def client(self, tenant: Tenant) -> DhcpClientVm:
        """Return the instance of a port."""
        return self.environment.client(tenant.value.network, tenant.mac)

    def leased(self, tenant: Tenant) -> tuple[DhcpClientVm, ClientLease]:
        """Return the instance of a port and its lease."""
        client = self.client(tenant)
        lease = client.lease()
        assert lease is not None, f"{tenant.mac} got no lease"
        assert lease.ip in tenant.addresses, f"{lease.ip} is not of {tenant.addresses}"
        return client, lease

    def renewed(self, client: DhcpClientVm) -> ClientLease:
        """Renew the lease of *client*."""
        lease = client.renew()
        assert lease is not None, "it was refused its own address, or not answered"
        return lease

    def assert_nothing_for(self, tenant: Tenant) -> None:
        """Check that the instance of a port gets no lease."""
        lease = self.client(tenant).lease(expected=False)
        assert lease is None, f"{tenant.mac} should get nothing and got {lease}"

    def server(self, net: ServedNetwork) -> FoundServer:
        """Return the server of a network as the host has it."""
        server = self.environment.server(net.id, net.value.server)
        assert server is not None, f"{net.key} has no device"
        return server

    def traces(self, net: ServedNetwork) -> frozenset[str]:
        """Return everything on the host that belongs to a network."""
        names = (str(net.id), str(net.value.server.id)[:11])
        return frozenset(
            line for line in self.environment.dump_state() if any(name in line for name in names)
        )

    def await_server(
        self, net: ServedNetwork, condition: Callable[[FoundServer], bool]
    ) -> FoundServer:
        """Wait until the server of a network fulfils *condition*."""
        until = time.monotonic() + self.environment.timeout
        while True:
            server = self.environment.server(net.id, net.value.server)
            if server is not None and condition(server):
                return server
            assert time.monotonic() < until, f"the server is still {server}"
            time.sleep(0.02)


def emptied(environment: DhcpEnvironment) -> frozenset[str]:
    """Return the state after drivers have removed all that drivers made."""
    for second in environment.used:
        driver = environment.make_driver(second)
        outcome: Outcome[DhcpKey] = driver.gc([])
        assert outcome.ok, str(outcome)
        environment.killed(driver)
    return environment.dump_state()
