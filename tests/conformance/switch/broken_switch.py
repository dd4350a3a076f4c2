"""Switch drivers that break one promise each."""

from attrs import evolve

from netfw.drivers.events import FeedLost
from netfw.drivers.keys import NetworkKey, PortKey
from netfw.drivers.switch import SwitchDriver
from netfw.drivers.switch_values import (
    Admission,
    Forwarding,
    LocalNetwork,
    SwitchFacts,
    Tunnel,
    Wiring,
)
from netfw.errors import BackendUnavailable, ConfigError, NotSupported
from netfw.plan import Outcome, Stage
from netfw.testing.conformance.common.promises import proves as breaks
from netfw.testing.conformance.common.promises import proves_raise as breaks_raise
from tests.conformance.switch.fake_switch import GoodSwitch

DEAD, HOLD, LIVE = Admission.DEAD, Admission.HOLD, Admission.LIVE


@breaks(SwitchDriver, 1)
class LetsTheUnwiredListen(GoodSwitch):
    """A port without a tag is a trunk: it hears every network."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.machine.open_to.add("trunks")


@breaks(SwitchDriver, 1, 3)
class TakesTagsForGranted(GoodSwitch):
    """Who tags a packet is where the tag says."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.machine.open_to.add("tags")


@breaks(SwitchDriver, 1)
class LearnsFromTheDead(GoodSwitch):
    """What a dead port sends is not forwarded, but learnt from."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.machine.open_to.add("thieves")


@breaks(SwitchDriver, 1)
class NeverKills(GoodSwitch):
    """Who lived once lives on."""

    def admission(self, key, value, final, observed):
        if value.admission is DEAD and key.port in observed.live:
            return []
        return super().admission(key, value, final, observed)


@breaks(SwitchDriver, 1)
class ForgetsWithoutShutting(GoodSwitch):
    """A dropped port is forgotten, and goes on."""

    def stages(self, fresh, gone, final, observed):
        parting, making, admitting, breaking = super().stages(fresh, gone, final, observed)
        kept = (o for o in parting if o.payload[1] not in gone or NetworkKey in map(type, gone))
        return [tuple(kept), making, admitting, breaking]


@breaks(SwitchDriver, 1)
class LetsPassWhatIsFiltered(GoodSwitch):
    """Without a firewall, nobody filters."""

    def is_shut(self, value):
        return False


@breaks(SwitchDriver, 2)
class FiltersTooEarly(GoodSwitch):
    """On hold, what is to be filtered is cut off already."""

    def admission(self, key, value, final, observed):
        live = value.admission is HOLD and value.filtered
        eager = evolve(value, admission=LIVE) if live else value
        return super().admission(key, eager, final, observed)


@breaks(SwitchDriver, 2)
class TakesHoldForLive(GoodSwitch):
    """Who is on hold is let in."""

    def admission(self, key, value, final, observed):
        eager = evolve(value, admission=LIVE) if value.admission is HOLD else value
        return super().admission(key, eager, final, observed)


@breaks(SwitchDriver, 2)
class TakesHoldForDead(GoodSwitch):
    """Who is on hold is kept out."""

    def admission(self, key, value, final, observed):
        timid = evolve(value, admission=DEAD) if value.admission is HOLD else value
        return super().admission(key, timid, final, observed)


@breaks(SwitchDriver, 2)
class PreparesTooLate(GoodSwitch):
    """What was on hold is prepared when it is let live."""

    def stages(self, fresh, gone, final, observed):
        parting, making, admitting, breaking = super().stages(fresh, gone, final, observed)
        again = tuple(self.operation("put", o.payload[1], final[o.payload[1]]) for o in admitting)
        return [parting, making, again, admitting, breaking]


@breaks(SwitchDriver, 3)
class MixesOnTheWay(GoodSwitch):
    """Whoever moves comes before the others have left."""

    def stages(self, fresh, gone, final, observed):
        parting, making, admitting, breaking = super().stages(fresh, gone, final, observed)
        leaving = tuple(o for o in parting if o.payload[1] in gone)
        comers = {o.payload[1] for o in admitting}
        dying = tuple(o for o in parting if o not in leaving and o.payload[1] not in comers)
        return [leaving + dying, making, admitting, breaking]


@breaks(SwitchDriver, 3)
class SparesTheGone(GoodSwitch):
    """Where somebody is refused, who is gone goes on."""

    def plan(self, update, observed):
        plan = super().plan(update, observed)
        if not (plan.refused and update.complete):
            return plan
        stages = ([o for o in stage.operations if o.payload[0] != "shut"] for stage in plan.stages)
        return evolve(plan, stages=tuple(Stage(tuple(stage)) for stage in stages if stage))


@breaks(SwitchDriver, 3)
class LetsNetworksShare(GoodSwitch):
    """Two networks may have one segment."""

    def refusals(self, update, observed, going):
        found = super().refusals(update, observed, going)
        return {k: e for k, e in found.items() if not isinstance(update.put[k], LocalNetwork)}


@breaks(SwitchDriver, 3)
class FloodsEverywhere(GoodSwitch):
    """Every tunnel is a mesh."""

    def carry_out(self, verb, key, value):
        super().carry_out(verb, key, self.meshed(value))

    def differs(self, key, value, observed):
        return super().differs(key, self.meshed(value), observed)

    def meshed(self, value):
        return evolve(value, mesh=True) if isinstance(value, Tunnel) else value


@breaks(SwitchDriver, 3)
class LeavesAnswersToOthers(GoodSwitch):
    """Nobody is answered for."""

    def carry_out(self, verb, key, value):
        super().carry_out(verb, key, self.silent(value))

    def differs(self, key, value, observed):
        return super().differs(key, self.silent(value), observed)

    def silent(self, value):
        return evolve(value, addresses=frozenset()) if isinstance(value, Forwarding) else value


@breaks(SwitchDriver, 4)
class KeepsNumbers(GoodSwitch):
    """A local number is given once and for ever."""

    def carry_out(self, verb, key, value):
        number = self.machine.numbers.get(key)
        super().carry_out(verb, key, value)
        if number is not None:
            self.machine.numbers[key] = number


@breaks(SwitchDriver, 4)
class WaitsForNoNetwork(GoodSwitch):
    """What a port lacks is passed over in silence."""

    def plan(self, update, observed):
        plan = super().plan(update, observed)
        kept = {key: why for key, why in plan.waiting.items() if why != "no network"}
        return evolve(plan, waiting=kept)


@breaks(SwitchDriver, 5)
class MakesEverythingAnew(GoodSwitch):
    """Converging is removing and adding."""

    def differs(self, key, value, observed):
        return True


@breaks(SwitchDriver, 5)
class BeginsAnew(GoodSwitch):
    """The first update of a new driver clears the switch first."""

    def converge(self, update):
        if not getattr(self, "begun", False):
            self.begun = True
            self.machine.answer()
            for key in [key for key in self.machine.things if isinstance(key, PortKey)]:
                self.carry_out("shut", key, None)
                self.carry_out("drop", key, None)
        return super().converge(update)


@breaks(SwitchDriver, 5)
class DisturbsTheOthers(GoodSwitch):
    """Whenever a port comes, all are cut off for a moment."""

    def carry_out(self, verb, key, value):
        if verb == "admit":
            live = dict(self.machine.live)
            self.machine.live.clear()
            self.machine.touch("something")
            self.machine.live.update(live)
        super().carry_out(verb, key, value)


@breaks(SwitchDriver, 6)
class DoesNotWaitForDevices(GoodSwitch):
    """What is not there is wired all the same."""

    def wait(self, key, value, final, observed):
        why = super().wait(key, value, final, observed)
        return "" if why == "no device" else why


@breaks(SwitchDriver, 6)
class SaysNothing(GoodSwitch):
    """It claims to announce changes, and does not."""

    def watch(self, sink):
        pass


@breaks(SwitchDriver, 6)
class ShowsOnlyTheWired(GoodSwitch):
    """A device that nobody wired is not shown."""

    def devices(self):
        return {p: d for p, d in super().devices().items() if PortKey(p) in self.machine.things}


@breaks(SwitchDriver, 7)
class MissesTheRestart(GoodSwitch):
    """The switch comes back empty, and nobody is told."""

    def watch(self, sink):
        super().watch(lambda event: None if isinstance(event, FeedLost) else sink(event))


@breaks(SwitchDriver, 7)
class TrustsItsBooks(GoodSwitch):
    """What it made once it takes to be there."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.books = {}

    def observe(self, scope):
        seen = super().observe(scope)
        return evolve(seen, live={**self.books, **seen.live})

    def carry_out(self, verb, key, value):
        super().carry_out(verb, key, value)
        if verb == "admit":
            self.books[key.port] = value
        elif verb == "shut":
            self.books.pop(key.port, None)


@breaks(SwitchDriver, 8)
class GivesBitsTwice(GoodSwitch):
    """Everybody gets the first bits."""

    def new_grant(self, claim):
        self.bit = 0
        return super().new_grant(claim)


@breaks(SwitchDriver, 8)
class GrantsByChance(GoodSwitch):
    """Tables are given in another order by every driver object."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        turn = len(self.machine.open_to)
        self.machine.open_to.add(f"turn {turn}")
        self.left = self.left[turn:] + self.left[:turn]


@breaks(SwitchDriver, 8)
class TrustsExtensions(GoodSwitch):
    """What an extension adds is added."""

    def trespasses(self, addition):
        return False


@breaks(SwitchDriver, 8)
class PunishesAll(GoodSwitch):
    """One trespass, and nobody gets anything."""

    def converge(self, update):
        observed = self.observe(update)
        for value in update.put.values():
            if isinstance(value, Wiring) and any(map(self.trespasses, value.contributions)):
                error = self.refusals(update, observed, set())
                return Outcome(failed=dict.fromkeys(update, next(iter(error.values()))))
        return super().converge(update)


@breaks_raise(SwitchDriver, "devices", BackendUnavailable)
class ShowsNoDevicesWhenAsleep(GoodSwitch):
    """Who does not know says that there is nothing."""

    def devices(self):
        return super().devices() if self.machine.online else {}


@breaks_raise(SwitchDriver, "host_facts", BackendUnavailable)
class KnowsFactsByHeart(GoodSwitch):
    """Whether the switch is there or not."""

    def host_facts(self):
        return super().host_facts() if self.machine.online else SwitchFacts()


@breaks_raise(SwitchDriver, "host_facts", ConfigError)
class DoesNotLookAtTheMachine(GoodSwitch):
    """Any configuration is fine."""

    def host_facts(self):
        return self.known or (self.machine.answer() or SwitchFacts())


@breaks_raise(SwitchDriver, "grant", NotSupported)
class PromisesAnything(GoodSwitch):
    """What it does not have is granted all the same."""

    def grant(self, request):
        return super().grant(evolve(request, marks=()))


@breaks_raise(SwitchDriver, "grant", ConfigError)
class NeverRunsOut(GoodSwitch):
    """When no table is left, the last is given again."""

    def new_grant(self, claim):
        while len(self.left) < len(claim.tables):
            self.left.append(100)
        return super().new_grant(claim)


DRIVERS = {
    name: driver
    for name, driver in list(globals().items())
    if isinstance(driver, type) and issubclass(driver, GoodSwitch)
}
