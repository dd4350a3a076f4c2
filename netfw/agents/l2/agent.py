"""L2Agent: wires the plugged ports of this host, by a switch driver and a firewall driver.

It joins the modules that decide (`desired`, `status_reports`) with the drivers that act, and has no
policy of its own.  The order of a pass is in `convergence`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from netfw.agents.common.agent import (
    ConvergeRequest,
    ConvergeResult,
    Counts,
    HostAgent,
)
from netfw.agents.common.driver_update import DriverUpdate
from netfw.agents.common.extension_calls import ExtensionChanged
from netfw.agents.common.replica import ReplicaDelta
from netfw.agents.l2.convergence import ConvergencePass, merge_outcomes
from netfw.agents.l2.desired import DesiredState, L2Key
from netfw.agents.l2.extensions import PortExtensions
from netfw.agents.l2.firewall_migration import RetiredFirewalls
from netfw.agents.l2.host_context import L2HostContext
from netfw.agents.l2.host_mac_request import HostMacRequest
from netfw.agents.l2.hybrid_ports import (
    select_for_bridges,
    select_for_switch,
    validate_hybrid_firewall,
)
from netfw.agents.l2.operator_warnings import (
    collect_warnings,
    hybrid_plug_warnings,
    local_ip_warnings,
    logging_warnings,
)
from netfw.agents.l2.resource_index import L2ResourceIndex
from netfw.agents.l2.state_report import (
    L2AgentConfig,
    make_state_report,
    validate_addresses,
    validate_config,
    validate_tunnels,
)
from netfw.agents.l2.status_reports import L2StatusReporter
from netfw.agents.l2.supported_policy import restrict_to_capabilities
from netfw.drivers.base import Capability, DriverInfo
from netfw.drivers.firewall import FirewallCapability, FirewallDriver
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.l2_extension import L2Extension
from netfw.drivers.state_source import StateSource
from netfw.drivers.switch import SwitchCapability, SwitchDriver
from netfw.drivers.values.events import Event, KeysChanged, Sink
from netfw.drivers.values.keys import ExtensionKey, PortKey
from netfw.drivers.values.reports import Heartbeat, Report
from netfw.drivers.values.subscription import Service, Subscription
from netfw.drivers.values.switch_values import Admission
from netfw.errors import ConfigError, NotSupported
from netfw.model.values.address import IpAddress
from netfw.model.values.ids import PortId
from netfw.plan import Outcome, Update


class L2Agent(HostAgent[L2Key]):
    """The work of an L2 agent, for :class:`~netfw.agents.common.loop.Loop`.

    The caller closes the drivers.  *hybrid_firewall* filters the ports that still have a hybrid
    plug, where *firewall* is one in the switch.  Drivers in *retired* filtered this host before:
    their filters are removed once the ports are wired.  With *is_local* the agent checks that
    tunnels start at an address of this host.  Distributed routing needs *source*, which has a MAC
    address for the host.

    :raises ConfigError: the settings contradict each other or what the switch can do.
    """

    def __init__(
        self,
        settings: L2AgentConfig,
        switch: SwitchDriver,
        *,
        firewall: FirewallDriver | None = None,
        hybrid_firewall: FirewallDriver | None = None,
        retired: Sequence[FirewallDriver] = (),
        extensions: Sequence[L2Extension] = (),
        is_local: Callable[[IpAddress], bool] | None = None,
        source: StateSource | None = None,
    ) -> None:
        validate_config(settings, switch.describe(), _info(firewall))
        validate_hybrid_firewall(_info(firewall), _info(hybrid_firewall))
        self.binary = settings.binary
        self._settings = settings
        self.resources: L2ResourceIndex = L2ResourceIndex(settings.host)
        self._switch, self._firewall = switch, firewall
        self._extensions = PortExtensions(extensions)
        self._is_local = is_local
        self._statuses = L2StatusReporter()
        self._hybrid_firewall = hybrid_firewall
        self._convergence = ConvergencePass(switch, firewall, hybrid_firewall)
        self._retired = RetiredFirewalls(retired)
        self._desired: DesiredState | None = None
        self._sink: Sink = lambda event: None
        self._mac = HostMacRequest(settings.host, source if settings.distributed else None)
        self._pending: set[PortId] = set()
        self._wired: set[PortId] = set()
        self._unhandled: set[L2Key] = set()
        """Keys of events that came while the switch did not answer."""

    @property
    def subscription(self) -> Subscription:
        services = {Service.L2, Service.POPULATION} if self._settings.population else {Service.L2}
        return Subscription(self._settings.host, services)

    def watch(self, sink: Sink) -> None:
        self._sink = sink
        self._switch.watch(sink)
        for firewall in (self._firewall, self._hybrid_firewall):
            if firewall is not None:
                firewall.watch(sink)
        self._extensions.watch(sink)

    def acquire_locks(self) -> None:
        self._read_host()  # an impossible configuration is refused, whoever holds the locks
        self._switch.converge(Update())

    def start(self) -> None:
        view = self._read_host()
        try:
            granted = self._extensions.start(self._switch.grant)
        except NotSupported as exc:
            raise ConfigError(f"an extension cannot work on this switch: {exc}") from exc
        base = {ExtensionKey(owner): contribution for owner, contribution in granted.items()}
        self._desired = DesiredState(
            view, self.resources, self._extensions, base, firewall=self._firewall is not None
        )

    def _read_host(self) -> L2HostContext:
        """Read what the host offers, and validate the configuration against it.

        :raises BackendUnavailable: the switch does not answer.
        :raises ConfigError: tunnels or local addresses of the configuration contradict the host.
        """
        view = L2HostContext(
            host=self._settings.host,
            facts=self._switch.host_facts(),
            population=self._settings.population,
            forwarding=SwitchCapability.POPULATION in self._switch.describe().capabilities,
            arp_responder=self._settings.arp_responder,
            distributed=self._settings.distributed,
            guard=self._settings.guard and not self._firewall_can(FirewallCapability.SPOOF_GUARD),
            filtered=self._firewall_can(FirewallCapability.FILTERING, FirewallCapability.IN_SWITCH),
            filters_devices=self._firewall_can(FirewallCapability.FILTERING)
            and not self._firewall_can(FirewallCapability.IN_SWITCH),
            filters_hybrid_plugs=self._hybrid_firewall is not None,
            sub_ports=SwitchCapability.SUB_PORTS in self._switch.describe().capabilities,
        )
        validate_tunnels(self._settings, view)
        if self._is_local is not None:
            validate_addresses(view, self._is_local)
        return view

    def apply_delta(self, change: ReplicaDelta) -> frozenset[L2Key]:
        desired, keys = self._ready(), frozenset[L2Key]()
        if change.complete:
            desired.reset()
            self._statuses.touch(desired.switch.devices)
        if change.snapshot:
            keys |= self._mac.repeat()
        desired.apply(change.changes)
        return self._take_changes() | keys

    def rescan(self) -> frozenset[L2Key]:
        desired = self._ready()
        devices = self._switch.devices()
        known = frozenset(desired.switch.devices)
        for port in known.union(tuple(devices)):  # devices change meanwhile
            desired.switch.plug(port, devices.get(port))
        unhandled, self._unhandled = frozenset(self._unhandled), set()
        return self._take_changes() | unhandled

    def handle_events(self, events: Sequence[Event]) -> frozenset[L2Key]:
        desired, keys = self._ready(), set[L2Key]()
        for event in events:
            match event:
                case ExtensionChanged():
                    keys |= self._extensions.keys(event.owner, event.ids)
                case KeysChanged():
                    keys |= event.keys  # type: ignore[arg-type]
        ports = [key.port for key in keys if isinstance(key, PortKey)]
        if ports:
            self._unhandled |= keys
            devices = self._switch.devices()
            self._unhandled -= keys
            for port in ports:
                desired.switch.plug(port, devices.get(port))
        self._pending.update(ports)
        return self._take_changes() | keys

    def converge(self, task: ConvergeRequest[L2Key]) -> ConvergeResult[L2Key]:
        desired = self._ready()
        if task.complete:
            self._statuses.touch(desired.switch.ports())
        unread = self._convergence.reread() if task.reread else None
        outcome, admissions = self._convergence.run(desired, task, self._wired)
        ports = _ports(outcome)
        counts = self._count(ports, admissions, task)
        self._statuses.record(ports, admissions)
        if task.complete and not ports.failed and unread is None:
            self._retired.remove()
        self._pending -= {key.port for key in (*ports.done, *ports.failed, *ports.waiting)}
        outcome = self._request_mac(outcome, task)
        return ConvergeResult(outcome=outcome, counts=counts, unread=unread)

    def _request_mac(self, outcome: Outcome[L2Key], task: ConvergeRequest[L2Key]) -> Outcome[L2Key]:
        """Request the MAC address of this host, if it is due, and have the changes converged.

        The pass is over by then: nothing waits for the source.
        """
        if not (task.complete or self._mac.key in task.keys) or not self._mac.is_due:
            return outcome
        result = self._mac.send()
        if self._mac.answer is not None:
            self._ready().set_host_mac(self._mac.answer)
        if changed := self._take_changes():
            self._sink(KeysChanged("this host has its MAC address", changed))
        return merge_outcomes([outcome, result])

    def everything(self) -> Iterator[DriverUpdate]:
        """Yield the complete update of each driver, for a dry run."""
        desired = self._ready()
        desired.contribute_all()
        values = desired.switch_values(desired.switch_keys())
        yield DriverUpdate("switch", self._switch, Update(put=values, complete=True))
        filtering = self._firewall_can(
            FirewallCapability.FILTERING
        )  # a driver without filtering plans nothing
        if self._firewall is not None and desired.firewall is not None and filtering:
            filters = desired.firewall.values
            supported = restrict_to_capabilities(filters, filters, self._firewall.describe())
            update: Update[Any, Any] = Update(put=supported.values, complete=True)
            if self._hybrid_firewall is not None:
                bridges = select_for_bridges(update)
                yield DriverUpdate("hybrid firewall", self._hybrid_firewall, bridges)
                update = select_for_switch(update)
            yield DriverUpdate("firewall", self._firewall, update, supported.refused)
        for name, driver in self._retired.remaining.items():
            yield DriverUpdate(f"retired firewall {name}", driver, Update(complete=True))

    def reports(self) -> Sequence[Report]:
        return self._statuses.take(self._ready().switch, frozenset(self._pending))

    def early_reports(self, keys: frozenset[L2Key]) -> Sequence[Report]:
        """Return the reports of ports that were unplugged.

        Nothing has to be removed for them to be down, and the switch may be busy with removing
        their devices.  A pass that has to put something goes first: the source may be slow.
        """
        desired = self._ready()
        if any(map(desired.has_value, keys)):
            return ()
        return self._statuses.take_unplugged(desired.switch)

    def resend_reports(self) -> None:
        self._statuses.resend(self._ready().switch.ports())

    def heartbeat(self, *, start: bool) -> Heartbeat:
        return make_state_report(
            self._settings,
            self._ready().switch.view,
            extensions=self._extensions.names,
            firewall=_info(self._firewall),
            counts=self.counts(),
            routing_mac=self._ready().switch.host_mac,
            start=start,
        )

    def counts(self) -> Mapping[str, int]:
        if self._desired is None:
            return {}
        desired = self._desired.switch
        return {
            "devices": len(desired.devices),
            "ports": len(self._wired),
            "unbound_devices": len(desired.unbound),
        }

    def warnings(self) -> Mapping[str, str]:
        if self._desired is None:
            return {}
        firewall = _info(self._firewall)
        desired, extensions = self._desired.switch, self._extensions.names
        return (
            collect_warnings(desired, firewall)
            | hybrid_plug_warnings(desired, _info(self._hybrid_firewall))
            | logging_warnings(desired, self.resources, extensions)
            | local_ip_warnings(self.resources, extensions)
            | self._retired.warnings()
        )

    def _ready(self) -> DesiredState:
        assert self._desired is not None, "start comes first"
        return self._desired

    def _firewall_can(self, *capabilities: Capability) -> bool:
        firewall = self._firewall
        return firewall is not None and firewall.describe().capabilities.issuperset(capabilities)

    def _take_changes(self) -> frozenset[L2Key]:
        """Return the keys that changed since the last call, and update the statuses."""
        keys, touched = self._ready().take_changes()
        self._statuses.touch(touched)
        self._pending.update(key.port for key in keys if isinstance(key, PortKey))
        return keys

    def _count(
        self,
        ports: Outcome[PortKey],
        admissions: Mapping[PortKey, Admission],
        task: ConvergeRequest[L2Key],
    ) -> Counts:
        wired = {key.port for key in ports.done if key in admissions}
        gone = {key.port for key in ports.done if key not in admissions} & self._wired
        requested = {key.port for key in task.keys if isinstance(key, PortKey)}
        counts = Counts(
            added=len(wired - self._wired),
            updated=len(wired & self._wired & requested),
            removed=len(gone),
            failed=len(ports.failed),
            waiting=len(ports.waiting),
        )
        self._wired |= wired
        self._wired -= gone
        return counts


def _info(
    firewall: FirewallDriver | None,
) -> DriverInfo[HostCapability | FirewallCapability] | None:
    return None if firewall is None else firewall.describe()


def _ports(outcome: Outcome[L2Key]) -> Outcome[PortKey]:
    return Outcome(
        done=frozenset(key for key in outcome.done if isinstance(key, PortKey)),
        failed={k: error for k, error in outcome.failed.items() if isinstance(k, PortKey)},
        waiting={k: why for k, why in outcome.waiting.items() if isinstance(k, PortKey)},
    )


__all__ = ["L2Agent", "L2AgentConfig"]
