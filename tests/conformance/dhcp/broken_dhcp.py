"""DHCP drivers that break one promise each; `test_broken_dhcp` has the suite refuse them."""

from attrs import evolve

from netfw.drivers.dhcp import DhcpDriver, DhcpLocation
from netfw.plan import Outcome
from netfw.testing.conformance.common.promises import proves as breaks
from tests.conformance.dhcp import broken_dhcp_leases
from tests.conformance.dhcp.fake_dhcp import GoodDhcp


@breaks(DhcpDriver, 2)
class StartsAgainForEveryPort(GoodDhcp):
    def put_port(self, id, value):
        serving = self.machine.nets.get(value.network)
        if serving is not None:
            serving.process = next(self.machine.pids)
        return super().put_port(id, value)


@breaks(DhcpDriver, 2)
class WritesEverythingForEveryPort(GoodDhcp):
    def put_port(self, id, value):
        done = super().put_port(id, value)
        for port in self.machine.ports:
            self.serve(port)
        return done


@breaks(DhcpDriver, 3)
class ReleasesNothing(GoodDhcp):
    """The server goes on to believe in the lease of a port that is gone."""

    def release(self, before, after):
        pass


@breaks(DhcpDriver, 4)
class LosesLeasesWithTheProcess(GoodDhcp):
    """A server that starts knows nobody, and refuses who claims to have a lease."""

    def __init__(self, machine):
        super().__init__(machine)
        machine.open_to.add("forgetful")

    def start(self, id, value):
        self.machine.stored[id] = {}
        return super().start(id, value)


@breaks(DhcpDriver, 4)
class RefusesTheLeasesOfOthers(GoodDhcp):
    """A new server does not believe in what another one gave."""

    def __init__(self, machine):
        super().__init__(machine)
        machine.open_to.add("forgetful")


@breaks(DhcpDriver, 4)
class TakesNothingOver(GoodDhcp):
    """A new driver starts every server again."""

    def __init__(self, machine):
        super().__init__(machine)
        self.started = set()

    def put_network(self, id, value):
        if id not in self.started and id in self.machine.nets:
            self.machine.nets[id].process = next(self.machine.pids)
        self.started.add(id)
        super().put_network(id, value)


@breaks(DhcpDriver, 4)
class TakesItsServersAlong(GoodDhcp):
    """Nobody is served when the driver is closed."""

    def close(self):
        super().close()
        for serving in self.machine.nets.values():
            serving.alive = False


@breaks(DhcpDriver, 5)
class SaysNothingOfDeath(GoodDhcp):
    def watch(self, sink):
        pass


@breaks(DhcpDriver, 5)
class LeavesTheDead(GoodDhcp):
    """A server that died stays so."""

    def put_network(self, id, value):
        before = self.machine.nets.get(id)
        super().put_network(id, value)
        if before is not None and not before.alive:
            self.machine.nets[id].alive = False
            self.machine.nets[id].process = 0


@breaks(DhcpDriver, 6)
class KeepsOldAddresses(GoodDhcp):
    def addresses(self, value, before):
        return {*super().addresses(value, before), *before.addresses}


@breaks(DhcpDriver, 6)
class KnowsNoWayOut(GoodDhcp):
    """The server's namespace has no default route."""

    def gateways(self, value):
        return []


@breaks(DhcpDriver, 6)
class HasNoMetadataAddress(GoodDhcp):
    def addresses(self, value, before):
        return value.server.addresses


@breaks(DhcpDriver, 6)
class IsNotWhereItSays(GoodDhcp):
    def location(self, network, server):
        return DhcpLocation(netns="elsewhere", device="eth0")


@breaks(DhcpDriver, 7)
class LeavesTheNamespace(GoodDhcp):
    def drop_network(self, id):
        if id in self.machine.nets:
            self.machine.left.add(f"namespace qdhcp-{id}")
        super().drop_network(id)


@breaks(DhcpDriver, 7)
class LeavesTheLeases(GoodDhcp):
    """The file of leases stays."""

    def drop_network(self, id):
        if id in self.machine.stored:
            self.machine.left.add(f"file {id}/leases")
        super().drop_network(id)


@breaks(DhcpDriver, 7)
class ForgetsWhatTheFormerMade(GoodDhcp):
    """It drops only what it made itself."""

    def __init__(self, machine):
        super().__init__(machine)
        self.mine = set()

    def put_network(self, id, value):
        self.mine.add(id)
        super().put_network(id, value)

    def drop_network(self, id):
        if id in self.mine:
            super().drop_network(id)


@breaks(DhcpDriver, 8)
class ChecksNothing(GoodDhcp):
    def check(self, texts):
        pass


@breaks(DhcpDriver, 8)
class ChecksNamesOnly(GoodDhcp):
    """The values of options are believed."""

    def check(self, texts):
        super().check({path: text for path, text in texts.items() if "value" not in path})


@breaks(DhcpDriver, 8)
class LooksForNewLinesOnly(GoodDhcp):
    def check(self, texts):
        if any("\n" in text for _, text in texts.values()):
            super().check(texts)


@breaks(DhcpDriver, 8)
class WritesBeforeItChecks(GoodDhcp):
    def put_port(self, id, value):
        if value.network in self.machine.nets:
            self.machine.texts[id] = value.hostname
        return super().put_port(id, value)


@breaks(DhcpDriver, 8)
class PunishesAll(GoodDhcp):
    """One hostile port keeps its whole update from being served."""

    def carry_out(self, update):
        outcome = super().carry_out(update)
        if outcome.failed:
            why = next(iter(outcome.failed.values()))
            return Outcome(failed={key: outcome.failed.get(key, why) for key in update})
        return outcome


@breaks(DhcpDriver, 9)
class StumblesOverIpv6(GoodDhcp):
    """A port that has an IPv6 address first gets nothing."""

    CAPABILITIES = tuple(c for c in GoodDhcp.CAPABILITIES if c != "dhcpv6")

    def entry(self, port, network):
        first = port.fixed_ips[0].address.version if port.fixed_ips else 4
        made = super().entry(port, network)
        return made if first == 4 else evolve(made, leases=())


@breaks(DhcpDriver, 9)
class AnnouncesNothing(GoodDhcp):
    def announcement(self, value):
        return None


@breaks(DhcpDriver, 9)
class AnnouncesForOthers(GoodDhcp):
    """Also where a router outside does."""

    def announcement(self, value):
        modes = {s.id: s.ipv6_ra_mode or s.ipv6_address_mode for s in value.subnets}
        subnets = tuple(evolve(s, ipv6_ra_mode=modes[s.id]) for s in value.subnets)
        return super().announcement(evolve(value, subnets=subnets))


@breaks(DhcpDriver, 9)
class TakesAllForManaged(GoodDhcp):
    """It says of every prefix that addresses are given."""

    def announcement(self, value):
        said = super().announcement(value)
        none = dict.fromkeys(said.prefixes, False) if said else {}
        return evolve(said, managed=True, prefixes=none) if said else None


@breaks(DhcpDriver, 9)
class HasNoOptionsOfIpv6(GoodDhcp):
    def options(self, port, network, version):
        return super().options(port, network, version) if version == 4 else {}


DRIVERS = {
    name: driver
    for name, driver in (*vars(broken_dhcp_leases).items(), *list(globals().items()))
    if isinstance(driver, type) and issubclass(driver, GoodDhcp)
}
