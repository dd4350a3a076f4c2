"""The suite of `RouterDriver`: subclass it, say where your driver works, run pytest.

The questions are asked with real packets.  Write a ``RouterEnvironment``, by way of
``netfw.testing.conformance.router.lab_environment``, and yield it from the class's fixture
``shared_environment``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from ipaddress import ip_interface
from typing import Any

from attrs import evolve

from netfw.drivers.host_driver import HostDriver
from netfw.drivers.router import RouterCapability, RouterDriver
from netfw.drivers.values.keys import RouterKey
from netfw.drivers.values.router_values import (
    RouterDriverKey,
    RouterDriverValue,
    RouterPort,
    RouterState,
)
from netfw.plan import Update
from netfw.testing.conformance.common.backend_optional import BackendOptionalConformance
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.common.reconciler import Drift, dies_at
from netfw.testing.conformance.router.distributed import RouterDistributedConformance
from netfw.testing.conformance.router.distributed_factories import (
    entries,
    make_agent_gateway,
    make_distributed,
)
from netfw.testing.conformance.router.environment import RouterOnHost
from netfw.testing.conformance.router.factories import make_external, make_net, make_site
from netfw.testing.conformance.router.forwarding import RouterForwardingConformance
from netfw.testing.conformance.router.persistence import RouterPersistenceConformance
from netfw.testing.conformance.router.prefix_delegation import RouterDelegationConformance
from netfw.testing.conformance.router.services import RouterServicesConformance
from netfw.testing.conformance.router.translation import RouterTranslationConformance
from netfw.testing.lab.wait import wait_until

Driver = HostDriver[RouterDriverKey, RouterDriverValue]


class RouterDriverConformance(
    RouterForwardingConformance,
    RouterTranslationConformance,
    RouterServicesConformance,
    RouterPersistenceConformance,
    RouterDelegationConformance,
    RouterDistributedConformance,
    BackendOptionalConformance[RouterDriverKey, RouterDriverValue],
):
    """The promises of :class:`RouterDriver`, and of all that it is.

    The general laws are asked with routers, of which the host shows what it has.
    """

    def examples(self, count: int) -> dict[RouterDriverKey, RouterDriverValue]:
        external = make_external()
        sites = [
            make_site(make_net(n), external=external, number=100 + n) for n in range(1, count + 1)
        ]
        for site in sites:
            self.environment.admit(site.ports)
        return {site.key: site.state for site in sites}

    def changed(self, value: RouterDriverValue) -> RouterDriverValue:
        full = _full(value)
        (interface,) = full.interfaces
        more = (*interface.addresses, ip_interface("10.77.0.1/24"))
        moved = evolve(interface, addresses=more, mtu=interface.mtu - 100)
        return evolve(_state(value), full=evolve(full, interfaces=(moved,)))

    def actual(self, key: RouterDriverKey, value: RouterDriverValue) -> RouterDriverValue | None:
        assert isinstance(key, RouterKey)
        full, ports = _full(value), _ports(value)
        found = self.environment.found(key.router, ports)
        if found is None:
            return None
        interfaces = tuple(_as_found(port, found) for port in full.interfaces)
        gateway = full.gateway
        if gateway is not None:
            gateway = evolve(gateway, port=_as_found(gateway.port, found))
        return evolve(_state(value), full=evolve(full, interfaces=interfaces, gateway=gateway))

    def edge_cases(self, value: RouterDriverValue) -> Mapping[str, RouterDriverValue]:
        full = _full(value)
        (interface,) = full.interfaces
        found: dict[str, RouterDriverValue] = {
            f"MTU {mtu}": evolve(
                _state(value), full=evolve(full, interfaces=(evolve(interface, mtu=mtu),))
            )
            for mtu in (1280, 9000)
        }
        found["no interface"] = evolve(_state(value), full=evolve(full, interfaces=()))
        found["no gateway"] = evolve(_state(value), full=evolve(full, gateway=None))
        return found

    def make_foreign(self, value: RouterDriverValue) -> None:
        self.environment.make_foreign(_state(value))

    def foreign_is_intact(self, value: RouterDriverValue) -> bool:
        return self.environment.foreign_is_intact(_state(value))

    def vanish(self, key: RouterDriverKey, value: RouterDriverValue) -> None:
        assert isinstance(key, RouterKey)
        self.environment.vanish(key, _state(value))

    def outage(self) -> AbstractContextManager[None]:
        return self.environment.outage()

    def drifts(self) -> Mapping[str, Drift]:
        return dict(self.environment.drifts())

    def one_of_each(self) -> dict[RouterDriverKey, RouterDriverValue]:
        """Return a router with a floating IP."""
        site = make_site(make_net(1))
        self.environment.admit(site.ports)
        return site.wanted(site.floating(50, site.nets[0].address(20)))

    @proves(RouterDriver, 4, 6)
    def test_a_driver_killed_at_any_stage_is_succeeded(
        self, make_driver: Callable[[], Driver]
    ) -> None:
        """Check that a router with a floating IP is made and removed through any death."""
        self.assert_succeeded(make_driver, self.one_of_each())

    @proves(RouterDriver, 4, 6)
    def test_a_driver_of_distributed_routers_killed_at_any_stage_is_succeeded(
        self, make_driver: Callable[[], Driver]
    ) -> None:
        """Check that both parts and an agent gateway are made and removed through any death."""
        self.require(make_driver(), RouterCapability.DISTRIBUTED)
        site = make_distributed(make_net(1))
        gateway = make_agent_gateway(site.external)
        floating = site.floating(50, site.nets[0].address(20))
        self.environment.admit([*site.ports, *gateway.ports])
        self.assert_succeeded(make_driver, entries(site, gateways=[gateway], floating=[floating]))

    def assert_succeeded(
        self,
        make_driver: Callable[[], Driver],
        things: dict[RouterDriverKey, RouterDriverValue],
    ) -> None:
        """Kill drivers after each stage of making and removing *things*; others complete it."""
        for before, after in (({}, things), (things, {})):
            update = Update(put=after, complete=True)
            stage, died = 0, True
            while died:
                victim = self.reconciler(make_driver())
                self.finish(victim, Update(put=before, complete=True))
                died = dies_at(victim, update, stage)
                successor = self.reconciler(make_driver())
                self.finish(successor, update)
                self.assert_held(successor, after.keys())
                left = self.plan(successor, update)
                assert not left, f"there is still to do: {left}"
                stage += 1

    def finish(self, driver: Driver, update: Update[RouterDriverKey, RouterDriverValue]) -> None:
        """Converge until nothing waits for the switch."""
        wait_until(lambda: driver.converge(update).ok, seconds=self.environment.timeout)


def _state(value: RouterDriverValue) -> RouterState:
    assert isinstance(value, RouterState)
    return value


def _full(value: RouterDriverValue) -> Any:
    return _state(value).full


def _ports(value: RouterDriverValue) -> tuple[RouterPort, ...]:
    full = _full(value)
    return (*full.interfaces, *(() if full.gateway is None else (full.gateway.port,)))


def _as_found(port: RouterPort, found: RouterOnHost) -> RouterPort:
    """Return *port* with the host's actual state in place of the requested one."""
    if port.id not in found.macs:
        return evolve(port, mtu=68)
    addresses = port.addresses
    if found.addresses[port.id] != set(addresses):
        addresses = tuple(sorted(found.addresses[port.id], key=str))
    return evolve(port, mac=found.macs[port.id], mtu=found.mtus[port.id], addresses=addresses)


CONTRACTS = (HostDriver, RouterDriver)
"""The contracts that the suite tests, besides `Reconciler` where the driver is one."""
