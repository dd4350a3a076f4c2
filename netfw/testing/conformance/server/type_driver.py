"""The suite of `TypeDriver`: subclass it, override the hooks for your driver, run pytest.

It runs on a store in memory; to run it on another one as well, override ``stores``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, ClassVar, Protocol

import pytest

from netfw.drivers.base import Driver
from netfw.drivers.server.type_driver import AllocationStore, Pool, TypeDriver
from netfw.errors import Conflict, InvalidInput, NetfwError
from netfw.model.segment import NetworkType, Provider, segmentation_ids
from netfw.testing.conformance.common.driver_rules import DriverConformance
from netfw.testing.conformance.common.promises import proves, proves_raise
from netfw.testing.conformance.watch.io_events import observed_io
from netfw.testing.fakes.allocations import MemoryAllocations

FEW = 200
"""The most numbers that the driver of a suite has for requests without a number."""
LONGEST_RETRY = 60.0
"""Seconds for which a request that conflicts with another one is repeated."""


class AllocationStoreFactory(Protocol):
    """A store of numbers that can be read without the driver."""

    def transaction(self) -> AbstractContextManager[AllocationStore]:
        """Open a store; its changes are committed when the block ends, unless it raises."""

    def taken(self) -> frozenset[tuple[Pool, int]]:
        """Return the taken numbers."""


class FailedRequest(Exception):
    """The failure of another part of the request, and so of its transaction."""


def fail(driver: TypeDriver, request: Provider, store: AllocationStore) -> None:
    """Take segments in a request that fails after that."""
    driver.reserve(request, store)
    driver.allocate(store)
    raise FailedRequest


class TypeDriverConformance(DriverConformance):
    """One test or more per promise of :class:`TypeDriver`."""

    HOOKS: ClassVar[tuple[str, ...]] = ("make_driver", "requests", "impossible", "mtus")

    def make_driver(self) -> TypeDriver:
        """Return a driver whose ranges, if any, hold from two to `FEW` numbers.

        Every call makes a driver of the same configuration.
        """
        raise NotImplementedError("override `make_driver`")

    def requests(self) -> tuple[Provider, Provider]:
        """Return two complete requests that the driver accepts, for different segments."""
        raise NotImplementedError("override `requests`")

    def impossible(self) -> Mapping[Provider, frozenset[str]]:
        """Return requests that this configuration refuses, each with its wrong attributes."""
        raise NotImplementedError("override `impossible`; {} where nothing can be wrong")

    def mtus(self) -> Mapping[str | None, int]:
        """Return physical networks, or ``None``, and the right MTU of each."""
        raise NotImplementedError("override `mtus`: reckon them by hand")

    def make_stores(self, driver: TypeDriver) -> AllocationStoreFactory:
        """Return an empty store with the driver's ranges."""
        return MemoryAllocations(driver.ranges())

    def incomplete(self, driver: TypeDriver) -> Iterator[Provider]:
        """Yield requests that leave a choice to the driver."""
        kind = driver.network_type()
        if segmentation_ids(kind) is not None and (kind.is_well_known or driver.ranges()):
            yield Provider(network_type=kind)
            for name in {offered.pool.physical_network for offered in driver.ranges()} - {None}:
                yield Provider(network_type=kind, physical_network=name)

    def maker(self) -> AbstractContextManager[Callable[[], TypeDriver]]:
        return nullcontext(self.make_driver)

    def use(self, driver: Driver) -> None:
        assert isinstance(driver, TypeDriver), f"{driver!r} is no type driver"
        stores = self.make_stores(driver)
        with stores.transaction() as store:
            for request in self.requests():
                driver.validate(request)
                driver.release(driver.reserve(request, store), store)
            if (segment := driver.allocate(store)) is not None:
                driver.release(segment, store)
        for physical_network in self.mtus():
            driver.mtu(physical_network)

    @proves(TypeDriver, 1)
    @proves_raise(TypeDriver, "validate", InvalidInput)
    def test_a_request_that_cannot_be_is_refused_by_attribute(self) -> None:
        driver = self.make_driver()
        other = Provider(network_type=NetworkType.LOCAL)
        if driver.network_type() is NetworkType.LOCAL:
            other = Provider(network_type=NetworkType.VXLAN)
        for request, wrong in {**self.impossible(), other: frozenset({"network_type"})}.items():
            with pytest.raises(InvalidInput) as refusal:
                driver.validate(request)
            assert refusal.value.problems.keys() == wrong, request
            assert all(refusal.value.problems.values()), "each says what is wrong"

    @proves(TypeDriver, 1)
    def test_a_request_that_can_be_is_accepted_complete_or_not(self) -> None:
        driver = self.make_driver()
        for request in (*self.requests(), *self.incomplete(driver)):
            driver.validate(request)
            driver.validate(request)

    @proves(TypeDriver, 7)
    def test_no_call_waits_within_the_transaction(self) -> None:
        """Make the calls of a request; what surrounds each call is watched by itself."""
        self.use(self.make_driver())

    @proves(TypeDriver, 7)
    def test_nothing_but_the_store_is_touched_within_the_transaction(self) -> None:
        driver = self.make_driver()
        stores = MemoryAllocations(driver.ranges())
        request, _ = self.requests()
        with observed_io() as events, stores.transaction() as store:
            driver.release(driver.reserve(request, store), store)
            if (segment := driver.allocate(store)) is not None:
                driver.release(segment, store)
        touched = "; ".join(events[:3])
        assert not events, f"promise 7 of TypeDriver: it touched files or sockets: {touched}"

    @proves(TypeDriver, 2)
    def test_the_requested_segment_is_the_one_allocated(self) -> None:
        driver = self.make_driver()
        stores = self.make_stores(driver)
        for request in self.requests():
            before = stores.taken()
            with stores.transaction() as store:
                assert driver.reserve(request, store) == request
            assert len(stores.taken() - before) == self.cost(driver)

    @proves(TypeDriver, 2)
    def test_what_is_missing_is_completed(self) -> None:
        driver = self.make_driver()
        self.require_ranges(driver)
        stores = self.make_stores(driver)
        for request in self.incomplete(driver):
            with stores.transaction() as store:
                got = driver.reserve(request, store)
            assert got.segmentation_id is not None, f"{request} is still incomplete"
            assert got.physical_network == request.physical_network or not request.physical_network
            assert numbered(got) in stores.taken(), f"{got} is not taken"

    @proves(TypeDriver, 2)
    @proves_raise(TypeDriver, "reserve", Conflict)
    def test_what_is_taken_is_a_conflict(self) -> None:
        driver = self.make_driver()
        self.require_difference(driver)
        stores = self.make_stores(driver)
        one, other = self.requests()
        with stores.transaction() as store:
            driver.reserve(one, store)
        taken = stores.taken()
        with pytest.raises(Conflict), stores.transaction() as store:
            driver.reserve(one, store)
        assert stores.taken() == taken
        with stores.transaction() as store:
            assert driver.reserve(other, store) == other

    @proves(TypeDriver, 3)
    def test_all_of_the_ranges_is_given_once_and_then_nothing(self) -> None:
        driver = self.make_driver()
        stores = self.make_stores(driver)
        offered = offered_by(driver)
        assert len(offered) <= FEW, "the suite cannot count so far: give its driver small ranges"
        if driver.network_type() is NetworkType.LOCAL:
            pytest.skip("there is always another local segment")
        given = list(self.exhaust(driver, stores, len(offered) + 1))
        assert sorted(map(str, given)) == sorted(map(str, offered))
        assert stores.taken() == offered

    @proves(TypeDriver, 3)
    def test_an_incomplete_request_is_a_conflict_when_nothing_is_left(self) -> None:
        driver = self.make_driver()
        self.require_ranges(driver)
        stores = self.make_stores(driver)
        list(self.exhaust(driver, stores, FEW))
        for request in self.incomplete(driver):
            with pytest.raises(Conflict), stores.transaction() as store:
                driver.reserve(request, store)

    @proves(TypeDriver, 4)
    def test_a_released_segment_can_be_reserved_again(self) -> None:
        driver = self.make_driver()
        stores = self.make_stores(driver)
        one, other = self.requests()
        with stores.transaction() as store:
            driver.reserve(one, store)
        if driver.network_type() is not NetworkType.LOCAL:
            with stores.transaction() as store:
                driver.reserve(other, store)
        both = stores.taken()
        with stores.transaction() as store:
            driver.release(one, store)
        assert len(both - stores.taken()) == self.cost(driver)
        with stores.transaction() as store:
            assert driver.reserve(one, store) == one
        assert stores.taken() == both

    @proves(TypeDriver, 4)
    def test_releasing_what_is_free_is_harmless(self) -> None:
        driver = self.make_driver()
        stores = self.make_stores(driver)
        one, other = self.requests()
        with stores.transaction() as store:
            driver.reserve(other, store)
        kept = stores.taken()
        if driver.network_type() is not NetworkType.LOCAL:
            for _ in range(2):
                with stores.transaction() as store:
                    driver.release(one, store)
        assert stores.taken() == kept
        for request in self.incomplete(driver):
            with stores.transaction() as store:
                driver.release(request, store)
        assert stores.taken() == kept

    @proves(TypeDriver, 4)
    def test_all_that_is_released_is_given_again(self) -> None:
        driver = self.make_driver()
        self.require_ranges(driver)
        stores = self.make_stores(driver)
        for _ in range(2):
            with stores.transaction() as store:
                got = [driver.allocate(store) for _ in range(2)]
            assert None not in got
            with stores.transaction() as store:
                for segment in got:
                    assert segment is not None
                    driver.release(segment, store)
            assert not stores.taken()

    @proves(TypeDriver, 5)
    def test_two_transactions_get_different_segments(self) -> None:
        driver, other = self.make_driver(), self.make_driver()
        self.require_ranges(driver)
        stores = self.make_stores(driver)
        got: list[Provider | None] = []
        with stores.transaction() as one_store:
            got.append(driver.allocate(one_store))
            with suppress(Conflict), stores.transaction() as other_store:
                got.append(other.allocate(other_store))
        assert None not in got
        assert len(set(got)) == len(got)

    @proves(TypeDriver, 5)
    def test_of_two_transactions_one_gets_what_both_want(self) -> None:
        driver, other = self.make_driver(), self.make_driver()
        self.require_difference(driver)
        stores = self.make_stores(driver)
        request, _ = self.requests()
        with stores.transaction() as one_store:
            driver.reserve(request, one_store)
            with pytest.raises(Conflict), stores.transaction() as other_store:
                other.reserve(request, other_store)
        assert len(stores.taken()) == 1

    @proves(TypeDriver, 5)
    def test_what_a_failed_request_took_is_free(self) -> None:
        """Check that only the store keeps state: it alone has the outcome of a request."""
        driver = self.make_driver()
        stores = self.make_stores(driver)
        request, _ = self.requests()
        for _ in range(2):
            with pytest.raises(FailedRequest), stores.transaction() as store:
                fail(driver, request, store)
        assert not stores.taken()
        with stores.transaction() as store:
            assert driver.reserve(request, store) == request
        if driver.ranges():
            list(self.exhaust(driver, stores, FEW))
            assert stores.taken() >= offered_by(driver)

    @proves(TypeDriver, 5)
    def test_many_at_once_get_different_segments(self) -> None:
        driver = self.make_driver()
        self.require_ranges(driver)
        stores = self.make_stores(driver)
        got: list[Provider] = []
        errors: list[NetfwError] = []
        most, until = len(offered_by(driver)), time.monotonic() + LONGEST_RETRY

        def work() -> None:
            while not errors and len(got) <= most:
                none_is_left = len(got) == most
                try:
                    with stores.transaction() as store:
                        segment = driver.allocate(store)
                except Conflict as exc:
                    if none_is_left or time.monotonic() > until:
                        errors.append(exc)
                    continue
                except NetfwError as exc:
                    errors.append(exc)
                    return
                if segment is None:
                    return
                got.append(segment)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors, f"allocate returns None if no segment is left; it raised {errors[0]!r}"
        assert len(got) == len(set(got)) == most

    @proves(TypeDriver, 6)
    def test_the_mtu_is_what_is_left_for_a_packet(self) -> None:
        driver, expected = self.make_driver(), self.mtus()
        assert {name: driver.mtu(name) for name in expected} == dict(expected)

    def test_ranges_are_of_the_type_and_do_not_overlap(self) -> None:
        driver = self.make_driver()
        kind = driver.network_type()
        assert kind == self.make_driver().network_type()
        assert driver.ranges() == self.make_driver().ranges()
        assert isinstance(driver.ranges(), tuple), f"ranges() is no tuple: {driver.ranges()!r}"
        assert driver.ranges() or not (kind.is_well_known and segmentation_ids(kind)), (
            f"{kind} has numbers and the driver of `make_driver` offers none: most of the suite is "
            f"not tried; give it ranges of two to {FEW} numbers"
        )
        seen: set[tuple[Pool, int]] = set()
        for offered in driver.ranges():
            numbers = {(offered.pool, number) for number in range(offered.first, offered.last + 1)}
            assert offered.pool.type == kind
            assert not numbers & seen, f"{offered} overlaps another"
            possible = segmentation_ids(kind) or ()
            assert offered.first in possible
            assert offered.last in possible
            seen |= numbers

    def cost(self, driver: TypeDriver) -> int:
        """Return how many numbers a segment takes."""
        return 0 if driver.network_type() is NetworkType.LOCAL else 1

    def exhaust(
        self, driver: TypeDriver, stores: AllocationStoreFactory, limit: int
    ) -> Iterator[Any]:
        """Allocate until the pool is exhausted, or *limit* is reached."""
        for _ in range(limit):
            with stores.transaction() as store:
                segment = driver.allocate(store)
            if segment is None:
                return
            yield numbered(segment)

    def require_ranges(self, driver: TypeDriver) -> None:
        """Skip the test if the driver has no ranges to allocate from."""
        if not driver.ranges():
            pytest.skip("the driver has no ranges to allocate from")

    def require_difference(self, driver: TypeDriver) -> None:
        """Skip the test for local segments."""
        if driver.network_type() is NetworkType.LOCAL:
            pytest.skip("local segments stay on their hosts, and need not differ")


def offered_by(driver: TypeDriver) -> set[tuple[Pool, int]]:
    """Return all numbers in the driver's ranges."""
    return {(r.pool, n) for r in driver.ranges() for n in range(r.first, r.last + 1)}


def numbered(segment: Provider) -> tuple[Pool, int | None]:
    """Return the pool of a segment's number, and the number."""
    return Pool(segment.network_type, segment.physical_network), segment.segmentation_id


CONTRACTS = (Driver, TypeDriver)
"""The contracts that the suite tests."""
