"""Drivers of address management that are wrong, each in one way, and the tests that refuse it."""

from __future__ import annotations

from contextlib import suppress
from typing import ClassVar

from attrs import evolve

from netfw.drivers.ipam import AddressRequest, AddressStore, AnyAddress, DerivedAddress, ThisAddress
from netfw.errors import Conflict, InvalidInput
from netfw.model.ids import SubnetId
from netfw.model.port import FixedIp
from netfw.model.subnet import Ipv6Mode, Subnet
from netfw_drivers.ipam.internal import InternalIpamDriver

AGAIN = "test_a_released_address_can_be_had_again"
ANY = "test_any_address_is_a_free_one_of_the_pools"
AT_ONCE = "test_many_at_once_get_different_addresses"
BOTH_WANT = "test_of_two_transactions_one_gets_the_address_that_both_want"
CHANGED_POOLS = "test_pools_can_change_under_addresses_that_are_taken"
CHOSEN = "test_an_address_that_somebody_chose_is_not_given_to_others"
DROPPED = "test_a_subnet_that_is_dropped_is_forgotten_and_no_other"
EXHAUSTED = "test_when_no_address_is_left_it_says_where"
FAILED = "test_what_a_failed_request_took_is_free"
FREE = "test_releasing_what_is_free_succeeds_and_frees_nothing_else"
FULL = "test_a_full_subnet_costs_no_more"
IN_ORDER = "test_subnets_are_tried_in_order"
LARGE = "test_a_large_subnet_costs_no_more"
NO_HOST = "test_what_no_host_can_have_is_refused"
TAKEN = "test_an_address_that_is_taken_is_a_conflict"
THAT_ONE = "test_who_names_an_address_or_derives_it_gets_that_one"
TWO = "test_two_transactions_get_different_addresses"
UNFIT = "test_a_subnet_that_nobody_can_serve_is_refused"
WITHOUT_SUBNET = "test_a_change_that_leaves_an_address_without_a_subnet_is_refused"


class BrokenIpam(InternalIpamDriver):
    """The driver of ours, with one thing wrong."""

    VERSION = 1
    refused_by: ClassVar[frozenset[str]]

    def __init__(self) -> None:
        self.given: set[FixedIp] = set()


class CountsByItself(BrokenIpam):
    """Keeps the books in the process, one set for each."""

    refused_by = frozenset({TWO, AT_ONCE, FAILED, CHOSEN, FULL})

    def allocate(self, request: AddressRequest, store: AddressStore) -> FixedIp:
        if not isinstance(request, AnyAddress):
            return super().allocate(request, store)
        for subnet in request.subnets:
            for pool in subnet.allocation_pools:
                for number in range(int(pool.start), int(pool.end) + 1):
                    address = type(pool.start)(number)
                    fixed = FixedIp(subnet_id=subnet.id, address=address)
                    if fixed not in self.given:
                        self.given.add(fixed)
                        with suppress(Conflict):
                            store.acquire(subnet.id, address)
                        return fixed
        raise Conflict(f"no address is left in {[str(s.cidr) for s in request.subnets]}")

    def release(self, fixed_ip: FixedIp, store: AddressStore) -> None:
        self.given.discard(fixed_ip)
        super().release(fixed_ip, store)

    def drop_subnet(self, subnet: SubnetId, store: AddressStore) -> None:
        self.given = {fixed for fixed in self.given if fixed.subnet_id != subnet}


class ScansThePool(BrokenIpam):
    """Tries one address after the other."""

    refused_by = frozenset({FULL})

    def allocate(self, request: AddressRequest, store: AddressStore) -> FixedIp:
        if not isinstance(request, AnyAddress):
            return super().allocate(request, store)
        for subnet in request.subnets:
            for pool in subnet.allocation_pools:
                address = pool.start
                while address in pool:
                    if store.acquire(subnet.id, address):
                        return FixedIp(subnet_id=subnet.id, address=address)
                    address += 1
        return super().allocate(request, store)


class ListsThePool(BrokenIpam):
    """Writes down all addresses before it chooses one."""

    refused_by = frozenset({LARGE, FULL, ANY, EXHAUSTED})

    def allocate(self, request: AddressRequest, store: AddressStore) -> FixedIp:
        for subnet in request.subnets if isinstance(request, AnyAddress) else ():
            sum(1 for _ in subnet.cidr.hosts())
        return super().allocate(request, store)


class KnowsOneSubnet(BrokenIpam):
    """Looks at the first subnet only."""

    refused_by = frozenset({IN_ORDER})

    def allocate(self, request: AddressRequest, store: AddressStore) -> FixedIp:
        if isinstance(request, AnyAddress):
            request = AnyAddress(subnets=request.subnets[:1])
        return super().allocate(request, store)


class LeavesTheRestToOthers(BrokenIpam):
    """Knows the first pool only."""

    refused_by = frozenset({ANY})

    def allocate(self, request: AddressRequest, store: AddressStore) -> FixedIp:
        if isinstance(request, AnyAddress):
            first = (evolve(s, allocation_pools=s.allocation_pools[:1]) for s in request.subnets)
            request = AnyAddress(subnets=tuple(first))
        return super().allocate(request, store)


class SaysNoMore(BrokenIpam):
    """Says that it does not work, and not where."""

    refused_by = frozenset({EXHAUSTED, TAKEN})

    def allocate(self, request: AddressRequest, store: AddressStore) -> FixedIp:
        try:
            return super().allocate(request, store)
        except Conflict as exc:
            raise Conflict("no") from exc


class GivesAnother(BrokenIpam):
    """When an address is taken, another will do."""

    refused_by = frozenset({TAKEN, BOTH_WANT})

    def allocate(self, request: AddressRequest, store: AddressStore) -> FixedIp:
        try:
            return super().allocate(request, store)
        except Conflict:
            if not isinstance(request, ThisAddress):
                raise
            return super().allocate(AnyAddress(subnets=(request.subnet,)), store)


class TakesNothing(BrokenIpam):
    """Believes who names an address."""

    refused_by = frozenset({THAT_ONE, TAKEN, BOTH_WANT, CHOSEN, FREE, WITHOUT_SUBNET, DROPPED})

    def allocate(self, request: AddressRequest, store: AddressStore) -> FixedIp:
        if isinstance(request, ThisAddress):
            fixed = super().allocate(request, store)
            self.release(fixed, store)
            return fixed
        return super().allocate(request, store)


class StaysInThePools(BrokenIpam):
    """Refuses addresses outside the pools."""

    refused_by = frozenset({THAT_ONE, TAKEN, AGAIN})

    def allocate(self, request: AddressRequest, store: AddressStore) -> FixedIp:
        if isinstance(request, ThisAddress) and not any(
            request.address in pool for pool in request.subnet.allocation_pools
        ):
            if request.address not in request.subnet.cidr:
                return super().allocate(request, store)
            raise InvalidInput({"ip_address": "not in a pool"})
        return super().allocate(request, store)


class TakesAnyAddressForOne(BrokenIpam):
    """Does not look what an address is."""

    refused_by = frozenset({NO_HOST})

    def allocate(self, request: AddressRequest, store: AddressStore) -> FixedIp:
        if not isinstance(request, ThisAddress):
            return super().allocate(request, store)
        if not store.acquire(request.subnet.id, request.address):
            raise Conflict(f"{request.address} is taken")
        return FixedIp(subnet_id=request.subnet.id, address=request.address)


class DerivesAnywhere(BrokenIpam):
    """Derives addresses that no host there derives."""

    refused_by = frozenset({NO_HOST})

    def allocate(self, request: AddressRequest, store: AddressStore) -> FixedIp:
        if isinstance(request, DerivedAddress) and request.subnet.ip_version == 6:
            slaac = Ipv6Mode.SLAAC
            subnet = evolve(request.subnet, ipv6_ra_mode=slaac, ipv6_address_mode=slaac)
            request = evolve(request, subnet=subnet)
        return super().allocate(request, store)


class ForgetsTheBit(BrokenIpam):
    """Derives addresses, but for the bit that RFC 4291 inverts."""

    refused_by = frozenset({THAT_ONE, TAKEN})

    def allocate(self, request: AddressRequest, store: AddressStore) -> FixedIp:
        if isinstance(request, DerivedAddress):
            first = int(request.mac[:2], 16) ^ 2
            request = evolve(request, mac=f"{first:02x}{request.mac[2:]}")
        return super().allocate(request, store)


class RemembersTheFailed(BrokenIpam):
    """What was once asked for is never given again."""

    refused_by = frozenset({FAILED, AGAIN})

    def allocate(self, request: AddressRequest, store: AddressStore) -> FixedIp:
        fixed = super().allocate(request, store)
        if isinstance(request, ThisAddress) and fixed in self.given:
            raise Conflict(f"{fixed.address} is taken")
        self.given.add(fixed)
        return fixed


class KeepsWhatIsReleased(BrokenIpam):
    """Never gives an address back."""

    refused_by = frozenset({AGAIN, FREE, CHANGED_POOLS})

    def release(self, fixed_ip: FixedIp, store: AddressStore) -> None:
        pass


class ReleasesOnce(BrokenIpam):
    """Is surprised when an address is free already."""

    refused_by = frozenset({FREE})

    def release(self, fixed_ip: FixedIp, store: AddressStore) -> None:
        if store.acquire(fixed_ip.subnet_id, fixed_ip.address):
            raise Conflict("it is free")
        super().release(fixed_ip, store)


class AcceptsAnySubnet(BrokenIpam):
    """Finds out when it is too late."""

    refused_by = frozenset({UNFIT, WITHOUT_SUBNET})

    def validate_subnet(self, before: Subnet | None, after: Subnet, store: AddressStore) -> None:
        pass


class FixesThePools(BrokenIpam):
    """Lets nothing of a subnet change."""

    refused_by = frozenset({CHANGED_POOLS})

    def validate_subnet(self, before: Subnet | None, after: Subnet, store: AddressStore) -> None:
        super().validate_subnet(before, after, store)
        if before is not None:
            raise InvalidInput({"allocation_pools": "cannot change"})


class DropsOnce(BrokenIpam):
    """Is surprised when a subnet is gone already."""

    refused_by = frozenset({DROPPED})

    def drop_subnet(self, subnet: SubnetId, store: AddressStore) -> None:
        fixed = FixedIp(subnet_id=subnet, address="0.0.0.0")
        if fixed in self.given:
            raise Conflict("there is no such subnet")
        self.given.add(fixed)


BROKEN: tuple[type[BrokenIpam], ...] = tuple(BrokenIpam.__subclasses__())
