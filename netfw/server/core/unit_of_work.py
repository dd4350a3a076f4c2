"""UnitOfWork: one transaction of a request, in which handlers work together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar, cast
from uuid import UUID

from attrs import evolve, fields_dict

from netfw.drivers.server.change import Change
from netfw.drivers.server.query import Query, RequestContext
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.qos import QosPolicy
from netfw.model.resource import Kind, Ref, Resource, ref
from netfw.model.segment import Segment
from netfw.model.subnet import Subnet
from netfw.model.values.ids import NetworkId, QosPolicyId
from netfw.model.wire import render
from netfw.server.db.allocation.quotas import UNLIMITED
from netfw.server.db.database import Transaction
from netfw.server.db.resources.rows import AT_ONCE

if TYPE_CHECKING:
    from netfw.server.core.server_context import ServerContext

R = TypeVar("R", bound=Resource)

ROUNDS = 8
"""Maximum of rounds in which hooks see the changes of other hooks; more is an endless loop."""


class UnitOfWork:
    """The writes of one transaction and their requester; a retry creates a new unit.

    Handlers write through it. At its end, before the commit, all pre-commit hooks run once for each
    resource, with its state before and after the transaction. They see again what changes later.
    """

    def __init__(self, tx: Transaction, requester: RequestContext, context: ServerContext) -> None:
        self.tx, self.requester, self.context = tx, requester, context
        self.now = datetime.now(UTC).replace(microsecond=0)
        self.extras: dict[Ref, dict[str, Any]] = {}
        """Attributes of extension drivers by resource; written with the resource."""
        self.after_commit: list[Callable[[], None]] = []
        """Callbacks that run after the commit, in order; they raise nothing."""
        self.batch_request_ids: tuple[str, ...] = ()
        """Ids of the requests that this transaction creates a resource for each of."""
        self._request_ids: dict[Ref, str] = {}
        self._first: dict[Ref, Resource | None] = {}
        self._last: dict[Ref, Resource | None] = {}
        self._watched: dict[Ref, Resource | None] = {}
        self._networks: dict[UUID, Network] = {}
        self._locked: set[UUID] = set()
        self._seen: set[tuple[UUID, str | None]] = set()
        self._subnets: dict[UUID, tuple[Subnet, ...]] = {}
        self._segments: dict[UUID, tuple[Segment, ...]] = {}
        self._gone: dict[UUID, tuple[Segment, ...]] = {}
        self._policies: dict[QosPolicyId, QosPolicy | None] = {}
        self._rewritten: set[Ref] = set()
        self._counts: dict[tuple[str, str], int] = {}
        self._granted: dict[tuple[str, str], int] = {}

    @contextmanager
    def elevated(self) -> Iterator[None]:
        """Act with the server's own rights, for what the requester may not see or do."""
        former = self.requester
        self.requester = former.elevated()
        try:
            yield
        finally:
            self.requester = former

    def attribute(self, created: Sequence[Resource]) -> None:
        """Remember the request of each of *created*, which are those of a batch, in order."""
        if self.batch_request_ids:
            self._request_ids.update(zip(map(ref, created), self.batch_request_ids, strict=True))

    def request_id(self, target: Ref) -> str:
        """Return the id of the request that changes *target*."""
        return self._request_ids.get(target, self.requester.request_id)

    # Writing.

    def insert(self, *new: R) -> tuple[R, ...]:
        """Store new resources of one kind.

        :raises Conflict: one exists, or its address, MAC or the like.
        """
        stamped = [
            self._stamped(each, "created_at", "updated_at")
            for each in self._prepared([(None, each) for each in new])
        ]
        extras: dict[UUID, Mapping[str, Any]] = {
            each.id: extra for each in stamped if (extra := self.extras.get(ref(each))) is not None
        }
        stored = self.tx.resources.insert(*stamped, extras=extras)
        for each in stored:
            self._changed(None, each)
        return stored

    def update(self, before: R, after: R) -> R:
        """Store *after* instead of *before*; an unchanged resource keeps its revision."""
        target = ref(before)
        if after == before and target not in self._rewritten:
            return before
        (prepared,) = self._prepared([(before, after)])
        stamped = self._stamped(prepared, "updated_at")
        stored = self.tx.resources.update(before, stamped, self.extras.get(target))
        self._changed(before, stored)
        return stored

    def _prepared(self, writes: Sequence[tuple[R | None, R]]) -> Sequence[R]:
        """Return what is to be stored, after the hooks of the context.

        :raises RequestError: a hook refuses.
        """
        for hook in self.context.prestore_hooks:
            done = cast("Sequence[R]", hook(self, writes))
            writes = [(before, after) for (before, _), after in zip(writes, done, strict=True)]
        return [after for _, after in writes]

    def touch(self, before: R) -> R:
        """Give *before* its next revision, because something that it owns changed."""
        self._rewritten.add(ref(before))
        return self.update(before, before)

    def delete(self, before: Resource) -> None:
        """Remove *before*.

        :raises Conflict: something refers to it.
        """
        self.tx.resources.delete(before)
        self._changed(before, None)

    def set_extra(
        self, target: Ref, extra: Mapping[str, Any], without: Collection[str] = ()
    ) -> None:
        """Store attributes of extension drivers with the resource.

        Other attributes stay as they are, except for those in *without*, which are removed.
        """
        former = self.extras.get(target, {})
        kept = {name: value for name, value in former.items() if name not in without}
        if {**kept, **extra} != former:
            self.extras[target] = {**kept, **extra}
            self._rewritten.add(target)

    def body_of(self, resource: Resource) -> Mapping[str, Any]:
        """Return the API body of *resource*, which this transaction stored last or read."""
        written = self.tx.resources.written.get(ref(resource))
        if (
            written is None
            or isinstance(resource, Network)
            or written["revision_number"] != resource.revision
        ):
            return render(resource)
        return written

    def extra_of(self, resource: Resource) -> Mapping[str, Any]:
        """Return the attributes of extension drivers for *resource*."""
        return self.extras.get(ref(resource), {})

    def count(
        self,
        quota: str,
        resources: Sequence[Resource],
        *,
        gone: bool = False,
        implicit: bool = False,
    ) -> None:
        """Count resources for their projects, at the end of the transaction.

        What was not requested (*implicit*), such as a project's first group, is counted beyond the
        limit too; resources without a project have no limit.

        :raises Exhausted: at the end, when the limit of a project is exceeded.
        """
        counts = self._granted if implicit else self._counts
        for each in resources:
            key = (str(getattr(each, "project_id", "")), quota)
            counts[key] = counts.get(key, 0) + (-1 if gone else 1)

    def check_quota(self, quota: str, projects: Iterable[str]) -> None:
        """Check the quota of one more resource for each item of *projects*; `count` decides later.

        :raises Exhausted: the limit of a project would be exceeded.
        """
        for project, count in Counter(projects).items():
            if project:
                self.tx.quotas.check(project, quota, count, self.context.quota(quota))

    @staticmethod
    def evolved(resource: R, **changes: Any) -> R:
        """Return *resource* with some fields changed."""
        return evolve(resource, **changes)

    def _stamped(self, resource: R, *times: str) -> R:
        """Return *resource* with the present time in those of *times* that it has."""
        kept = fields_dict(type(resource))
        stamps: dict[str, Any] = {name: self.now for name in times if name in kept}
        if resource.revision and all(getattr(resource, each) == self.now for each in stamps):
            return resource
        return self.evolved(resource, revision=resource.revision or 1, **stamps)

    # Reading.

    def qos_policies(self, ids: Iterable[QosPolicyId]) -> Mapping[QosPolicyId, QosPolicy]:
        """Return those of the policies that exist, of any project; each is read once.

        Their rules do not change before the transaction ends, which relies on them.
        """
        wanted = set(ids)
        if missing := sorted(wanted - self._policies.keys()):
            self._policies |= dict.fromkeys(missing)
            refs = [Ref(Kind.QOS_POLICY, id) for id in missing]
            rows = self.tx.resources.present(refs, share=True)
            self._policies |= {
                QosPolicyId(row.ref.id): cast(QosPolicy, row.resource()) for row in rows
            }
        return {id: each for id in wanted if (each := self._policies[id]) is not None}

    def remember_locked(self, network: Network) -> None:
        """Cache a network that was read and locked already."""
        self._networks[network.id] = network
        self._locked.add(network.id)

    def network(self, id: NetworkId, *, lock: bool = False) -> Network:
        """Return a network of any project as this transaction has it; read once.

        If it is locked, no other transaction changes it until this one ends.

        :raises NotFound: it does not exist.
        """
        if id not in self._networks or (lock and id not in self._locked):
            self._networks[id], subnets = self.tx.resources.network(id, lock=lock)
            self._subnets[id] = tuple(subnets)
            if lock:
                self._locked.add(id)
        return self._networks[id]

    def visible_network(
        self, id: NetworkId, *, lock: bool = False
    ) -> tuple[Network, tuple[Subnet, ...]]:
        """Return a network that the requester may see, and all its subnets; read once.

        :raises NotFound: there is none that the requester may see.
        """
        if (id, self.requester.sees) not in self._seen:
            network, subnets = self.tx.resources.network(id, project=self.requester.sees, lock=lock)
            if lock and id not in self._locked:
                self._networks[id], self._subnets[id] = network, tuple(subnets)
                self._locked.add(id)
            self._networks.setdefault(id, network)
            self._subnets.setdefault(id, tuple(subnets))
            self._seen.add((id, self.requester.sees))
        if lock:
            self.network(id, lock=True)
        return self._networks[id], self.subnets(id)

    def read_networks(self, ids: Iterable[NetworkId]) -> None:
        """Read networks with their subnets and segments, in as many statements as for one."""
        missing = sorted(set(ids) - self._networks.keys())
        for at in range(0, len(missing), AT_ONCE):
            part = missing[at : at + AT_ONCE]
            rows = self.tx.resources.present(Ref(Kind.NETWORK, id) for id in part)
            subnets, segments = (
                self._of_networks(each, part) for each in (Kind.SUBNET, Kind.SEGMENT)
            )
            for network in (cast(Network, row.resource()) for row in rows):
                self._networks[network.id] = network
                self._subnets.setdefault(network.id, tuple(subnets[network.id]))
                self._segments.setdefault(network.id, _ordered(network, segments[network.id]))

    def _of_networks(self, kind: Kind, ids: Iterable[NetworkId]) -> Mapping[UUID, list[Any]]:
        """Return the subnets or segments of networks, in one statement."""
        found: dict[UUID, list[Any]] = {id: [] for id in ids}
        query = Query(filters={"network_id": tuple(map(str, found))})
        for row in self.tx.resources.find(kind, query):
            each: Any = row.resource()
            found[each.network_id].append(each)
        return found

    def subnets(self, id: NetworkId) -> tuple[Subnet, ...]:
        """Return all subnets of a network; read once."""
        if id not in self._subnets:
            found = self.tx.resources.of_network(Kind.SUBNET, id)
            self._subnets[id] = cast("tuple[Subnet, ...]", found)
        return self._subnets[id]

    def segments(self, id: NetworkId) -> tuple[Segment, ...]:
        """Return the segments of a network in its order, then dynamic ones; read once.

        For a network that this transaction deletes, return those that it had.
        """
        if self._last.get(Ref(Kind.NETWORK, id), self) is None:
            return self._gone.get(id, ())
        if id not in self._segments:
            found = self.tx.resources.of_network(Kind.SEGMENT, id)
            self._segments[id] = _ordered(self.network(id), cast("tuple[Segment, ...]", found))
        return self._segments[id]

    def _changed(self, before: Resource | None, after: Resource | None) -> None:
        target = ref(cast(Resource, before if after is None else after))
        self._rewritten.discard(target)
        self._first.setdefault(target, before)
        self._last[target] = after
        newest = before if after is None else after
        if isinstance(newest, Network):
            self._networks[newest.id] = newest
        if isinstance(newest, QosPolicy):
            self._policies[newest.id] = None if after is None else newest
        if isinstance(newest, Subnet):
            self._subnets.pop(newest.network_id, None)
        if isinstance(newest, Segment):
            of = newest.network_id
            if after is None:
                self._gone[of] = (*self._gone.get(of, ()), newest)
            self._segments.pop(of, None)

    def _pending_changes(self) -> list[Change]:
        """Return the changes that no hook has seen yet."""
        changes = []
        for target, after in list(self._last.items()):
            before = self._first[target]
            if before is None and after is None:
                continue
            if target in self._watched and self._watched[target] == after:
                continue
            self._watched[target] = after
            changes.append(self._change(before, after))
        return changes

    def _change(self, before: Resource | None, after: Resource | None) -> Change:
        newest = before if after is None else after
        network = newest if isinstance(newest, Network) else None
        if isinstance(newest, Port | Subnet):
            network = self.network(newest.network_id)
        segments: tuple[Segment, ...] = ()
        if network is not None and self.context.hooks_need_segments:
            segments = self.segments(network.id)
        return Change(
            before=before,
            after=after,
            network=network,
            segments=segments,
            request_id=self.request_id(ref(cast(Resource, newest))),
        )

    # The end.

    def run_hooks(self) -> None:
        """Run the pre-commit hooks for changes that they have not seen yet.

        A handler whose response depends on hooks runs them before it renders.

        :raises RequestError: a hook refuses; the transaction is rolled back.
        """
        for _ in range(ROUNDS):
            changes = self._pending_changes()
            if not changes:
                break
            for change in changes:
                for hook in self.context.precommit_hooks:
                    hook(self, change)
        else:
            raise AssertionError(
                f"pre-commit hooks change each other's resources without end: {changes}"
            )

    def finish(self) -> None:
        """Run the pre-commit hooks and count quotas; the commit follows.

        :raises RequestError: a hook refuses; the transaction is rolled back.
        """
        self.run_hooks()
        for (project, quota), count in sorted(self._counts.items()):
            if count:
                limit = self.context.quota(quota) if project else UNLIMITED
                self.tx.quotas.use(project, quota, count, limit)
        for (project, quota), count in sorted(self._granted.items()):
            self.tx.quotas.grant(project, quota, count)
        self._counts.clear()
        self._granted.clear()


def _ordered(network: Network, segments: Iterable[Segment]) -> tuple[Segment, ...]:
    """Return *segments* in the order of their network, then dynamic ones."""
    order = {each: position for position, each in enumerate(network.segments)}
    return tuple(sorted(segments, key=lambda each: order.get(each.provider, len(order))))
