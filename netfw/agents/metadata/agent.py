"""MetadataAgent: keeps the listener open and sends heartbeats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from netfw.agents.common.agent import ConvergeRequest, ConvergeResult, Counts, HostAgent
from netfw.agents.common.replica import ReplicaDelta
from netfw.agents.common.resource_index import ResourceIndex
from netfw.agents.metadata.health_file import HealthProbe
from netfw.agents.metadata.proxy_app import MetadataProxyApp
from netfw.agents.metadata.state_report import MetadataSettings, make_state_report
from netfw.agents.metadata.unix_listener import UnixListener
from netfw.drivers.values.events import Event, Sink
from netfw.drivers.values.reports import Heartbeat, Report
from netfw.drivers.values.subscription import Service, Subscription
from netfw.plan import Outcome

NO_SECRET = (
    "it is empty: a client of the metadata service can impersonate any instance; set the same "
    "secret here and there"
)


class MetadataAgent(HostAgent[str]):
    """The work of a metadata agent, for :class:`~netfw.agents.common.loop.Loop`.

    It does not depend on resources: the only thing to converge is the socket.  The caller closes
    the objects that it is made of.
    """

    def __init__(
        self,
        settings: MetadataSettings,
        app: MetadataProxyApp,
        listener: UnixListener,
        health: HealthProbe,
    ) -> None:
        self.binary = settings.binary
        self.settings = settings
        self.resources = ResourceIndex()
        self._app, self._listener, self._health = app, listener, health
        self._key = f"the socket {settings.socket}"

    @property
    def subscription(self) -> Subscription:
        return Subscription(self.settings.host, {Service.METADATA})

    def watch(self, sink: Sink) -> None:
        """Send nothing: this agent has no events."""

    def acquire_locks(self) -> None:
        self._listener.acquire_lock()

    def start(self) -> None:
        self._listener.open()
        self._health.start()

    def apply_delta(self, change: ReplicaDelta) -> frozenset[str]:
        self._app.directory.mark_available()
        return frozenset()

    def rescan(self) -> frozenset[str]:
        return frozenset() if self._listener.is_bound else frozenset({self._key})

    def handle_events(self, events: Sequence[Event]) -> frozenset[str]:
        return frozenset()

    def converge(self, task: ConvergeRequest[str]) -> ConvergeResult[str]:
        reopened = not self._listener.is_bound
        self._listener.open()
        counts = Counts(updated=1) if reopened else Counts()
        return ConvergeResult(outcome=Outcome(done=task.keys), counts=counts)

    def reports(self) -> Sequence[Report]:
        return ()

    def resend_reports(self) -> None:
        """Do nothing: there are no reports but heartbeats."""

    def heartbeat(self, *, start: bool) -> Heartbeat:
        return make_state_report(self.settings, self.counts(), start=start)

    def counts(self) -> Mapping[str, int]:
        directory = self._app.directory
        return {
            "requests": 0,
            **self._app.counts(),
            "port_lookups": directory.lookups,
            "port_cache_hits": directory.hits,
        }

    def warnings(self) -> Mapping[str, str]:
        policy = self._app.policy
        warnings = {
            "metadata_proxy_shared_secret": "" if policy.secret else NO_SECRET,
            "the metadata service": policy.upstream.problem,
            "the source": self._app.directory.problem,
            "liveness": self._health.problem,
        }
        return {name: text for name, text in warnings.items() if text}
