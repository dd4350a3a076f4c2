"""Executor of jobs for agent gateways: their ports at the source, and the router driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from attrs import evolve

from netfw.agents.common.jobs.job_executor import with_failed
from netfw.agents.common.jobs.jobs import Job
from netfw.agents.l3.agent_gateway import AgentGatewaySpec, UnusedAgentGateway
from netfw.agents.l3.agent_gateway_users import AgentGatewayUsers
from netfw.agents.l3.desired import L3Group, L3Key, L3Value
from netfw.agents.l3.router_parts import NotOnHost
from netfw.drivers.router import RouterDriver
from netfw.drivers.state_source import StateSource
from netfw.drivers.support.fault_isolation import converge_isolated
from netfw.drivers.values.agent_requests import ReleaseGatewayPort
from netfw.drivers.values.events import Event, KeysChanged, Sink
from netfw.drivers.values.keys import AgentGatewayKey, FloatingIpKey
from netfw.drivers.values.router_values import FloatingIpNat, RouterDriverValue, RouterPart
from netfw.errors import NetfwError
from netfw.model.values.ids import NetworkId
from netfw.plan import Outcome, Update

IN_USE = "the removal of its floating IPs"
BEING_REMOVED = "its agent gateway, which is being made again"


class AgentGatewayExecutor:
    """Makes and removes agent gateways.  Called by several threads, never by two for one of them.

    A port is requested from the source before the driver has the gateway, and released after the
    driver has removed it.
    """

    def __init__(self, host: str, source: StateSource, driver: RouterDriver) -> None:
        self._host, self._source, self._driver = host, source, driver
        self._sink: Sink = _ignore
        self._users = AgentGatewayUsers()
        self._requested: set[NetworkId] = set()
        """Networks whose ports were requested, and not released since."""
        self._errors: dict[NetworkId, NetfwError] = {}
        """Why gateways could not be made at the last attempt."""

    def watch(self, sink: Sink) -> None:
        """Have *sink* called with the keys that can be converged now."""
        self._sink = sink

    def execute(self, job: Job[L3Group, L3Key, L3Value], key: AgentGatewayKey) -> Outcome[L3Key]:
        """Execute a job for one gateway.

        :raises NetfwError: the source does not give a port; the gateway stays as it is.
        """
        value = job.put.get(key)
        match value:
            case NotOnHost():
                return Outcome(waiting={key: value.reason})
            case AgentGatewaySpec():
                return self._put(key, value)
            case _:
                return self._remove(key, is_published=isinstance(value, UnusedAgentGateway))

    def converge_users(
        self,
        put: Mapping[L3Key, RouterDriverValue],
        converge: Callable[[Mapping[L3Key, RouterDriverValue]], Outcome[L3Key]],
    ) -> Outcome[L3Key]:
        """Converge keys of a router by *converge*, and record the users of agent gateways.

        Floating IPs whose gateway is being removed at this moment are left out, and wait.
        """
        networks = _networks(put)
        blocked = self._users.acquire(networks)
        outcome = converge({key: value for key, value in put.items() if key not in blocked})
        for key in outcome.in_force:
            if isinstance(key, FloatingIpKey) and key in networks:
                self._users.record_in_force(key)
        self._release(key for key in outcome.done if key not in networks)
        waiting: dict[L3Key, str] = dict.fromkeys(blocked, BEING_REMOVED)
        return self._explain(networks, outcome | Outcome(waiting=waiting))

    def _explain(
        self, networks: Mapping[FloatingIpKey, NetworkId], outcome: Outcome[L3Key]
    ) -> Outcome[L3Key]:
        """Return *outcome*, with why the gateways could not be made that floating IPs wait for."""
        errors = dict[L3Key, NetfwError | None](
            (key, self._errors.get(network)) for key, network in networks.items()
        )
        waiting = {
            key: why if (error := errors.get(key)) is None else f"{why}: {error}"
            for key, why in outcome.waiting.items()
        }
        return evolve(outcome, waiting=waiting)

    def _put(self, key: AgentGatewayKey, spec: AgentGatewaySpec) -> Outcome[L3Key]:
        self._errors.pop(key.network, None)
        try:
            outcome = self._make(key, spec)
        except NetfwError as exc:
            self._errors[key.network] = exc
            raise
        if key in outcome.failed:
            self._errors[key.network] = outcome.failed[key]
        return outcome

    def _make(self, key: AgentGatewayKey, spec: AgentGatewaySpec) -> Outcome[L3Key]:
        port = spec.own
        if port is None:
            requested = self._source.request(spec.request)
            self._requested.add(key.network)
            port = spec.describe(requested)
        put: dict[L3Key, RouterDriverValue] = {key: spec.value(port)}
        outcome = converge_isolated(self._driver, Update(put=put))
        if key in outcome.in_force:
            users = self._users.record_gateway(key.network)
            if users:
                self._sink(KeysChanged("their agent gateway is there", users))
        return outcome

    def _remove(self, key: AgentGatewayKey, *, is_published: bool) -> Outcome[L3Key]:
        """Remove a gateway; release its port if the source has it."""
        self._errors.pop(key.network, None)
        if not self._users.begin_removal(key.network):
            return Outcome(waiting={key: IN_USE})
        try:
            dropped: Update[L3Key, RouterDriverValue] = Update(drop=frozenset({key}))
            outcome = converge_isolated(self._driver, dropped)
        finally:
            self._users.end_removal(key.network)
        if key in outcome.done and (is_published or key.network in self._requested):
            try:
                self._source.request(ReleaseGatewayPort(network=key.network, host=self._host))
            except NetfwError as exc:
                return with_failed(outcome, key, exc)
            self._requested.discard(key.network)
        return outcome

    def _release(self, keys: Iterable[L3Key]) -> None:
        """Record that *keys* use no agent gateway; continue removals that waited for that."""
        for key in keys:
            network = self._users.release(key) if isinstance(key, FloatingIpKey) else None
            if network is not None:
                self._sink(KeysChanged("no floating IP uses it", {AgentGatewayKey(network)}))


def _networks(put: Mapping[L3Key, RouterDriverValue]) -> dict[FloatingIpKey, NetworkId]:
    """Return the external networks of the floating IPs at local parts of routers."""
    return {
        key: value.external_network
        for key, value in put.items()
        if isinstance(key, FloatingIpKey)
        and isinstance(value, FloatingIpNat)
        and value.part is RouterPart.LOCAL
    }


def _ignore(event: Event) -> None:
    """Ignore an event that comes before `watch`."""
