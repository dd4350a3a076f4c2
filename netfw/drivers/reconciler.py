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
    """Go on: what `converge` does at a checkpoint."""


class Reconciler(HostDriver[K, V], Generic[K, V, O]):
    """A host driver that can say what it would do before it does it.

    Promises beyond those of :class:`HostDriver`:

    1. ``plan`` is pure: the same update and observation give the same plan, and nothing is touched.
    2. After ``apply`` of a plan, planning the same update on a new observation gives no stage.
    3. Each stage is atomic on its backend; dying after any stage leaves nothing that the next
       ``converge`` does not put right.
    4. ``observe(None)`` reads the machine; ``observe(update)`` may answer from the driver's mirror
       and costs what the update is large, not what the host holds.
    5. ``apply`` calls ``checkpoint`` after each stage; a refused stage was not done at all.
    6. What somebody else changed of what the driver made is noticed by ``observe(None)`` and put
       right by the next ``converge``.
    """

    @abstractmethod
    def observe(self, scope: Update[K, V] | None) -> O:
        """What the machine holds, as far as *scope* concerns it; ``None`` rereads everything.

        :raises BackendUnavailable: the backend does not answer.
        """

    @abstractmethod
    def plan(self, update: Update[K, V], observed: O) -> Plan:
        """What turns *observed* into *update*.  Pure; raises nothing: refusals are in the plan."""

    @abstractmethod
    def apply(self, plan: Plan, checkpoint: Checkpoint) -> None:
        """Carry out *plan* stage by stage, calling *checkpoint* after each.

        :raises OperationRefused: a stage was refused, and nothing of it or after it was done.
        :raises BackendUnavailable: the backend went away.
        """

    def observe_anew(self, update: Update[K, V]) -> O:
        """What the machine itself, not the mirror, holds of what *update* concerns.

        Everything, unless a driver whose calls may run in parallel limits it to its own call's;
        otherwise as `observe`.
        """
        return self.observe(None)

    def converge(self, update: Update[K, V]) -> Outcome[K]:
        """Observe, plan and apply until nothing is refused any more.

        A refusal may only mean that the mirror was stale, so the plan is made once more on a full
        observation; a key that is refused twice is left as the machine has it, and fails.  A plan
        that needs a full observation is made on one before anything is applied.
        """
        failed: dict[K, NetfwError] = {}
        suspects: set[K] = set()
        rest = update
        anew = False
        while True:
            observed = self.observe_anew(rest) if anew else self.observe(rest)
            plan = self.plan(rest, observed)
            if plan.needs_full_observation and not anew:
                anew = True
                continue
            try:
                self.apply(plan, no_checkpoint)
            except OperationRefused as refusal:
                blamed = _blamed(refusal, rest)
                if anew and not blamed.keys() - failed.keys():
                    raise  # it is refused without anybody whom leaving out could help
                failed |= {key: why for key, why in blamed.items() if key in suspects}
                suspects |= blamed.keys()
                rest, anew = update.without(failed), True
            else:
                return _outcome(update, plan, failed)


def _blamed(refusal: OperationRefused, update: Update[K, V]) -> dict[K, NetfwError]:
    """The keys that own what was refused, each with its own reason.

    An operation without owners concerns everybody who asked for something.
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
