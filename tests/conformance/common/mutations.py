"""Broken drivers: one correct fake, and mutations that each override one of its methods.

A mutation is a function.  It receives the driver, the method it replaces, and the arguments::

    @MUTATIONS.override("devices", breaks(InterfaceDriver, 5))
    def report_upper_case_names(driver, original):
        return {key: upper(device) for key, device in original().items()}

A replaced class method receives the class instead of the driver, a static method neither.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from attrs import define, field

from netfw.testing.conformance.common.promises import (
    Promise,
    documented_errors,
    numbered_promises,
)

Override = Callable[..., Any]
breaks, breaks_raise = numbered_promises, documented_errors


@define(eq=False)
class Mutation:
    """One fault: what it is called, the promises it breaks, and the members it replaces."""

    name: str
    breaks: frozenset[Promise]
    overrides: dict[str, Override] = field(factory=dict)
    values: dict[str, Any] = field(factory=dict)
    """Class attributes that are replaced as they are."""
    on: Mutation | None = None
    """A mutation that this one builds upon."""

    def also(self, method: str) -> Callable[[Override], Override]:
        """Override *method* too, for a fault that takes more than one."""

        def add(function: Override) -> Override:
            self.overrides[method] = function
            return function

        return add

    def apply(self, fake: type) -> type:
        """Return a subclass of *fake* with this fault."""
        base = fake if self.on is None else self.on.apply(fake)
        members = {name: _replace(base, name, new) for name, new in self.overrides.items()}
        own = {"VERSION": base.VERSION} if hasattr(base, "VERSION") else {}
        return type(self.name, (base,), {**own, **self.values, **members})


@define
class Mutations:
    """The mutations of one contract, in the order of their declaration."""

    _by_name: dict[str, Mutation] = field(factory=dict)

    def override(
        self, method: str, *promises: frozenset[Promise], on: Mutation | None = None
    ) -> Callable[[Override], Mutation]:
        """Register the decorated function as the mutation of *method* that breaks *promises*."""

        def register(function: Override) -> Mutation:
            mutation = self._add(Mutation(function.__name__, _union(promises), on=on))
            mutation.overrides[method] = function
            return mutation

        return register

    def replace(self, name: str, *promises: frozenset[Promise], **values: Any) -> Mutation:
        """Register the mutation *name* that replaces class attributes by *values*."""
        return self._add(Mutation(name, _union(promises), values=values))

    @classmethod
    def merge(cls, *parts: Mutations) -> Mutations:
        """Return the mutations of all *parts*."""
        whole = cls()
        for mutation in (mutation for part in parts for mutation in part):
            whole._add(mutation)
        return whole

    def __iter__(self) -> Iterator[Mutation]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def __getitem__(self, name: str) -> Mutation:
        return self._by_name[name]

    def _add(self, mutation: Mutation) -> Mutation:
        if mutation.name in self._by_name:
            raise ValueError(f"there are two mutations {mutation.name}")
        self._by_name[mutation.name] = mutation
        return mutation


def _union(promises: tuple[frozenset[Promise], ...]) -> frozenset[Promise]:
    return frozenset().union(*promises)


def _replace(base: type, name: str, new: Override) -> object:
    """Return the member that calls *new* with what *base* has under *name*."""
    original = inspect.getattr_static(base, name)
    match original:
        case None:
            return _bind(_nothing, new)
        case staticmethod():
            return staticmethod(partial(new, original.__func__))
        case classmethod():
            return classmethod(_bind(original.__func__, new))
        case property(fget=getter):
            return property(_bind(getter, new))
        case _:
            return _bind(original, new)


def _nothing(*_: Any) -> None:
    """Stand in for an original that is ``None``: an optional member."""


def _bind(original: Callable[..., Any], new: Override) -> Callable[..., Any]:
    def call(bound: Any, *arguments: Any, **named: Any) -> Any:
        return new(bound, partial(original, bound), *arguments, **named)

    return call
