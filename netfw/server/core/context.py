"""Backbone: what all keepers and plugins of one server share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Concatenate, ParamSpec, TypeVar

from attrs import define, field

from netfw.drivers.api_extension import ResourceDeclaration
from netfw.drivers.base import HostResources
from netfw.drivers.change import Change
from netfw.drivers.ipam import IpamDriver
from netfw.drivers.query import RequestContext
from netfw.drivers.reports import Report, ReportResult
from netfw.errors import ConfigError, NotSupported
from netfw.model.agent import Agent
from netfw.model.resource import Ref
from netfw.server.core.resource_handler import ResourceHandler
from netfw.server.core.settings import Settings
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.database import Database, ReadSnapshot, Transaction

P = ParamSpec("P")
T = TypeVar("T")

PrecommitHook = Callable[[UnitOfWork, Change], None]
"""Has a say in changes of any resource, in their transaction and before the commit.

Called again when the transaction is.  What it raises rolls everything back.  It may write more.
"""

AgentUpHook = Callable[[UnitOfWork, Agent], None]
"""Told, in a transaction, of an agent that can be counted on: it is new, was started, came back,
says something else of itself, or was switched on again.  Called again when the transaction is."""

SERVER = RequestContext(project_id="", user="netfw", admin=True)
"""Whoever asks when the server itself acts, and nobody's request is behind it."""


@define(kw_only=True)
class ServerContext:
    """The database, the drivers, and who keeps what.  Put together once, then only read."""

    database: Database
    settings: Settings = field(factory=Settings)
    ipam: IpamDriver
    quotas: dict[str, int] = field(factory=dict)
    """How many a project may have where nobody set a limit; -1: any number."""
    keepers: dict[str, ResourceHandler] = field(factory=dict)
    """By the name of the resource."""
    watchers: list[PrecommitHook] = field(factory=list)
    """In the order in which they are asked: mechanism drivers, service plugins, the outbox."""
    arrivals: list[AgentUpHook] = field(factory=list)
    """In the order in which they are told."""
    reassigned: list[Callable[[UnitOfWork, Ref], None]] = field(factory=list)
    """Told, in the transaction, of a network or router that other agents serve than before."""
    hearing: list[Callable[[Sequence[Report]], ReportResult]] = field(factory=list)
    """Told of what agents report, beside the core plugin itself; each takes what it knows."""
    starting: list[Callable[[], None]] = field(factory=list)
    """What has to be in the database before the first request."""
    segments_wanted: bool = False
    """Whether a watcher looks at the segments of networks."""

    def start(self) -> None:
        """Prepare the database for this configuration; several processes may, and again.

        :raises BackendUnavailable: it does not answer.
        """
        for prepare in self.starting:
            prepare()

    def keeper(self, name: str) -> ResourceHandler:
        """Who keeps *name*.

        :raises NotSupported: nobody does.
        """
        try:
            return self.keepers[name]
        except KeyError:
            raise NotSupported(f"this server keeps no {name}: its plugin is not loaded") from None

    def quota(self, name: str) -> int:
        """How many a project may have where nobody set a limit."""
        return self.quotas.get(name, self.settings.default_quota)

    def count(self, declared: Iterable[ResourceDeclaration]) -> None:
        """Let projects have no more of vendors' resources than is declared, or set for them."""
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


def backbone_of(host: HostResources) -> ServerContext:
    """The backbone that the server shares with its plugins.

    :raises ConfigError: this is no server.
    """
    return host.share(ServerContext, _missing)


def _missing() -> ServerContext:
    raise ConfigError("this plugin works within a netfw server only")
