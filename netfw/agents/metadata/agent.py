"""MetadataAgent: a socket to be kept open, and heartbeats, as the work of a loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from netfw.agents.common.agent import ConvergeRequest, ConvergeResult, Counts, HostAgent
from netfw.agents.common.replica import ReplicaDelta
from netfw.agents.common.resource_index import ResourceIndex
from netfw.agents.metadata.health_file import HealthProbe
from netfw.agents.metadata.proxy_app import MetadataProxyApp
from netfw.agents.metadata.state_report import MetadataSettings, announce
from netfw.agents.metadata.unix_listener import UnixListener
from netfw.drivers.events import Event, Sink
from netfw.drivers.reports import Heartbeat, Report
from netfw.drivers.subscription import Service, Subscription
from netfw.plan import Outcome

NO_SECRET = (
    "it is empty: whoever reaches the metadata service can pass for any instance; set the same "
    "secret here and there"
)


class MetadataAgent(HostAgent[str]):
    """The work of a metadata agent, for :class:`~netfw.agents.common.loop.Loop`.

    Nothing here follows from resources: the one thing to keep as it should be is the socket.  What
    it is made of is closed by whoever made it.
    """

    def __init__(
        self,
        settings: MetadataSettings,
        relay: MetadataProxyApp,
        door: UnixListener,
        liveness: HealthProbe,
    ) -> None:
        self.binary = settings.binary
        self.settings = settings
        self.resources = ResourceIndex()
        self._relay, self._door, self._liveness = relay, door, liveness
        self._key = f"the socket {settings.socket}"

    @property
    def subscription(self) -> Subscription:
        return Subscription(self.settings.host, {Service.METADATA})

    def watch(self, sink: Sink) -> None:
        """Nothing here has news of its own."""

    def start(self) -> None:
        self._door.open()
        self._liveness.start()

    def apply_delta(self, change: ReplicaDelta) -> frozenset[str]:
        self._relay.directory.believe()
        return frozenset()

    def rescan(self) -> frozenset[str]:
        return frozenset() if self._door.is_bound else frozenset({self._key})

    def handle_events(self, events: Sequence[Event]) -> frozenset[str]:
        return frozenset()

    def converge(self, task: ConvergeRequest[str]) -> ConvergeResult[str]:
        mended = not self._door.is_bound
        self._door.open()
        counts = Counts(updated=1) if mended else Counts()
        return ConvergeResult(outcome=Outcome(done=task.keys), counts=counts)

    def reports(self) -> Sequence[Report]:
        return ()

    def resend_reports(self) -> None:
        """There is nothing to say but heartbeats."""

    def heartbeat(self, *, start: bool) -> Heartbeat:
        return announce(self.settings, self.counts(), start=start)

    def counts(self) -> Mapping[str, int]:
        directory = self._relay.directory
        return {
            "requests": 0,
            **self._relay.counts(),
            "ports_asked_for": directory.asked,
            "ports_known": directory.hits,
        }

    def warnings(self) -> Mapping[str, str]:
        policy = self._relay.policy
        found = {
            "metadata_proxy_shared_secret": "" if policy.secret else NO_SECRET,
            "the metadata service": policy.upstream.trouble,
            "the source": self._relay.directory.trouble,
            "liveness": self._liveness.trouble,
        }
        return {name: text for name, text in found.items() if text}
