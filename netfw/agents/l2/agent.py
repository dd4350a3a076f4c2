"""L2Agent: wires what is plugged on this host, by a switch driver and perhaps a firewall driver.

It joins the parts that decide (`desired`, `filters`, `statuses`) with the drivers that do, and
holds no policy of its own.  How a pass is ordered is in `passing`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from netfw.agents.common.agent import ConvergeRequest, ConvergeResult, Counts, HostAgent
from netfw.agents.common.dry_run import DriverUpdate
from netfw.agents.common.replica import ReplicaDelta
from netfw.agents.l2.convergence import ConvergencePass, DesiredState, L2Key
from netfw.agents.l2.desired_firewall import DesiredFirewall
from netfw.agents.l2.desired_switch import DesiredSwitch
from netfw.agents.l2.extensions import ExtensionPortKey, ExtensionPortsChanged, PortExtensions
from netfw.agents.l2.firewall_capabilities import restrict_to_capabilities
from netfw.agents.l2.firewall_migration import RetiredFirewalls
from netfw.agents.l2.host_context import L2HostContext
from netfw.agents.l2.operator_warnings import collect_warnings
from netfw.agents.l2.state_report import (
    L2AgentConfig,
    check,
    check_addresses,
    check_tunnels,
    make_state_report,
)
from netfw.agents.l2.status_reports import L2StatusReporter
from netfw.drivers.base import Capability
from netfw.drivers.events import Event, KeysChanged, Sink
from netfw.drivers.firewall import FirewallCapability, FirewallDriver
from netfw.drivers.keys import PortKey
from netfw.drivers.l2_extension import L2Extension
from netfw.drivers.reports import Heartbeat, Report
from netfw.drivers.subscription import Service, Subscription
from netfw.drivers.switch import SwitchDriver
from netfw.drivers.switch_values import Admission
from netfw.errors import ConfigError, NotSupported
from netfw.model.address import IpAddress
from netfw.model.ids import PortId
from netfw.plan import Outcome, Update


class L2Agent(HostAgent[L2Key]):
    """The work of an L2 agent, for :class:`~netfw.agents.common.loop.Loop`.

    The drivers are used, and closed by whoever made them.  Those in *retired* filtered this host
    before: once its ports are wired, they are to hold nothing.  By *is_local* the agent makes sure
    that tunnels begin at an address of this host; without it nobody asks.

    :raises ConfigError: the settings contradict each other or what the switch can do.
    """

    def __init__(
        self,
        settings: L2AgentConfig,
        switch: SwitchDriver,
        *,
        firewall: FirewallDriver | None = None,
        retired: Sequence[FirewallDriver] = (),
        extensions: Sequence[L2Extension] = (),
        is_local: Callable[[IpAddress], bool] | None = None,
    ) -> None:
        check(settings, switch.describe(), None if firewall is None else firewall.describe())
        self.binary = settings.binary
        self._settings = settings
        self._switch, self._firewall = switch, firewall
        self._contributions = PortExtensions(extensions)
        self._is_local = is_local
        self._statuses = L2StatusReporter()
        self._passing = ConvergencePass(switch, firewall)
        self._retired = RetiredFirewalls(retired)
        self._wanted: DesiredState | None = None
        self._unsettled: set[PortId] = set()
        self._held: set[PortId] = set()

    @property
    def interest(self) -> Subscription:
        services = {Service.L2, Service.POPULATION} if self._settings.population else {Service.L2}
        return Subscription(self._settings.host, services)

    def watch(self, sink: Sink) -> None:
        self._switch.watch(sink)
        if self._firewall is not None:
            self._firewall.watch(sink)
        self._contributions.watch(sink)

    def begin(self) -> None:
        view = L2HostContext(
            host=self._settings.host,
            facts=self._switch.host_facts(),
            population=self._settings.population,
            arp_responder=self._settings.arp_responder,
            guard=self._settings.guard and not self._firewall_can(FirewallCapability.SPOOF_GUARD),
            filtered=self._firewall_can(FirewallCapability.FILTERING, FirewallCapability.IN_SWITCH),
        )
        check_tunnels(self._settings, view)
        if self._is_local is not None:
            check_addresses(view, self._is_local)
        try:
            base = self._contributions.begin(self._switch)
        except NotSupported as exc:
            raise ConfigError(f"an extension cannot work on this switch: {exc}") from exc
        filters = None if self._firewall is None else DesiredFirewall()
        self._wanted = DesiredState(DesiredSwitch(view), filters, self._contributions, base)

    def apply_delta(self, change: ReplicaDelta) -> frozenset[L2Key]:
        wanted = self._ready()
        if change.complete:
            wanted.begin_anew()
            self._statuses.touch(wanted.desired.devices)
        wanted.learn(change.put, change.drop)
        return self._news()

    def rescan(self) -> frozenset[L2Key]:
        wanted = self._ready()
        devices = self._switch.devices()
        known = frozenset(wanted.desired.devices)
        for port in known.union(tuple(devices)):  # they come and go while we look
            wanted.desired.plug(port, devices.get(port))
        return self._news()

    def handle_events(self, events: Sequence[Event]) -> frozenset[L2Key]:
        wanted, keys = self._ready(), set[L2Key]()
        for event in events:
            match event:
                case ExtensionPortsChanged():
                    keys |= self._contributions.parts(event.owner, event.ports)
                case KeysChanged():
                    keys |= event.keys  # type: ignore[arg-type]
        ports = [key.port for key in keys if isinstance(key, PortKey)]
        if ports:
            devices = self._switch.devices()
            for port in ports:
                wanted.desired.plug(port, devices.get(port))
        self._unsettled.update(ports)
        return self._news() | keys

    def converge(self, task: ConvergeRequest[L2Key]) -> ConvergeResult[L2Key]:
        wanted = self._ready()
        if task.complete:
            self._statuses.touch(wanted.desired.ports())
        outcome, admissions = self._passing.run(wanted, task, frozenset(self._held))
        ports = _ports(outcome)
        counts = self._count(ports, admissions, task)
        self._statuses.settle(ports, admissions)
        if task.complete and not ports.failed:
            self._retired.remove()
        self._unsettled -= {key.port for key in (*ports.done, *ports.failed, *ports.waiting)}
        return ConvergeResult(outcome=outcome, counts=counts)

    def everything(self) -> Iterator[DriverUpdate]:
        """All that is wanted of each driver, for a dry run."""
        wanted = self._ready()
        wanted.contribute_all()
        values = wanted.switch_values(wanted.switch_keys())
        yield DriverUpdate("switch", self._switch, Update(put=values, complete=True))
        filtering = self._firewall_can(
            FirewallCapability.FILTERING
        )  # one that does nothing plans nothing
        if self._firewall is not None and wanted.filters is not None and filtering:
            filters = wanted.filters.values
            found = restrict_to_capabilities(filters, filters, self._firewall.describe())
            update: Update[Any, Any] = Update(put=found.values, complete=True)
            yield DriverUpdate("firewall", self._firewall, update, found.refused)
        for name, driver in self._retired.left.items():
            yield DriverUpdate(f"retired firewall {name}", driver, Update(complete=True))

    def reports(self) -> Sequence[Report]:
        return self._statuses.take(self._ready().desired, frozenset(self._unsettled))

    def resend_reports(self) -> None:
        self._statuses.say_again(self._ready().desired.ports())

    def heartbeat(self, *, start: bool) -> Heartbeat:
        return make_state_report(
            self._settings,
            self._ready().desired.view,
            extensions=self._contributions.owners,
            firewall=None if self._firewall is None else self._firewall.describe(),
            counts=self.counts(),
            start=start,
        )

    def counts(self) -> Mapping[str, int]:
        if self._wanted is None:
            return {}
        desired = self._wanted.desired
        return {
            "devices": len(desired.devices),
            "ports": len(self._held),
            "strays": len(desired.strays),
        }

    def warnings(self) -> Mapping[str, str]:
        if self._wanted is None:
            return {}
        firewall = None if self._firewall is None else self._firewall.describe()
        return collect_warnings(self._wanted.desired, firewall) | self._retired.warnings()

    def _ready(self) -> DesiredState:
        assert self._wanted is not None, "begin comes first"
        return self._wanted

    def _firewall_can(self, *capabilities: Capability) -> bool:
        firewall = self._firewall
        return firewall is not None and firewall.describe().capabilities.issuperset(capabilities)

    def _news(self) -> frozenset[L2Key]:
        """What changed since the last time, as keys; statuses learn of it too."""
        keys, touched = self._ready().take_changes()
        self._statuses.touch(touched)
        self._unsettled.update(key.port for key in keys if isinstance(key, PortKey))
        return keys

    def _count(
        self,
        ports: Outcome[PortKey],
        admissions: Mapping[PortKey, Admission],
        task: ConvergeRequest[L2Key],
    ) -> Counts:
        there = {key.port for key in ports.done if key in admissions}
        gone = {key.port for key in ports.done if key not in admissions} & self._held
        asked = {key.port for key in task.keys if isinstance(key, PortKey)}
        counts = Counts(
            added=len(there - self._held),
            updated=len(there & self._held & asked),
            removed=len(gone),
            failed=len(ports.failed),
            waiting=len(ports.waiting),
        )
        self._held = (self._held | there) - gone
        return counts


def _ports(outcome: Outcome[L2Key]) -> Outcome[PortKey]:
    return Outcome(
        done=frozenset(key for key in outcome.done if isinstance(key, PortKey)),
        failed={k: error for k, error in outcome.failed.items() if isinstance(k, PortKey)},
        waiting={k: why for k, why in outcome.waiting.items() if isinstance(k, PortKey)},
    )


__all__ = ["ExtensionPortKey", "L2Agent", "L2AgentConfig"]
