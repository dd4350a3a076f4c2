"""Calls of L2 extensions for ports; a failure concerns one extension and one port."""

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
    """One extension on one port: fails and is retried alone."""

    owner: str
    port: PortId

    def __str__(self) -> str:
        return f"extension {self.owner} on port {self.port}"


@frozen
class ExtensionPortsChanged(Event):
    """An extension requests to be called again, for these ports or for all."""

    owner: str
    ports: frozenset[PortId] | None = None


class PortExtensions:
    """The contributions of each extension to each port.

    An extension is called when the port it sees has changed, or on its own request; its former
    contribution stays while it fails.
    """

    def __init__(self, extensions: Sequence[L2Extension]) -> None:
        self._extensions = {extension.grant_request().owner: extension for extension in extensions}
        self._grants: dict[str, Grant] = {}
        self._ports: dict[ExtensionPortKey, ExtendedPort] = {}
        self._contributions: dict[ExtensionPortKey, SwitchContribution | None] = {}
        self.failed: dict[ExtensionPortKey, NetfwError] = {}

    @property
    def owners(self) -> tuple[str, ...]:
        """The extensions, in the order of the configuration."""
        return tuple(self._extensions)

    def watch(self, sink: Sink) -> None:
        """Forward the events of extensions to *sink*, with the name of the extension."""
        for owner, extension in self._extensions.items():
            extension.watch(_named_sink(owner, sink))

    def start(self, switch: SwitchDriver) -> Mapping[ExtensionKey, SwitchContribution]:
        """Request the grants; return the contributions that do not depend on ports.

        :raises ConfigError: a grant request cannot be fulfilled, or an extension cannot start.
        """
        base: dict[ExtensionKey, SwitchContribution] = {}
        for owner, extension in self._extensions.items():
            self._grants[owner] = switch.grant(extension.grant_request())
            contribution = _validated(owner, extension.contribute_base(self._grants[owner]))
            if contribution is not None:
                base[ExtensionKey(owner)] = contribution
        return base

    def update(self, port: PortId, extended: ExtendedPort | None) -> frozenset[ExtensionPortKey]:
        """Store *port* as the extensions see it; ``None``: it is dead or gone.

        Return the keys of the extensions to call.
        """
        changed = set()
        for owner in self._extensions:
            part = ExtensionPortKey(owner, port)
            if extended is None:
                self._discard(part)
            elif self._ports.get(part) != extended:
                self._ports[part] = extended
                changed.add(part)
        return frozenset(changed)

    def call(self, keys: Iterable[ExtensionPortKey]) -> frozenset[PortId]:
        """Call extensions for *keys* whose ports still exist.

        Return the ports whose contributions changed.
        """
        changed = set()
        for part in keys:
            if part in self._ports:
                before = self._contributions.get(part)
                self._call(part)
                if self._contributions.get(part) != before:
                    changed.add(part.port)
        return frozenset(changed)

    def keys(self, owner: str, ports: frozenset[PortId] | None) -> frozenset[ExtensionPortKey]:
        """Return the keys of an extension, for these ports or for all."""
        if ports is not None:
            return frozenset(ExtensionPortKey(owner, port) for port in ports)
        return frozenset(part for part in self._ports if part.owner == owner)

    def contributions(self, port: PortId) -> tuple[SwitchContribution, ...]:
        """Return the contributions to a port, in the order of the configuration."""
        keys = (ExtensionPortKey(owner, port) for owner in self._extensions)
        contributions = (self._contributions.get(key) for key in keys)
        return tuple(contribution for contribution in contributions if contribution is not None)

    def _call(self, part: ExtensionPortKey) -> None:
        extension, grant = self._extensions[part.owner], self._grants[part.owner]
        try:
            contribution = extension.contribute(part.port, self._ports[part], grant)
            self._contributions[part] = _validated(part.owner, contribution)
        except NetfwError as exc:
            self.failed[part] = exc
        except Exception as exc:
            LOG.exception("%s: internal error of the extension", part)
            self.failed[part] = DriverCrashed(f"{part.owner}: {type(exc).__name__}: {exc}")
        else:
            self.failed.pop(part, None)

    def _discard(self, part: ExtensionPortKey) -> None:
        for mapping in (self._ports, self._contributions, self.failed):
            mapping.pop(part, None)


def _validated(owner: str, contribution: SwitchContribution | None) -> SwitchContribution | None:
    """Return *contribution* of a third-party extension, after validation.

    :raises DriverCrashed: it is malformed.
    """
    if contribution is None:
        return None
    if not isinstance(contribution, SwitchContribution):
        raise DriverCrashed(f"{owner}: it returned {contribution!r}, not a SwitchContribution")
    if contribution.owner != owner:
        raise DriverCrashed(f"{owner}: it returned a contribution of {contribution.owner!r}")
    for name, kind in (("flows", Flow), ("qos", QosRule)):
        given = getattr(contribution, name)
        if not isinstance(given, tuple) or not all(isinstance(item, kind) for item in given):
            raise DriverCrashed(
                f"{owner}: the {name} of its contribution are no tuple of them: {given!r}"
            )
    return contribution


def _named_sink(owner: str, sink: Sink) -> Sink:
    def forward(event: Event) -> None:
        match event:
            case KeysChanged():
                ports = frozenset(key for key in event.keys)
                sink(ExtensionPortsChanged(event.reason, owner, ports))  # type: ignore[arg-type]
            case FeedLost():
                sink(ExtensionPortsChanged(event.reason, owner))
            case _:
                sink(event)

    return forward
