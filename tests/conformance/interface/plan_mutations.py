"""Mutations of the fake interface driver: plans that hide, ignore or spoil something."""

import socket
import time
from pathlib import Path
from uuid import uuid4

from attrs import asdict, define, evolve, field

from netfw.drivers.reconciler import Reconciler
from netfw.errors import OperationRefused
from netfw.plan import Plan, Stage
from tests.conformance.common.mutations import Mutations, breaks
from tests.conformance.interface.fake_interface import Observed

MUTATIONS = Mutations()


@MUTATIONS.override("plan", breaks(Reconciler, 1))
def read_machine_in_plan(driver, original, update, observed):
    """Plan on what the machine has now, and ignore the observation."""
    return original(update, driver.observe(update))


@MUTATIONS.override("plan", breaks(Reconciler, 1))
def note_desired_in_observation(driver, original, update, observed):
    """Change the observation while planning."""
    plan = original(update, observed)
    observed.devices.update(update.put)
    return plan


@define
class CountingObservation(Observed):
    """An observation with a private counter."""

    _plans: list[object] = field(factory=list)

    def count(self) -> None:
        self._plans.append(None)


@MUTATIONS.override("plan", breaks(Reconciler, 1))
def count_plans_in_observation(driver, original, update, observed):
    """Change a private field of the observation while planning."""
    observed.count()
    return original(update, observed)


@count_plans_in_observation.also("observe")
def observe_with_counter(driver, original, scope):
    return CountingObservation(**asdict(original(scope), recurse=False))


@MUTATIONS.override("plan", breaks(Reconciler, 1))
def read_file_in_plan(driver, original, update, observed):
    """Read a file while planning."""
    Path("/proc/self/comm").read_text()
    return original(update, observed)


@MUTATIONS.override("plan", breaks(Reconciler, 1))
def connect_in_plan(driver, original, update, observed):
    """Connect to the switch while planning."""
    with socket.socket():
        return original(update, observed)


@MUTATIONS.override("plan", breaks(Reconciler, 1))
def sleep_in_plan(driver, original, update, observed):
    """Wait for the switch while planning."""
    time.sleep(0.01)
    return original(update, observed)


@MUTATIONS.override("observe", breaks(Reconciler, 4))
def read_every_device_one_by_one(driver, original, scope):
    """Read each device of the host by a call of its own."""
    for key in driver.backend.devices:
        for _ in range(20):
            driver.removable(key)
    return original(scope)


read_every_device_one_by_one.values["removable"] = lambda driver, key: key in driver.backend.devices


@MUTATIONS.override("execute", breaks(Reconciler, 5))
def apply_half_of_refused_stage(driver, original, operation):
    """Create the helper of a device, and leave it when the device is refused."""
    _, key, _ = operation.payload
    driver.backend.helpers.add(f"half-{key}")
    original(operation)
    driver.backend.helpers.discard(f"half-{key}")


@MUTATIONS.override("apply", breaks(Reconciler, 5))
def apply_rest_of_refused_stage(driver, original, plan, checkpoint):
    """Execute the other operations of a stage that is refused."""
    whole = Stage([operation for stage in plan.stages for operation in stage.operations])
    refused = {}
    for operation in whole.operations:
        try:
            driver.execute(operation)
        except OperationRefused as refusal:
            refused |= refusal.reasons
    driver.backend.check_online()
    if refused:
        raise OperationRefused(refused)
    for stage in plan.stages:
        checkpoint(stage)


@MUTATIONS.override("converge", breaks(Reconciler, 7))
def do_more_than_planned(driver, original, update):
    """Create a device that no plan shows."""
    outcome = original(update)
    driver.backend.helpers |= {f"unplanned-{key}" for key in update.put}
    driver.backend.helpers -= {f"unplanned-{key}" for key in update.drop}
    return outcome


@MUTATIONS.override("converge", breaks(Reconciler, 7))
def converge_to_another_value(driver, original, update):
    """Have two ways to the machine, of which the plan shows the other one."""
    put = {key: evolve(value, mtu=value.mtu - 8) for key, value in update.put.items()}
    return original(evolve(update, put=put))


@MUTATIONS.override("plan", breaks(Reconciler, 1))
def draw_words_of_plan(driver, original, update, observed):
    """Plan the same work with other words each time."""
    plan = original(update, observed)
    marked = [
        Stage(
            [
                evolve(operation, text=f"{operation.text} {uuid4()}")
                for operation in stage.operations
            ]
        )
        for stage in plan.stages
    ]
    return Plan(stages=marked, refused=plan.refused)
