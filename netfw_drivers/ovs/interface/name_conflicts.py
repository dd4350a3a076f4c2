"""Conflicts of device and port names.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from netfw.drivers.interface import Attachment
from netfw.errors import BackendBroken, Conflict, NetfwError, NotFound
from netfw.model.values.ids import PortId
from netfw.ovs.ovsdb.values import OvsdbPort
from netfw.plan import Update
from netfw_drivers.ovs.interface.observed import (
    MADE_BY_SWITCH,
    InterfaceSettings,
    Namespace,
    Observed,
    device_of,
    has_valid_marks,
    is_stranded,
    is_unusable,
    leaving,
    namespace_of,
)


def refusals(
    update: Update[PortId, Attachment], observed: Observed, settings: InterfaceSettings
) -> dict[PortId, NetfwError]:
    """Return the keys that cannot be had.

    A key that is refused keeps the name it has, which may be the reason to refuse the next one.
    """
    refused: dict[PortId, NetfwError] = {}
    while True:
        more = _NameClaims(update, observed, settings, refused).conflicts()
        if not more:
            return refused
        refused |= more


class _NameClaims:
    """Names that keys want, given the keys that are refused."""

    def __init__(
        self,
        update: Update[PortId, Attachment],
        observed: Observed,
        settings: InterfaceSettings,
        refused: Mapping[PortId, NetfwError],
    ) -> None:
        self._observed, self._settings = observed, settings
        self._put = {key: value for key, value in update.put.items() if key not in refused}
        self._freed = frozenset(self._free(leaving(update, observed)))
        self._owner = {port.name: key for key, ports in observed.ours.items() for port in ports}
        self._claimed: dict[object, PortId] = {}

    def conflicts(self) -> dict[PortId, NetfwError]:
        found: dict[PortId, NetfwError] = {}
        for port_id in sorted(self._put, key=lambda key: not self._has_its_name(key)):
            problem = self._problem(port_id, self._put[port_id])
            if problem is not None:
                found[port_id] = problem
        return found

    def _free(self, going: Iterable[PortId]) -> Iterator[str]:
        """Yield the names that this update frees."""
        for port_id in going:
            yield from (port.name for port in self._observed.ours[port_id])
        for port_id, attachment in self._put.items():
            name = self._settings.port_name(port_id, attachment)
            for port in self._observed.ours.get(port_id, ()):
                if port.name != name:
                    yield port.name

    def _has_its_name(self, port_id: PortId) -> bool:
        name = self._settings.port_name(port_id, self._put[port_id])
        return self._owner.get(name) == port_id

    def _problem(self, port_id: PortId, wanted: Attachment) -> NetfwError | None:
        observed = self._observed
        if observed.bridge is None:
            return BackendBroken(
                f"there is no bridge {self._settings.bridge}: make it "
                f"(ovs-vsctl add-br {self._settings.bridge}), or set integration_bridge"
            )
        if wanted.netns not in observed.links:
            return NotFound(
                f"there is no network namespace {wanted.netns} for {wanted.device}; make it first"
            )
        name = self._settings.port_name(port_id, wanted)
        for claim in (name, (wanted.netns, wanted.device)):
            holder = self._claimed.setdefault(claim, port_id)
            if holder != port_id:
                return Conflict(f"{wanted.device} is wanted by port {holder} too")
        return self._taken(port_id, wanted, name)

    def _taken(self, port_id: PortId, wanted: Attachment, name: str) -> NetfwError | None:
        port = self._observed.named.get(name)
        owner = self._owner.get(name)
        if owner == port_id:
            return self._spoilt(port, wanted)
        if port is not None and name not in self._freed:
            whose = f"belongs to port {owner}" if owner else "was not made by netfw"
            return Conflict(f"{name} is on {port.bridge} already, and {whose}")
        devices = {(None, name), (wanted.netns, wanted.device)} - self._freed_links()
        for namespace, device in sorted(devices, key=str):
            if self._observed.link(namespace, device) is not None:
                where = f"in {namespace}" if namespace else "on this host"
                return Conflict(f"there is a device {device} {where} that netfw did not make")
        return None

    def _freed_links(self) -> set[tuple[Namespace, str]]:
        ports = [self._observed.named[name] for name in self._freed if name in self._observed.named]
        return {(None, port.name) for port in ports} | {
            (namespace_of(port), device_of(port)) for port in ports
        }

    def _spoilt(self, port: OvsdbPort | None, wanted: Attachment) -> NetfwError | None:
        """Return what prevents the repair of a port of ours."""
        assert port is not None
        observed = self._observed
        there = observed.link(wanted.netns, wanted.device)
        if (
            there is not None
            and has_valid_marks(port)
            and wanted.netns != namespace_of(port)
            and observed.link(namespace_of(port), device_of(port)) is not None
        ):
            return Conflict(f"there is another device {wanted.device} in {wanted.netns}")
        if self._is_anothers(port, wanted) or is_stranded(port, observed):
            return Conflict(f"there is a device {wanted.device} that netfw did not make")
        error = None if self._settings.use_veth else port.interface.error
        if error and observed.link(None, port.name) is not None:
            return BackendBroken(f"the switch cannot use the device {port.name}: {error}")
        return None

    def _is_anothers(self, port: OvsdbPort, wanted: Attachment) -> bool:
        """Return whether another process took the name after the port was marked as ours."""
        root_link = self._observed.link(None, port.name)
        if self._settings.use_veth:  # the ends of a pair come and go together
            return (
                root_link is None and self._observed.link(wanted.netns, wanted.device) is not None
            )
        return is_unusable(port) and root_link is not None and root_link.kind not in MADE_BY_SWITCH
