"""NullInterfaceDriver: keeps attachments in memory, and plugs nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from threading import Lock
from typing import Any, ClassVar, Self

from attrs import define, field

from netfw.drivers.base import DriverInfo, HostResources
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.interface import Attachment, Device, InterfaceCapability, InterfaceDriver
from netfw.drivers.values.subscription import Service
from netfw.errors import BackendUnavailable, Conflict, NetfwError, NotSupported
from netfw.model.values.ids import PortId
from netfw.plan import Outcome, Update


@define
class NullInterfaceState:
    """In-memory state; drivers of one host share it.

    Tests may change it: device names of other programs are ``foreign``, and unless ``online`` all
    calls fail.
    """

    attachments: dict[PortId, Attachment] = field(factory=dict)
    foreign: set[str] = field(factory=set)
    online: bool = True
    initialized: set[Service] = field(factory=set)
    lock: Lock = field(factory=Lock, repr=False)


class NullInterfaceDriver(InterfaceDriver):
    """Keeps attachments in memory, for programs that need a driver and no network.

    It creates no device, carries no traffic and refuses namespaces.  Its state lives as
    long as the host object it was made with.
    """

    VERSION: ClassVar[int] = 2

    def __init__(self, state: NullInterfaceState | None = None) -> None:
        self._state = state if state is not None else NullInterfaceState()

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls(host.share(NullInterfaceState, NullInterfaceState))

    def describe(self) -> DriverInfo[HostCapability | InterfaceCapability]:
        return DriverInfo("null", {InterfaceCapability.MTU_CHANGE})

    def devices(self) -> Mapping[PortId, Device]:
        with self._exclusive() as state:
            return {
                port_id: Device(name=attachment.device, mac=attachment.mac)
                for port_id, attachment in state.attachments.items()
            }

    def mark_initialized(self, service: Service) -> None:
        with self._exclusive() as state:
            state.initialized.add(service)

    def converge(self, update: Update[PortId, Attachment]) -> Outcome[PortId]:
        with self._exclusive() as state:
            for port_id in _leaving(update, state):
                state.attachments.pop(port_id, None)
            failed = _refusals(update, state)
            done = {key: value for key, value in update.put.items() if key not in failed}
            state.attachments.update(done)
        return Outcome(done=frozenset(done) | update.drop, failed=failed)

    def _exclusive(self) -> _Exclusive:
        return _Exclusive(self._state)


class _Exclusive:
    """Exclusive access to the state, if it is online."""

    def __init__(self, state: NullInterfaceState) -> None:
        self._state = state

    def __enter__(self) -> NullInterfaceState:
        if not self._state.online:
            raise BackendUnavailable("the null interface backend is offline")
        self._state.lock.acquire()
        return self._state

    def __exit__(self, *_: object) -> None:
        self._state.lock.release()


def _leaving(update: Update[PortId, Attachment], state: NullInterfaceState) -> Iterator[PortId]:
    yield from update.drop
    if update.complete:
        yield from state.attachments.keys() - update.put.keys() - update.keep


def _refusals(
    update: Update[PortId, Attachment], state: NullInterfaceState
) -> dict[PortId, NetfwError]:
    """Return refusals: a device name in use, or a namespace; a refused port keeps its name."""
    refused: dict[PortId, NetfwError] = {
        key: NotSupported(f"{value.device}: the null driver knows no network namespaces")
        for key, value in update.put.items()
        if value.netns is not None
    }
    while True:
        wanted = {key: value for key, value in update.put.items() if key not in refused}
        staying = {**state.attachments, **wanted}
        names = {value.device: key for key, value in reversed(staying.items())}
        more = {
            key: Conflict(f"{value.device} belongs to another port or program")
            for key, value in wanted.items()
            if value.device in state.foreign or names[value.device] != key
        }
        if not more:
            return refused
        refused |= more
