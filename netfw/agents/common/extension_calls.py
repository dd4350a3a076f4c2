"""Calls of agent extensions for objects; a failure concerns one extension and one object."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar, cast
from uuid import UUID

from attrs import frozen

from netfw.drivers.agent_extension import AgentExtension
from netfw.drivers.values.events import Event, FeedLost, KeysChanged, Sink
from netfw.drivers.values.pipeline_grant import Grant, GrantRequest
from netfw.errors import ConfigError, DriverCrashed, NetfwError
from netfw.plan import Outcome

LOG = logging.getLogger(__name__)
I = TypeVar("I", bound=UUID)  # noqa: E741 - an id
V = TypeVar("V")
C = TypeVar("C")


@frozen
class ExtensionCallKey(Generic[I]):
    """One extension on one port or router: fails and is retried alone."""

    owner: str
    noun: str
    id: I

    def __str__(self) -> str:
        return f"extension {self.owner} on {self.noun} {self.id}"


@frozen
class ExtensionChanged(Event):
    """An extension requests to be called again, for these objects or for all."""

    owner: str
    ids: frozenset[Any] | None = None


class ExtensionCalls(ABC, Generic[I, V, C]):
    """The contributions of each extension to each object.

    An extension is called when the object it sees has changed, or on its own request; its former
    contribution stays while it fails.

    :raises ConfigError: an extension has an invalid grant request, or two have the same owner.
    """

    NOUN: str
    """The type of the objects, for operators."""

    def __init__(self, extensions: Sequence[AgentExtension[I, V, C]]) -> None:
        self._extensions = _by_owner(extensions)
        self._grants: dict[str, Grant] = {}
        self._views: dict[ExtensionCallKey[I], V] = {}
        self._contributions: dict[ExtensionCallKey[I], C | None] = {}
        self.failed: dict[ExtensionCallKey[I], NetfwError] = {}

    @abstractmethod
    def validate(self, owner: str, contribution: C) -> None:
        """Validate a contribution of a third-party extension.

        :raises DriverCrashed: it is malformed.
        """

    @property
    def owners(self) -> tuple[str, ...]:
        """The owners of grants, in the order of the configuration."""
        return tuple(self._extensions)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the extensions, in the order of the configuration, which has them."""
        return tuple(each.describe().name for each in self._extensions.values())

    def watch(self, sink: Sink) -> None:
        """Forward the events of extensions to *sink*, with the name of the extension."""
        for owner, extension in self._extensions.items():
            extension.watch(_named_sink(owner, sink))

    def start(self, grant: Callable[[GrantRequest], Grant]) -> Mapping[str, C]:
        """Request the grants; return the contributions that depend on no object, by extension.

        :raises ConfigError: a grant request cannot be fulfilled, or an extension cannot start.
        """
        base: dict[str, C] = {}
        for owner, extension in self._extensions.items():
            self._grants[owner] = grant(extension.grant_request())
            contribution = self._validated(owner, extension.contribute_base(self._grants[owner]))
            if contribution is not None:
                base[owner] = contribution
        return base

    def update(self, id: I, view: V | None) -> frozenset[ExtensionCallKey[I]]:
        """Store an object as the extensions see it; ``None``: it is dead or gone.

        Return the keys of the extensions to call.
        """
        changed = set()
        for key in self._keys_of(id):
            if view is None:
                self._discard(key)
            elif self._views.get(key) != view:
                self._views[key] = view
                changed.add(key)
        return frozenset(changed)

    def call(self, keys: Iterable[ExtensionCallKey[I]]) -> frozenset[I]:
        """Call extensions for *keys* whose objects still exist.

        Return the objects whose contributions changed.
        """
        changed = set()
        for key in keys:
            if key in self._views:
                before = self._contributions.get(key)
                self._call(key)
                if self._contributions.get(key) != before:
                    changed.add(key.id)
        return frozenset(changed)

    def keys(self, owner: str, ids: frozenset[I] | None) -> frozenset[ExtensionCallKey[I]]:
        """Return the keys of an extension, for these objects or for all."""
        if ids is not None:
            return frozenset(ExtensionCallKey(owner, self.NOUN, id) for id in ids)
        return frozenset(key for key in self._views if key.owner == owner)

    def outcome(self, keys: Iterable[object]) -> Outcome[Any]:
        """Return the outcome of the last calls for those of *keys* that are extensions'."""
        called = frozenset(key for key in keys if isinstance(key, ExtensionCallKey))
        failed = {key: self.failed[key] for key in called if key in self.failed}
        return Outcome(done=called - failed.keys(), failed=failed)

    def contributions(self, id: I) -> tuple[C, ...]:
        """Return the contributions to an object, in the order of the configuration."""
        contributions = (self._contributions.get(key) for key in self._keys_of(id))
        return tuple(contribution for contribution in contributions if contribution is not None)

    def _keys_of(self, id: I) -> list[ExtensionCallKey[I]]:
        return [ExtensionCallKey(owner, self.NOUN, id) for owner in self._extensions]

    def _call(self, key: ExtensionCallKey[I]) -> None:
        extension, grant = self._extensions[key.owner], self._grants[key.owner]
        try:
            contribution = extension.contribute(key.id, self._views[key], grant)
            self._contributions[key] = self._validated(key.owner, contribution)
        except NetfwError as exc:
            self.failed[key] = exc
        except Exception as exc:
            LOG.exception("%s: internal error of the extension", key)
            self.failed[key] = DriverCrashed(f"{key.owner}: {type(exc).__name__}: {exc}")
        else:
            self.failed.pop(key, None)

    def _validated(self, owner: str, contribution: C | None) -> C | None:
        if contribution is not None:
            self.validate(owner, contribution)
        return contribution

    def _discard(self, key: ExtensionCallKey[I]) -> None:
        for mapping in (self._views, self._contributions, self.failed):
            cast(dict[ExtensionCallKey[I], object], mapping).pop(key, None)


def validate_contribution(
    owner: str, contribution: object, kind: type[Any], fields: Mapping[str, Any]
) -> None:
    """Validate the type and owner of a contribution, and the element types of its *fields*.

    :raises DriverCrashed: it is malformed.
    """
    if not isinstance(contribution, kind):
        raise DriverCrashed(f"{owner}: it returned {contribution!r}, not a {kind.__name__}")
    if contribution.owner != owner:
        raise DriverCrashed(f"{owner}: it returned a contribution of {contribution.owner!r}")
    for name, element in fields.items():
        given = getattr(contribution, name)
        if not isinstance(given, tuple) or not all(isinstance(item, element) for item in given):
            raise DriverCrashed(
                f"{owner}: the {name} of its contribution are no tuple of them: {given!r}"
            )


def _by_owner(
    extensions: Sequence[AgentExtension[I, V, C]],
) -> dict[str, AgentExtension[I, V, C]]:
    """Return *extensions* by the owner of their contributions.

    :raises ConfigError: two have the same owner: one would replace what the other contributes.
    """
    found: dict[str, AgentExtension[I, V, C]] = {}
    for extension in extensions:
        owner = _owner_of(extension)
        other = found.setdefault(owner, extension)
        if other is not extension:
            raise ConfigError(
                f"extensions {_name(other)} and {_name(extension)} both contribute as {owner!r}: "
                "remove one of them from extensions"
            )
    return found


def _name(extension: AgentExtension[Any, Any, Any]) -> str:
    kind = type(extension)
    return f"{extension.describe().name} ({kind.__module__}.{kind.__qualname__})"


def _owner_of(extension: AgentExtension[Any, Any, Any]) -> str:
    try:
        return extension.grant_request().owner
    except ValueError as exc:
        raise ConfigError(
            f"extension {extension.describe().name}: its grant request is invalid ({exc}): use a "
            "corrected version of it, or remove it from extensions"
        ) from exc


def _named_sink(owner: str, sink: Sink) -> Sink:
    def forward(event: Event) -> None:
        match event:
            case KeysChanged():
                sink(ExtensionChanged(event.reason, owner, frozenset(event.keys)))
            case FeedLost():
                sink(ExtensionChanged(event.reason, owner))
            case _:
                sink(event)

    return forward
