"""Metadata drivers that break one promise each."""

import threading

from attrs import evolve

from netfw.drivers.metadata import IDENTIFYING, MetadataDriver
from netfw.errors import BackendBroken, Conflict, NotFound
from netfw.plan import Outcome
from netfw.testing.conformance.common.promises import proves as breaks
from tests.conformance.metadata.fake_metadata import (
    GoodMetadataDriver,
    Process,
    ProxyOfTheMind,
    plain,
)


class ProxyBelievesGuests(ProxyOfTheMind):
    def clean(self, headers):
        return headers


@breaks(MetadataDriver, 1)
class BelievesGuests(GoodMetadataDriver):
    """What a guest says of itself is passed on beside what is true."""

    PROXY = ProxyBelievesGuests()


class ProxyKnowsOneSpelling(ProxyOfTheMind):
    def clean(self, headers):
        return [each for each in headers if each[0].lower() not in {*IDENTIFYING, "connection"}]


@breaks(MetadataDriver, 1)
class KnowsOneSpelling(GoodMetadataDriver):
    """Headers are known by their names with dashes only."""

    PROXY = ProxyKnowsOneSpelling()


class ProxyLetsItselfBeDropped(ProxyOfTheMind):
    def clean(self, headers):
        return [*super().clean(headers), *(h for h in headers if plain(h[0]) == "connection")]


@breaks(MetadataDriver, 1)
class LetsItselfBeDropped(GoodMetadataDriver):
    """A guest can have the next proxy drop what this one adds."""

    PROXY = ProxyLetsItselfBeDropped()


class ProxyReadsLengthsOnly(ProxyOfTheMind):
    def length(self, headers):
        return super().length([h for h in headers if plain(h[0]) != "transfer-encoding"])


@breaks(MetadataDriver, 1)
class ReadsLengthsOnly(GoodMetadataDriver):
    """That a body may come in chunks is not known, and passed on."""

    PROXY = ProxyReadsLengthsOnly()


class ProxyDoesNotSayWhose(ProxyOfTheMind):
    def own(self, key, source):
        return super().own(key, source)[:1]


@breaks(MetadataDriver, 1)
class DoesNotSayWhose(GoodMetadataDriver):
    """The agent learns the address, and not of which network."""

    PROXY = ProxyDoesNotSayWhose()


class ProxyKnowsNetworksOnly(ProxyOfTheMind):
    def identity(self, key):
        return "X-Neutron-Network-ID", super().identity(key)[1]


@breaks(MetadataDriver, 1)
class KnowsNetworksOnly(GoodMetadataDriver):
    """The id of a router is sent as that of a network."""

    PROXY = ProxyKnowsNetworksOnly()


class ProxyNotAtLinkLocal(ProxyOfTheMind):
    LINK_LOCAL = False


@breaks(MetadataDriver, 1)
class NotAtLinkLocal(GoodMetadataDriver):
    """Instances without IPv4 are not heard."""

    PROXY = ProxyNotAtLinkLocal()


class ProxyDropsBodies(ProxyOfTheMind):
    def body(self, body):
        return b"-" * len(body)


@breaks(MetadataDriver, 1)
class DropsBodies(GoodMetadataDriver):
    """What is posted gets lost."""

    PROXY = ProxyDropsBodies()


@breaks(MetadataDriver, 2)
class StartsAgainEachTime(GoodMetadataDriver):
    """What is put is started, whether it runs or not."""

    def converge(self, update):
        outcome = super().converge(update)
        for key in outcome.done & update.put.keys():
            self.start(key, update.put[key])
        return outcome


@breaks(MetadataDriver, 2)
class StartsAgainWhenNew(GoodMetadataDriver):
    """A new agent trusts no proxy of the former one."""

    def keep(self, keys, update):
        for key in keys - self.kept:
            self.start(key, update.put[key])
        super().keep(keys, update)


@breaks(MetadataDriver, 3)
class LeavesTheDead(GoodMetadataDriver):
    """One that died is reported, and stays dead."""

    def start(self, key, proxy):
        if key not in self.kept:
            super().start(key, proxy)


@breaks(MetadataDriver, 3)
class IsSilentAboutDeath(GoodMetadataDriver):
    """One that died is started again, and nobody learns of it."""

    def watch(self, sink):
        pass


@breaks(MetadataDriver, 3)
class WatchesOwnChildren(GoodMetadataDriver):
    """A proxy that a former agent started is not watched."""

    def __init__(self, machine):
        super().__init__(machine)
        self.children = set()

    def carry_out(self, operation):
        super().carry_out(operation)
        self.children.add(operation.payload[1])

    def keep(self, keys, update):
        super().keep(keys & self.children, update)


@breaks(MetadataDriver, 4)
class LeavesFiles(GoodMetadataDriver):
    """The process is ended, its files stay."""

    def remove(self, key):
        super().remove(key)
        self.machine.files.add(key)

    def leaving(self, update, observed):
        return super().leaving(update, evolve(observed, files=frozenset()))


@breaks(MetadataDriver, 4)
class ForgetsThoseOfRouters(GoodMetadataDriver):
    """Garbage is looked for among networks only."""

    def leaving(self, update, observed):
        found = super().leaving(update, observed)
        return [key for key in found if key in update.drop or hasattr(key, "network")]


@breaks(MetadataDriver, 5)
class MakesDoWithoutNamespace(GoodMetadataDriver):
    """Without its namespace, a proxy runs in the host's."""

    def refusals(self, update, observed):
        found = super().refusals(update, observed)
        return {key: error for key, error in found.items() if not isinstance(error, NotFound)}


@breaks(MetadataDriver, 5)
class CallsAMissingNamespaceBroken(GoodMetadataDriver):
    """The error says that the machine is at fault."""

    def refusals(self, update, observed):
        found = super().refusals(update, observed)
        return {
            key: BackendBroken("?") if isinstance(error, NotFound) else error
            for key, error in found.items()
        }


@breaks(MetadataDriver, 6)
class RunsAsRoot(GoodMetadataDriver):
    """It keeps all rights that it was started with."""

    def start(self, key, proxy):
        super().start(key, proxy)
        found = self.machine.processes[key]
        self.machine.processes[key] = Process(found.proxy, found.pid, root=True)


class GivesOnePlaceTwice(GoodMetadataDriver):
    """Two of its own may listen at one place, and each has half of the requests."""

    def refusals(self, update, observed):
        found = super().refusals(update, observed)
        strangers = [each.netns for each in observed.foreign]
        return {
            key: error
            for key, error in found.items()
            if not isinstance(error, Conflict) or update.put[key].netns in strangers
        }


class CannotHandPlacesOver(GoodMetadataDriver):
    """Whoever listens at a place in the beginning of an update is in the way to its end."""

    def refusals(self, update, observed):
        found = super().refusals(update, observed)
        for key, proxy in update.put.items():
            others = {each.proxy.netns for k, each in observed.processes.items() if k != key}
            if proxy.netns in others:
                found[key] = Conflict("somebody listens there")
        return found


class KnowsOneThread(GoodMetadataDriver):
    """Whoever does not come from the thread that made it gets nothing."""

    def __init__(self, machine):
        super().__init__(machine)
        self.thread = None

    def converge(self, update):
        self.thread = self.thread or threading.get_ident()
        if self.thread != threading.get_ident():
            return Outcome(failed=dict.fromkeys(update, BackendBroken("another thread")))
        return super().converge(update)


DRIVERS = {
    name: driver
    for name, driver in list(globals().items())
    if isinstance(driver, type) and issubclass(driver, GoodMetadataDriver)
}
