"""Mutations of the fake interface driver: each breaks one promise of every host driver."""

from attrs import evolve

from netfw.drivers.host_driver import HostDriver
from netfw.drivers.reconciler import Reconciler
from netfw.errors import BackendUnavailable, Conflict, NetfwError, OperationRefused
from netfw.plan import Outcome, Plan, Stage
from tests.conformance.common.mutations import Mutations, breaks, breaks_raise

MUTATIONS = Mutations()


@MUTATIONS.override("converge", breaks(HostDriver, 1))
def toggle_up_on_repeat(driver, original, update):
    """Flip ``up`` of a device that is as desired already."""
    before = dict(driver.backend.devices)
    outcome = original(update)
    for key, value in update.put.items():
        if before.get(key) == value:
            driver.backend.devices[key] = evolve(value, up=not value.up)
    return outcome


@MUTATIONS.override("converge", breaks(HostDriver, 2))
def fail_on_absent_drop(driver, original, update):
    """Report an error for a dropped key that is absent."""
    absent = update.drop - driver.backend.devices.keys()
    outcome = original(update.without(absent))
    return evolve(outcome, failed={**outcome.failed, **dict.fromkeys(absent, NetfwError("?"))})


@MUTATIONS.override("removed_keys", breaks(HostDriver, 3))
def remove_kept_keys(driver, original, update, observed):
    """Remove the keys in ``keep`` with a complete update."""
    return original(evolve(update, keep=frozenset()), observed)


@MUTATIONS.override("converge", breaks(HostDriver, 4))
def fail_all_keys_for_one(driver, original, update):
    """Fail the whole update if one key is refused."""
    refused = driver.refusals(update, driver.observe(update))
    if refused:
        return Outcome(failed=dict.fromkeys(update, next(iter(refused.values()))))
    return original(update)


@MUTATIONS.override("converge", breaks(HostDriver, 5))
def take_over_foreign_device(driver, original, update):
    """Take over a device that the driver did not create."""
    for value in update.put.values():
        driver.backend.foreign.discard(value.device)
    return original(update)


@MUTATIONS.override("converge", breaks(HostDriver, 5))
def remove_foreign_on_empty_complete_update(driver, original, update):
    """Remove foreign devices with an empty complete update."""
    if update.complete and not update.put:
        driver.backend.foreign.clear()
    return original(update)


@MUTATIONS.override("removed_keys", breaks(HostDriver, 6))
def know_only_own_devices(driver, original, update, observed):
    """Remove only what this driver object created."""
    return [key for key in original(update, observed) if key in driver.written]


@know_only_own_devices.also("execute")
def _(driver, original, operation):
    original(operation)
    driver.written.add(operation.payload[1])


@know_only_own_devices.also("__init__")
def _(driver, original, backend):
    original(backend)
    driver.written = set()


@MUTATIONS.override("present", breaks(HostDriver, 7))
def report_desired_as_present(driver, original):
    """Report every key that was ever put until it is dropped."""
    return original() | driver.requested


@report_desired_as_present.also("converge")
def _(driver, original, update):
    outcome = original(update)
    driver.requested = (set() if update.complete else driver.requested - update.drop) | outcome.done
    driver.requested -= update.drop
    return outcome


@report_desired_as_present.also("__init__")
def _(driver, original, backend):
    original(backend)
    driver.requested = set()


@MUTATIONS.override("converge", breaks_raise(HostDriver, "converge", BackendUnavailable))
def report_outage_per_key(driver, original, update):
    """Report an outage as a failure of each key."""
    try:
        return original(update)
    except BackendUnavailable as error:
        return Outcome(failed=dict.fromkeys(update, error))


@MUTATIONS.override("present", breaks_raise(HostDriver, "present", BackendUnavailable))
def present_is_empty_during_outage(driver, original):
    """Return no keys while the backend is unreachable."""
    return original() if driver.backend.online else frozenset()


@MUTATIONS.override("plan", breaks(Reconciler, 1))
def apply_first_operation_in_plan(driver, original, update, observed):
    """Execute the first operation while planning."""
    plan = original(update, observed)
    for operation in list(plan)[:1]:
        driver.execute(operation)
    return plan


@MUTATIONS.override("plan", breaks(Reconciler, 2))
def plan_finished_work_again(driver, original, update, observed):
    """Plan an operation for a device that is as desired."""
    plan = original(update, observed)
    again = [
        Stage((driver.operation("put", key, value),))
        for key, value in update.put.items()
        if observed.devices.get(key) == value
    ]
    return evolve(plan, stages=(*plan.stages, *again))


@MUTATIONS.override("plan", breaks(Reconciler, 3))
def leak_until_last_stage(driver, original, update, observed):
    """Create garbage first that only the last stage of the plan removes."""
    plan = original(update, observed)
    if not plan:
        return plan
    first, last = (Stage((driver.operation(verb, None),)) for verb in ("litter", "tidy"))
    return evolve(plan, stages=(first, *plan.stages, last))


@leak_until_last_stage.also("execute")
def _(driver, original, operation):
    match operation.payload[0]:
        case "litter":
            driver.backend.junk.add("half a device")
        case "tidy":
            driver.backend.junk.clear()
        case _:
            original(operation)


@MUTATIONS.override("observe", breaks(Reconciler, 4))
def observe_without_dropped_keys(driver, original, scope):
    """Leave the dropped keys out of a scoped observation."""
    observed = original(scope)
    if scope is None or scope.complete or not scope.put:
        return observed
    return evolve(
        observed, devices={k: v for k, v in observed.devices.items() if k not in scope.drop}
    )


@MUTATIONS.override("apply", breaks(Reconciler, 5))
def skip_last_checkpoint(driver, original, plan, checkpoint):
    """Call the checkpoint for every stage but the last."""
    original(evolve(plan, stages=plan.stages[:-1]), checkpoint)
    original(evolve(plan, stages=plan.stages[-1:]), lambda stage: None)


@MUTATIONS.override("apply", breaks_raise(Reconciler, "apply", OperationRefused))
def ignore_refused_stage(driver, original, plan, checkpoint):
    """Continue after a stage that was refused."""
    for stage in plan.stages:
        try:
            original(Plan(stages=(stage,)), checkpoint)
        except OperationRefused:
            continue


@MUTATIONS.override("apply", breaks_raise(Reconciler, "apply", BackendUnavailable))
def raise_connection_error(driver, original, plan, checkpoint):
    """Raise the backend's own error in an outage."""
    try:
        original(plan, checkpoint)
    except BackendUnavailable as error:
        raise ConnectionError from error


@MUTATIONS.override("observe", breaks_raise(Reconciler, "observe", BackendUnavailable))
def observe_from_cache_during_outage(driver, original, scope):
    """Return the last observation while the backend is unreachable."""
    if driver.backend.online or scope is not None or driver.seen is None:
        driver.seen = original(scope)
    return driver.seen


@observe_from_cache_during_outage.also("__init__")
def _(driver, original, backend):
    original(backend)
    driver.seen = None


@MUTATIONS.override("observe", breaks(Reconciler, 6))
def observe_own_writes_only(driver, original, scope):
    """Observe what was written, instead of what the host has."""
    observed = original(scope)
    kept = {k: driver.written.get(k, v) for k, v in observed.devices.items()}
    return evolve(observed, devices=kept)


@observe_own_writes_only.also("execute")
def _(driver, original, operation):
    original(operation)
    verb, key, value = operation.payload
    if verb == "put":
        driver.written[key] = value


@observe_own_writes_only.also("__init__")
def _(driver, original, backend):
    original(backend)
    driver.written = {}


@MUTATIONS.override("plan", breaks(HostDriver, 1))
def never_change_existing_device(driver, original, update, observed):
    """Leave an existing device as it was created."""
    put = {key: observed.devices.get(key, value) for key, value in update.put.items()}
    return original(evolve(update, put=put), observed)


@MUTATIONS.override("removed_keys", breaks(HostDriver, 1))
def leave_dropped_device(driver, original, update, observed):
    """Report a dropped device as removed, and leave it."""
    return [key for key in original(update, observed) if key not in update.drop]


@MUTATIONS.override("removed_keys", breaks(HostDriver, 3))
def treat_every_update_as_complete(driver, original, update, observed):
    """Remove what an incomplete update does not mention."""
    return original(evolve(update, complete=True), observed)


@MUTATIONS.override("close")
def remove_devices_on_close(driver, _):
    """Remove all devices when the driver is closed."""
    driver.backend.devices.clear()


@MUTATIONS.override("converge")
def refuse_second_driver_object(driver, original, update):
    """Refuse all keys while another driver object is in use."""
    if not update:
        return Outcome()
    if getattr(driver.backend, "master", driver) is not driver:
        return Outcome(failed=dict.fromkeys(update, Conflict("another driver is at work")))
    driver.backend.master = driver
    return original(update)


@MUTATIONS.override("converge")
def raise_on_empty_update(driver, original, update):
    """Raise an error for an update without keys."""
    if not update.put and not update.drop and not update.complete:
        raise ValueError("nothing to do")
    return original(update)


@MUTATIONS.override("execute", breaks(Reconciler, 2))
def cap_mtu_silently(driver, original, operation):
    """Cap the MTU at 1500 and report success."""
    verb, key, value = operation.payload
    if value is not None:
        value = evolve(value, mtu=min(value.mtu, 1500))
    original(evolve(operation, payload=(verb, key, value)))
