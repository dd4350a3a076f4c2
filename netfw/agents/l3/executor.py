"""Executor of jobs: converges one router or agent gateway at a time with the drivers of the host.

A router is there before its metadata proxy starts in its namespace, and the proxy is removed before
the router.  An error of the proxy degrades the router, never its floating IPs.  A floating IP of
which extensions contribute the rules fails with one of them, or with its router unless its former
rules are in force.  What is in force and not wired waits.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from netfw.agents.common.driver_update import DriverUpdate
from netfw.agents.common.jobs.job_executor import (
    JobExecutor,
    SweepResult,
    sweep_driver,
    with_failed,
    with_waiting,
)
from netfw.agents.common.jobs.jobs import Job
from netfw.agents.l3.agent_gateway import AgentGatewaySpec
from netfw.agents.l3.agent_gateway_executor import AgentGatewayExecutor
from netfw.agents.l3.desired import L3Group, L3Key, L3Value
from netfw.agents.l3.floating_ip_rules import ContributedRules
from netfw.agents.l3.router_parts import NotOnHost
from netfw.agents.l3.router_state import ContributedFloatingIp, ha_of
from netfw.agents.l3.waiting_reasons import floating_ip_reason, local_interfaces, router_reason
from netfw.drivers.metadata import MetadataDriver, MetadataKey, MetadataProxy
from netfw.drivers.router import RouterDriver
from netfw.drivers.support.fault_isolation import converge_isolated
from netfw.drivers.support.router_directory import (
    RouterAction,
    RouterEvent,
    RouterListener,
    RouterPhase,
)
from netfw.drivers.values.events import Sink
from netfw.drivers.values.keys import AgentGatewayKey, FloatingIpKey, RouterKey
from netfw.drivers.values.router_values import (
    FloatingIpNat,
    RouterDriverValue,
    RouterPart,
    RouterPort,
    RouterState,
)
from netfw.errors import NetfwError, NotFound, NotSupported, OperationRefused, PartlyInvalid
from netfw.model.router import HaRole
from netfw.model.values.ids import RouterId
from netfw.plan import Outcome, Update

ALL_ADDRESSES: Final = (IPv4Address("0.0.0.0"), IPv6Address("::"))
NOT_WIRED: Final = "the switch has not admitted the gateway of its router yet"
NO_PORT: Final = "the agent requests its port from the source"
L3Job = Job[L3Group, L3Key, L3Value]
RoleRecorder = Callable[[RouterId, RouterDriverValue | None], None]
"""Records the role of a router after a job; ``None``: the router is not on this host."""


class L3JobExecutor(JobExecutor[L3Group, L3Key, L3Value]):
    """Executes jobs, each for one router and some of its floating IPs, or for an agent gateway.

    *left_out* returns why the central part of a distributed router is left out.
    """

    def __init__(
        self,
        driver: RouterDriver,
        gateways: AgentGatewayExecutor,
        metadata: MetadataDriver | None = None,
        *,
        publish: RouterListener = lambda event: None,
        record_role: RoleRecorder = lambda router, state: None,
        left_out: Callable[[RouterId], str] = lambda router: "",
    ) -> None:
        super().__init__(*((driver,) if metadata is None else (driver, metadata)))
        self._driver, self._metadata, self._publish = driver, metadata, publish
        self._gateways, self._record_role, self._left_out = gateways, record_role, left_out
        self._created: set[RouterKey] = set()
        """Routers that were converged since the agent started."""
        self._failed: dict[RouterKey, Mapping[L3Key, NetfwError]] = {}
        """Errors of the last job of each router, its own and those of its floating IPs."""
        self._rules = ContributedRules()
        self._unchanged: dict[RouterKey, frozenset[FloatingIpKey]] = {}
        """Floating IPs of refused routers whose desired rules are in force."""
        self._interfaces: dict[RouterKey, tuple[RouterPort, ...]] = {}
        """The interfaces of the local parts of routers, as last put."""

    def watch(self, sink: Sink) -> None:
        super().watch(sink)
        self._gateways.watch(sink)

    def execute_job(self, job: L3Job) -> Outcome[L3Key]:
        """Execute *job*; if it is for a router, with the events before and after it."""
        if isinstance(job.group, AgentGatewayKey):
            return self._gateways.execute(job, job.group)
        key = RouterKey(job.group)
        action = self._action(job, key)
        if action in (RouterAction.UPDATE, RouterAction.DELETE):
            self._publish(RouterEvent(router=key.router, action=action, phase=RouterPhase.BEFORE))
        outcome = self._converge(job, key)
        if action is not None and key not in self._failed.get(key, {}):
            (self._created.discard if action is RouterAction.DELETE else self._created.add)(key)
            self._publish(RouterEvent(router=key.router, action=action, phase=RouterPhase.AFTER))
        return outcome

    def _action(self, job: L3Job, key: RouterKey) -> RouterAction | None:
        """Return what *job* does to its router; ``None``: the router is not there."""
        if key in job.put and not isinstance(job.put[key], NotOnHost):
            return RouterAction.UPDATE if key in self._created else RouterAction.CREATE
        if key not in self._created:
            return None
        named = key in job.put or key in job.drop
        return RouterAction.DELETE if named else RouterAction.UPDATE

    def _converge(self, job: L3Job, key: RouterKey) -> Outcome[L3Key]:
        put = _present(job.put)
        absent = job.put.keys() - put.keys()
        state = put.get(key)
        if isinstance(state, RouterState):
            self._interfaces[key] = local_interfaces(state)
        if key in job.drop or key in absent:
            self._interfaces.pop(key, None)
            self._drop_proxy(key)

        def converge(put: Mapping[L3Key, RouterDriverValue]) -> Outcome[L3Key]:
            return converge_isolated(self._driver, Update(put=put, drop=job.drop | absent))

        outcome = self._gateways.converge_users(put, converge)
        self._record(key, state, outcome)
        if state is not None or key in outcome.done:
            self._record_role(key.router, state)
        if isinstance(state, RouterState) and _is_in_force(key, outcome):
            try:
                self._converge_proxy(key, state)
            except NetfwError as exc:
                outcome = with_failed(outcome, key, exc)
        outcome = self._with_absent(job, key, absent, outcome)
        outcome = self._await_wiring(job, key, outcome)
        return self._with_left_out(key, state, outcome)

    def _with_absent(
        self, job: L3Job, key: RouterKey, absent: Iterable[L3Key], outcome: Outcome[L3Key]
    ) -> Outcome[L3Key]:
        """Return *outcome*, with keys that are not the driver's among those that fail or wait."""
        for each in absent:
            value = job.put[each]
            failed = self._failed.get(key, {})
            error = failed.get(each)
            if error is None and each not in self._unchanged.get(key, ()):
                error = failed.get(key)
            if isinstance(value, ContributedFloatingIp) and error is not None:
                outcome = with_failed(outcome, each, error)
            if isinstance(value, NotOnHost) and value.refused and each in outcome.done:
                outcome = with_failed(outcome, each, NotSupported(value.reason))
            if isinstance(value, NotOnHost) and value.waits and each in outcome.done:
                outcome = with_waiting(outcome, each, value.reason)
        return outcome

    def _with_left_out(
        self, key: RouterKey, state: RouterDriverValue | None, outcome: Outcome[L3Key]
    ) -> Outcome[L3Key]:
        """Return *outcome*, with a router whose central part is left out among those that fail."""
        reason = "" if state is None else self._left_out(key.router)
        if not reason or key not in outcome.done:
            return outcome
        return with_failed(outcome, key, PartlyInvalid({"central part": reason}))

    def _await_wiring(
        self, job: L3Job, router: RouterKey, outcome: Outcome[L3Key]
    ) -> Outcome[L3Key]:
        """Return *outcome*, with what the switch has not admitted among those that wait.

        For the gateways of floating IPs, the driver's outcome says so already.
        """
        unwired = self._driver.unwired_ports(router.router) if job.put else frozenset()
        interfaces = self._interfaces.get(router, ())
        for key in outcome.done & job.put.keys() if unwired else ():
            match job.put[key]:
                case RouterState():
                    outcome = with_waiting(outcome, key, router_reason(interfaces, unwired))
                case FloatingIpNat() as nat if why := floating_ip_reason(nat, interfaces, unwired):
                    outcome = with_waiting(outcome, key, why)
                case ContributedFloatingIp(gateway_port=port) if port in unwired:
                    outcome = with_waiting(outcome, key, NOT_WIRED)
        return outcome

    def _record(
        self, key: RouterKey, state: RouterDriverValue | None, outcome: Outcome[L3Key]
    ) -> None:
        """Record the errors of a job that had the router, and the rules that are in force."""
        if key not in outcome.done | outcome.failed.keys() | outcome.waiting.keys():
            return
        failed = {k: e for k, e in outcome.failed.items() if not isinstance(e, PartlyInvalid)}
        self._failed.pop(key, None)
        self._unchanged.pop(key, None)
        if failed:
            self._failed[key] = failed
        if not isinstance(state, RouterState):
            self._rules.forget(key)
        elif _is_in_force(key, outcome):
            refused = {each for each in failed if isinstance(each, FloatingIpKey)}
            self._rules.record(key, state, refused)
        elif isinstance(failed.get(key), OperationRefused) and self._is_present(key):
            self._unchanged[key] = self._rules.unchanged(key, state)

    def _is_present(self, key: RouterKey) -> bool:
        """Return whether the driver has a router: it may have removed one that it refused."""
        try:
            self._driver.status(key.router)
        except NetfwError:
            return False
        return True

    def sweep(self, values: Mapping[L3Key, L3Value], *, first: bool) -> SweepResult[L3Key]:
        """Remove everything but *values* from the drivers.  Called while no job is running.

        *first*: a former agent may have left a floating IP at another router than *values* has it
        at, and an update concerns both routers.  So the present floating IPs are put at once,
        before jobs run in parallel.

        :raises NetfwError: a driver does not know what is there.
        """
        present, failed = _present(values), dict[Hashable, NetfwError]()
        if self._metadata is not None:
            proxies = frozenset(
                key for key, value in present.items() if isinstance(key, RouterKey) and _runs(value)
            )
            failed |= sweep_driver(self._metadata, proxies)
        proxied = {key for key in failed if isinstance(key, RouterKey)}
        gateways = {key for key, value in values.items() if isinstance(value, AgentGatewaySpec)}
        failed |= sweep_driver(self._driver, frozenset(present) | proxied | gateways)
        if first:
            found = (key for key in self._driver.present() if isinstance(key, FloatingIpKey))
            put: dict[L3Key, RouterDriverValue] = {k: present[k] for k in found if k in present}
            converge_isolated(self._driver, Update(put=put))  # what fails is tried by its own job
        return SweepResult(failed=failed)

    def everything(self, values: Mapping[L3Key, L3Value]) -> Iterator[DriverUpdate]:
        """Yield the complete update of each driver, for a dry run."""
        present, keep = _present(values), set[L3Key]()
        refused = {
            key: NotSupported(value.reason)
            for key, value in values.items()
            if isinstance(value, NotOnHost) and value.refused
        }
        waiting = {
            key: value.reason
            for key, value in values.items()
            if isinstance(value, NotOnHost) and value.waits
        }
        for key, value in values.items():
            if isinstance(value, AgentGatewaySpec) and value.own is not None:
                present[key] = value.value(value.own)
            elif isinstance(value, AgentGatewaySpec):
                waiting[key] = NO_PORT
                keep.add(key)
        yield DriverUpdate(
            "router",
            self._driver,
            Update(put=present, complete=True, keep=frozenset(keep)),
            refused,
            waiting=waiting,
            notes=self._ha_notes(present),
        )
        if self._metadata is not None:
            proxies: dict[MetadataKey, MetadataProxy] = {
                key: self._make_proxy(key, value)
                for key, value in present.items()
                if isinstance(key, RouterKey) and isinstance(value, RouterState) and _runs(value)
            }
            update = Update(put=proxies, complete=True)
            follows = {key: key for key in proxies}
            yield DriverUpdate("metadata", self._metadata, update, follows=follows)

    def _ha_notes(self, present: Mapping[L3Key, RouterDriverValue]) -> Mapping[L3Key, str]:
        """Return virtual router id and role of each highly available router."""
        notes: dict[L3Key, str] = {}
        for key, value in present.items():
            ha = ha_of(value) if isinstance(value, RouterState) else None
            if isinstance(key, RouterKey) and ha is not None:
                is_here = self._is_present(key)
                role = read_role(self._driver, key.router) if is_here else "not here yet"
                notes[key] = f"highly available, vrid {ha.vrid}, priority {ha.priority}: {role}"
        return notes

    def _converge_proxy(self, key: RouterKey, state: RouterState) -> None:
        """Start, change or remove the metadata proxy of a router."""
        if self._metadata is None:
            return
        if not _runs(state):
            self._drop_proxy(key)
            return
        put: dict[MetadataKey, MetadataProxy] = {key: self._make_proxy(key, state)}
        converge_isolated(self._metadata, Update(put=put)).raise_failed()

    def _drop_proxy(self, key: RouterKey) -> None:
        if self._metadata is not None:
            dropped: Update[MetadataKey, MetadataProxy] = Update(drop=frozenset({key}))
            converge_isolated(self._metadata, dropped).raise_failed()

    def _make_proxy(self, key: RouterKey, state: RouterState) -> MetadataProxy:
        part = RouterPart.FULL if state.full is not None else RouterPart.LOCAL
        namespace = self._driver.namespace_of(key.router, part)
        if namespace is None or state.metadata_port is None:
            name = self._driver.describe().name
            raise NotSupported(
                f"the router driver {name!r} has no namespace for a metadata proxy: set "
                "enable_metadata_proxy to false"
            )
        return MetadataProxy(netns=namespace, port=state.metadata_port, addresses=ALL_ADDRESSES)


def read_role(driver: RouterDriver, router: RouterId) -> HaRole | None:
    """Return the role of a router on this host; ``None``: it has none, or it cannot be read.

    A router that could not be made takes no part in its election.
    """
    try:
        return driver.status(router).role
    except NotFound:
        return HaRole.FAULT
    except NetfwError:
        return None


def _is_in_force(key: L3Key, outcome: Outcome[L3Key]) -> bool:
    """Return whether a key is done, but for parts that are left out."""
    return key in outcome.done or isinstance(outcome.failed.get(key), PartlyInvalid)


def _present(values: Mapping[L3Key, L3Value]) -> dict[L3Key, RouterDriverValue]:
    """Return the routers and floating IPs of the router driver."""
    return {
        key: value
        for key, value in values.items()
        if isinstance(value, RouterState | FloatingIpNat)
    }


def _runs(value: RouterDriverValue) -> bool:
    """Return whether a router has a metadata proxy; one without instances here has none."""
    if not isinstance(value, RouterState) or value.metadata_port is None:
        return False
    return value.full is not None or value.local is not None
