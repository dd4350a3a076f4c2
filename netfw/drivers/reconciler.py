"""Reconciler: a host driver built from observe, plan and apply."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping
from typing import Generic, TypeVar, cast

from netfw.drivers.host_driver import HostDriver
from netfw.errors import NetfwError, OperationRefused
from netfw.plan import Operation, Outcome, Plan, Stage, Update

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
O = TypeVar("O")  # noqa: E741 - the observed state, as the contracts name it

Checkpoint = Callable[[Stage], None]


def no_checkpoint(stage: Stage) -> None:
    """Do nothing: the checkpoint of `converge`."""


class Reconciler(HostDriver[K, V], Generic[K, V, O]):
    """A host driver that shows its plan before it applies it.

    Promises beyond those of :class:`HostDriver`:

    1. ``plan`` is pure: the same update and observation give the same plan, nothing is touched, and
       the observation stays as it is.
    2. After ``apply`` of a plan, planning the same update on a new observation gives no stage.
    3. Each stage is atomic on its backend; if the driver dies after any stage, the next
       ``converge`` repairs what is left.
    4. ``observe(None)`` reads the machine; ``observe(update)`` may read the driver's mirror, and
       its cost grows with the update, not with the host.
    5. ``apply`` calls ``checkpoint`` after each stage; a refused stage has no effect at all.
    6. ``observe(None)`` detects foreign changes to what the driver made, and the next ``converge``
       repairs them.
    7. ``converge`` has the effect of the plan, and no other.
    """

    @abstractmethod
    def observe(self, scope: Update[K, V] | None) -> O:
        """Return the state of the machine that concerns *scope*; ``None`` rereads everything.

        :raises BackendUnavailable: the backend does not answer.
        """

    @abstractmethod
    def plan(self, update: Update[K, V], observed: O) -> Plan:
        """Return what turns *observed* into *update*.  Pure; refusals are in the plan."""

    @abstractmethod
    def apply(self, plan: Plan, checkpoint: Checkpoint) -> None:
        """Execute *plan* stage by stage, calling *checkpoint* after each.

        :raises OperationRefused: a stage was refused; neither it nor a later one was executed.
        :raises BackendUnavailable: the connection to the backend was lost.
        """

    def observe_machine(self, update: Update[K, V]) -> O:
        """Return the state of the machine itself, not of the mirror, that concerns *update*.

        The default reads everything; a driver whose calls may run in parallel limits it to the
        call's own part.  Otherwise as `observe`.
        """
        return self.observe(None)

    def converge(self, update: Update[K, V]) -> Outcome[K]:
        """Observe, plan and apply until no stage is refused.

        A refusal may only mean that the mirror was stale, so the plan is made once more on a full
        observation; a key that is refused twice is left as the machine has it, and fails.  A plan
        that needs a full observation is made on one before anything is applied.
        """
        failed: dict[K, NetfwError] = {}
        suspects: set[K] = set()
        rest = update
        from_machine = False
        while True:
            observed = self.observe_machine(rest) if from_machine else self.observe(rest)
            plan = self.plan(rest, observed)
            if plan.needs_full_observation and not from_machine:
                from_machine = True
                continue
            try:
                self.apply(plan, no_checkpoint)
            except OperationRefused as refusal:
                blamed = _blamed(refusal, rest)
                if from_machine and not blamed.keys() - failed.keys():
                    raise  # leaving out another key would not help
                failed |= {key: why for key, why in blamed.items() if key in suspects}
                suspects |= blamed.keys()
                rest, from_machine = update.without(failed), True
            else:
                return _outcome(update, plan, failed)


def _blamed(refusal: OperationRefused, update: Update[K, V]) -> dict[K, NetfwError]:
    """Return the keys that own the refused operations, each with its own reason.

    An operation without owners concerns every key of the update.
    """
    blamed: dict[K, NetfwError] = {}
    for operation, reason in refusal.reasons.items():
        owners = operation.owners if isinstance(operation, Operation) else frozenset()
        error = OperationRefused({operation: reason})
        blamed |= dict.fromkeys(cast(frozenset[K], owners) or frozenset(update), error)
    return blamed


def _outcome(update: Update[K, V], plan: Plan, failed: Mapping[K, NetfwError]) -> Outcome[K]:
    lost = {**failed, **plan.refused}
    waiting = {key: why for key, why in plan.waiting.items() if key not in lost}
    return Outcome(
        done=frozenset(key for key in update if key not in lost and key not in waiting),
        failed=lost,
        waiting=waiting,
    )
