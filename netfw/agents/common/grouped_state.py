"""The desired state of an agent whose keys are converged in groups.  Pure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from netfw.agents.common.resource_index import ResourceChange
from netfw.model.resource import Resource

G = TypeVar("G", bound=Hashable)
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class GroupedState(ABC, Generic[G, K, V]):
    """The desired value of each key, updated incrementally.

    Keys of one group are converged together, by one thread at a time.
    """

    @abstractmethod
    def apply(self, changes: Iterable[ResourceChange]) -> None:
        """Update the values after *changes*, which the resource index already holds."""

    @abstractmethod
    def take_changed(self) -> frozenset[K]:
        """Return the keys whose desired value changed since the last call."""

    @abstractmethod
    def take_touched(self) -> frozenset[K]:
        """Return the keys whose resource changed since the last call, if only its revision."""

    @abstractmethod
    def all_keys(self) -> frozenset[K]:
        """Return the keys that have a value."""

    @abstractmethod
    def value(self, key: K) -> V | None:
        """Return the desired value of *key*; ``None``: it is not desired."""

    @abstractmethod
    def group(self, key: K, value: V | None) -> G | None:
        """Return the group of *key* with *value*; ``None``: only a value tells the group."""

    @abstractmethod
    def dependents(self, key: K) -> Iterable[K]:
        """Return the keys with a value that may wait for *key*."""

    def goes_first(self, group: G) -> bool:
        """Return whether the job of *group* is submitted before others, which may wait for it."""
        return False

    @abstractmethod
    def reported(self, key: K) -> Resource | None:
        """Return the resource whose status the outcome of *key* is; ``None``: none."""
