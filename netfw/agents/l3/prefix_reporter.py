"""Reports of delegated prefixes to the source, by a worker; latest wins.

A prefix concerns its router alone: the source answers with the changed subnet and ports, as after
any other change.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable, Iterable

from attrs import frozen

from netfw.agents.common.agent import UNDER_WAY
from netfw.agents.common.jobs.worker_pool import KeyedWorkerPool
from netfw.drivers.state_source import StateSource
from netfw.drivers.values.agent_requests import SetPrefix
from netfw.drivers.values.router_values import PrefixDelegated, RouterPort, RouterState
from netfw.errors import DriverCrashed, NetfwError, NotFound
from netfw.model.values.address import IpNetwork
from netfw.model.values.ids import PortId, RouterId, SubnetId
from netfw.plan import Outcome

LOG = logging.getLogger(__name__)


@frozen
class PrefixKey:
    """The key of the report on the prefix of a subnet; retried like any key."""

    subnet: SubnetId

    def __str__(self) -> str:
        return f"prefix of subnet {self.subnet}"


class PrefixReporter:
    """Sends the last prefix of each subnet, one request at a time.

    Prefixes come from any thread; the other methods are for the loop.

    :param is_delegated: returns whether a router here has a subnet whose prefix is delegated.
    :param finished: called, from any thread, after a request.
    """

    def __init__(
        self,
        source: StateSource,
        is_delegated: Callable[[RouterId, SubnetId], bool],
        finished: Callable[[], None],
        wait_timeout: float,
    ) -> None:
        self._source, self._is_delegated, self._wait_timeout = source, is_delegated, wait_timeout
        self._lock = threading.Lock()
        self._unsent: dict[PrefixKey, PrefixDelegated] = {}
        self._known: dict[PrefixKey, PrefixDelegated] = {}
        self._disputed: set[PrefixKey] = set()
        """Keys whose last prefix was sent once more in place of another one."""
        self._gateways: dict[RouterId, PortId] = {}
        """The ports to which the prefixes of routers were delegated."""
        self._running: set[PrefixKey] = set()
        self._workers: KeyedWorkerPool[PrefixKey, PrefixDelegated, NetfwError | None] = (
            KeyedWorkerPool(1, self._send, lambda older, newer: newer, finished)
        )

    def record(self, event: PrefixDelegated) -> None:
        """Record what the driver reports on a prefix."""
        key = PrefixKey(event.subnet)
        with self._lock:
            self._unsent[key] = self._known[key] = event
            self._disputed.discard(key)

    def forget(self, router: RouterId) -> None:
        """Forget the prefixes of a router that is no longer active here: another host has them."""
        with self._lock:
            keys = [key for key, event in self._known.items() if event.router == router]
            for key in keys:
                del self._known[key]
                self._unsent.pop(key, None)
                self._disputed.discard(key)

    def compare(self, router: RouterId, state: object) -> None:
        """Send the prefixes once more that a router of the source does not have.

        The source makes a subnet provisional without its router; the lease may go on.  Another
        prefix, as of a second router on the subnet, is replaced once: two agents must not renumber
        the subnet in turns for ever.  Prefixes of another gateway are forgotten: its provider does
        not route them to this one.
        """
        gateway = _gateway_port(state)
        if self._gateways.get(router, gateway) != gateway:
            self.forget(router)
        if gateway is None:
            self._gateways.pop(router, None)
        else:
            self._gateways[router] = gateway
        for port in _delegating_ports(state):
            present = {subnet.id: subnet.cidr for subnet in port.subnets}
            for subnet in port.delegated:
                self._compare(PrefixKey(subnet), present.get(subnet))

    def _compare(self, key: PrefixKey, present: IpNetwork | None) -> None:
        with self._lock:
            event = self._known.get(key)
            if event is None or event.prefix == present or key in self._unsent:
                return
            if present is not None:
                if key in self._disputed:
                    return
                self._disputed.add(key)
            self._unsent[key] = event

    @property
    def keys(self) -> frozenset[Hashable]:
        """The keys of the prefixes that the source has not accepted yet."""
        with self._lock:
            return frozenset(self._unsent)

    def converge(self, keys: Iterable[Hashable]) -> Outcome[Hashable]:
        """Send the prefixes of *keys*; return the results that are there."""
        wanted = [key for key in keys if isinstance(key, PrefixKey)]
        if not wanted and not self._running:
            return Outcome()
        outcome: Outcome[Hashable] = Outcome()
        for key in wanted:
            if key not in self._running and not self._start(key):
                outcome |= Outcome(done=frozenset({key}))
        error = self._workers.start_threads()
        if error is not None:
            return outcome | Outcome(failed=dict.fromkeys(wanted, error))
        self._workers.wait(wanted, self._wait_timeout)
        outcome |= self._take_results()
        return outcome | Outcome(
            waiting=dict.fromkeys(self._running.intersection(wanted), UNDER_WAY)
        )

    def close(self) -> None:
        """Send nothing more."""
        self._workers.close()

    def _take_results(self) -> Outcome[Hashable]:
        outcome: Outcome[Hashable] = Outcome()
        for executed in self._workers.take_results():
            key = PrefixKey(executed.job.subnet)
            self._running.discard(key)
            if executed.result is not None:
                outcome |= Outcome(failed={key: executed.result})
                continue
            self._settle(key, executed.job)
            if not self._start(key):  # a newer prefix may have come meanwhile
                outcome |= Outcome(done=frozenset({key}))
        return outcome

    def _start(self, key: PrefixKey) -> bool:
        """Start the request for the last prefix of a subnet; return whether there is one to send.

        No request of the key is under way.
        """
        with self._lock:
            event = self._unsent.get(key)
        if event is None or not self._is_delegated(event.router, event.subnet):
            self._settle(key, event)
            return False
        self._workers.submit(key, event)
        self._running.add(key)
        return True

    def _settle(self, key: PrefixKey, event: PrefixDelegated | None) -> None:
        """Forget an event, unless a newer one has come."""
        with self._lock:
            if self._unsent.get(key) is event:
                self._unsent.pop(key, None)

    def _send(self, event: PrefixDelegated) -> NetfwError | None:
        """Send one request; return its error.  A subnet that is gone needs none."""
        try:
            self._source.request(
                SetPrefix(router=event.router, subnet=event.subnet, prefix=event.prefix)
            )
        except NotFound:
            return None
        except NetfwError as error:
            return error
        except Exception as exc:  # the thread sends the other prefixes, too
            LOG.exception("prefix of subnet %s: internal error", event.subnet)
            return DriverCrashed(f"internal error: {type(exc).__name__}: {exc}")
        return None


def has_delegated(state: object, subnet: SubnetId) -> bool:
    """Return whether a router with this state has a gateway, and *subnet* as a delegated one."""
    return any(subnet in port.delegated for port in _delegating_ports(state))


def _gateway_port(state: object) -> PortId | None:
    """Return the gateway port of a full or central part."""
    part = (state.central or state.full) if isinstance(state, RouterState) else None
    return None if part is None or part.gateway is None else part.gateway.port.id


def _delegating_ports(state: object) -> tuple[RouterPort, ...]:
    """Return the interfaces of the part of a router that has its gateway."""
    if not isinstance(state, RouterState):
        return ()
    if state.central is not None:
        return state.central.ports
    full = state.full
    return () if full is None or full.gateway is None else full.interfaces
