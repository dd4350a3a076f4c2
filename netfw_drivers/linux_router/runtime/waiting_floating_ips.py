"""Floating IPs that wait for an agent gateway."""

from __future__ import annotations

import threading

from netfw.drivers.values.keys import AgentGatewayKey
from netfw.drivers.values.router_values import FloatingIpNat, RouterDriverKey
from netfw.model.values.ids import NetworkId
from netfw.plan import Outcome
from netfw_drivers.linux_router.plan.floating_ips import RouterUpdate
from netfw_drivers.linux_router.plan.plan import NO_AGENT_GATEWAY


class WaitingFloatingIps:
    """The floating IPs that wait for the agent gateway of a network.  Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._networks: dict[RouterDriverKey, NetworkId] = {}

    def update(
        self, update: RouterUpdate, outcome: Outcome[RouterDriverKey]
    ) -> tuple[RouterDriverKey, ...]:
        """Record what waits after *update*; return what waited for an agent gateway of it."""
        here = {key.network for key in update.put if isinstance(key, AgentGatewayKey)}
        with self._lock:
            for key in update:
                self._networks.pop(key, None)
            for key, why in outcome.waiting.items():
                value = update.put.get(key)
                if isinstance(value, FloatingIpNat) and why == NO_AGENT_GATEWAY:
                    self._networks[key] = value.external_network
            if not here:
                return ()
            return tuple(key for key, network in self._networks.items() if network in here)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._networks.clear()
