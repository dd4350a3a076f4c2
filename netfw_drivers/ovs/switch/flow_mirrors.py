"""The flow mirrors of the switch driver's bridges, connected when first needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from netfw.errors import BackendUnavailable
from netfw.ovs.openflow import Drift, FlowMirror
from netfw.ovs.ovsdb.client import Ovsdb
from netfw_drivers.ovs.common.bridge_flows import BridgeFlows
from netfw_drivers.ovs.switch.plan.bridges import unreachable_hint

Connect = Callable[[str], BridgeFlows]
"""Opens the flows of a bridge."""
OnDrift = Callable[[str, Drift], None]
OnState = Callable[[str, bool], None]


class BridgeFlowMirrors:
    """One mirror for each bridge; reports drift and lost connections with the bridge's name."""

    def __init__(
        self, ovsdb: Ovsdb, connect: Connect, on_drift: OnDrift, on_state: OnState
    ) -> None:
        self._ovsdb, self._connect = ovsdb, connect
        self._on_drift, self._on_state = on_drift, on_state
        self._bridges: dict[str, BridgeFlows] = {}
        self._unsubscribe: list[Callable[[], None]] = []

    def __contains__(self, bridge: str) -> bool:
        return bridge in self._bridges

    def get(self, bridge: str) -> BridgeFlows | None:
        """Return the flows of a bridge that was connected before."""
        return self._bridges.get(bridge)

    def mirror(self, bridge: str) -> FlowMirror:
        """Return the mirror of a bridge that was connected before."""
        return self._bridges[bridge].mirror

    def current(self, bridge: str, *, audit: bool = False) -> BridgeFlows:
        """Return the flows of a bridge that exists, once all of them are read.

        :raises BackendUnavailable: the switch does not answer.
        """
        if bridge not in self._bridges:
            flows = self._bridges[bridge] = self._connect(bridge)
            self._unsubscribe.append(
                flows.watch(partial(self._on_drift, bridge), partial(self._on_state, bridge))
            )
            audit = False
        flows = self._bridges[bridge]
        with self._hinting(bridge):
            flows.mirror.wait_current()
            if audit:
                flows.mirror.audit()
                flows.mirror.wait_current()
        return flows

    def wait_answer(self, bridge: str) -> None:
        """Wait until the switch answers for a connected bridge that it may have made anew.

        :raises BackendUnavailable: it did not in time.
        """
        with self._hinting(bridge):
            self._bridges[bridge].wait_answer()

    def close(self) -> None:
        """End the subscriptions; connections belong to the host."""
        while self._unsubscribe:
            self._unsubscribe.pop()()

    @contextmanager
    def _hinting(self, bridge: str) -> Iterator[None]:
        """Add to an error what may be wrong when the switch does not answer for *bridge*."""
        try:
            yield
        except BackendUnavailable as error:
            row = self._ovsdb.bridge(bridge)
            hint = unreachable_hint(row) if row is not None else ""
            raise BackendUnavailable(f"{error}{hint}") from error
