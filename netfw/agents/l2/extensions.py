"""Contributions: what the extensions add to the ports, each one's failures kept to itself."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from attrs import frozen

from netfw.drivers.contribution import SwitchContribution
from netfw.drivers.events import Event, FeedLost, KeysChanged, Sink
from netfw.drivers.keys import ExtensionKey
from netfw.drivers.l2_extension import ExtendedPort, L2Extension
from netfw.drivers.pipeline_grant import Grant
from netfw.drivers.switch import SwitchDriver
from netfw.errors import DriverCrashed, NetfwError
from netfw.flows.flow import Flow
from netfw.model.ids import PortId
from netfw.model.qos import QosRule

LOG = logging.getLogger(__name__)


@frozen
class ExtensionPortKey:
    """An extension's part of a port; it fails, and is retried, by itself."""

    owner: str
    port: PortId

    def __str__(self) -> str:
        return f"extension {self.owner} on port {self.port}"


@frozen
class ExtensionPortsChanged(Event):
    """An extension asks to be called again: for these ports, or for all."""

    owner: str
    ports: frozenset[PortId] | None = None


class PortExtensions:
    """What each extension adds to each port.

    An extension is called when what it is shown of a port has changed, or when it asks; what it
    added before stays while it fails.
    """

    def __init__(self, extensions: Sequence[L2Extension]) -> None:
        self._extensions = {extension.grant_request().owner: extension for extension in extensions}
        self._grants: dict[str, Grant] = {}
        self._shown: dict[ExtensionPortKey, ExtendedPort] = {}
        self._additions: dict[ExtensionPortKey, SwitchContribution | None] = {}
        self.failed: dict[ExtensionPortKey, NetfwError] = {}

    @property
    def owners(self) -> tuple[str, ...]:
        """The extensions, in the order of the configuration."""
        return tuple(self._extensions)

    def watch(self, sink: Sink) -> None:
        """Pass on what extensions learn by themselves, with their name on it."""
        for owner, extension in self._extensions.items():
            extension.watch(_signed(owner, sink))

    def begin(self, switch: SwitchDriver) -> Mapping[ExtensionKey, SwitchContribution]:
        """Have everything granted; return what extensions add whatever ports there are.

        :raises ConfigError: an extension cannot have what it claims, or cannot be.
        """
        base: dict[ExtensionKey, SwitchContribution] = {}
        for owner, extension in self._extensions.items():
            self._grants[owner] = switch.grant(extension.grant_request())
            addition = _checked(owner, extension.contribute_base(self._grants[owner]))
            if addition is not None:
                base[ExtensionKey(owner)] = addition
        return base

    def show(self, port: PortId, extended: ExtendedPort | None) -> frozenset[ExtensionPortKey]:
        """Let every extension see what *port* is now, or that it is dead or gone.

        Returns the parts that are to be called for that.
        """
        changed = set()
        for owner in self._extensions:
            part = ExtensionPortKey(owner, port)
            if extended is None:
                self._forget(part)
            elif self._shown.get(part) != extended:
                self._shown[part] = extended
                changed.add(part)
        return frozenset(changed)

    def call(self, parts: Iterable[ExtensionPortKey]) -> frozenset[PortId]:
        """Call extensions for these, as far as they are still there.

        Returns the ports to which something else is added than before.
        """
        changed = set()
        for part in parts:
            if part in self._shown:
                before = self._additions.get(part)
                self._call(part)
                if self._additions.get(part) != before:
                    changed.add(part.port)
        return frozenset(changed)

    def parts(self, owner: str, ports: frozenset[PortId] | None) -> frozenset[ExtensionPortKey]:
        """The parts of an extension: of these ports, or of all."""
        if ports is not None:
            return frozenset(ExtensionPortKey(owner, port) for port in ports)
        return frozenset(part for part in self._shown if part.owner == owner)

    def contributions(self, port: PortId) -> tuple[SwitchContribution, ...]:
        """What is added to a port, in the order of the configuration."""
        found = (self._additions.get(ExtensionPortKey(owner, port)) for owner in self._extensions)
        return tuple(addition for addition in found if addition is not None)

    def _call(self, part: ExtensionPortKey) -> None:
        extension, grant = self._extensions[part.owner], self._grants[part.owner]
        try:
            addition = extension.contribute(part.port, self._shown[part], grant)
            self._additions[part] = _checked(part.owner, addition)
        except NetfwError as exc:
            self.failed[part] = exc
        except Exception as exc:
            LOG.exception("%s: a defect of the extension", part)
            self.failed[part] = DriverCrashed(f"{part.owner}: {type(exc).__name__}: {exc}")
        else:
            self.failed.pop(part, None)

    def _forget(self, part: ExtensionPortKey) -> None:
        for book in (self._shown, self._additions, self.failed):
            book.pop(part, None)


def _checked(owner: str, addition: SwitchContribution | None) -> SwitchContribution | None:
    """*addition*, which a stranger wrote, if it is one.

    :raises DriverCrashed: it is something else.
    """
    if addition is None:
        return None
    if not isinstance(addition, SwitchContribution):
        raise DriverCrashed(f"{owner}: it returned {addition!r}, which is no SwitchAddition")
    if addition.owner != owner:
        raise DriverCrashed(f"{owner}: it returned an addition of {addition.owner!r}")
    for name, kind in (("flows", Flow), ("qos", QosRule)):
        given = getattr(addition, name)
        if not isinstance(given, tuple) or not all(isinstance(each, kind) for each in given):
            raise DriverCrashed(
                f"{owner}: the {name} of its addition are no tuple of them: {given!r}"
            )
    return addition


def _signed(owner: str, sink: Sink) -> Sink:
    def signed(event: Event) -> None:
        match event:
            case KeysChanged():
                ports = frozenset(key for key in event.keys)
                sink(ExtensionPortsChanged(event.reason, owner, ports))  # type: ignore[arg-type]
            case FeedLost():
                sink(ExtensionPortsChanged(event.reason, owner))
            case _:
                sink(event)

    return signed
