"""Who wants which flows, and which of them the switch holds.  Pure: no I/O, no threads.

The book remembers digests, not bytes: 68,000 flows must not cost 50 MB.  It is told what the
switch reports and what was committed, and answers with the changes that an update needs.  An
owner whose wanted flows are made from an equal source as before, and which nobody else touched,
costs one comparison.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Set
from hashlib import blake2b

from attrs import field, frozen

from netfw.errors import Conflict
from netfw.flows import Flow
from netfw.ovs.openflow.encode import (
    Encoded,
    Key,
    State,
    canonical,
    cookie_of,
    describe_key,
    encode_flows,
)
from netfw.ovs.openflow.flow_diff import CookieSpace, FlowChanges, lessons
from netfw.ovs.openflow.messages import COMPARED, Event, FlowEvent

Owner = Hashable
Digest = bytes
"""The cookie, then a hash of cookie, timeouts and instructions."""


@frozen
class FlowGroup:
    """The flows of one owner, made when needed; groups with equal sources have equal flows."""

    source: object
    make: Callable[[], Iterable[Flow]] = field(eq=False, repr=False)


def group_of(*flows: Flow) -> FlowGroup:
    """A group of flows that are made already."""
    return FlowGroup(flows, lambda: flows)


@frozen
class OwnedFlows:
    """What one owner wants, as it was last committed."""

    source: object
    flows: Mapping[Key, Digest]
    learn_targets: frozenset[tuple[int, int]]

    def touches(self, space: CookieSpace) -> bool:
        return any(cookie_of(digest) in space for digest in self.flows.values())


@frozen(kw_only=True)
class FlowPlan:
    """What to change, for whom, and who cannot have what he wants."""

    changes: FlowChanges = field(factory=FlowChanges)
    holds: Mapping[Owner, OwnedFlows] = field(factory=dict, repr=False)
    gone: frozenset[Owner] = frozenset()
    refused: Mapping[Owner, Conflict] = field(factory=dict)
    before: Mapping[Owner, OwnedFlows] = field(factory=dict, repr=False)
    """What the owners held when this was planned."""

    def __bool__(self) -> bool:
        return bool(self.changes)

    def __str__(self) -> str:
        refused = (f"refuse {owner}: {why}" for owner, why in self.refused.items())
        return "\n".join((*self.changes.lines(), *refused))


@frozen
class Drift:
    """Owners whose flows somebody else changed, and keys of flows that nobody here wants."""

    owners: frozenset[Owner] = frozenset()
    strays: frozenset[Key] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.owners or self.strays)


def digest(state: State) -> Digest:
    return state[:8] + blake2b(state, digest_size=16).digest()


class FlowCache:
    """The state behind a mirror: what is observed, who holds what, and who must look again."""

    def __init__(self) -> None:
        self.observed: dict[Key, Digest] = {}
        self._held: dict[Owner, OwnedFlows] = {}
        self._holder: dict[Key, Owner] = {}
        self._strays: set[Key] = set()
        self._dirty: set[Owner] = set()
        self._doubtful: list[FlowPlan] = []

    # What the switch says

    def load(self, entries: Mapping[Key, Digest]) -> Drift:
        """Forget what was observed; *entries* is all that there is, and settles every doubt."""
        for plan in self._doubtful:
            if _carried_out(plan, entries) and not self.outdated(plan):
                self.confirm(plan)
        self._doubtful.clear()
        self.observed = dict(entries)
        self._strays = set(self.observed.keys() - self._holder.keys())
        wrong = {
            owner
            for owner, held in self._held.items()
            if any(self.observed.get(key) != wanted for key, wanted in held.flows.items())
        }
        self._dirty |= wrong
        taught = self._taught(self._held)
        strays = (k for k in self._strays if (k[0], cookie_of(self.observed[k])) not in taught)
        return Drift(frozenset(wrong), frozenset(strays))

    def on_event(self, event: FlowEvent) -> Drift:
        """Take in one change that somebody else made."""
        key = canonical(event.key)
        owner = self._holder.get(key)
        if event.event is Event.REMOVED:
            self._strays.discard(key)
            if self.observed.pop(key, None) is None or owner is None:
                return Drift()
        else:
            now = digest(event.state)
            if self.observed.get(key) == now:
                return Drift()
            self.observed[key] = now
            if owner is None:
                return self._stray(key, now)
            if self._held[owner].flows.get(key) == now:
                return Drift()
        self._dirty.add(owner)
        return Drift(frozenset({owner}))

    def _stray(self, key: Key, now: Digest) -> Drift:
        self._strays.add(key)
        taught = (key[0], cookie_of(now)) in self._taught(self._held)
        return Drift() if taught else Drift(strays=frozenset({key}))

    # What we want

    def plan(
        self,
        put: Mapping[Owner, FlowGroup],
        drop: Collection[Owner] = (),
        *,
        complete: CookieSpace | None = None,
        keep: Collection[Owner] = (),
        erase: CookieSpace | None = None,
    ) -> FlowPlan:
        """What to change so that the owners in *put* have their flows and those in *drop* none.

        With *complete*, nobody else has flows in that space, except owners in *keep* and flows
        that were learnt.  With *erase*, flows of that space go that no owner has.
        """
        gone = {owner for owner in drop if owner in self._held}
        if complete is not None:
            gone |= self._superfluous(put, complete, keep)
        encoded = {
            owner: encode_flows(group.make())
            for owner, group in put.items()
            if not self._settled(owner, group)
        }
        claims, refused = self._claims(encoded, gone)
        holds = {
            owner: _held(put[owner], flows)
            for owner, flows in encoded.items()
            if owner not in refused
        }
        removed = self._removals(claims, gone | holds.keys(), holds, complete or erase)
        changes = self._changes(claims, removed)
        before = {owner: self._held[owner] for owner in gone | holds.keys() if owner in self._held}
        return FlowPlan(
            changes=changes, holds=holds, gone=frozenset(gone), refused=refused, before=before
        )

    def outdated(self, plan: FlowPlan) -> frozenset[Owner]:
        """Owners for whom *plan* is too old: others were carried out since it was made.

        It would leave flows behind that it does not know of.  A plan may be repeated.
        """
        ours = plan.gone | plan.holds.keys()
        overtaken = {
            owner
            for owner in ours
            if not any(self._held.get(owner) is one.get(owner) for one in (plan.before, plan.holds))
        }
        for encoded in itertools.chain(plan.changes.added, plan.changes.changed):
            holder = self._holder.get(encoded.key)
            if holder is not None and holder not in ours:
                overtaken.add(holder)
        return frozenset(overtaken)

    def mark_uncertain(self, plan: FlowPlan) -> None:
        """Note that nobody knows whether *plan* was carried out, until everything is read."""
        self._doubtful.append(plan)

    def adopt(self, put: Mapping[Owner, FlowGroup]) -> None:
        """Note whose the flows are that an earlier run has left; what differs comes right later.

        *put* says where to look: of each group, those flows that are there become its owner's.
        """
        for owner, group in put.items():
            if owner in self._held:
                continue
            keys = encode_flows(group.make()).keys() & self._strays
            flows = {key: self.observed[key] for key in keys}
            self._held[owner] = OwnedFlows(None, flows, frozenset())
            self._holder.update(dict.fromkeys(flows, owner))
            self._strays -= keys
            self._dirty.add(owner)

    def confirm(self, plan: FlowPlan) -> Drift:
        """Note that *plan* was carried out; owners to whom something else happened meanwhile."""
        for key, cookie in plan.changes.removed.items():
            there = self.observed.get(key)
            if there is not None and not (cookie_of(there) ^ cookie) & COMPARED:
                del self.observed[key]
                self._strays.discard(key)
        released = [self._release(owner) for owner in plan.gone | plan.holds.keys()]
        for owner in plan.gone:
            self._held.pop(owner, None)
        written = {encoded.key for encoded in (*plan.changes.added, *plan.changes.changed)}
        wrong = frozenset(
            owner for owner, held in plan.holds.items() if not self._hold(owner, held, written)
        )
        for key in itertools.chain.from_iterable(released):
            if key in self.observed and key not in self._holder:
                self._strays.add(key)
        self._dirty = (self._dirty - plan.gone - plan.holds.keys()) | wrong
        return Drift(wrong)

    def _hold(self, owner: Owner, held: OwnedFlows, written: Set[Key]) -> bool:
        """Note what *owner* holds, and whether the switch has all of it."""
        self._held[owner] = held
        self._holder.update(dict.fromkeys(held.flows, owner))
        self._strays.difference_update(held.flows)
        right = True
        for key, wanted in held.flows.items():
            if key in written:
                self.observed[key] = wanted
            elif self.observed.get(key) != wanted:
                right = False
        return right

    def _release(self, owner: Owner) -> Collection[Key]:
        """Forget that *owner* holds what it held; those keys."""
        held = self._held.get(owner)
        keys: Collection[Key] = () if held is None else held.flows.keys()
        for key in keys:
            if self._holder.get(key) == owner:
                del self._holder[key]
        return keys

    def _settled(self, owner: Owner, group: FlowGroup) -> bool:
        held = self._held.get(owner)
        return held is not None and owner not in self._dirty and held.source == group.source

    def _superfluous(
        self, put: Mapping[Owner, FlowGroup], space: CookieSpace, keep: Collection[Owner]
    ) -> set[Owner]:
        return {
            owner
            for owner in self._held.keys() - put.keys()
            if owner not in keep and self._held[owner].touches(space)
        }

    def _claims(
        self, encoded: Mapping[Owner, Mapping[Key, Encoded]], gone: set[Owner]
    ) -> tuple[dict[Key, Encoded], dict[Owner, Conflict]]:
        """Every flow of *encoded* by key, without owners who want what somebody else has.

        Who wants what another has comes last: perhaps the other gives it up, perhaps not.
        """
        claims: dict[Key, Encoded] = {}
        claimed: dict[Key, Owner] = {}
        refused: dict[Owner, Conflict] = {}

        def wants_taken(owner: Owner) -> bool:
            return any(self._holder.get(key, owner) != owner for key in encoded[owner])

        for owner in sorted(encoded, key=wants_taken):
            flows = encoded[owner]
            for key in flows:
                other = claimed.get(key, self._holder.get(key, owner))
                if other != owner and (key in claimed or not (other in gone or other in encoded)):
                    refused[owner] = Conflict(f"{other} has a flow for {describe_key(key)} already")
                    break
            else:
                claims.update(flows)
                claimed.update(dict.fromkeys(flows, owner))
        return claims, refused

    def _removals(
        self,
        claims: Mapping[Key, Encoded],
        owners: Collection[Owner],
        holds: Mapping[Owner, OwnedFlows],
        swept: CookieSpace | None,
    ) -> dict[Key, int]:
        left = {
            key: ours
            for owner in owners
            if owner in self._held
            for key, ours in self._held[owner].flows.items()
            if key in self.observed and key not in claims
        }
        removed = {key for key, ours in left.items() if self.observed[key][:8] == ours[:8]}
        if swept is not None and (self._strays or len(removed) < len(left)):
            staying = {owner: one for owner, one in self._held.items() if owner not in owners}
            taught = self._taught({**staying, **holds})
            for key in (self._strays | left.keys()) - claims.keys():
                cookie = cookie_of(self.observed[key])
                if cookie in swept and (key[0], cookie) not in taught:
                    removed.add(key)
        return {key: cookie_of(self.observed[key]) for key in removed}

    def _changes(self, claims: Mapping[Key, Encoded], removed: Mapping[Key, int]) -> FlowChanges:
        added = tuple(flow for key, flow in claims.items() if key not in self.observed)
        changed = tuple(
            flow
            for key, flow in claims.items()
            if key in self.observed and self.observed[key] != digest(flow.state)
        )
        return FlowChanges(added, changed, removed)

    @staticmethod
    def _taught(held: Mapping[Owner, OwnedFlows]) -> set[tuple[int, int]]:
        return {pair for one in held.values() for pair in one.learn_targets}


def _held(group: FlowGroup, flows: Mapping[Key, Encoded]) -> OwnedFlows:
    return OwnedFlows(
        group.source,
        {key: digest(encoded.state) for key, encoded in flows.items()},
        frozenset(pair for encoded in flows.values() for pair in lessons(encoded.flow)),
    )


def _carried_out(plan: FlowPlan, entries: Mapping[Key, Digest]) -> bool:
    """Whether *entries* show what *plan* did; all or nothing of it was done."""
    written = (*plan.changes.added, *plan.changes.changed)
    if written:
        return any(entries.get(encoded.key) == digest(encoded.state) for encoded in written)
    return entries.keys().isdisjoint(plan.changes.removed)
