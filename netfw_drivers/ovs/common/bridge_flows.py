"""One connection and one flow mirror of each bridge, for all drivers of a host."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from netfw.drivers.base import HostResources
from netfw.errors import BackendUnavailable
from netfw.ovs.openflow import CookieSpace, Drift, FlowMirror, OpenFlow, OpenFlowError
from netfw.ovs.openflow.encode import Key, State

Listener = Callable[[Drift], None]
OnState = Callable[[bool], None]


class BridgeFlows:
    """The flows of the bridge behind *target*; connects by itself, and again when it is lost."""

    def __init__(self, target: str, *, timeout: float) -> None:
        self._lock = threading.Lock()
        self._listeners: list[Listener] = []
        self._client = OpenFlow(target, timeout=timeout)
        self._client.match_first_fragments()
        self.mirror = FlowMirror(self._client, self._publish)

    def watch(self, listener: Listener, on_state: OnState | None = None) -> Callable[[], None]:
        """Call *listener*, on the connection's thread, with the drift of our flows.

        *on_state* is called with False when the switch is lost, and with True once it answers
        again.  Return a function that ends both.
        """
        ended = threading.Event()
        was_lost = False

        def state(up: bool) -> None:
            nonlocal was_lost
            if on_state is not None and not ended.is_set() and (was_lost or not up):
                was_lost = not up
                on_state(up)

        self._client.on_state(state)
        with self._lock:
            self._listeners.append(listener)

        def end() -> None:
            ended.set()
            with self._lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return end

    def wait_answer(self) -> None:
        """Wait until the switch answers, on a new connection where it has hung up on this one.

        :raises BackendUnavailable: it did not in time.
        """
        deadline = time.monotonic() + self._client.connection.timeout
        while True:
            try:
                self._client.barrier()
            except BackendUnavailable:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise
                self._client.wait_connected(left)
            else:
                return

    def table(self, number: int) -> list[tuple[Key, State]]:
        """Return the flows of one table, read from the switch now.

        :raises BackendUnavailable: it does not answer.
        """
        return self._client.flows(table=number)

    def space(self, cookies: CookieSpace) -> list[tuple[Key, State]]:
        """Return the flows of one cookie space, read from the switch now.

        :raises BackendUnavailable: it does not answer.
        """
        return self._client.flows(cookies)

    def flush_zones(self, zones: Iterable[int]) -> None:
        """Flush all tracked connections of *zones*; a switch without tracking has none.

        :raises BackendUnavailable: it does not answer.
        """
        for zone in zones:
            with suppress(OpenFlowError):
                self._client.flush_zone(zone)

    def close(self) -> None:
        """End the connection; the bridge keeps its flows."""
        self._client.close()

    def _publish(self, drift: Drift) -> None:
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener(drift)


def shared_flows(host: HostResources, directory: str, bridge: str, timeout: float) -> BridgeFlows:
    """Return the one object for *bridge* on *host*; management sockets are in *directory*."""
    target = f"unix:{directory}/{bridge}.mgmt"
    return host.share(("openflow", target), lambda: BridgeFlows(target, timeout=timeout))
