"""Mutations of the state source in memory: each breaks one promise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import uuid4

from attrs import evolve

from netfw.drivers.state_source import Cursor, Delta, StateSource
from netfw.drivers.values.agent_requests import (
    EnabledServices,
    EnsureDhcpPort,
    EnsureGatewayPort,
    EnsureHostMac,
    FindPorts,
)
from netfw.drivers.values.reports import ReportResult, RoleReport, StatusReport
from netfw.drivers.values.subscription import Service, Subscription
from netfw.errors import BackendUnavailable, CursorLost, NotFound, NotSupported, RequestError
from netfw.model.port import Port
from netfw.model.resource import Ref, ref
from netfw.model.values.address import Mac
from netfw.model.values.common_fields import Status
from netfw.model.values.device_owner import DeviceOwner
from netfw.model.values.ids import PortId
from netfw.state.dependencies import Assignment, Item
from netfw.state.memory_source import MemorySource
from netfw.testing.conformance.state_source.memory_backend import MemorySourceBackend
from tests.conformance.common.mutations import Mutations, breaks, breaks_raise

MUTATIONS = Mutations()


class FakeSource(MemorySource):
    """A source in memory, and the environment of the suite."""

    def environment(self) -> MemorySourceBackend:
        return MemorySourceBackend(self)

    cut: Callable[[], None] | None = None
    """Interrupts the connection to the server; ``None``: there is none."""

    late: dict[Ref, int]
    """The numbers that `number_changes_when_begun` gave to what was committed later."""

    def accepts(self, report: StatusReport) -> bool:
        """Return whether `accept_every_report` and what builds upon it accept *report*."""
        return True

    def now(self) -> Cursor:
        return next(MemorySource.snapshot(self, Subscription("anywhere", ()))).cursor


@MUTATIONS.override("snapshot", breaks(StateSource, 1))
def ignore_subscription(source, original, subscription):
    """Return all resources, whatever the subscription."""
    *_, last = original(subscription)
    yield evolve(last, put=tuple(source.resources().values()))


@MUTATIONS.override("snapshot", breaks(StateSource, 1))
def leave_out_gateways(source, original, subscription):
    """Leave out the gateway ports of routers."""
    for page in original(subscription):
        kept = [
            each
            for each in page.put
            if not isinstance(each, Port) or each.device_owner != DeviceOwner.ROUTER_GATEWAY
        ]
        yield evolve(page, put=tuple(kept))


@MUTATIONS.override("snapshot", breaks(StateSource, 2))
def take_cursor_late(source, original, subscription):
    """Return the current cursor with each page."""
    for page in original(subscription):
        yield evolve(page, cursor=source.now())


@MUTATIONS.override("environment", breaks(StateSource, 3))
def number_changes_when_begun(source, _):
    """Assign the number of a change when it begins, and read by number."""
    return EarlyNumberingEnvironment(source)


@number_changes_when_begun.also("changes")
def _(source, original, subscription, since):
    delta = original(subscription, since)
    late = (r for r in delta.put if source.late.get(ref(r), since.seq + 1) > since.seq)
    return evolve(delta, put=tuple(late))


@number_changes_when_begun.also("__init__")
def _(source, original, *items, page=500):
    original(*items, page=page)
    source.late = {}


class EarlyNumberingEnvironment(MemorySourceBackend):
    """Commits a change with the number that it had when it began."""

    source: FakeSource

    def begin(self, put: Sequence[Item] = ()) -> Callable[[], None]:
        late, number = self.source.late, self.source.now().seq

        def finish() -> None:
            late.update({ref(item): number + 1 for item in put})  # type: ignore[arg-type]
            self.source.commit(put)

        return finish


@MUTATIONS.override("commit", breaks(StateSource, 4))
def omit_newly_reachable(source, original, put=(), remove=()):
    """Return what changed, without what became reachable."""
    next_seq = source.now().seq + 1
    source.changed |= {ref(item): next_seq for item in put if not isinstance(item, Assignment)}
    original(put, remove)


@omit_newly_reachable.also("changes")
def _(source, original, subscription, since):
    delta = original(subscription, since)
    direct = (r for r in delta.put if source.changed.get(ref(r), 0) > since.seq)
    return evolve(delta, put=tuple(direct))


@omit_newly_reachable.also("__init__")
def _(source, original, *items, page=500):
    source.changed = {}
    original(*items, page=page)


@MUTATIONS.override("changes", breaks(StateSource, 5))
def keep_unreachable(source, original, subscription, since):
    """Drop only what was deleted."""
    delta = original(subscription, since)
    return evolve(delta, drop=delta.drop - source.resources().keys())


@MUTATIONS.override("changes", breaks(StateSource, 6))
def repeat_last_change(source, original, subscription, since):
    """Return the last change again and again."""
    delta = original(subscription, since)
    if delta.put or delta.drop or not since.seq:
        return delta
    try:
        return original(subscription, evolve(since, seq=since.seq - 1))
    except CursorLost:
        return delta


@MUTATIONS.override("changes", breaks(StateSource, 7))
def always_more(source, original, subscription, since):
    """Report that there is always more."""
    return evolve(original(subscription, since), more=True)


@MUTATIONS.override(
    "changes", breaks(StateSource, 8), breaks_raise(StateSource, "changes", CursorLost)
)
def ignore_lost_cursor(source, original, subscription, since):
    """Return no changes for a lost cursor."""
    try:
        return original(subscription, since)
    except CursorLost:
        return Delta(cursor=source.now())


@MUTATIONS.override("changes", breaks(StateSource, 8))
def ignore_epoch(source, original, subscription, since):
    """Ignore the epoch of a cursor."""
    return original(subscription, evolve(source.now(), seq=since.seq))


@MUTATIONS.override("commit", breaks(StateSource, 9))
def hint_before_commit(source, original, put=(), remove=()):
    """Send the hint before the change can be read."""
    watches, source._watches = source._watches, {}
    for _, hint in watches.values():
        hint()
    original(put, remove)
    source._watches = watches


@MUTATIONS.override("watch", breaks(StateSource, 9))
def never_stop_hints(source, original, subscription, hint):
    """Leave a watch active after its end."""
    original(subscription, hint)
    return lambda: None


@MUTATIONS.override("report", breaks(StateSource, 10))
def accept_every_report(source, _, reports):
    """Accept every report."""
    for report in reports:
        if isinstance(report, StatusReport) and source.accepts(report):
            source.accepted[report.ref, report.service] = report
    return ReportResult()


@accept_every_report.also("status")
def _(source, _, target, service=Service.L2):
    return source.accepted.get((target, service))


@accept_every_report.also("__init__")
def _(source, original, *items, page=500):
    original(*items, page=page)
    source.accepted = {}


@MUTATIONS.override("roles", breaks(StateSource, 10))
def keep_roles_of_former_hosts(source, _, router):
    """Keep the roles of hosts that do not have the router."""
    return {report.host: report.role for report in source.reported if report.ref == router}


@keep_roles_of_former_hosts.also("report")
def _(source, original, reports):
    source.reported += [each for each in reports if isinstance(each, RoleReport)]
    return original(reports)


@keep_roles_of_former_hosts.also("__init__")
def _(source, original, *items, page=500):
    original(*items, page=page)
    source.reported = []


@MUTATIONS.override("report", breaks(StateSource, 10))
def ignore_roles_of_other_revisions(source, original, reports):
    """Ignore roles of other revisions than the present one."""
    known = source.resources()
    return original(
        [
            report
            for report in reports
            if not isinstance(report, RoleReport) or known[report.ref].revision == report.revision
        ]
    )


@MUTATIONS.override("snapshot", breaks(StateSource, 1))
def leave_out_ha_ports_of_other_hosts(source, original, subscription):
    """Leave out the HA ports of other hosts."""
    for page in original(subscription):
        kept = [
            each
            for each in page.put
            if not isinstance(each, Port)
            or each.device_owner != DeviceOwner.ROUTER_HA_INTERFACE
            or each.binding.host == subscription.host
        ]
        yield evolve(page, put=tuple(kept))


@MUTATIONS.override("accepts", breaks(StateSource, 10), on=accept_every_report)
def accept_report_of_old_revision(source, _, report):
    """Accept reports of older revisions."""
    port = source.resources().get(report.ref)
    return isinstance(port, Port) and port.binding.host == report.host


@MUTATIONS.override("accepts", breaks(StateSource, 10), on=accept_every_report)
def accept_report_of_other_host(source, _, report):
    """Accept reports of other hosts."""
    port = source.resources().get(report.ref)
    return port is not None and port.revision == report.revision


@MUTATIONS.override("accepts", breaks(StateSource, 10), on=accept_every_report)
def ignore_reports(source, _, report):
    """Ignore reports of ACTIVE."""
    return report.status is not Status.ACTIVE


@MUTATIONS.override("accepts", breaks(StateSource, 10), on=accept_every_report)
def ignore_reports_on_routers(source, _, report):
    """Accept reports on ports alone."""
    port = source.resources().get(report.ref)
    return (
        isinstance(port, Port)
        and port.binding.host == report.host
        and port.revision == report.revision
    )


@MUTATIONS.override("request", breaks(StateSource, 11))
def name_no_services(source, original, request):
    """Name no service as enabled."""
    return frozenset() if isinstance(request, EnabledServices) else original(request)


@MUTATIONS.override("request", breaks(StateSource, 11))
def find_ports_of_networks_alone(source, original, request):
    """Find no port behind a router."""
    if isinstance(request, FindPorts) and request.router is not None:
        return ()
    return original(request)


@MUTATIONS.override("request", breaks(StateSource, 11))
def give_all_hosts_one_mac_address(source, original, request):
    """Answer each host with the same MAC address."""
    answer = original(request)
    return Mac("fa:16:3f:00:00:01") if isinstance(request, EnsureHostMac) else answer


@MUTATIONS.override("request", breaks(StateSource, 11))
def create_port_twice(source, original, request):
    """Create a port with each request."""
    answer = original(request)
    if isinstance(request, EnsureDhcpPort | EnsureGatewayPort):
        answer = evolve(answer, id=PortId(uuid4()))
        source.put(answer)
    return answer


@MUTATIONS.override("changes", breaks(StateSource, 12))
def forget_changes_after_reading(source, original, subscription, since):
    """Forget the changes that were read."""
    delta = original(subscription, since)
    source.forget_history()
    return delta


@MUTATIONS.override("request", breaks_raise(StateSource, "request", RequestError))
def ignore_missing_network(source, original, request):
    """Return ``None`` if the network is missing."""
    try:
        return original(request)
    except NotFound:
        return None


@MUTATIONS.override("request", breaks_raise(StateSource, "request", NotSupported))
def answer_unknown_request(source, original, request):
    """Return ``None`` for an unknown request."""
    try:
        return original(request)
    except NotSupported:
        return None


@MUTATIONS.override(
    "cut",
    breaks_raise(StateSource, "changes", BackendUnavailable),
    breaks_raise(StateSource, "report", BackendUnavailable),
    breaks_raise(StateSource, "request", BackendUnavailable),
    breaks_raise(StateSource, "snapshot", BackendUnavailable),
)
def answer_without_server(source, _):
    """Return an empty state while the server is unreachable."""
    source.restore()
