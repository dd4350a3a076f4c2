"""Mutations of the built-in IPAM driver: each breaks one promise."""

from __future__ import annotations

from contextlib import suppress

from attrs import evolve

from netfw.drivers.server.ipam import (
    AnyAddress,
    DerivedAddress,
    IpamDriver,
    ThisAddress,
)
from netfw.errors import Conflict, InvalidInput, RequestError
from netfw.model.port import FixedIp
from netfw.model.subnet import Ipv6Mode
from netfw_drivers.ipam.internal import InternalIpamDriver
from tests.conformance.common.mutations import Mutations, breaks, breaks_raise

MUTATIONS = Mutations()


class FakeIpamDriver(InternalIpamDriver):
    """The built-in driver, with a set for the mutations."""

    VERSION = 2

    def __init__(self) -> None:
        self.given: set[FixedIp] = set()


@MUTATIONS.override("allocate", breaks(IpamDriver, 1))
def allocate_from_process_memory(driver, original, request, store):
    """Allocate from a set in the process, instead of the store."""
    if not isinstance(request, AnyAddress):
        return original(request, store)
    for subnet in request.subnets:
        for pool in subnet.allocation_pools:
            for number in range(int(pool.start), int(pool.end) + 1):
                address = type(pool.start)(number)
                fixed = FixedIp(subnet_id=subnet.id, address=address)
                if fixed not in driver.given:
                    driver.given.add(fixed)
                    with suppress(Conflict):
                        store.acquire(subnet.id, address)
                    return fixed
    raise Conflict(f"no address is left in {[str(s.cidr) for s in request.subnets]}")


@allocate_from_process_memory.also("release")
def _(driver, original, fixed_ip, store):
    driver.given.discard(fixed_ip)
    original(fixed_ip, store)


@allocate_from_process_memory.also("drop_subnet")
def _(driver, _, subnet, store):
    driver.given = {fixed for fixed in driver.given if fixed.subnet_id != subnet}


@MUTATIONS.override("allocate", breaks(IpamDriver, 2))
def scan_pool_for_free_address(driver, original, request, store):
    """Try one address after the other."""
    if not isinstance(request, AnyAddress):
        return original(request, store)
    for subnet in request.subnets:
        for pool in subnet.allocation_pools:
            address = pool.start
            while address in pool:
                if store.acquire(subnet.id, address):
                    return FixedIp(subnet_id=subnet.id, address=address)
                address += 1
    return original(request, store)


@MUTATIONS.override("allocate", breaks(IpamDriver, 2))
def list_whole_pool(driver, original, request, store):
    """Enumerate all addresses before choosing one."""
    for subnet in request.subnets if isinstance(request, AnyAddress) else ():
        sum(1 for _ in subnet.cidr.hosts())
    return original(request, store)


@MUTATIONS.override("allocate", breaks(IpamDriver, 1))
def use_first_subnet_only(driver, original, request, store):
    """Use the first subnet only."""
    if isinstance(request, AnyAddress):
        request = AnyAddress(subnets=request.subnets[:1])
    return original(request, store)


@MUTATIONS.override("allocate", breaks(IpamDriver, 1))
def use_first_pool_only(driver, original, request, store):
    """Use the first pool of a subnet only."""
    if isinstance(request, AnyAddress):
        first = (evolve(s, allocation_pools=s.allocation_pools[:1]) for s in request.subnets)
        request = AnyAddress(subnets=tuple(first))
    return original(request, store)


@MUTATIONS.override(
    "allocate", breaks(IpamDriver, 1), breaks_raise(IpamDriver, "allocate", Conflict)
)
def raise_conflict_without_location(driver, original, request, store):
    """Raise a conflict that names neither subnet nor address."""
    try:
        return original(request, store)
    except Conflict as exc:
        raise Conflict("no") from exc


@MUTATIONS.override("allocate", breaks(IpamDriver, 1))
def return_another_address(driver, original, request, store):
    """Return another address if the requested one is taken."""
    try:
        return original(request, store)
    except Conflict:
        if not isinstance(request, ThisAddress):
            raise
        return original(AnyAddress(subnets=(request.subnet,)), store)


@MUTATIONS.override("allocate", breaks(IpamDriver, 1))
def release_requested_address(driver, original, request, store):
    """Return the requested address without allocating it."""
    if isinstance(request, ThisAddress):
        fixed = original(request, store)
        driver.release(fixed, store)
        return fixed
    return original(request, store)


@MUTATIONS.override("allocate", breaks(IpamDriver, 1))
def refuse_address_outside_pools(driver, original, request, store):
    """Refuse addresses outside the pools."""
    if isinstance(request, ThisAddress) and not any(
        request.address in pool for pool in request.subnet.allocation_pools
    ):
        if request.address not in request.subnet.cidr:
            return original(request, store)
        raise InvalidInput({"ip_address": "not in a pool"})
    return original(request, store)


@MUTATIONS.override("allocate", breaks_raise(IpamDriver, "allocate", InvalidInput))
def accept_any_address(driver, original, request, store):
    """Accept addresses that no host can have."""
    if not isinstance(request, ThisAddress):
        return original(request, store)
    if not store.acquire(request.subnet.id, request.address):
        raise Conflict(f"{request.address} is taken")
    return FixedIp(subnet_id=request.subnet.id, address=request.address)


@MUTATIONS.override("allocate", breaks_raise(IpamDriver, "allocate", InvalidInput))
def derive_without_slaac(driver, original, request, store):
    """Derive addresses in subnets without SLAAC."""
    if isinstance(request, DerivedAddress) and request.subnet.ip_version == 6:
        slaac = Ipv6Mode.SLAAC
        subnet = evolve(request.subnet, ipv6_ra_mode=slaac, ipv6_address_mode=slaac)
        request = evolve(request, subnet=subnet)
    return original(request, store)


@MUTATIONS.override("allocate", breaks(IpamDriver, 1))
def derive_without_inverting_bit(driver, original, request, store):
    """Derive addresses without inverting the bit of RFC 4291."""
    if isinstance(request, DerivedAddress):
        first = int(request.mac[:2], 16) ^ 2
        request = evolve(request, mac=f"{first:02x}{request.mac[2:]}")
    return original(request, store)


@MUTATIONS.override("allocate", breaks(IpamDriver, 1))
def refuse_address_after_failure(driver, original, request, store):
    """Refuse an address that a failed request once had."""
    fixed = original(request, store)
    if isinstance(request, ThisAddress) and fixed in driver.given:
        raise Conflict(f"{fixed.address} is taken")
    driver.given.add(fixed)
    return fixed


@MUTATIONS.override("release", breaks(IpamDriver, 3))
def keep_released_address(driver, _, fixed_ip, store):
    """Keep a released address allocated."""


@MUTATIONS.override("release", breaks(IpamDriver, 3))
def raise_on_second_release(driver, original, fixed_ip, store):
    """Raise a conflict when a free address is released."""
    if store.acquire(fixed_ip.subnet_id, fixed_ip.address):
        raise Conflict("it is free")
    original(fixed_ip, store)


@MUTATIONS.override(
    "validate_subnet",
    breaks(IpamDriver, 4),
    breaks_raise(IpamDriver, "validate_subnet", RequestError),
)
def accept_any_subnet(driver, _, before, after, store):
    """Accept every subnet."""


@MUTATIONS.override("validate_subnet", breaks(IpamDriver, 4))
def refuse_changed_subnet(driver, original, before, after, store):
    """Refuse every change of a subnet."""
    original(before, after, store)
    if before is not None:
        raise InvalidInput({"allocation_pools": "cannot change"})


@MUTATIONS.override("drop_subnet", breaks(IpamDriver, 5))
def raise_on_second_drop(driver, _, subnet, store):
    """Raise a conflict when a subnet is dropped again."""
    fixed = FixedIp(subnet_id=subnet, address="0.0.0.0")
    if fixed in driver.given:
        raise Conflict("there is no such subnet")
    driver.given.add(fixed)
