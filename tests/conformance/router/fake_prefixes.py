"""Delegated prefixes of the fake router driver: providers, clients, and what drivers report."""

from __future__ import annotations

from ipaddress import IPv6Network
from itertools import islice
from typing import TYPE_CHECKING

from attrs import define, field, frozen

from netfw.drivers.values.router_values import PrefixDelegated, RouterState
from netfw.model.values.ids import NetworkId, SubnetId
from netfw.testing.conformance.router.environment import PrefixProvider
from tests.conformance.router.fake_parts import public_router

if TYPE_CHECKING:
    from tests.conformance.router.fake_fabric import FakeFabric
    from tests.conformance.router.fake_router_backend import FakeRouterBackend

A_MINUTE = 60
UNKNOWN = object()


@frozen
class PrefixRequests:
    """What the client of a router requests: goes on without drivers, as a process would."""

    network: NetworkId | None
    identities: dict[SubnetId, object]


@define(eq=False)
class FakeProvider(PrefixProvider):
    """A provider in memory.  Clients renew at once, and short leases expire at once."""

    fabric: FakeFabric
    network: NetworkId
    pool: IPv6Network | None = None
    valid: int = 0
    leases: dict[object, IPv6Network] = field(factory=dict)

    def delegate(self, pool: IPv6Network, *, valid: int = 3600) -> None:
        if pool != self.pool:
            self.leases.clear()
        self.pool, self.valid = pool, valid
        self.fabric.renew()

    def stop(self) -> None:
        self.pool = None
        if self.valid < A_MINUTE:
            self.leases.clear()
        self.fabric.renew()

    def lease(self, identity: object) -> IPv6Network | None:
        if self.pool is not None and identity not in self.leases:
            number = len(self.leases)
            self.leases[identity] = next(islice(self.pool.subnets(new_prefix=64), number, None))
        return self.leases.get(identity)


class FakePrefixClient:
    """The part of the fake driver that requests prefixes and reports them."""

    backend: FakeRouterBackend

    def start_client(self) -> None:
        self.prefix_sinks: list = []
        self.reported: dict = {}

    def watch_prefixes(self, sink) -> None:
        self.prefix_sinks.append(sink)
        self.backend.lease_watchers.append(self.report_prefixes)
        self.report_prefixes()

    def requested(self, state: RouterState) -> frozenset[SubnetId]:
        """Return the subnets for which a router requests prefixes."""
        if state.full.gateway is None:
            return frozenset()
        return frozenset(id for port in state.full.interfaces for id in port.delegated)

    def identity(self, router, subnet: SubnetId, wanted) -> object:
        """Return the identity by which the provider knows the subnet."""
        return public_router(router), subnet

    def request_prefixes(self, router, state: RouterState | None) -> None:
        wanted = frozenset() if state is None else self.requested(state)
        if not wanted:
            self.backend.prefix_requests.pop(router, None)
            return
        gateway = state.full.gateway
        identities = {subnet: self.identity(router, subnet, wanted) for subnet in wanted}
        network = None if gateway is None else gateway.port.network
        self.backend.prefix_requests[router] = PrefixRequests(network, identities)

    def report_prefixes(self) -> None:
        """Report what changed since the last report."""
        leases = dict(self.backend.leases)
        self.reported = {key: prefix for key, prefix in self.reported.items() if key in leases}
        for (router, subnet), prefix in leases.items():
            if self.reported.get((router, subnet), UNKNOWN) != prefix:
                self.reported[router, subnet] = prefix
                self.send(router, subnet, prefix)

    def send(self, router, subnet: SubnetId, prefix: IPv6Network | None) -> None:
        for sink in self.prefix_sinks:
            sink(PrefixDelegated("the provider", public_router(router), subnet, prefix))


def renew(host, providers) -> None:
    """Have the clients of a host renew their leases, and its drivers report them."""
    leases = {}
    for router, requests in host.prefix_requests.items():
        if router not in host.routers or not host.requests_prefixes(router):
            continue
        for subnet, identity in requests.identities.items():
            before = host.leases.get((router, subnet), UNKNOWN)
            lease = before
            for provider in providers:
                if provider.network == requests.network and router not in host.dead:
                    lease = provider.lease(identity)
            if lease is not UNKNOWN and (lease is not None or before is not UNKNOWN):
                leases[router, subnet] = lease
    host.leases = leases
    for watcher in tuple(host.lease_watchers):
        watcher()
