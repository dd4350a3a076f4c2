"""GatedReconciler: a driver in memory whose calls run in parallel, by groups of keys."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar

from netfw.plan import Outcome, Update
from netfw.testing.fakes.backend import FakeBackend, FakeReconciler

G = TypeVar("G", bound=Hashable)
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class NamespaceUsers(Protocol):
    """Drivers that run something in namespaces of another driver."""

    def used_namespaces(self) -> frozenset[str]:
        """Return the namespaces in use."""


class GatedReconciler(FakeReconciler[K, V], Generic[G, K, V]):
    """Refuses what contracts with parallel calls forbid: two calls for one group at once, or one
    beside a complete update.

    A test that clears ``gates[group]`` blocks calls for that group until it sets it again.
    """

    def __init__(self, machine: FakeBackend[K, V] | None = None) -> None:
        super().__init__(machine)
        self.gates: dict[G, threading.Event] = {}
        self.at_gate: set[G] = set()
        """The groups whose calls are blocked."""
        self.calls: list[Update[K, V]] = []
        self.proxies: NamespaceUsers | None = None
        self._lock = threading.Lock()
        self._busy: set[G] = set()
        self._alone = False

    @abstractmethod
    def groups(self, update: Update[K, V]) -> set[G]:
        """Return the groups that *update* concerns."""

    @abstractmethod
    def namespaces(self) -> frozenset[str]:
        """Return the namespaces that exist."""

    def assert_unused(self, namespace: str) -> None:
        """Refuse to remove a namespace that a proxy still uses."""
        used = frozenset[str]() if self.proxies is None else self.proxies.used_namespaces()
        assert namespace not in used, "it went before its proxy"

    def converge(self, update: Update[K, V]) -> Outcome[K]:
        groups = self._enter(update)
        try:
            for group in groups:
                if group in self.gates:
                    self.at_gate.add(group)
                    assert self.gates[group].wait(30), "a test forgot to open a gate"
                    self.at_gate.discard(group)
            with self._lock:
                return super().converge(update)
        finally:
            with self._lock:
                self._busy -= groups
                self._alone = False

    def _enter(self, update: Update[K, V]) -> set[G]:
        groups = self.groups(update)
        with self._lock:
            if update:
                self.calls.append(update)
            assert not self._alone, "a call beside one that comes alone"
            assert not (update.complete and self._busy), "a complete update beside another call"
            assert not self._busy & groups, "two calls for one group"
            self._busy |= groups
            self._alone = update.complete
        return groups
