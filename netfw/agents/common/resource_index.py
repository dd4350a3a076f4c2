"""The resources of one agent, each stored once, with secondary indexes.  Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Set
from typing import Generic, TypeVar, cast

from attrs import frozen

from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.resource import KINDS, Kind, Ref, Resource
from netfw.model.values.ids import NetworkId, PortId

K = TypeVar("K", bound=Hashable)
R = TypeVar("R", bound=Resource)

_NO_REFS: Set[Ref] = frozenset()


@frozen
class ResourceChange:
    """One resource before and after.  Nothing before: it is new; nothing after: it is gone."""

    key: Ref
    before: Resource | None
    after: Resource | None


class SecondaryIndex(Generic[K]):
    """References to the resources of one kind, by keys computed from the resource.

    A key without resources takes no space.
    """

    def __init__(self, keys_of: Callable[[Resource], Iterable[K]]) -> None:
        self._keys_of = keys_of
        self._refs: dict[K, set[Ref]] = {}

    def __iter__(self) -> Iterator[K]:
        return iter(self._refs)

    def refs(self, key: K) -> Set[Ref]:
        """Return the references under *key*; a live view, not a copy."""
        return self._refs.get(key, _NO_REFS)

    def add(self, key: Ref, resource: Resource) -> None:
        """Index *resource*, which is stored as *key*."""
        for value in self._keys_of(resource):
            self._refs.setdefault(value, set()).add(key)

    def discard(self, key: Ref, resource: Resource) -> None:
        """Undo `add` of the same resource."""
        for value in self._keys_of(resource):
            refs = self._refs.get(value)
            if refs is not None:
                refs.discard(key)
                if not refs:
                    del self._refs[value]

    def clear(self) -> None:
        """Remove all references."""
        self._refs.clear()


class ResourceIndex(Mapping[Ref, Resource]):
    """Resources by reference, the only place where an agent stores them.

    The replica writes to it; the modules that compute the desired state read it.  An agent
    declares the secondary indexes that it needs, each for resources of one kind, before the first
    resource is stored.  A change costs the secondary indexes of its kind, however many resources
    there are.
    """

    def __init__(self) -> None:
        self._resources: dict[Ref, Resource] = {}
        self._counts: Counter[Kind] = Counter()
        self._secondary: dict[Kind, list[SecondaryIndex[Hashable]]] = {}

    def __getitem__(self, key: Ref) -> Resource:
        return self._resources[key]

    def __iter__(self) -> Iterator[Ref]:
        return iter(self._resources)

    def __len__(self) -> int:
        return len(self._resources)

    def __contains__(self, key: object) -> bool:
        return key in self._resources

    def declare(
        self, resource_type: type[R], keys_of: Callable[[R], Iterable[K]]
    ) -> SecondaryIndex[K]:
        """Return a new secondary index of the resources of one type, under *keys_of* each."""
        index: SecondaryIndex[K] = SecondaryIndex(cast(Callable[[Resource], Iterable[K]], keys_of))
        indexes = self._secondary.setdefault(KINDS[cast(type[Resource], resource_type)], [])
        indexes.append(cast(SecondaryIndex[Hashable], index))
        return index

    def apply(self, resources: Mapping[Ref, Resource | None]) -> tuple[ResourceChange, ...]:
        """Store *resources*, ``None`` for those that are gone; return what differs from before."""
        changes = []
        for key, after in resources.items():
            before = self._resources.get(key)
            if before == after:
                continue
            self._store(key, before, after)
            changes.append(ResourceChange(key, before, after))
        return tuple(changes)

    def counts(self) -> Mapping[str, int]:
        """Return how many resources there are, by kind."""
        return {str(kind): count for kind, count in self._counts.items() if count}

    def clear(self) -> None:
        """Remove every resource."""
        self._resources.clear()
        self._counts.clear()
        for indexes in self._secondary.values():
            for index in indexes:
                index.clear()

    def network(self, id: NetworkId) -> Network | None:
        """Return a network, if it is known."""
        return cast(Network | None, self._resources.get(Ref(Kind.NETWORK, id)))

    def port(self, id: PortId) -> Port | None:
        """Return a port, whatever host it is bound to, if it is known."""
        return cast(Port | None, self._resources.get(Ref(Kind.PORT, id)))

    def _store(self, key: Ref, before: Resource | None, after: Resource | None) -> None:
        for index in self._secondary.get(key.kind, ()):
            if before is not None:
                index.discard(key, before)
            if after is not None:
                index.add(key, after)
        self._counts[key.kind] += (after is not None) - (before is not None)
        if after is None:
            del self._resources[key]
        else:
            self._resources[key] = after
