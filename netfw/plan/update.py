"""Update: desired state for a driver; Outcome: the result of each key."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from attrs import evolve, field, frozen

from netfw.errors import NetfwError, PartlyInvalid

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@frozen
class Update(Generic[K, V]):
    """A part of the desired state, or all of it.

    ``put`` has the keys to be present with their values, ``drop`` the keys to be absent.  With
    ``complete``, ``put`` is everything that the driver should have and the rest is garbage, except
    the keys of ``keep``, which stay exactly as they are.
    """

    put: Mapping[K, V] = field(factory=dict)
    drop: frozenset[K] = frozenset()
    complete: bool = False
    keep: frozenset[K] = frozenset()

    def __attrs_post_init__(self) -> None:
        for name in ("drop", "keep"):  # any iterable will do
            object.__setattr__(self, name, frozenset(getattr(self, name)))
        put = self.put.keys()
        if contradiction := (put & self.drop) | (put & self.keep) | (self.drop & self.keep):
            names = ", ".join(sorted(map(str, contradiction)))
            raise ValueError(f"to be put, dropped or kept, and more than one of these: {names}")

    def __bool__(self) -> bool:
        return bool(self.put or self.drop or self.complete)

    def __iter__(self) -> Iterator[K]:
        """Yield the keys to put and to drop."""
        yield from self.put
        yield from self.drop

    def without(self, keys: Iterable[K]) -> Update[K, V]:
        """Return the same update, leaving *keys* exactly as they are on the host."""
        out = frozenset(keys)
        return evolve(
            self,
            put={key: value for key, value in self.put.items() if key not in out},
            drop=self.drop - out,
            keep=self.keep | out,
        )


@frozen
class Outcome(Generic[K]):
    """The result of each key of an update; a key is in exactly one of the three."""

    done: frozenset[K] = frozenset()
    failed: Mapping[K, NetfwError] = field(factory=dict)
    waiting: Mapping[K, str] = field(factory=dict)

    def __str__(self) -> str:
        lines = [f"done: {key}" for key in self.done]
        lines += [f"failed: {key}: {error}" for key, error in self.failed.items()]
        lines += [f"waiting: {key}: {reason}" for key, reason in self.waiting.items()]
        return "\n".join(lines) or "nothing was requested"

    def __or__(self, other: Outcome[K]) -> Outcome[K]:
        """Return the results of both, which have no key in common."""
        return Outcome(
            done=self.done | other.done,
            failed={**self.failed, **other.failed},
            waiting={**self.waiting, **other.waiting},
        )

    @property
    def ok(self) -> bool:
        """Whether every requested key is done."""
        return not (self.failed or self.waiting)

    @property
    def in_force(self) -> frozenset[K]:
        """Keys that are done, some of them but for parts that were left out."""
        partly = (key for key, error in self.failed.items() if isinstance(error, PartlyInvalid))
        return self.done.union(partly)

    def raise_failed(self) -> None:
        """Raise the first error, if there is one; for updates of one key."""
        for error in self.failed.values():
            raise error
