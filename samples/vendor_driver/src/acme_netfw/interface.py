"""AcmeInterfaceDriver: plugs ports into an Acme switch."""

from __future__ import annotations

from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any, ClassVar, Self
from uuid import UUID

from oslo_config import cfg

from acme_netfw.switch import AcmeSwitch, SwitchPort
from netfw.drivers.base import DriverInfo, HostResources
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.interface import Attachment, Device, InterfaceCapability, InterfaceDriver
from netfw.errors import Conflict, NetfwError, NotSupported
from netfw.model import Mac, PortId
from netfw.plan import Outcome, Update

LABEL_PREFIX = "netfw:"
"""Prefix of the labels of ports that this driver made; the id of netfw's port follows."""


class AcmeInterfaceDriver(InterfaceDriver):
    """Ports of an Acme switch, with one transaction for each update."""

    VERSION: ClassVar[int] = 2
    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = (
        cfg.StrOpt(
            "switch", default="/run/acme/switch.json", help="Path of the state file of the switch."
        ),
    )

    def __init__(self, switch: AcmeSwitch) -> None:
        self._switch = switch

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls(AcmeSwitch(Path(options["switch"])))

    def describe(self) -> DriverInfo[HostCapability | InterfaceCapability]:
        return DriverInfo("acme", {InterfaceCapability.MTU_CHANGE})

    def problems(self) -> tuple[str, ...]:
        try:
            self.devices()
        except NetfwError as error:
            return (f"{error}; start it, or set its path in [acme] switch",)
        return ()

    def devices(self) -> Mapping[PortId, Device]:
        with self._switch.session() as ports:
            return {
                port_id: Device(name=name, mac=Mac(ports[name].mac))
                for port_id, name in _names(ports).items()
            }

    def converge(self, update: Update[PortId, Attachment]) -> Outcome[PortId]:
        with self._switch.session() as ports:
            after, failed = decide(update, ports)
            ports.clear()
            ports.update(after)
        return Outcome(done=frozenset(key for key in update if key not in failed), failed=failed)


def decide(
    update: Update[PortId, Attachment], ports: Mapping[str, SwitchPort]
) -> tuple[dict[str, SwitchPort], dict[PortId, NetfwError]]:
    """Return the ports that the switch should have, and an error for each key that it refuses."""
    names = _names(ports)
    removed = {names.pop(key) for key in names.keys() & _keys_to_remove(update, names.keys())}
    after = {name: port for name, port in ports.items() if name not in removed}
    failed = _refusals(update.put, names, after)
    done = {key: value for key, value in update.put.items() if key not in failed}
    former = {key: after.pop(names[key]) for key in done if key in names}
    for key, value in done.items():
        after[value.device] = _switch_port(key, value, former.get(key))
    return after, failed


def _names(ports: Mapping[str, SwitchPort]) -> dict[PortId, str]:
    """Return the names on the switch of the ports that this driver made."""
    owners = ((owner_of(port), name) for name, port in ports.items())
    return {owner: name for owner, name in owners if owner is not None}


def owner_of(port: SwitchPort) -> PortId | None:
    """Return the id of netfw's port, or ``None`` unless this driver made *port*."""
    if not port.label.startswith(LABEL_PREFIX):
        return None
    try:
        return PortId(UUID(port.label.removeprefix(LABEL_PREFIX)))
    except ValueError:
        return None


def _keys_to_remove(update: Update[PortId, Attachment], present: Set[PortId]) -> Set[PortId]:
    return update.drop | (present - update.put.keys() - update.keep if update.complete else set())


def _switch_port(port_id: PortId, wanted: Attachment, former: SwitchPort | None) -> SwitchPort:
    """Build the port for the switch; keep its admission, which the switch driver decides."""
    return SwitchPort(
        label=f"{LABEL_PREFIX}{port_id}",
        mac=wanted.mac,
        mtu=wanted.mtu,
        up=wanted.up,
        admitted=former is not None and former.admitted,
    )


def _refusals(
    wanted: Mapping[PortId, Attachment], names: Mapping[PortId, str], ports: Mapping[str, object]
) -> dict[PortId, NetfwError]:
    """Return the errors of keys that the switch refuses.

    A refused port keeps its present name, so that another port may be refused that name.
    """
    refused: dict[PortId, NetfwError] = {
        key: NotSupported(f"{value.device}: Acme switches have no network namespaces")
        for key, value in wanted.items()
        if value.netns is not None
    }
    unmoved_first = sorted(wanted, key=lambda key: names.get(key) != wanted[key].device)
    while True:
        moving = {names[key] for key in wanted if key in names and key not in refused}
        taken = ports.keys() - moving
        more: dict[PortId, NetfwError] = {}
        for key in unmoved_first:
            name = wanted[key].device
            if key not in refused and name in taken:
                more[key] = Conflict(f"{name} is already in use on this switch")
            elif key not in refused:
                taken.add(name)
        if not more:
            return refused
        refused |= more
