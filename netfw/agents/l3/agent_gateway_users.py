"""The floating IPs that use agent gateways, so that these come first and go last.  Thread-safe.

Routers and agent gateways are converged in parallel.  A floating IP that comes before its gateway
waits, and is converged again when the gateway is there; a gateway is not removed before the last
floating IP that uses it.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping

from netfw.drivers.values.keys import FloatingIpKey
from netfw.model.values.ids import NetworkId


class AgentGatewayUsers:
    """Keeps which floating IPs use, or wait for, the agent gateway to each external network."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._networks: dict[FloatingIpKey, NetworkId] = {}
        """The network of each floating IP that the driver has, or is about to have."""
        self._users: defaultdict[NetworkId, set[FloatingIpKey]] = defaultdict(set)
        self._pending: defaultdict[NetworkId, set[FloatingIpKey]] = defaultdict(set)
        """Floating IPs that are not in force."""
        self._removing: set[NetworkId] = set()
        """Networks whose gateways are being removed."""
        self._awaited: set[NetworkId] = set()
        """Networks whose gateways are removed after their last floating IP."""

    def acquire(self, floating_ips: Mapping[FloatingIpKey, NetworkId]) -> frozenset[FloatingIpKey]:
        """Record that the driver is about to have *floating_ips*, of these networks.

        Return those that the driver must not have yet, since their gateway is being removed.
        """
        with self._lock:
            for key, network in floating_ips.items():
                self._pending[network].add(key)
                if network not in self._removing:
                    self._networks[key] = network
                    self._users[network].add(key)
            return frozenset(k for k, net in floating_ips.items() if net in self._removing)

    def record_in_force(self, key: FloatingIpKey) -> None:
        """Record that the driver has a floating IP, and it works."""
        with self._lock:
            if (network := self._networks.get(key)) is not None:
                self._pending[network].discard(key)

    def release(self, key: FloatingIpKey) -> NetworkId | None:
        """Record that a floating IP uses no gateway any more.

        Return the network whose gateway waited for that, and can be removed now.
        """
        with self._lock:
            network = self._networks.pop(key, None)
            for waiting in self._pending.values():
                waiting.discard(key)
            if network is None:
                return None
            self._users[network].discard(key)
            if self._users[network] or network not in self._awaited:
                return None
            self._awaited.discard(network)
            return network

    def begin_removal(self, network: NetworkId) -> bool:
        """Return whether a gateway can be removed now; no floating IP uses it until `end_removal`.

        If not, `release` returns the network later.
        """
        with self._lock:
            if self._users[network]:
                self._awaited.add(network)
                return False
            self._awaited.discard(network)
            self._removing.add(network)
            return True

    def end_removal(self, network: NetworkId) -> None:
        """Record that a gateway was removed, or that its removal failed."""
        with self._lock:
            self._removing.discard(network)

    def record_gateway(self, network: NetworkId) -> frozenset[FloatingIpKey]:
        """Record that a gateway is there; return the floating IPs that may wait for it."""
        with self._lock:
            self._awaited.discard(network)
            return frozenset(self._pending[network])
