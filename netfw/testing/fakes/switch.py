"""FakeSwitch and FakeFirewall: drivers in memory for the L2 agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from attrs import evolve

from netfw.drivers.base import DriverInfo, HostResources
from netfw.drivers.firewall import FirewallCapability, FirewallDriver, FirewallKey, FirewallValue
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.switch import SwitchCapability, SwitchDriver
from netfw.drivers.values.events import KeysChanged
from netfw.drivers.values.keys import NetworkKey, PortKey
from netfw.drivers.values.pipeline_grant import Grant, GrantRequest, RegisterGrant, TableGrant
from netfw.drivers.values.switch_values import (
    Admission,
    SwitchDevice,
    SwitchFacts,
    SwitchKey,
    SwitchValue,
    Wiring,
)
from netfw.model.values.ids import PortId
from netfw.testing.fakes.backend import FakeBackend, FakeReconciler


class FakeSwitch(SwitchDriver, FakeReconciler[SwitchKey, SwitchValue]):
    """A switch in memory: `plug` and `unplug` are the hypervisor, ``machine`` the rest."""

    VERSION: ClassVar[int] = 2
    CAPABILITIES = (
        HostCapability.PLAN,
        HostCapability.WATCH,
        SwitchCapability.TUNNELS,
        SwitchCapability.POPULATION,
        SwitchCapability.FLOWS,
        SwitchCapability.IN_SWITCH,
    )

    def __init__(
        self,
        facts: SwitchFacts | None = None,
        machine: FakeBackend[SwitchKey, SwitchValue] | None = None,
    ) -> None:
        super().__init__(machine)
        self.reported_facts = SwitchFacts() if facts is None else facts
        self.plugged: dict[PortId, SwitchDevice] = {}
        self._grants: dict[str, Grant] = {}

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls()

    def describe(self) -> DriverInfo[HostCapability | SwitchCapability]:
        return DriverInfo("fake", self.CAPABILITIES)

    def plug(self, port: PortId, *, ofport: int | None = 1, quiet: bool = False) -> None:
        """Plug a port, as the hypervisor does; no ofport: the switch has not numbered it yet."""
        self.plugged[port] = SwitchDevice(name=f"tap{str(port)[-11:]}", ofport=ofport)
        if not quiet:
            self.machine.notify(KeysChanged("it was plugged", {PortKey(port)}))

    def unplug(self, port: PortId) -> None:
        """Unplug a port, as the hypervisor does."""
        del self.plugged[port]
        self.machine.present.pop(PortKey(port), None)
        self.machine.notify(KeysChanged("it was unplugged", {PortKey(port)}))

    def live(self) -> frozenset[PortId]:
        """Return the ports that are connected to their networks."""
        return frozenset(
            key.port
            for key, value in self.machine.present.items()
            if isinstance(key, PortKey)
            and isinstance(value, Wiring)
            and value.admission is Admission.LIVE
        )

    def devices(self) -> Mapping[PortId, SwitchDevice]:
        self.machine.answer()
        return self.plugged

    def forwards(self) -> bool:
        self.machine.answer()
        return bool(self.live())

    def host_facts(self) -> SwitchFacts:
        self.machine.answer()
        return self.reported_facts

    def grant(self, request: GrantRequest) -> Grant:
        number = len(self._grants)
        grant = Grant(
            owner=request.owner,
            cookie=(number + 1) << 32,
            cookie_mask=0xFFFF_FFFF << 32,
            prefix=f"x{number}-",
            tables={
                table.name: TableGrant(number=200 + 10 * number + at, then=None)
                for at, table in enumerate(request.tables)
            },
            registers={
                bits.name: RegisterGrant(register=8 + number, first=0, bits=bits.bits)
                for bits in request.registers
            },
        )
        return self._grants.setdefault(request.owner, grant)

    def waits_for(
        self, key: SwitchKey, value: SwitchValue, final: Mapping[SwitchKey, SwitchValue]
    ) -> str:
        if not (isinstance(key, PortKey) and isinstance(value, Wiring)):
            return ""
        device = self.plugged.get(key.port)
        if device is None:
            return "its device"
        if device.ofport is None:
            return "its ofport"
        if value.admission is not Admission.DEAD and NetworkKey(value.network) not in final:
            return "its network"
        return ""

    def plan(self, update: Any, observed: Any) -> Any:
        """Plan as every fake does; ``HOLD`` leaves a live port live and a dead one dead."""
        held = {key: _held(value, observed.get(key)) for key, value in update.put.items()}
        return super().plan(evolve(update, put=held), observed)


def _held(value: SwitchValue, former: SwitchValue | None) -> SwitchValue:
    if not (isinstance(value, Wiring) and value.admission is Admission.HOLD):
        return value
    if not (isinstance(former, Wiring) and former.admission is Admission.LIVE):
        return value
    return evolve(value, admission=Admission.LIVE, filtered=former.filtered)


class FakeFirewall(FirewallDriver, FakeReconciler[FirewallKey, FirewallValue]):
    """A firewall in memory."""

    VERSION: ClassVar[int] = 2
    CAPABILITIES = (
        HostCapability.PLAN,
        FirewallCapability.FILTERING,
        FirewallCapability.SPOOF_GUARD,
    )

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls()

    def describe(self) -> DriverInfo[HostCapability | FirewallCapability]:
        return DriverInfo("fake", self.CAPABILITIES)
