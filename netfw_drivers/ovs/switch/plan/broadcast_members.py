"""Which ports take part in which broadcast domain, in chunks that change together.  Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set

from netfw.drivers.keys import PortKey
from netfw_drivers.ovs.common.local_vlans import Domain
from netfw_drivers.ovs.pipeline.br_int import Chunk, PlannedPort, Receiver


class Members:
    """Live ports, found by domain and chunk."""

    def __init__(self, members: Mapping[PortKey, PlannedPort] | None = None) -> None:
        self.ports: dict[PortKey, PlannedPort] = {}
        self._chunks: dict[Domain, dict[int, set[PortKey]]] = defaultdict(dict)
        self._open: dict[Domain, set[PortKey]] = defaultdict(set)
        self.commit(members or {}, ())

    def commit(self, live: Mapping[PortKey, PlannedPort], dead: Iterable[PortKey]) -> None:
        """Note that *live* take part now, and *dead* do not."""
        for key in (*dead, *live):
            self._remove(key)
        for key, member in live.items():
            self.ports[key] = member
            domain, chunk = member.chunk
            self._chunks[domain].setdefault(chunk, set()).add(key)
            if member.open:
                self._open[domain].add(key)

    def domains(self) -> Set[Domain]:
        return self._chunks.keys()

    def chunks(self, domain: Domain) -> Set[int]:
        return self._chunks.get(domain, {}).keys()

    def of_chunk(self, chunk: Chunk) -> Set[PortKey]:
        return self._chunks.get(chunk[0], {}).get(chunk[1], frozenset())

    def open_ports(self, domain: Domain) -> Set[PortKey]:
        return self._open.get(domain, frozenset())

    def _remove(self, key: PortKey) -> None:
        member = self.ports.pop(key, None)
        if member is None:
            return
        domain, chunk = member.chunk
        self._chunks[domain][chunk].discard(key)
        self._open[domain].discard(key)
        if not self._chunks[domain][chunk]:
            del self._chunks[domain][chunk]
        if not self._chunks[domain]:
            del self._chunks[domain]
            self._open.pop(domain, None)


class MembersOverlay:
    """Members as they will be after an update that concerns some ports, without touching them."""

    def __init__(
        self, members: Members, live: Mapping[PortKey, PlannedPort], concerned: Set[PortKey]
    ) -> None:
        self._before, self._fresh, self._concerned = members, Members(live), concerned

    def touched(self) -> Set[Chunk]:
        """The chunks in which something may be different."""
        before = (self._before.ports.get(key) for key in self._concerned)
        members = [*self._fresh.ports.values(), *(member for member in before if member)]
        return {member.chunk for member in members}

    def everything(self) -> Set[Chunk]:
        return {
            (domain, chunk)
            for members in (self._before, self._fresh)
            for domain in members.domains()
            for chunk in members.chunks(domain)
        }

    def receivers(self, chunk: Chunk) -> tuple[Receiver, ...]:
        """The ports of *chunk*, by number."""
        staying = self._before.of_chunk(chunk) - self._concerned
        return self._receivers(staying, self._fresh.of_chunk(chunk))

    def chunks(self, domain: Domain) -> tuple[int, ...]:
        """The chunks of *domain* that have ports."""
        fresh = self._fresh.chunks(domain)
        before = (
            chunk
            for chunk in self._before.chunks(domain)
            if self._before.of_chunk((domain, chunk)) - self._concerned
        )
        return tuple(sorted({*fresh, *before}))

    def open_ports(self, domain: Domain) -> tuple[Receiver, ...]:
        staying = self._before.open_ports(domain) - self._concerned
        return self._receivers(staying, self._fresh.open_ports(domain))

    def _receivers(self, staying: Set[PortKey], fresh: Set[PortKey]) -> tuple[Receiver, ...]:
        found = [self._before.ports[key].receiver for key in staying]
        found += [self._fresh.ports[key].receiver for key in fresh]
        return tuple(sorted(found))
