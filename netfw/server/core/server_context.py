"""ServerContext: what all handlers and plugins of one server share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Concatenate, ParamSpec, TypeVar

from attrs import define, field

from netfw.drivers.base import HostResources
from netfw.drivers.server.api_extension import ResourceDeclaration
from netfw.drivers.server.change import Change
from netfw.drivers.server.ipam import IpamDriver
from netfw.drivers.server.query import RequestContext
from netfw.drivers.values.agent_requests import SetPrefix
from netfw.drivers.values.reports import Report, ReportResult
from netfw.errors import ConfigError, NotSupported
from netfw.model.agent import Agent
from netfw.model.resource import Ref, Resource
from netfw.server.core.qos_support import QosSupport
from netfw.server.core.resource_handler import ResourceHandler
from netfw.server.core.settings import Settings
from netfw.server.core.sharing import sync_policies
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.database import Database, ReadSnapshot, Transaction

P = ParamSpec("P")
T = TypeVar("T")

PrecommitHook = Callable[[UnitOfWork, Change], None]
"""Hook that checks or extends a change of any resource, inside its transaction, before the commit.

It runs again when the transaction is retried. An exception rolls everything back. It may write
more.
"""

Write = tuple[Resource | None, Resource]
"""A resource as it is and as it will be stored; new without the first."""

PrestoreHook = Callable[[UnitOfWork, Sequence[Write]], Sequence[Resource]]
"""Hook that checks or completes resources of one kind just before they are stored, in few
statements for all of them; it returns them in their order."""

AgentUpHook = Callable[[UnitOfWork, Agent], None]
"""Hook that runs, inside a transaction, for an agent that is usable: it is new, was started, came
back, reports another configuration, or was switched on again. It runs again when the transaction is
retried."""

SERVER = RequestContext(project_id="", user="netfw", admin=True)
"""Requester of the server's own work, which no API request caused."""


@define(kw_only=True)
class ServerContext:
    """Database, drivers and resource handlers of one server. Assembled once, then only read."""

    database: Database
    settings: Settings = field(factory=Settings)
    ipam: IpamDriver
    quotas: dict[str, int] = field(factory=dict)
    """Number of resources that a project without a limit of its own may have; -1: unlimited."""
    handlers: dict[str, ResourceHandler] = field(factory=dict)
    """Handlers by the name of their resource."""
    qos_support: QosSupport = field(factory=QosSupport)
    """The QoS rules that the loaded drivers enforce."""
    prestore_hooks: list[PrestoreHook] = field(factory=list)
    """Hooks in the order in which they run."""
    precommit_hooks: list[PrecommitHook] = field(factory=lambda: [sync_policies])
    """Hooks in the order in which they run: RBAC policies, mechanism drivers, agent services, the
    outbox, plugins in the order in which they are loaded, and last the validation by service
    plugins."""
    agent_up_hooks: list[AgentUpHook] = field(factory=list)
    """Hooks in the order in which they run."""
    reassignment_hooks: list[Callable[[UnitOfWork, Ref], None]] = field(factory=list)
    """Hooks that run, inside the transaction, for a network or router whose set of agents
    changed."""
    report_handlers: list[Callable[[Sequence[Report]], ReportResult]] = field(factory=list)
    """Handlers of reports beside the core plugin itself; each takes the reports that it knows."""
    prefix_handler: Callable[[UnitOfWork, SetPrefix], None] | None = None
    """Handler of prefixes that providers delegate to routers; ``None``: there are no routers."""
    reconcilers: list[Callable[[], int]] = field(factory=list)
    """Steps that the rescheduler runs periodically and when an agent appeared or disappeared; each
    returns how many changes it made."""
    startup_steps: list[Callable[[], None]] = field(factory=list)
    """Steps that prepare the database before the first request."""
    hooks_need_segments: bool = False
    """Whether a pre-commit hook reads the segments of networks."""

    def start(self) -> None:
        """Prepare the database for this configuration. Idempotent; several processes may run it at
        once.

        :raises BackendUnavailable: the database does not answer.
        """
        for prepare in self.startup_steps:
            prepare()

    def handler(self, name: str) -> ResourceHandler:
        """Return the handler of the resource *name*.

        :raises NotSupported: no plugin handles it.
        """
        try:
            return self.handlers[name]
        except KeyError:
            raise NotSupported(
                f"{name} is not available on this server: its plugin is not loaded"
            ) from None

    def quota(self, name: str) -> int:
        """Return how many of *name* a project without a limit of its own may have."""
        return self.quotas.get(name, self.settings.default_quota)

    def add_default_quotas(self, declared: Iterable[ResourceDeclaration]) -> None:
        """Add the default quotas that vendors declare; configured ones take precedence."""
        for each in declared:
            if each.quota is not None:
                self.quotas.setdefault(each.name, each.quota)

    def run(
        self,
        requester: RequestContext,
        work: Callable[Concatenate[UnitOfWork, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run *work* in one transaction with all pre-commit hooks, then its post-commit callbacks.

        :raises RequestError: *work* or a hook refuses; nothing is stored.
        """

        def attempt(tx: Transaction) -> tuple[T, UnitOfWork]:
            unit = UnitOfWork(tx, requester, self)
            result = work(unit, *args, **kwargs)
            unit.finish()
            return result, unit

        result, unit = self.database.transaction(attempt)
        for callback in unit.after_commit:
            callback()
        return result

    def read(
        self, work: Callable[Concatenate[ReadSnapshot, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run *work* on one snapshot of the database."""
        return self.database.read(work, *args, **kwargs)


def server_context(host: HostResources) -> ServerContext:
    """Return the context that the server shares with its plugins.

    :raises ConfigError: *host* is no server.
    """
    return host.share(ServerContext, _missing)


def _missing() -> ServerContext:
    raise ConfigError("this plugin works within a netfw server only")
