"""Ledger: which keys are to be ordered, which are on order, and what came of them.  Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from attrs import define, field

from netfw.agents.common.agent import Counts
from netfw.agents.dhcp.desired import Desired
from netfw.agents.dhcp.jobs import Job, NetworkSpec, RemoveNetwork
from netfw.drivers.dhcp import DhcpKey, DhcpPort
from netfw.drivers.keys import NetworkKey, PortKey
from netfw.errors import NetfwError
from netfw.model.ids import NetworkId, PortId
from netfw.plan import Outcome


@define
class JobResults:
    """What became of keys since somebody asked."""

    done: set[DhcpKey] = field(factory=set)
    failed: dict[DhcpKey, NetfwError] = field(factory=dict)
    waiting: dict[DhcpKey, str] = field(factory=dict)
    counts: Counts = field(factory=Counts)

    def __contains__(self, key: DhcpKey) -> bool:
        return key in self.done or key in self.failed or key in self.waiting

    def __iter__(self) -> Iterator[DhcpKey]:
        yield from self.done
        yield from self.failed
        yield from self.waiting

    def discard(self, key: DhcpKey) -> None:
        self.done.discard(key)
        self.failed.pop(key, None)
        self.waiting.pop(key, None)


@define
class JobBuilder:
    """An order that is being written."""

    wish: NetworkSpec | RemoveNetwork | None = None
    put: dict[PortKey, DhcpPort] = field(factory=dict)
    drop: set[PortKey] = field(factory=set)
    serials: dict[DhcpKey, int] = field(factory=dict)

    def order(self, network: NetworkId) -> Job:
        return Job(
            network=network,
            wish=self.wish,
            put=self.put,
            drop=frozenset(self.drop),
            serials=self.serials,
        )


class JobTracker:
    """Of each key the newest order counts, and it is on order until that one was carried out."""

    def __init__(self) -> None:
        self._demanded: set[DhcpKey] = set()
        self._routine: set[DhcpKey] = set()
        """Of those, and of those on order, the ones that nothing but routine calls for."""
        self._ordered: dict[DhcpKey, int] = {}
        self._serial = 0
        self._stirred: set[DhcpKey] = set()
        """Keys on order of which something was heard since."""
        self._homes: dict[PortId, NetworkId] = {}
        """On which network the driver was told that a port is."""
        self._moving: set[PortKey] = set()
        """Ports that are to be on another network, once they are gone from where they were."""
        self._settled = JobResults()
        self.networks: set[NetworkId] = set()
        """Those that are served."""
        self.ports: set[PortId] = set()
        """Those that are served."""

    @property
    def news(self) -> frozenset[DhcpKey]:
        """The keys of which something became, or which are to be ordered."""
        return frozenset(self._settled) | self._demanded

    def is_open(self, key: DhcpKey) -> bool:
        """Whether a key is to be ordered, or on order."""
        return key in self._demanded or key in self._ordered

    def is_served(self, key: DhcpKey) -> bool:
        """Whether the driver is known to hold a key."""
        return (
            key.network in self.networks if isinstance(key, NetworkKey) else key.port in self.ports
        )

    def request(self, keys: Iterable[DhcpKey], *, routine: bool = False) -> None:
        """Have *keys* ordered, whatever is on order."""
        for key in keys:
            if not routine:
                self._routine.discard(key)
            elif not self.is_open(key):
                self._routine.add(key)
            self._demanded.add(key)
            self._settled.discard(key)

    def invalidate(self, keys: Iterable[DhcpKey]) -> frozenset[DhcpKey]:
        """Something was heard of *keys*, perhaps the noise of their own order: those to try again.

        What is on order is ordered again if that was well, as it may have been spoilt since.  What
        failed is not: whoever tries it again by himself has his pauses.
        """
        again: set[DhcpKey] = set()
        for key in keys:
            if key in self._ordered:
                self._stirred.add(key)
            elif key in self._settled and key not in self._settled.failed:
                self.request({key})
            else:
                again.add(key)
        return frozenset(again)

    def retry(self, keys: Iterable[DhcpKey]) -> None:
        """Have those of *keys* ordered that are not on order, and of which nothing became."""
        self.request(
            key for key in tuple(keys) if key not in self._ordered and key not in self._settled
        )

    def orders(self, desired: Desired) -> list[Job]:
        """Orders, one for each network, for all that is to be ordered."""
        self._serial += 1
        keys, self._demanded = self._demanded, set()
        drafts: dict[NetworkId, JobBuilder] = defaultdict(JobBuilder)
        for key in keys | self._left_behind(keys, desired):
            network = self._draft(key, desired, drafts)
            if network is None:
                self._settled.done.add(key)  # nobody was told of it, and nobody wants it
            else:
                self._ordered[key] = self._serial
                drafts[network].serials[key] = self._serial
        return [draft.order(network) for network, draft in drafts.items()]

    def recall(self, order: Job) -> None:
        """An order was taken back before anybody began it."""
        for key, serial in order.serials.items():
            if self._ordered.get(key) == serial:
                del self._ordered[key]
                self._demanded.add(key)

    def take(self, order: Job, outcome: Outcome[DhcpKey]) -> None:
        """An order was carried out."""
        for key in order:
            put = key in order.put or (
                isinstance(key, NetworkKey) and not isinstance(order.wish, RemoveNetwork)
            )
            counts = self._count(key, put, outcome)
            if key in outcome.done:
                self._note(key, put)
            if self._ordered.get(key) != order.serials[key]:
                continue  # a newer one is on its way
            del self._ordered[key]
            if key in self._moving and key in outcome.done:
                self._moving.discard(key)
                self._demanded.add(key)
            if key in self._stirred:
                self._stirred.discard(key)
                if key not in outcome.failed:
                    self._demanded.add(key)
            if key in self._demanded:
                continue
            self._settle(key, outcome)
            self._settled.counts += counts
            self._routine.discard(key)

    def take_settled(self) -> JobResults:
        """What became of keys since this was last asked."""
        settled, self._settled = self._settled, JobResults()
        return settled

    def _left_behind(self, keys: Iterable[DhcpKey], desired: Desired) -> set[DhcpKey]:
        """Ports of networks among *keys* that are not served: perhaps they wait for the network."""
        networks = [key.network for key in keys if isinstance(key, NetworkKey)]
        wanted = (each for id in networks for each in desired.ports_of(id) if each in desired.ports)
        return {PortKey(id) for id in wanted if id not in self.ports}

    def _draft(
        self, key: DhcpKey, desired: Desired, drafts: Mapping[NetworkId, JobBuilder]
    ) -> NetworkId | None:
        """Write down what is wanted of *key*, and say where; ``None``: nothing is."""
        if isinstance(key, NetworkKey):
            drafts[key.network].wish = desired.networks.get(key.network, RemoveNetwork())
            return key.network
        value, home = desired.ports.get(key.port), self._homes.get(key.port)
        if home is not None and (value is None or value.network != home):
            if value is not None:
                self._moving.add(key)
            drafts[home].drop.add(key)
            return home
        if value is None:
            return None
        drafts[value.network].put[key] = value
        self._homes[key.port] = value.network
        return value.network

    def _note(self, key: DhcpKey, put: bool) -> None:
        """The driver holds a key, or holds it no longer."""
        if isinstance(key, NetworkKey):
            (self.networks.add if put else self.networks.discard)(key.network)
        elif put:
            self.ports.add(key.port)
        else:
            self.ports.discard(key.port)
            self._homes.pop(key.port, None)

    def _settle(self, key: DhcpKey, outcome: Outcome[DhcpKey]) -> None:
        if key in outcome.done:
            self._settled.done.add(key)
        elif key in outcome.failed:
            self._settled.failed[key] = outcome.failed[key]
        else:
            self._settled.waiting[key] = outcome.waiting.get(key, "nobody spoke of it")

    def _count(self, key: DhcpKey, put: bool, outcome: Outcome[DhcpKey]) -> Counts:
        served = self.is_served(key)
        if key in outcome.failed:
            return Counts(failed=1)
        if key not in outcome.done:
            return Counts(waiting=1)
        if put:
            changed = served and key not in self._routine
            return Counts(added=int(not served), updated=int(changed))
        return Counts(removed=int(served))
