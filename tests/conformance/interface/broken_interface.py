"""Drivers that break one promise each."""

from attrs import evolve

from netfw.drivers.host_driver import HostCapability, HostDriver
from netfw.drivers.interface import InterfaceCapability, InterfaceDriver
from netfw.drivers.reconciler import Reconciler
from netfw.errors import BackendUnavailable, Conflict, NetfwError, OperationRefused
from netfw.plan import Outcome, Plan, Stage
from netfw.testing.conformance.common.promises import proves as breaks
from netfw.testing.conformance.common.promises import proves_raise as breaks_raise
from tests.conformance.interface.fake_interface import GoodDriver


@breaks(HostDriver, 1)
class ChangesSomethingEachTime(GoodDriver):
    """What is right already is touched by repetition."""

    def converge(self, update):
        before = dict(self.machine.devices)
        outcome = super().converge(update)
        for key, value in update.put.items():
            if before.get(key) == value:
                self.machine.devices[key] = evolve(value, up=not value.up)
        return outcome


@breaks(HostDriver, 2)
class StumblesOverAbsence(GoodDriver):
    """What is not there cannot be dropped."""

    def converge(self, update):
        absent = update.drop - self.machine.devices.keys()
        outcome = super().converge(update.without(absent))
        return evolve(outcome, failed={**outcome.failed, **dict.fromkeys(absent, NetfwError("?"))})


@breaks(HostDriver, 3)
class RemovesWhatIsToBeKept(GoodDriver):
    """Complete is complete, whatever is to be kept."""

    def leaving(self, update, observed):
        return super().leaving(evolve(update, keep=frozenset()), observed)


@breaks(HostDriver, 4)
class FailsTogether(GoodDriver):
    """One key that cannot be had keeps the others from being had."""

    def converge(self, update):
        refused = self.refusals(update, self.observe(update))
        if refused:
            return Outcome(failed=dict.fromkeys(update, next(iter(refused.values()))))
        return super().converge(update)


@breaks(HostDriver, 5)
class TakesWhatItWants(GoodDriver):
    """A device of somebody else is taken over."""

    def converge(self, update):
        for value in update.put.values():
            self.machine.foreign.discard(value.device)
        return super().converge(update)


@breaks(HostDriver, 5)
class CleansUpTooMuch(GoodDriver):
    """The removal of garbage takes along what the driver did not make."""

    def converge(self, update):
        if update.complete and not update.put:
            self.machine.foreign.clear()
        return super().converge(update)


@breaks(HostDriver, 6)
class KeepsItsBooksInMemory(GoodDriver):
    """It knows only what this very object made."""

    def __init__(self, machine):
        super().__init__(machine)
        self.made = set()

    def leaving(self, update, observed):
        return [key for key in super().leaving(update, observed) if key in self.made]

    def carry_out(self, operation):
        super().carry_out(operation)
        self.made.add(operation.payload[1])


@breaks(HostDriver, 7)
class ReportsWhatWasAsked(GoodDriver):
    """What was asked for once is taken to be there until it is dropped."""

    def __init__(self, machine):
        super().__init__(machine)
        self.asked = set()

    def present(self):
        return super().present() | self.asked

    def converge(self, update):
        outcome = super().converge(update)
        self.asked = (set() if update.complete else self.asked - update.drop) | outcome.done
        self.asked -= update.drop
        return outcome


@breaks_raise(HostDriver, "converge", BackendUnavailable)
class BlamesTheKeys(GoodDriver):
    """That nobody answers is reported as if each key were at fault."""

    def converge(self, update):
        try:
            return super().converge(update)
        except BackendUnavailable as error:
            return Outcome(failed=dict.fromkeys(update, error))


@breaks_raise(HostDriver, "present", BackendUnavailable)
class HoldsNothingWhenAsleep(GoodDriver):
    """Who does not know says that there is nothing."""

    def present(self):
        return super().present() if self.machine.online else frozenset()


@breaks(Reconciler, 1)
class ActsWhilePlanning(GoodDriver):
    """Planning does a part of the work."""

    def plan(self, update, observed):
        plan = super().plan(update, observed)
        for operation in list(plan)[:1]:
            self.carry_out(operation)
        return plan


@breaks(Reconciler, 2)
class FindsAlwaysSomethingToDo(GoodDriver):
    """What is right is planned again."""

    def plan(self, update, observed):
        plan = super().plan(update, observed)
        again = [
            Stage((self.operation("put", key, value),))
            for key, value in update.put.items()
            if observed.devices.get(key) == value
        ]
        return evolve(plan, stages=(*plan.stages, *again))


@breaks(Reconciler, 3)
class LeaksWhenItDies(GoodDriver):
    """Something is made first that only the last stage of the same plan removes."""

    def plan(self, update, observed):
        plan = super().plan(update, observed)
        if not plan:
            return plan
        first, last = (Stage((self.operation(verb, None),)) for verb in ("litter", "tidy"))
        return evolve(plan, stages=(first, *plan.stages, last))

    def carry_out(self, operation):
        match operation.payload[0]:
            case "litter":
                self.machine.junk.add("half a device")
            case "tidy":
                self.machine.junk.clear()
            case _:
                super().carry_out(operation)


@breaks(Reconciler, 4)
class LooksTooShort(GoodDriver):
    """The slice for an update leaves out whom it drops."""

    def observe(self, scope):
        seen = super().observe(scope)
        if scope is None or scope.complete or not scope.put:
            return seen
        return evolve(seen, devices={k: v for k, v in seen.devices.items() if k not in scope.drop})


@breaks(Reconciler, 5)
class SkipsTheLastCheckpoint(GoodDriver):
    """It tells of every stage but the last."""

    def apply(self, plan, checkpoint):
        super().apply(evolve(plan, stages=plan.stages[:-1]), checkpoint)
        super().apply(evolve(plan, stages=plan.stages[-1:]), lambda stage: None)


@breaks_raise(Reconciler, "apply", OperationRefused)
class SwallowsRefusals(GoodDriver):
    """A stage that was refused is passed over in silence."""

    def apply(self, plan, checkpoint):
        for stage in plan.stages:
            try:
                super().apply(Plan(stages=(stage,)), checkpoint)
            except OperationRefused:
                continue


@breaks_raise(Reconciler, "apply", BackendUnavailable)
class DiesOfAnOutage(GoodDriver):
    """The backend's own error comes out."""

    def apply(self, plan, checkpoint):
        try:
            super().apply(plan, checkpoint)
        except BackendUnavailable as error:
            raise ConnectionError from error


@breaks_raise(Reconciler, "observe", BackendUnavailable)
class SeesWhatItSawLast(GoodDriver):
    """While nobody answers, an old picture is passed off as new."""

    def __init__(self, machine):
        super().__init__(machine)
        self.seen = None

    def observe(self, scope):
        if self.machine.online or scope is not None or self.seen is None:
            self.seen = super().observe(scope)
        return self.seen


@breaks(InterfaceDriver, 1)
class IgnoresTheMtu(GoodDriver):
    """Every device has the usual MTU, and is thought to be right."""

    def plan(self, update, observed):
        put = {key: evolve(value, mtu=1500) for key, value in update.put.items()}
        return super().plan(evolve(update, put=put), observed)


@breaks(InterfaceDriver, 2)
class LetsTrafficPass(GoodDriver):
    """A new port is open to everybody at once."""

    def carry_out(self, operation):
        verb, key, _ = operation.payload
        if verb == "put" and key not in self.machine.devices:
            self.machine.admitted.add(key)
        super().carry_out(operation)


@breaks(InterfaceDriver, 2)
class ClosesOpenPorts(GoodDriver):
    """A port that was let through is closed by each change."""

    def carry_out(self, operation):
        super().carry_out(operation)
        self.machine.admitted.discard(operation.payload[1])


@breaks(InterfaceDriver, 3)
class GivesOneNameTwice(GoodDriver):
    """That another port has the name is not looked at."""

    def refusals(self, update, observed):
        return {
            key: error
            for key, error in super().refusals(update, observed).items()
            if update.put[key].device in observed.foreign
            or update.put[key].netns not in observed.namespaces
        }


@breaks(InterfaceDriver, 3)
class CannotHandNamesOver(GoodDriver):
    """A name is taken as long as the plan has not been carried out."""

    def refusals(self, update, observed):
        found = super().refusals(update, observed)
        for key, value in update.put.items():
            holders = {k for k, v in observed.devices.items() if v.device == value.device}
            if holders - {key}:
                found[key] = Conflict("the name is taken")
        return found


@breaks(InterfaceDriver, 4)
class MakesDoWithoutNamespace(GoodDriver):
    """What wants to be in a namespace that does not exist is put somewhere else."""

    def observe(self, scope):
        seen = super().observe(scope)
        wanted = {value.netns for value in scope.put.values()} if scope else set()
        return evolve(seen, namespaces=seen.namespaces | wanted)


@breaks(InterfaceDriver, 5)
class NamesDevicesItsOwnWay(GoodDriver):
    """Devices are reported by a name that the machine does not know."""

    def devices(self):
        return {k: evolve(v, name=v.name.upper()) for k, v in super().devices().items()}


@breaks_raise(InterfaceDriver, "devices", BackendUnavailable)
class ShowsNoDevicesWhenAsleep(GoodDriver):
    """Who does not know says that there are none."""

    def devices(self):
        return super().devices() if self.machine.online else {}

    def present(self):
        self.machine.answer()
        return super().present()


@breaks(Reconciler, 6)
class DoesNotNoticeDrift(GoodDriver):
    """What it made once it never looks at again."""

    def __init__(self, machine):
        super().__init__(machine)
        self.made = {}

    def observe(self, scope):
        seen = super().observe(scope)
        kept = {k: self.made.get(k, v) for k, v in seen.devices.items()}
        return evolve(seen, devices=kept)

    def carry_out(self, operation):
        super().carry_out(operation)
        verb, key, value = operation.payload
        if verb == "put":
            self.made[key] = value


@breaks(HostDriver, 1)
class NeverChanges(GoodDriver):
    """What was made once stays as it was made."""

    def plan(self, update, observed):
        put = {key: observed.devices.get(key, value) for key, value in update.put.items()}
        return super().plan(evolve(update, put=put), observed)


@breaks(HostDriver, 1)
class SaysItIsGone(GoodDriver):
    """What is dropped by its name stays, and is said to be gone."""

    def leaving(self, update, observed):
        return [key for key in super().leaving(update, observed) if key not in update.drop]


@breaks(HostDriver, 3)
class TakesAllForComplete(GoodDriver):
    """What an update does not speak of is removed."""

    def leaving(self, update, observed):
        return super().leaving(evolve(update, complete=True), observed)


class CleansUpWhenClosed(GoodDriver):
    """Who ends takes along what he made."""

    def close(self):
        self.machine.devices.clear()


class BearsNobodyBeside(GoodDriver):
    """While one driver object lives, another one gets nothing."""

    def converge(self, update):
        if not update:
            return Outcome()
        if getattr(self.machine, "master", self) is not self:
            return Outcome(failed=dict.fromkeys(update, Conflict("another driver is at work")))
        self.machine.master = self
        return super().converge(update)


class ComplainsOfNothing(GoodDriver):
    """An update without keys is thought to be a mistake."""

    def converge(self, update):
        if not update.put and not update.drop and not update.complete:
            raise ValueError("nothing to do")
        return super().converge(update)


@breaks(InterfaceDriver, 1)
class IsAlwaysUp(GoodDriver):
    """Down is not thought of."""

    def plan(self, update, observed):
        put = {key: evolve(value, up=True) for key, value in update.put.items()}
        return super().plan(evolve(update, put=put), observed)


@breaks(InterfaceDriver, 1)
class MakesNamesPretty(GoodDriver):
    """A name is changed to what the machine is thought to like."""

    def plan(self, update, observed):
        put = {k: evolve(v, device=v.device.replace(".", "-")) for k, v in update.put.items()}
        return super().plan(evolve(update, put=put), observed)


@breaks(Reconciler, 2)
class TakesLessSilently(GoodDriver):
    """What is too large for the machine is cut, and said to be done."""

    def carry_out(self, operation):
        verb, key, value = operation.payload
        if value is not None:
            value = evolve(value, mtu=min(value.mtu, 1500))
        super().carry_out(evolve(operation, payload=(verb, key, value)))


@breaks(InterfaceDriver, 1)
class LeavesHalfOfIt(GoodDriver):
    """That the size is refused is found out when the device is there, and it stays there."""

    def carry_out(self, operation):
        verb, key, value = operation.payload
        if value is not None and value.mtu > 9000:
            super().carry_out(evolve(operation, payload=(verb, key, evolve(value, mtu=1500))))
            raise OperationRefused({operation: "too large"})
        super().carry_out(operation)


@breaks(InterfaceDriver, 4)
class PassesOverNamespaces(GoodDriver):
    """It does not know namespaces, and puts everything where it puts everything."""

    CAPABILITIES = (HostCapability.PLAN, InterfaceCapability.MTU_CHANGE)

    def plan(self, update, observed):
        put = {key: evolve(value, netns=None) for key, value in update.put.items()}
        return super().plan(evolve(update, put=put), observed)


DRIVERS = {
    name: driver
    for name, driver in list(globals().items())
    if isinstance(driver, type) and issubclass(driver, GoodDriver)
}
