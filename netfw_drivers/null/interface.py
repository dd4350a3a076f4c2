"""NullInterfaceDriver: plugs ports into nothing, and remembers it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from threading import Lock
from typing import Any, ClassVar, Self

from attrs import define, field

from netfw.drivers.base import DriverInfo, HostResources
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.interface import Attachment, Device, InterfaceCapability, InterfaceDriver
from netfw.errors import BackendUnavailable, Conflict, NetfwError, NotSupported
from netfw.model.ids import PortId
from netfw.plan import Outcome, Update


@define
class NullInterfaceState:
    """What a null driver has instead of a machine; drivers of one host share it.

    Its state is open, so that a test can spoil it: names that somebody else has are ``foreign``,
    and while not ``online`` nothing answers.
    """

    attachments: dict[PortId, Attachment] = field(factory=dict)
    foreign: set[str] = field(factory=set)
    online: bool = True
    lock: Lock = field(factory=Lock, repr=False)


class NullInterfaceDriver(InterfaceDriver):
    """Keeps attachments in memory, for programs that need a driver and no network.

    It makes no device, carries no traffic and knows no namespaces: it refuses them.  What it holds
    lives as long as the host object it was made with.
    """

    VERSION: ClassVar[int] = 1

    def __init__(self, machine: NullInterfaceState | None = None) -> None:
        self._machine = machine if machine is not None else NullInterfaceState()

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls(host.share(NullInterfaceState, NullInterfaceState))

    def describe(self) -> DriverInfo[HostCapability | InterfaceCapability]:
        return DriverInfo("null", {InterfaceCapability.MTU_CHANGE})

    def devices(self) -> Mapping[PortId, Device]:
        with self._answering() as machine:
            return {
                port_id: Device(name=attachment.device, mac=attachment.mac)
                for port_id, attachment in machine.attachments.items()
            }

    def converge(self, update: Update[PortId, Attachment]) -> Outcome[PortId]:
        with self._answering() as machine:
            for port_id in _leaving(update, machine):
                machine.attachments.pop(port_id, None)
            failed = _refusals(update, machine)
            done = {key: value for key, value in update.put.items() if key not in failed}
            machine.attachments.update(done)
        return Outcome(done=frozenset(done) | update.drop, failed=failed)

    def _answering(self) -> _Answering:
        return _Answering(self._machine)


class _Answering:
    """The machine, for one caller at a time, if it answers."""

    def __init__(self, machine: NullInterfaceState) -> None:
        self._machine = machine

    def __enter__(self) -> NullInterfaceState:
        if not self._machine.online:
            raise BackendUnavailable("the imaginary machine is switched off")
        self._machine.lock.acquire()
        return self._machine

    def __exit__(self, *_: object) -> None:
        self._machine.lock.release()


def _leaving(update: Update[PortId, Attachment], machine: NullInterfaceState) -> Iterator[PortId]:
    yield from update.drop
    if update.complete:
        yield from machine.attachments.keys() - update.put.keys() - update.keep


def _refusals(
    update: Update[PortId, Attachment], machine: NullInterfaceState
) -> dict[PortId, NetfwError]:
    """Who wants a name that somebody keeps, or a namespace; whoever is refused keeps his own."""
    refused: dict[PortId, NetfwError] = {
        key: NotSupported(f"{value.device}: the null driver knows no network namespaces")
        for key, value in update.put.items()
        if value.netns is not None
    }
    while True:
        wanted = {key: value for key, value in update.put.items() if key not in refused}
        staying = {**machine.attachments, **wanted}
        names = {value.device: key for key, value in reversed(staying.items())}
        more = {
            key: Conflict(f"{value.device} belongs to somebody else")
            for key, value in wanted.items()
            if value.device in machine.foreign or names[value.device] != key
        }
        if not more:
            return refused
        refused |= more
