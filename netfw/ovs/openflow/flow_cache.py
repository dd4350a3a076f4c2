"""Flow cache: the flows of a switch, and their owners.  Pure: no I/O, no threads.

It stores digests, not bytes: 68,000 flows must not cost 50 MB.  It receives what the switch
reports and what was committed, and plans the changes of an update.  An owner whose desired flows
are made from an equal source as before, and were not changed by another client, costs one
comparison.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Set
from hashlib import blake2b
from itertools import chain

from attrs import field, frozen

from netfw.errors import Conflict
from netfw.flows import Flow, RateLimit
from netfw.ovs.openflow.encode import (
    Encoded,
    Key,
    State,
    canonical,
    cookie_of,
    describe_key,
    encode_flows,
)
from netfw.ovs.openflow.flow_diff import CookieSpace, FlowChanges, learn_targets, limits_of
from netfw.ovs.openflow.messages import COMPARED, FlowEvent, FlowUpdateEvent

Owner = Hashable
Digest = bytes
"""The cookie, then a hash of cookie, timeouts and instructions."""
_WITHOUT_LIMIT = bytes(16)  # in place of the hash of a flow whose meter is wrong


@frozen
class FlowGroup:
    """The flows of one owner, made when needed; groups with equal sources have equal flows."""

    source: object
    make: Callable[[], Iterable[Flow]] = field(eq=False, repr=False)


def group_of(*flows: Flow) -> FlowGroup:
    """Return a group of flows that are made already."""
    return FlowGroup(flows, lambda: flows)


@frozen
class OwnedFlows:
    """The desired flows of one owner, as last committed."""

    source: object
    flows: Mapping[Key, Digest]
    learn_targets: frozenset[tuple[int, int]]
    limits: Mapping[Key, tuple[RateLimit, ...]] = field(factory=dict)

    @property
    def meters(self) -> frozenset[int]:
        return frozenset(each.meter for limits in self.limits.values() for each in limits)

    def touches(self, space: CookieSpace) -> bool:
        return any(cookie_of(digest) in space for digest in self.flows.values())


@frozen(kw_only=True)
class FlowPlan:
    """Changes of flows, the owners they are for, and the owners that were refused."""

    changes: FlowChanges = field(factory=FlowChanges)
    holds: Mapping[Owner, OwnedFlows] = field(factory=dict, repr=False)
    gone: frozenset[Owner] = frozenset()
    refused: Mapping[Owner, Conflict] = field(factory=dict)
    before: Mapping[Owner, OwnedFlows] = field(factory=dict, repr=False)
    """The flows of the owners when this was planned."""

    def __bool__(self) -> bool:
        return bool(self.changes)

    def __str__(self) -> str:
        refused = (f"refuse {owner}: {why}" for owner, why in self.refused.items())
        return "\n".join((*self.changes.lines(), *refused))


@frozen
class Drift:
    """Owners whose flows another client changed, and keys of flows without an owner."""

    owners: frozenset[Owner] = frozenset()
    unowned: frozenset[Key] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.owners or self.unowned)


def digest(state: State) -> Digest:
    return state[:8] + blake2b(state, digest_size=16).digest()


class FlowCache:
    """The state of a mirror: observed flows, their owners, and the owners to plan again."""

    def __init__(self) -> None:
        self.observed: dict[Key, Digest] = {}
        self._held: dict[Owner, OwnedFlows] = {}
        self._learn_targets: Counter[tuple[int, int]] = Counter()
        self._meters: Counter[int] = Counter()
        self._holder: dict[Key, Owner] = {}
        self._unowned: set[Key] = set()
        self._dirty: set[Owner] = set()
        self._uncertain: list[FlowPlan] = []

    # Reports of the switch

    def load(
        self, entries: Mapping[Key, Digest], meters: Mapping[int, RateLimit] | None = None
    ) -> Drift:
        """Replace the observed flows by *entries*; this resolves the uncertain plans.

        Flows that name a meter which is not as it should be in *meters* are written again.
        """
        for plan in self._uncertain:
            if _was_executed(plan, entries) and not self.outdated(plan):
                self.confirm(plan)
        self._uncertain.clear()
        self.observed = dict(entries)
        self._unowned = set(self.observed.keys() - self._holder.keys())
        if meters is not None:
            self._invalidate_unlimited(meters)
        wrong = {
            owner
            for owner, owned in self._held.items()
            if any(self.observed.get(key) != wanted for key, wanted in owned.flows.items())
        }
        self._dirty |= wrong
        unowned = (k for k in self._unowned if not self._is_learned(k, self.observed[k]))
        return Drift(frozenset(wrong), frozenset(unowned))

    def _invalidate_unlimited(self, meters: Mapping[int, RateLimit]) -> None:
        """Make the observed state of flows differ whose limits are not in force by *meters*."""
        for key, limits in chain.from_iterable(one.limits.items() for one in self._held.values()):
            if key in self.observed and any(meters.get(each.meter) != each for each in limits):
                self.observed[key] = self.observed[key][:8] + _WITHOUT_LIMIT

    def on_event(self, event: FlowEvent) -> Drift:
        """Handle one change that another client made."""
        key = canonical(event.key)
        owner = self._holder.get(key)
        if event.event is FlowUpdateEvent.REMOVED:
            self._unowned.discard(key)
            if self.observed.pop(key, None) is None or owner is None:
                return Drift()
        else:
            now = digest(event.state)
            if self.observed.get(key) == now:
                return Drift()
            self.observed[key] = now
            if owner is None:
                return self._add_unowned(key, now)
            if self._held[owner].flows.get(key) == now:
                return Drift()
        self._dirty.add(owner)
        return Drift(frozenset({owner}))

    def _add_unowned(self, key: Key, now: Digest) -> Drift:
        self._unowned.add(key)
        return Drift() if self._is_learned(key, now) else Drift(unowned=frozenset({key}))

    def _is_learned(self, key: Key, state: Digest) -> bool:
        return self._learn_targets[key[0], cookie_of(state)] > 0

    # Plans

    def plan(
        self,
        put: Mapping[Owner, FlowGroup],
        drop: Collection[Owner] = (),
        *,
        complete: CookieSpace | None = None,
        keep: Collection[Owner] = (),
        erase: Collection[CookieSpace] = (),
    ) -> FlowPlan:
        """Plan the changes by which the owners in *put* have their flows and those in *drop* none.

        With *complete*, all other flows in that space are removed, except those of owners in *keep*
        and learned ones.  Flows of the spaces in *erase* without an owner are removed.
        """
        gone = {owner for owner in drop if owner in self._held}
        if complete is not None:
            gone |= self._superfluous(put, complete, keep)
        encoded = {
            owner: encode_flows(group.make())
            for owner, group in put.items()
            if not self._is_unchanged(owner, group)
        }
        claims, refused = self._claims(encoded, gone)
        holds = {
            owner: _held(put[owner], flows)
            for owner, flows in encoded.items()
            if owner not in refused
        }
        swept = erase if complete is None else (complete,)
        removed = self._removals(claims, gone | holds.keys(), holds, swept)
        changes = self._changes(claims, holds, removed)
        before = {owner: self._held[owner] for owner in gone | holds.keys() if owner in self._held}
        return FlowPlan(
            changes=changes, holds=holds, gone=frozenset(gone), refused=refused, before=before
        )

    def outdated(self, plan: FlowPlan) -> frozenset[Owner]:
        """Return the owners for which *plan* is too old: others were executed since it was made.

        It would leave flows behind that are not in it.  A plan may be repeated.
        """
        ours = plan.gone | plan.holds.keys()
        overtaken = {
            owner
            for owner in ours
            if not any(self._held.get(owner) is one.get(owner) for one in (plan.before, plan.holds))
        }
        for encoded in chain(plan.changes.added, plan.changes.changed):
            holder = self._holder.get(encoded.key)
            if holder is not None and holder not in ours:
                overtaken.add(holder)
        return frozenset(overtaken)

    def mark_uncertain(self, plan: FlowPlan) -> None:
        """Record that it is unknown whether *plan* was executed, until all flows are read."""
        self._uncertain.append(plan)

    def adopt(self, put: Mapping[Owner, Collection[Key]]) -> None:
        """Assign owners to the flows of an earlier run; the next plan repairs the differences.

        Of the keys of each owner in *put*, those of flows that the switch has are assigned to it.
        """
        for owner, wanted in put.items():
            if owner in self._held:
                continue
            keys = self._unowned.intersection(wanted)
            flows = {key: self.observed[key] for key in keys}
            self._held[owner] = OwnedFlows(None, flows, frozenset())
            self._holder.update(dict.fromkeys(flows, owner))
            self._unowned -= keys
            self._dirty.add(owner)

    def confirm(self, plan: FlowPlan) -> Drift:
        """Record that *plan* was executed; return owners whose flows were changed meanwhile."""
        for key, cookie in plan.changes.removed.items():
            state = self.observed.get(key)
            if state is not None and not (cookie_of(state) ^ cookie) & COMPARED:
                del self.observed[key]
                self._unowned.discard(key)
        released = [self._release(owner) for owner in plan.gone | plan.holds.keys()]
        for owner in plan.gone:
            self._held.pop(owner, None)
        written = {encoded.key for encoded in (*plan.changes.added, *plan.changes.changed)}
        wrong = frozenset(
            owner for owner, owned in plan.holds.items() if not self._hold(owner, owned, written)
        )
        for key in chain.from_iterable(released):
            if key in self.observed and key not in self._holder:
                self._unowned.add(key)
        self._dirty = (self._dirty - plan.gone - plan.holds.keys()) | wrong
        return Drift(wrong)

    def meters_of(self, plan: FlowPlan) -> frozenset[int]:
        """Return the meters that the flows of the owners in *plan* name now."""
        held = (self._held.get(owner) for owner in plan.gone | plan.holds.keys())
        return frozenset(meter for owned in held if owned is not None for meter in owned.meters)

    def take_unnamed(self, meters: Iterable[int]) -> frozenset[int]:
        """Return, and no longer count, those of *meters* that no owned flow names."""
        unnamed = frozenset(meter for meter in meters if self._meters[meter] <= 0)
        for meter in unnamed:
            del self._meters[meter]  # a counter does not mind if it is missing
        return unnamed

    def _hold(self, owner: Owner, owned: OwnedFlows, written: Set[Key]) -> bool:
        """Record the flows of *owner*; return whether the switch has all of them."""
        self._held[owner] = owned
        self._learn_targets.update(owned.learn_targets)
        self._meters.update(owned.meters)
        self._holder.update(dict.fromkeys(owned.flows, owner))
        self._unowned.difference_update(owned.flows)
        right = True
        for key, wanted in owned.flows.items():
            if key in written:
                self.observed[key] = wanted
            elif self.observed.get(key) != wanted:
                right = False
        return right

    def _release(self, owner: Owner) -> Collection[Key]:
        """Remove *owner* from its flows; return their keys."""
        owned = self._held.get(owner)
        if owned is None:
            return ()
        self._learn_targets.subtract(owned.learn_targets)
        self._meters.subtract(owned.meters)
        for key in owned.flows:
            if self._holder.get(key) == owner:
                del self._holder[key]
        return owned.flows.keys()

    def _is_unchanged(self, owner: Owner, group: FlowGroup) -> bool:
        owned = self._held.get(owner)
        return owned is not None and owner not in self._dirty and owned.source == group.source

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
        """Return the flows of *encoded* by key, and the owners whose flows another owner has.

        Owners of such flows are handled last: the other owner may release them in this plan.
        """
        claims: dict[Key, Encoded] = {}
        claimed: dict[Key, Owner] = {}
        refused: dict[Owner, Conflict] = {}

        def wants_held_flow(owner: Owner) -> bool:
            return any(self._holder.get(key, owner) != owner for key in encoded[owner])

        for owner in sorted(encoded, key=wants_held_flow):
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
        swept: Collection[CookieSpace],
    ) -> dict[Key, int]:
        left = {
            key: ours
            for owner in owners
            if owner in self._held
            for key, ours in self._held[owner].flows.items()
            if key in self.observed and key not in claims
        }
        removed = {key for key, ours in left.items() if self.observed[key][:8] == ours[:8]}
        if swept and (self._unowned or len(removed) < len(left)):
            staying = (one for owner, one in self._held.items() if owner not in owners)
            learned = {p for one in chain(staying, holds.values()) for p in one.learn_targets}
            for key in (self._unowned | left.keys()) - claims.keys():
                cookie = cookie_of(self.observed[key])
                if (key[0], cookie) not in learned and any(cookie in each for each in swept):
                    removed.add(key)
        return {key: cookie_of(self.observed[key]) for key in removed}

    def _changes(
        self,
        claims: Mapping[Key, Encoded],
        holds: Mapping[Owner, OwnedFlows],
        removed: Mapping[Key, int],
    ) -> FlowChanges:
        added = tuple(flow for key, flow in claims.items() if key not in self.observed)
        changed = tuple(
            claims[key]
            for owned in holds.values()
            for key, wanted in owned.flows.items()
            if key in self.observed and self.observed[key] != wanted
        )
        return FlowChanges(added, changed, removed)


def _held(group: FlowGroup, flows: Mapping[Key, Encoded]) -> OwnedFlows:
    return OwnedFlows(
        group.source,
        {key: digest(encoded.state) for key, encoded in flows.items()},
        frozenset(learn_targets(encoded.flow for encoded in flows.values())),
        {key: limits for key, encoded in flows.items() if (limits := (*limits_of(encoded.flow),))},
    )


def _was_executed(plan: FlowPlan, entries: Mapping[Key, Digest]) -> bool:
    """Return whether *entries* contain what *plan* does; all or nothing of it was done."""
    written = (*plan.changes.added, *plan.changes.changed)
    if written:
        return any(entries.get(encoded.key) == digest(encoded.state) for encoded in written)
    return entries.keys().isdisjoint(plan.changes.removed)
