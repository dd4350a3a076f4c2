"""The desired state of all drivers of an L2 agent.  Pure, except that extensions are called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import get_args

from attrs import evolve

from netfw.agents.common.extension_calls import ExtensionCallKey
from netfw.agents.common.resource_index import ResourceChange
from netfw.agents.l2.desired_firewall import DesiredFirewall
from netfw.agents.l2.desired_switch import DesiredSwitch
from netfw.agents.l2.extensions import PortExtensions
from netfw.agents.l2.host_context import L2HostContext
from netfw.agents.l2.resource_index import L2ResourceIndex
from netfw.drivers.firewall import FirewallKey
from netfw.drivers.values.keys import ExtensionKey, PortKey
from netfw.drivers.values.switch_contribution import SwitchContribution
from netfw.drivers.values.switch_values import SwitchKey, SwitchValue, Wiring
from netfw.model.values.address import Mac
from netfw.model.values.ids import PortId

L2Key = SwitchKey | FirewallKey | ExtensionCallKey[PortId]
"""What the L2 agent retries, each on its own."""


class DesiredState:
    """The desired state of switch, firewall and extensions of one host.

    *base* holds the contributions of extensions that do not depend on ports.
    """

    def __init__(
        self,
        view: L2HostContext,
        index: L2ResourceIndex,
        extensions: PortExtensions,
        base: Mapping[ExtensionKey, SwitchContribution],
        *,
        firewall: bool,
    ) -> None:
        self._index = index
        self.extensions, self.base = extensions, base
        self.switch = DesiredSwitch(view, index)
        self.firewall = DesiredFirewall(index) if firewall else None
        self._host_mac: Mac | None = None

    def set_host_mac(self, mac: Mac) -> None:
        """Set the MAC address that the source has for this host, for distributed routing."""
        self._host_mac = mac
        self.switch.set_host_mac(mac)

    def reset(self) -> None:
        """Discard all values, before every resource is applied; keep the plugged devices."""
        devices, mac = self.switch.devices, self._host_mac
        self.switch = DesiredSwitch(self.switch.view, self._index)
        if mac is not None:
            self.switch.set_host_mac(mac)
        self.firewall = None if self.firewall is None else DesiredFirewall(self._index)
        for port, device in devices.items():
            self.switch.plug(port, device)

    def apply(self, changes: Iterable[ResourceChange]) -> None:
        """Update the values after *changes*, which the index already holds."""
        self.switch.apply(changes)
        if self.firewall is not None:
            self.firewall.apply(changes)

    def take_changes(self) -> tuple[frozenset[L2Key], frozenset[PortId]]:
        """Return the keys to converge and the ports that changed since the last call."""
        touched = self.switch.take_touched()
        keys: set[L2Key] = set(self.switch.take_changed())
        for port in touched:
            extended = self.switch.extended(port)
            keys |= self.extensions.update(port, extended)
            if self.firewall is not None:
                live = None if extended is None else extended.port
                self.firewall.filter(port, live, self.switch.device(port))
            if port in self.switch.unbound:
                keys.add(PortKey(port))  # dropping it makes it dead
        if self.firewall is not None:
            keys |= self.firewall.take_changed()
        return frozenset(keys), touched

    def switch_value(self, key: SwitchKey) -> SwitchValue | None:
        """Return the desired value of *key*, with what extensions contribute to it."""
        if isinstance(key, ExtensionKey):
            return self.base.get(key)
        value = self.switch.values.get(key)
        if isinstance(value, Wiring) and isinstance(key, PortKey):
            contributions = self.extensions.contributions(key.port)
            return evolve(value, contributions=contributions) if contributions else value
        return value

    def has_value(self, key: L2Key) -> bool:
        """Return whether the switch or the firewall is to have a value of *key*."""
        if isinstance(key, get_args(SwitchKey)) and self.switch_value(key) is not None:
            return True
        return self.firewall is not None and key in self.firewall.values

    def switch_values(self, keys: frozenset[SwitchKey]) -> dict[SwitchKey, SwitchValue]:
        """Return the desired values of *keys*; ports come after what they need.

        The order is the same in every run: of two values that conflict, the first one wins.
        """
        ordered = sorted(keys, key=lambda key: (isinstance(key, PortKey), str(key)))
        values = {key: self.switch_value(key) for key in ordered}
        return {key: value for key, value in values.items() if value is not None}

    def contribute_all(self) -> None:
        """Call every extension for every port."""
        for owner in self.extensions.owners:
            self.extensions.call(self.extensions.keys(owner, None))

    def switch_keys(self) -> frozenset[SwitchKey]:
        """Return all keys that have a desired value in the switch."""
        return frozenset(self.switch.values) | frozenset(self.base)
