"""Firewall drivers that are wrong about what changes."""

import time

from attrs import evolve

from netfw.drivers.firewall import FilteredPort, FirewallDriver, Member, Rules
from netfw.drivers.host_driver import HostDriver
from netfw.drivers.reconciler import Reconciler
from netfw.drivers.support.firewall_validation import validation_error
from netfw.errors import BackendUnavailable, NetfwError
from netfw.plan import Outcome
from netfw.testing.conformance.common.promises import proves as breaks
from netfw.testing.conformance.common.promises import proves_raise as breaks_raise
from netfw.testing.conformance.firewall.packets import Packet
from tests.conformance.firewall.fake_firewall import GoodFirewall, operation, reverse, staged
from tests.conformance.firewall.fake_suites import broken_among


@breaks(FirewallDriver, 3)
class FreezesMembers(GoodFirewall):
    """Who is a member when a rule comes is one for ever."""

    def stages(self, put, gone, observed):
        if not put and gone == observed.keys():
            return super().stages(put, gone, observed)
        known = any(isinstance(value, Rules) and value.rules for value in observed.values())
        late = {k: v for k, v in put.items() if not (known and isinstance(k, Member))}
        return super().stages(late, {k for k in gone if not isinstance(k, Member)}, observed)


@breaks(FirewallDriver, 4)
class NeverRevokes(GoodFirewall):
    """What was opened once stays open."""

    @classmethod
    def fate(cls, machine, delivery):
        sent = delivery.sent
        if isinstance(sent, Packet) and not cls.is_invalid(machine, sent, (), None):
            here = cls.connection(delivery, sent)
            if here in machine.connections and sent.protocol != 132 and sent.flags != 2:
                return True
        return super().fate(machine, delivery)

    @classmethod
    def passes(cls, policy, sent, way, opened):
        return opened is not None or super().passes(policy, sent, way, opened)


@breaks(FirewallDriver, 4)
class CutsEverything(GoodFirewall):
    """Every update ends all connections."""

    def carry_out(self, stage):
        super().carry_out(stage)
        self.machine.connections.clear()


@breaks(FirewallDriver, 4)
class CutsWhenItStarts(GoodFirewall):
    """A new driver begins with a clean slate."""

    def __init__(self, machine):
        super().__init__(machine)
        machine.connections.clear()


class Dawdles(GoodFirewall):
    """Not broken itself: between two stages packets come."""

    def carry_out(self, stage):
        super().carry_out(stage)
        time.sleep(0.002)


@breaks(FirewallDriver, 5)
class BreaksBeforeItMakes(Dawdles):
    """What is replaced is gone for a moment."""

    def stages(self, put, gone, observed):
        leaving = [
            operation(key, None) for key in sorted({*gone, *(put.keys() & observed)}, key=str)
        ]
        return staged(leaving, [operation(key, value) for key, value in put.items()])


@breaks(FirewallDriver, 5)
class OpensWhileItWorks(Dawdles):
    """What changes passes everything for a moment."""

    def stages(self, put, gone, observed):
        ports = {
            k: evolve(v, trusted=True)
            for k, v in put.items()
            if isinstance(v, FilteredPort) and k in observed
        }
        first = [operation(key, value) for key, value in ports.items()]
        return (*staged(first), *super().stages(put, gone, observed))


@breaks(FirewallDriver, 5)
class ForgetsWhatItRefused(GoodFirewall):
    """A key that fails is gone."""

    def converge(self, update):
        outcome = super().converge(update)
        for key in outcome.failed:
            self.machine.policy.pop(key, None)
        return outcome


@breaks(FirewallDriver, 6)
class MultipliesMembers(GoodFirewall):
    """Each member once for each other."""

    def carry_out(self, stage):
        super().carry_out(stage)
        members = [m for m in self.machine.policy if isinstance(m, Member)]
        count = len(members)
        self.machine.marks = {f"{m} of {count}" for m in members}


@breaks(FirewallDriver, 7)
class KnowsOneNetwork(GoodFirewall):
    """A connection of one network is one of all."""

    @classmethod
    def fate(cls, machine, delivery):
        sent = delivery.sent
        if isinstance(sent, Packet):
            ways = {cls.connection(delivery, each)[1:] for each in (sent, reverse(sent))}
            here = delivery.sender.seat.network
            if any(c[1:] in ways and c[0] != here for c in machine.connections):
                return True
        return super().fate(machine, delivery)


@breaks(FirewallDriver, 8)
class GuardsTheTrusted(GoodFirewall):
    """A trusted port is no server and no router either."""

    @classmethod
    def passes(cls, policy, sent, way, opened):
        port = policy.get(way.sender.key)
        known = isinstance(port, FilteredPort) and port.trusted and isinstance(sent, Packet)
        if known and (sent.source_port == 67 or sent.icmp[0] == 134):
            return False
        return super().passes(policy, sent, way, opened)


@breaks(FirewallDriver, 8)
class TrustsForEver(GoodFirewall):
    """Who was trusted once is trusted still."""

    def carry_out(self, stage):
        for each in stage.operations:
            key, value = each.payload
            former = self.machine.policy.get(key)
            if isinstance(value, FilteredPort) and isinstance(former, FilteredPort):
                self.machine.marks.discard(str(key))
                if former.trusted or f"trusted {key}" in self.machine.marks:
                    self.machine.marks.add(f"trusted {key}")
            elif value is None:
                self.machine.marks.discard(f"trusted {key}")
        super().carry_out(stage)

    @classmethod
    def fate(cls, machine, delivery):
        ends = delivery.sender.key, delivery.receiver.key
        if any(f"trusted {key}" in machine.marks for key in ends):
            return True
        return super().fate(machine, delivery)


@breaks(FirewallDriver, 9)
class TakesAnything(GoodFirewall):
    """What is asked for is done."""

    def refusals(self, update):
        return {}

    @classmethod
    def in_force(cls, policy):
        return {k: v for k, v in policy.items() if validation_error(k, v) is None}


@breaks(FirewallDriver, 9)
class RefusesWithoutName(GoodFirewall):
    """Something is wrong somewhere."""

    def converge(self, update):
        refused = self.refusals(update)
        if refused:
            return Outcome(failed=dict.fromkeys(update, next(iter(refused.values()))))
        return super().converge(update)


@breaks(HostDriver, 1)
class TouchesEverything(GoodFirewall):
    """What is right already is made again."""

    def converge(self, update):
        outcome = super().converge(update)
        self.machine.marks = {f"made {len(self.machine.marks)}", *self.machine.marks}
        if update.complete and not update.put:
            self.machine.marks = set()
        return outcome


@breaks(HostDriver, 2)
class StumblesOverAbsence(GoodFirewall):
    """What is not there cannot be dropped."""

    def converge(self, update):
        absent = update.drop - self.machine.policy.keys()
        outcome = super().converge(update.without(absent))
        return evolve(outcome, failed={**outcome.failed, **dict.fromkeys(absent, NetfwError("?"))})


@breaks(HostDriver, 3)
class KeepsTheRest(GoodFirewall):
    """Complete is what is asked for, and all there was, except when nothing is."""

    def leaving(self, update, observed):
        return super().leaving(
            evolve(update, complete=update.complete and not update.put), observed
        )


@breaks(HostDriver, 3)
class RemovesWhatIsToBeKept(GoodFirewall):
    """Complete is complete, whatever is to be kept."""

    def leaving(self, update, observed):
        return super().leaving(evolve(update, keep=frozenset()), observed)


@breaks(HostDriver, 4)
class FailsTogether(RefusesWithoutName):
    """One key that cannot be had keeps the others from being had."""


@breaks(HostDriver, 5)
class CleansUpTooMuch(GoodFirewall):
    """The removal of garbage takes along what the driver did not make."""

    def converge(self, update):
        if update.complete and not update.put:
            self.machine.foreign = False
        return super().converge(update)


@breaks(HostDriver, 6)
@breaks(Reconciler, 3)
class KeepsItsBooksInMemory(GoodFirewall):
    """What another driver made is nobody's."""

    def __init__(self, machine):
        super().__init__(machine)
        self.mine = set()

    def carry_out(self, stage):
        super().carry_out(stage)
        for each in stage.operations:
            self.mine.add(each.payload[0])

    def leaving(self, update, observed):
        gone = super().leaving(update, observed)
        return gone if not update.put else gone & self.mine


@breaks(HostDriver, 7)
class ReportsWhatWasAsked(GoodFirewall):
    """What it was told to have it has."""

    def __init__(self, machine):
        super().__init__(machine)
        self.asked = set()

    def converge(self, update):
        outcome = super().converge(update)
        if update.complete:
            self.asked &= update.keep
        self.asked = (self.asked | update.put.keys()) - update.drop
        return outcome

    def present(self):
        self.machine.answer()
        return frozenset(self.asked)


@breaks_raise(HostDriver, "converge", BackendUnavailable)
class PretendsToWork(GoodFirewall):
    """Nobody answers, and all is done."""

    def converge(self, update):
        return super().converge(update) if self.machine.online else Outcome(done=frozenset(update))


@breaks_raise(HostDriver, "present", BackendUnavailable)
class HoldsNothingWhenAsleep(GoodFirewall):
    """Who does not know says that there is nothing."""

    def present(self):
        return super().present() if self.machine.online else frozenset()


@breaks(Reconciler, 1)
class ActsWhilePlanning(GoodFirewall):
    """What is planned is done."""

    def plan(self, update, observed):
        plan = super().plan(update, observed)
        self.machine.marks = {f"thought of {len(update.put)}"} if update.put else set()
        return plan


@breaks(Reconciler, 2)
class IsNeverReady(GoodFirewall):
    """There is always something to do."""

    def plan(self, update, observed):
        return super().plan(update, {k: v for k, v in observed.items() if k not in update.put})


@breaks(Reconciler, 4)
class ForgetsItsMirror(GoodFirewall):
    """Who looks at a part sees nothing."""

    def observe(self, scope):
        found = super().observe(scope)
        kept = {} if scope is None else scope.put
        return {k: v for k, v in found.items() if k not in kept}


@breaks(Reconciler, 5)
class SkipsCheckpoints(GoodFirewall):
    """Nobody is told how far it is."""

    def apply(self, plan, checkpoint):
        super().apply(plan, lambda stage: None)


@breaks(Reconciler, 6)
class TrustsItsBooks(GoodFirewall):
    """What it has done is so, whatever the machine says."""

    def __init__(self, machine):
        super().__init__(machine)
        self.book = dict(machine.policy)

    def observe(self, scope):
        super().observe(scope)
        return dict(self.book)

    def carry_out(self, stage):
        super().carry_out(stage)
        self.book = dict(self.machine.policy)


@breaks_raise(Reconciler, "observe", BackendUnavailable)
class SeesInTheDark(GoodFirewall):
    """Nobody answers, and there is nothing."""

    def observe(self, scope):
        return super().observe(scope) if self.machine.online else {}


@breaks_raise(Reconciler, "apply", BackendUnavailable)
class WorksInTheDark(GoodFirewall):
    """Nobody answers, and it is done."""

    def apply(self, plan, checkpoint):
        if self.machine.online:
            super().apply(plan, checkpoint)


BROKEN = broken_among(globals())
