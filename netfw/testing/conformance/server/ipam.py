"""The suite of `IpamDriver`: subclass it, make your driver, run pytest.

It runs on a store in memory; to run it on another one as well, override ``stores``.  A driver that
stores addresses elsewhere (``IpamCapability.EXTERNAL``) overrides ``taken``, so that the suite can
read them.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, suppress
from typing import ClassVar, Protocol

import pytest
from attrs import evolve

from netfw.drivers.server.ipam import (
    AddressRequest,
    AddressStore,
    AnyAddress,
    IpamCapability,
    IpamDriver,
)
from netfw.errors import Conflict, InvalidInput, RequestError
from netfw.model.port import FixedIp
from netfw.model.subnet import AllocationPool, Subnet
from netfw.model.values.address import IpAddress, as_address
from netfw.model.values.ids import SubnetId
from netfw.testing.conformance.common.call_counter import count_calls
from netfw.testing.conformance.common.promises import proves, proves_raise
from netfw.testing.conformance.common.required_hooks import RequiresHooks
from netfw.testing.conformance.server import ipam_samples as samples
from netfw.testing.fakes.allocations import MemoryAddresses

MANY = 200
"""Allocated addresses in a subnet that counts as full."""
EFFORT = 20_000
"""Function calls that one allocation may take."""
ATTEMPTS = 100
"""Attempts of a request that conflicts with another one."""


class AddressStoreFactory(Protocol):
    """The store of addresses, and the server's own operations on it."""

    def transaction(self) -> AbstractContextManager[AddressStore]:
        """Return a context with a store, which is committed unless the block raises."""

    def taken(self, subnet: Subnet) -> frozenset[IpAddress]:
        """Return the allocated addresses."""

    def define(self, subnet: Subnet) -> None:
        """Record a new or changed subnet."""

    def drop(self, subnet: SubnetId) -> None:
        """Record that a subnet is deleted."""


class FailedTransaction(Exception):
    """Fails the transaction for another reason."""


class IpamDriverConformance(RequiresHooks):
    """One test or more per promise of :class:`IpamDriver`."""

    HOOKS: ClassVar[tuple[str, ...]] = ("make_driver",)
    effort = 0

    def make_driver(self) -> IpamDriver:
        """Return a driver; all drivers share a store until `make_stores` is called again."""
        raise NotImplementedError("override `make_driver`")

    def make_stores(self) -> AddressStoreFactory:
        """Return an empty store, and empty any other store of the drivers."""
        return MemoryAddresses()

    def taken(self, stores: AddressStoreFactory, subnet: Subnet) -> frozenset[IpAddress]:
        """Return the allocated addresses of *subnet*, read without the driver."""
        return stores.taken(subnet)

    def ready(self) -> tuple[IpamDriver, AddressStoreFactory]:
        """Return a driver, and a store with the subnets of the samples."""
        stores = self.make_stores()
        driver = self.make_driver()
        for subnet in samples.SUBNETS:
            self.change(driver, stores, None, subnet)
        return driver, stores

    def change(
        self, driver: IpamDriver, stores: AddressStoreFactory, before: Subnet | None, after: Subnet
    ) -> None:
        """Create or change a subnet as the server does."""
        with stores.transaction() as store:
            driver.validate_subnet(before, after, store)
        stores.define(after)

    def get(
        self, driver: IpamDriver, stores: AddressStoreFactory, request: AddressRequest
    ) -> FixedIp:
        """Allocate an address as the server does; `effort` counts the function calls."""
        given: list[FixedIp] = []

        def work() -> None:
            with stores.transaction() as store:
                given.append(driver.allocate(request, store))

        self.effort = count_calls(work, EFFORT)
        return given[0]

    def free(self, driver: IpamDriver, stores: AddressStoreFactory, fixed: FixedIp) -> None:
        """Release addresses as the server does when a port is deleted."""
        with stores.transaction() as store:
            driver.release(fixed, store)

    @proves(IpamDriver, 1)
    def test_any_address_is_a_free_one_of_the_pools(self) -> None:
        driver, stores = self.ready()
        for subnet in (samples.SMALL, samples.TWO_POOLS, samples.V6):
            pools = {address for pool in subnet.allocation_pools for address in all_of(pool)}
            given = set()
            for _ in range(len(pools)):
                fixed = self.get(driver, stores, AnyAddress(subnets=(subnet,)))
                assert fixed.subnet_id == subnet.id
                given.add(fixed.address)
            assert given == pools
            assert self.taken(stores, subnet) == pools

    @proves(IpamDriver, 1)
    def test_subnets_are_tried_in_order(self) -> None:
        driver, stores = self.ready()
        request = AnyAddress(subnets=(samples.SMALL, samples.OTHER))
        given = [self.get(driver, stores, request) for _ in range(4)]
        small, other = samples.SMALL.id, samples.OTHER.id
        assert [fixed.subnet_id for fixed in given] == [small, small, small, other]
        assert given[-1].address in samples.OTHER.allocation_pools[0]

    @proves(IpamDriver, 1)
    @proves_raise(IpamDriver, "allocate", Conflict)
    def test_exhaustion_names_the_subnets(self) -> None:
        driver, stores = self.ready()
        for subnet in (samples.SMALL, samples.V6):
            for _ in range(3):
                self.get(driver, stores, AnyAddress(subnets=(subnet,)))
            full = self.taken(stores, subnet)
            with pytest.raises(Conflict) as refusal:
                self.get(driver, stores, AnyAddress(subnets=(subnet,)))
            assert str(subnet.cidr) in str(refusal.value)
            assert self.taken(stores, subnet) == full

    @proves(IpamDriver, 1)
    def test_a_requested_or_derived_address_is_allocated(self) -> None:
        for request, address in samples.POSSIBLE:
            driver, stores = self.ready()
            fixed = self.get(driver, stores, request)
            assert fixed == FixedIp(subnet_id=subnet_of(request).id, address=address)
            assert self.taken(stores, subnet_of(request)) == {as_address(address)}

    @proves(IpamDriver, 1)
    @proves_raise(IpamDriver, "allocate", Conflict)
    def test_an_allocated_address_is_a_conflict(self) -> None:
        driver, stores = self.ready()
        for request, address in samples.POSSIBLE:
            self.get(driver, stores, request)
            before = self.taken(stores, subnet_of(request))
            with pytest.raises(Conflict) as refusal:
                self.get(driver, stores, request)
            assert str(as_address(address)) in str(refusal.value)
            assert self.taken(stores, subnet_of(request)) == before

    @proves(IpamDriver, 1)
    def test_a_requested_address_is_not_allocated_to_others(self) -> None:
        driver, stores = self.ready()
        chosen = self.get(driver, stores, samples.this(samples.SMALL, "192.0.2.2"))
        given = {self.get(driver, stores, AnyAddress(subnets=(samples.SMALL,))) for _ in range(2)}
        assert chosen not in given
        assert len(given) == 2

    @proves_raise(IpamDriver, "allocate", InvalidInput)
    def test_what_no_host_can_have_is_refused(self) -> None:
        driver, stores = self.ready()
        for what, request in samples.IMPOSSIBLE.items():
            with pytest.raises(InvalidInput) as refusal:
                pytest.fail(f"{what}: {self.get(driver, stores, request)} is given")
            assert all(refusal.value.problems.values()), f"{what}: it does not say what is wrong"
            assert not self.taken(stores, subnet_of(request)), f"{what}: it is taken all the same"

    @proves(IpamDriver, 1)
    def test_two_transactions_get_different_addresses(self) -> None:
        driver, stores = self.ready()
        other, request = self.make_driver(), AnyAddress(subnets=(samples.OTHER,))
        got: list[FixedIp] = []
        with stores.transaction() as one_store:
            got.append(driver.allocate(request, one_store))
            with suppress(Conflict), stores.transaction() as other_store:
                got.append(other.allocate(request, other_store))
        assert len(set(got)) == len(got)
        assert self.taken(stores, samples.OTHER) == {fixed.address for fixed in got}

    @proves(IpamDriver, 1)
    def test_of_two_transactions_one_gets_the_address_that_both_want(self) -> None:
        driver, stores = self.ready()
        other, request = self.make_driver(), samples.this(samples.OTHER, "198.51.100.12")
        with stores.transaction() as one_store:
            driver.allocate(request, one_store)
            with pytest.raises(Conflict), stores.transaction() as other_store:
                other.allocate(request, other_store)
        assert self.taken(stores, samples.OTHER) == {as_address("198.51.100.12")}

    @proves(IpamDriver, 1)
    def test_many_at_once_get_different_addresses(self) -> None:
        driver, stores = self.ready()
        drivers = [driver, *(self.make_driver() for _ in range(3))]
        got: list[FixedIp] = []

        def work(own: IpamDriver) -> None:
            wanted = 2
            for _ in range(ATTEMPTS):
                if wanted:
                    with suppress(Conflict):
                        got.append(self.get(own, stores, AnyAddress(subnets=(samples.OTHER,))))
                        wanted -= 1

        threads = [threading.Thread(target=work, args=(driver,)) for driver in drivers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(got) == len(set(got)) == 8

    @proves(IpamDriver, 1)
    def test_what_a_failed_request_took_is_free(self) -> None:
        """Check that only the store keeps state, or an external system that gets a release."""
        driver, stores = self.ready()
        request = samples.this(samples.SMALL, "192.0.2.3")
        for _ in range(2):
            with pytest.raises(FailedTransaction), stores.transaction() as store:
                self.fail(driver, request, store)
        assert not self.taken(stores, samples.SMALL)
        given = {self.get(driver, stores, AnyAddress(subnets=(samples.SMALL,))) for _ in range(3)}
        assert len(given) == 3

    def fail(self, driver: IpamDriver, request: AddressRequest, store: AddressStore) -> None:
        """Take addresses in a request that fails after that."""
        took = [driver.allocate(request, store)]
        took.append(driver.allocate(AnyAddress(subnets=(samples.SMALL,)), store))
        if IpamCapability.EXTERNAL in driver.describe().capabilities:
            for fixed in took:
                driver.release(fixed, store)
        raise FailedTransaction

    @proves(IpamDriver, 2)
    def test_a_large_subnet_costs_no_more(self) -> None:
        driver, stores = self.ready()
        efforts: dict[str, int] = {}
        for subnet in (samples.SMALL, samples.HUGE, samples.HUGE_V6):
            for _ in range(2):  # the first time may fill caches
                self.get(driver, stores, AnyAddress(subnets=(subnet,)))
            efforts[str(subnet.cidr)] = self.effort
        assert max(efforts.values()) < min(efforts.values()) + MANY / 2, efforts

    @proves(IpamDriver, 2)
    def test_a_full_subnet_costs_no_more(self) -> None:
        driver, stores = self.ready()
        efforts: list[int] = []
        for _ in range(MANY):
            self.get(driver, stores, AnyAddress(subnets=(samples.HUGE,)))
            efforts.append(self.effort)
        assert efforts[-1] < efforts[1] + MANY / 2, f"from {efforts[1]} calls to {efforts[-1]}"

    @proves(IpamDriver, 3)
    def test_a_released_address_can_be_allocated_again(self) -> None:
        driver, stores = self.ready()
        for request, _ in samples.POSSIBLE:
            before = self.taken(stores, subnet_of(request))
            fixed = self.get(driver, stores, request)
            self.free(driver, stores, fixed)
            assert self.taken(stores, subnet_of(request)) == before
            assert self.get(driver, stores, request) == fixed

    @proves(IpamDriver, 3)
    def test_releasing_what_is_free_succeeds_and_frees_nothing_else(self) -> None:
        driver, stores = self.ready()
        kept = self.get(driver, stores, samples.this(samples.SMALL, "192.0.2.3"))
        fixed = self.get(driver, stores, samples.this(samples.SMALL, "192.0.2.4"))
        for _ in range(3):
            self.free(driver, stores, fixed)
        assert self.taken(stores, samples.SMALL) == {kept.address}

    @proves(IpamDriver, 4)
    @proves_raise(IpamDriver, "validate_subnet", RequestError)
    def test_a_subnet_that_cannot_be_served_is_refused(self) -> None:
        stores = self.make_stores()
        driver = self.make_driver()
        for what, subnet in samples.UNFIT.items():
            with pytest.raises(RequestError):
                self.expect_refusal(driver, stores, what, subnet)

    def expect_refusal(
        self, driver: IpamDriver, stores: AddressStoreFactory, what: str, subnet: Subnet
    ) -> None:
        self.change(driver, stores, None, subnet)
        pytest.fail(f"{what} is accepted: {subnet}")

    @proves(IpamDriver, 4)
    def test_a_change_that_leaves_an_address_without_a_subnet_is_refused(self) -> None:
        driver, stores = self.ready()
        fixed = self.get(driver, stores, samples.this(samples.OTHER, "198.51.100.12"))
        moved = evolve(samples.OTHER, cidr="198.51.100.128/25", allocation_pools=(), gateway=None)
        with pytest.raises(RequestError):
            self.change(driver, stores, samples.OTHER, moved)
        assert self.taken(stores, samples.OTHER) == {fixed.address}

    @proves(IpamDriver, 4)
    def test_pools_can_change_under_addresses_that_are_taken(self) -> None:
        driver, stores = self.ready()
        request = AnyAddress(subnets=(samples.SMALL,))
        kept = [self.get(driver, stores, request) for _ in range(3)]
        pool = AllocationPool(start="192.0.2.4", end="192.0.2.6")
        moved = evolve(samples.SMALL, allocation_pools=(pool,), gateway=None)
        self.change(driver, stores, samples.SMALL, moved)
        again = AnyAddress(subnets=(moved,))
        given = {str(self.get(driver, stores, again).address) for _ in range(2)}
        assert given == {"192.0.2.5", "192.0.2.6"}
        with pytest.raises(Conflict):
            self.get(driver, stores, again)
        for fixed in kept:
            self.free(driver, stores, fixed)
        assert str(self.get(driver, stores, again).address) == "192.0.2.4"

    @proves(IpamDriver, 5)
    def test_a_subnet_that_is_dropped_is_forgotten_and_no_other(self) -> None:
        driver, stores = self.ready()
        self.get(driver, stores, samples.this(samples.SMALL, "192.0.2.3"))
        kept = self.get(driver, stores, samples.this(samples.OTHER, "198.51.100.12"))
        for _ in range(2):
            with stores.transaction() as store:
                driver.drop_subnet(samples.SMALL.id, store)
            stores.drop(samples.SMALL.id)
        assert not self.taken(stores, samples.SMALL)
        assert self.taken(stores, samples.OTHER) == {kept.address}
        self.change(driver, stores, None, samples.SMALL)
        given = {self.get(driver, stores, AnyAddress(subnets=(samples.SMALL,))) for _ in range(3)}
        assert len(given) == 3


def subnet_of(request: AddressRequest) -> Subnet:
    """Return the first subnet of a request."""
    return request.subnets[0] if isinstance(request, AnyAddress) else request.subnet


def all_of(pool: AllocationPool) -> list[IpAddress]:
    """Return every address of a small pool."""
    return [pool.start + n for n in range(int(pool.end) - int(pool.start) + 1)]


CONTRACTS = (IpamDriver,)
"""The contracts that the suite tests."""
