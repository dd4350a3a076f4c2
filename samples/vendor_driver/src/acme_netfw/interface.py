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

OURS = "netfw:"
"""How the label of a port begins that this driver made; the rest is the id of netfw's port."""


class AcmeInterfaceDriver(InterfaceDriver):
    """Ports of an Acme switch, in one exchange with it for each update."""

    VERSION: ClassVar[int] = 2
    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = (
        cfg.StrOpt(
            "switch", default="/run/acme/switch.json", help="The switch, by the path of its state."
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
            return (f"{error}; start it, or say in [acme] switch where it is",)
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
    """What the switch shall have, given what it has, and who cannot have what he wants."""
    names = _names(ports)
    leaving = {names.pop(key) for key in names.keys() & _leaving(update, names.keys())}
    after = {name: port for name, port in ports.items() if name not in leaving}
    failed = _refusals(update.put, names, after)
    done = {key: value for key, value in update.put.items() if key not in failed}
    former = {key: after.pop(names[key]) for key in done if key in names}
    for key, value in done.items():
        after[value.device] = _switch_port(key, value, former.get(key))
    return after, failed


def _names(ports: Mapping[str, SwitchPort]) -> dict[PortId, str]:
    """What each port of ours is called on the switch."""
    owners = ((owner(port), name) for name, port in ports.items())
    return {owner: name for owner, name in owners if owner is not None}


def owner(port: SwitchPort) -> PortId | None:
    """Whom this driver made the port for; whatever else is on the switch is not ours."""
    if not port.label.startswith(OURS):
        return None
    try:
        return PortId(UUID(port.label.removeprefix(OURS)))
    except ValueError:
        return None


def _leaving(update: Update[PortId, Attachment], held: Set[PortId]) -> Set[PortId]:
    return update.drop | (held - update.put.keys() - update.keep if update.complete else set())


def _switch_port(port_id: PortId, wanted: Attachment, former: SwitchPort | None) -> SwitchPort:
    """What the switch is told; whether traffic may pass is not this driver's to decide."""
    return SwitchPort(
        label=f"{OURS}{port_id}",
        mac=wanted.mac,
        mtu=wanted.mtu,
        up=wanted.up,
        admitted=former is not None and former.admitted,
    )


def _refusals(
    wanted: Mapping[PortId, Attachment], names: Mapping[PortId, str], ports: Mapping[str, object]
) -> dict[PortId, NetfwError]:
    """Who cannot have what he wants.  He keeps the name he has, which may refuse another."""
    refused: dict[PortId, NetfwError] = {
        key: NotSupported(f"{value.device}: Acme switches know no network namespaces")
        for key, value in wanted.items()
        if value.netns is not None
    }
    whoever_stays_first = sorted(wanted, key=lambda key: names.get(key) != wanted[key].device)
    while True:
        moving = {names[key] for key in wanted if key in names and key not in refused}
        taken = ports.keys() - moving
        more: dict[PortId, NetfwError] = {}
        for key in whoever_stays_first:
            name = wanted[key].device
            if key not in refused and name in taken:
                more[key] = Conflict(f"{name} belongs to somebody else on this switch")
            elif key not in refused:
                taken.add(name)
        if not more:
            return refused
        refused |= more
