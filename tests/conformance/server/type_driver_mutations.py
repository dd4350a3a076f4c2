"""Mutations of the VLAN type driver: each breaks one promise."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from netfw.drivers.server.type_driver import Pool, Range, TypeDriver
from netfw.errors import Conflict, InvalidInput
from netfw.model.segment import NetworkType, Provider
from netfw_drivers.type_drivers.mtu import PhysicalMtus
from netfw_drivers.type_drivers.vlan import VlanTypeDriver
from tests.conformance.common.conduct_mutations import conduct_mutations
from tests.conformance.common.mutations import Mutations, breaks, breaks_raise

MUTATIONS = Mutations()


class FakeTypeDriver(VlanTypeDriver):
    """VLANs of two physical networks, with a set for the mutations."""

    VERSION = 2

    def __init__(self) -> None:
        super().__init__({"physnet1": [(10, 14)], "physnet2": [(10, 12)]}, PhysicalMtus(1500))
        self.remembered: set[tuple[str | None, int | None]] = set()


@MUTATIONS.override(
    "validate", breaks(TypeDriver, 1), breaks_raise(TypeDriver, "validate", InvalidInput)
)
def accept_any_request(driver, _, request):
    """Accept every request."""


@MUTATIONS.override(
    "validate", breaks(TypeDriver, 1), breaks_raise(TypeDriver, "validate", InvalidInput)
)
def report_wrong_attribute(driver, original, request):
    """Report an attribute that is not at fault."""
    try:
        original(request)
    except InvalidInput as exc:
        raise InvalidInput({"provider": "bad"}) from exc


@MUTATIONS.override("validate", breaks(TypeDriver, 1))
def require_segmentation_id(driver, original, request):
    """Refuse requests without a segmentation id."""
    original(request)
    if request.segmentation_id is None:
        raise InvalidInput({"segmentation_id": "must be given"})


@MUTATIONS.override("reserve", breaks(TypeDriver, 2), breaks_raise(TypeDriver, "reserve", Conflict))
def return_another_segment(driver, original, request, store):
    """Return another segment if the requested one is taken."""
    try:
        return original(request, store)
    except Conflict:
        return original(Provider(network_type=NetworkType.VLAN), store)


@MUTATIONS.override("reserve", breaks(TypeDriver, 2))
def release_requested_segment(driver, original, request, store):
    """Return the requested segment without allocating it."""
    got = original(request, store)
    if request.segmentation_id is not None:
        driver.release(got, store)
    return got


@MUTATIONS.override("reserve", breaks(TypeDriver, 2))
def return_incomplete_segment(driver, original, request, store):
    """Return a request without completing it."""
    return request if request.segmentation_id is None else original(request, store)


@MUTATIONS.override("allocate", breaks(TypeDriver, 3))
def raise_when_exhausted(driver, original, store):
    """Raise an error when no segment is left, instead of returning ``None``."""
    found = original(store)
    if found is None:
        raise InvalidInput({"network_type": "no VLAN is left"})
    return found


@MUTATIONS.override("allocate", breaks(TypeDriver, 3))
def use_one_physical_network(driver, _, store):
    """Allocate from one physical network only."""
    return driver._free(store, ("physnet1",))


@MUTATIONS.override("allocate", breaks(TypeDriver, 5))
def allocate_from_process_memory(driver, _, store):
    """Allocate from a set in the process, instead of the store."""
    if len(driver.remembered) == 5:
        return None
    number = 10 + len(driver.remembered)
    driver.remembered.add(("physnet1", number))
    with suppress(Conflict):
        store.acquire(Pool(NetworkType.VLAN, "physnet1"), number)
    return Provider(
        network_type=NetworkType.VLAN, physical_network="physnet1", segmentation_id=number
    )


@MUTATIONS.override("reserve", breaks(TypeDriver, 5))
def refuse_segment_after_failure(driver, original, request, store):
    """Refuse a segment that was requested before."""
    requested = request.physical_network, request.segmentation_id
    if request.segmentation_id is not None and requested in driver.remembered:
        raise Conflict("it was in use")
    driver.remembered.add(requested)
    return original(request, store)


@MUTATIONS.override("release", breaks(TypeDriver, 4))
def keep_released_segment(driver, _, segment, store):
    """Keep a released segment allocated."""


@MUTATIONS.override("release", breaks(TypeDriver, 4))
def release_all_segments(driver, _, segment, store):
    """Release the segments of others too."""
    for name in ("physnet1", "physnet2"):
        for number in range(10, 15):
            store.release(Pool(NetworkType.VLAN, name), number)


@MUTATIONS.override("release", breaks(TypeDriver, 4))
def raise_on_second_release(driver, original, segment, store):
    """Raise a conflict when a free segment is released."""
    number = segment.segmentation_id
    if number is None or store.acquire(Pool(NetworkType.VLAN, segment.physical_network), number):
        raise Conflict("it is free")
    original(segment, store)


@MUTATIONS.override("mtu", breaks(TypeDriver, 6))
def subtract_tag_from_mtu(driver, original, physical_network):
    """Subtract the size of a tag from the MTU."""
    return original(physical_network) - 4


@MUTATIONS.override("ranges")
def offer_overlapping_ranges(driver, original):
    """Return ranges that overlap."""
    return (*original(), Range(Pool(NetworkType.VLAN, "physnet1"), 14, 14))


@MUTATIONS.override("ranges")
def offer_no_ranges(driver, original):
    """Return no ranges, so that most tests have nothing to allocate from."""
    return ()


@MUTATIONS.override("ranges")
def offer_ranges_as_a_list(driver, original):
    """Return what another caller may change."""
    return list(original())


WATCHED = conduct_mutations("problems")
"""Mutations that do their work, and misuse the process or the transaction."""


@WATCHED.override("allocate", breaks(TypeDriver, 7))
def sleep_in_transaction(driver, original, store):
    """Wait for a service within the transaction."""
    time.sleep(0.1)
    return original(store)


@WATCHED.override("reserve", breaks(TypeDriver, 7))
def read_file_in_transaction(driver, original, request, store):
    """Look the segment up in a file within the transaction."""
    Path("/proc/self/comm").read_text()
    return original(request, store)


@WATCHED.override("validate", breaks(TypeDriver, 7))
def read_file_in_validate(driver, original, request):
    """Read the configuration again with each request."""
    Path("/proc/self/comm").read_text()
    original(request)
