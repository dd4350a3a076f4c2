"""Mutations of the fake mechanism driver: each breaks one promise."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from uuid import uuid4

from attrs import evolve

from netfw.drivers.server.mechanism import Bound, MechanismDriver, Refused
from netfw.errors import (
    BackendBroken,
    BackendUnavailable,
    Conflict,
    NetfwError,
    NotFound,
    RequestError,
)
from netfw.model.port import Port
from netfw.model.resource import Ref, ref
from netfw.model.values.ids import SegmentId
from tests.conformance.common.conduct_mutations import conduct_mutations
from tests.conformance.common.mutations import Mutations, breaks, breaks_raise
from tests.conformance.server.fake_mechanism import FabricDriver, FakeFabric

MUTATIONS = Mutations()


class FakeMechanismDriver(FabricDriver):
    """The driver of the fake fabric, with state for the mutations."""

    VERSION = 2

    def __init__(self, fabric: FakeFabric) -> None:
        super().__init__(fabric)
        self.known: set[Ref] = set()
        self.count = 0


@MUTATIONS.override("validate", breaks(MechanismDriver, 1))
def write_while_validating(driver, original, change):
    """Write to the fabric before the transaction is committed."""
    if change.after is not None:
        driver.fabric.present[change.ref] = change.after
    original(change)


@MUTATIONS.override("describe", breaks(MechanismDriver, 6))
def deny_delivery(driver, original):
    """Declare that there is nothing to deliver."""
    return evolve(original(), capabilities=())


@MUTATIONS.override("deliver", breaks(MechanismDriver, 6))
def declare_delivery_without_delivering(driver, _, change):
    """Declare that there is something to deliver, and deliver nothing."""


@MUTATIONS.override("validate", breaks(MechanismDriver, 1))
def call_fabric_while_validating(driver, original, change):
    """Call the fabric within the transaction."""
    original(change)
    driver.fabric.answer()


@MUTATIONS.override("validate", breaks(MechanismDriver, 1))
def validate_slowly(driver, original, change):
    """Spend a million calls within the transaction."""
    original(change)
    sum(1 for _ in range(1_000_000 if change.before is None else 1))


@MUTATIONS.override(
    "validate", breaks(MechanismDriver, 1), breaks_raise(MechanismDriver, "validate", RequestError)
)
def accept_any_change(driver, _, change):
    """Accept every change."""


@MUTATIONS.override("bind", breaks(MechanismDriver, 2))
def write_while_binding(driver, original, request):
    """Write to the fabric while binding."""
    answer = original(request)
    driver.fabric.present[ref(request.port)] = request.port
    return answer


@MUTATIONS.override("bind", breaks(MechanismDriver, 2))
def bind_every_second_time(driver, original, request):
    """Bind every second time only."""
    driver.count += 1
    return original(request) if driver.count % 2 else Refused("not again")


@MUTATIONS.override("bind", breaks(MechanismDriver, 2))
def bind_to_unknown_segment(driver, original, request):
    """Bind to a segment that was not offered."""
    answer = original(request)
    return evolve(answer, segment=driver.SEGMENT) if isinstance(answer, Bound) else answer


bind_to_unknown_segment.values["SEGMENT"] = SegmentId(uuid4())


@MUTATIONS.override("bind", breaks(MechanismDriver, 2))
def refuse_without_reason(driver, original, request):
    """Return ``None`` instead of a reason."""
    answer = original(request)
    return None if isinstance(answer, Refused) else answer  # type: ignore[return-value]


@MUTATIONS.override("bind", breaks(MechanismDriver, 2))
def refuse_every_binding(driver, _, request):
    """Refuse what the driver is for."""
    return Refused("no")


@MUTATIONS.override("deliver", breaks(MechanismDriver, 3))
def require_consecutive_revisions(driver, original, change):
    """Ignore a change whose revision does not follow the last."""
    before, after = change.before, change.after
    if before is None or after is None or after.revision == before.revision + 1:
        original(change)


@MUTATIONS.override("deliver", breaks(MechanismDriver, 3))
def raise_on_existing_resource(driver, original, change):
    """Raise a conflict for a new resource that the fabric has."""
    if change.before is None and change.ref in driver.fabric.answer():
        raise Conflict("it is there already")
    original(change)


@MUTATIONS.override("deliver", breaks(MechanismDriver, 4))
def raise_on_missing_resource(driver, original, change):
    """Raise ``NotFound`` for a removed resource that the fabric lacks."""
    if change.after is None and change.ref not in driver.fabric.answer():
        raise NotFound("it is not there")
    original(change)


@MUTATIONS.override("deliver", breaks(MechanismDriver, 4))
def leave_removed_port(driver, original, change):
    """Leave a removed port in the fabric."""
    driver.fabric.answer()
    if change.after is not None or not isinstance(change.before, Port):
        original(change)


@MUTATIONS.override(
    "deliver",
    breaks(MechanismDriver, 4),
    breaks_raise(MechanismDriver, "deliver", BackendUnavailable),
)
def ignore_outage(driver, original, change):
    """Report success while the fabric is unreachable."""
    if driver.fabric.online:
        original(change)


@MUTATIONS.override(
    "deliver",
    breaks(MechanismDriver, 4),
    breaks_raise(MechanismDriver, "deliver", BackendUnavailable),
)
def break_after_outage(driver, original, change):
    """Report the fabric as broken after an outage."""
    if driver.count:
        raise BackendBroken("it was away before")
    try:
        original(change)
    except BackendUnavailable:
        driver.count += 1
        raise


@MUTATIONS.override(
    "deliver", breaks(MechanismDriver, 4), breaks_raise(MechanismDriver, "deliver", NetfwError)
)
def ignore_refusal(driver, original, change):
    """Report success when the fabric refuses."""
    try:
        original(change)
    except BackendBroken:
        return


@MUTATIONS.override(
    "deliver", breaks(MechanismDriver, 4), breaks_raise(MechanismDriver, "deliver", NetfwError)
)
def report_refusal_as_outage(driver, original, change):
    """Report a refusal as an outage."""
    try:
        original(change)
    except BackendBroken as exc:
        raise BackendUnavailable("try again") from exc


@MUTATIONS.override("deliver", breaks(MechanismDriver, 5))
def deliver_own_resources_only(driver, original, change):
    """Deliver changes only of resources that this process delivered."""
    driver.fabric.answer()
    if change.before is None:
        driver.known.add(change.ref)
    if change.ref in driver.known:
        original(change)


WATCHED = conduct_mutations("deliver")
"""Mutations that do their work, and misuse the process or the transaction."""


@WATCHED.override("bind", breaks(MechanismDriver, 7))
def bind_to_dead_agent(driver, original, request):
    """Bind a port whatever the state of its agent is."""
    living = tuple(evolve(agent, alive=True) for agent in request.agents)
    return original(evolve(request, agents=living))


@WATCHED.override("bind", breaks(MechanismDriver, 7))
def bind_without_vif(driver, original, request):
    """Bind a port, and do not say how it is plugged."""
    answer = original(request)
    return evolve(answer, vif_type="") if isinstance(answer, Bound) else answer


@WATCHED.override("bind", breaks(MechanismDriver, 7))
def bind_as_unbound(driver, original, request):
    """Bind a port with the VIF type of unbound ports."""
    answer = original(request)
    return evolve(answer, vif_type="unbound") if isinstance(answer, Bound) else answer


@WATCHED.override("bind", breaks(MechanismDriver, 7))
def bind_with_untyped_details(driver, original, request):
    """Return details that nobody can read."""
    answer = original(request)
    return evolve(answer, vif_details={}) if isinstance(answer, Bound) else answer


@WATCHED.override("validate", breaks(MechanismDriver, 1))
def sleep_in_transaction(driver, original, change):
    """Wait for the fabric within the transaction."""
    time.sleep(0.1)
    original(change)


@WATCHED.override("validate", breaks(MechanismDriver, 1))
def connect_in_transaction(driver, original, change):
    """Connect to the fabric within the transaction."""
    with socket.socket():
        original(change)


@WATCHED.override("validate", breaks(MechanismDriver, 1))
def read_file_in_transaction(driver, original, change):
    """Read the driver's own configuration within the transaction."""
    Path("/proc/self/comm").read_text()
    original(change)


@WATCHED.override("bind", breaks(MechanismDriver, 2))
def sleep_while_binding(driver, original, request):
    """Wait for the agent while a port is bound."""
    time.sleep(0.1)
    return original(request)


@WATCHED.override("bind", breaks(MechanismDriver, 2))
def connect_while_binding(driver, original, request):
    """Query the fabric while a port is bound."""
    with socket.socket():
        return original(request)
