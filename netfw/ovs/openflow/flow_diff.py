"""Difference of desired and observed flows.  Pure: values in, values out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from attrs import field, frozen

from netfw.flows import Flow, Learn, Meter, RateLimit, SendToController
from netfw.ovs.openflow.encode import Encoded, Key, State, canonical, cookie_of, describe_key


@frozen
class CookieSpace:
    """The flows whose cookie is *value* in the bits of *mask*."""

    value: int = 0
    mask: int = 0

    def __contains__(self, cookie: int) -> bool:
        return cookie & self.mask == self.value


EVERYBODY = CookieSpace()
"""All flows of a switch."""


@frozen
class FlowChanges:
    """Flows to add, flows that take the place of one with the same key, and keys to remove.

    Each removal names the cookie that the flow must still have, so that a flow which another
    client wrote in its place meanwhile stays.
    """

    added: tuple[Encoded, ...] = ()
    changed: tuple[Encoded, ...] = ()
    removed: Mapping[Key, int] = field(factory=dict)

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)

    def __len__(self) -> int:
        return len(self.added) + len(self.changed) + len(self.removed)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> Iterator[str]:
        """Yield the changes as text, one line each."""
        for key, cookie in self.removed.items():
            yield f"remove cookie={cookie:#x},{describe_key(key)}"
        for encoded in self.added:
            yield f"add {encoded.flow}"
        for encoded in self.changed:
            yield f"change {encoded.flow}"


def difference(
    wanted: Mapping[Key, Encoded],
    observed: Iterable[tuple[Key, State]],
    space: CookieSpace = EVERYBODY,
) -> FlowChanges:
    """Compare all *wanted* flows of *space* with the *observed* entries of a switch.

    Flows of other spaces stay, and so do those that a wanted ``learn`` has made (by its table
    and cookie).  A wanted flow replaces any flow with the same key.
    """
    missing = dict(wanted)
    changed: list[Encoded] = []
    extra: dict[Key, int] = {}
    pop = missing.pop
    for key, state in observed:
        flow = pop(key, None) or pop(canonical(key), None)
        if flow is None:
            cookie = cookie_of(state)
            if cookie in space:
                extra[key] = cookie
        elif flow.state != state:
            changed.append(flow)
    return FlowChanges(tuple(missing.values()), tuple(changed), _unlearned(extra, wanted))


def _unlearned(extra: dict[Key, int], wanted: Mapping[Key, Encoded]) -> dict[Key, int]:
    if not extra:
        return extra
    learned = set(learn_targets(encoded.flow for encoded in wanted.values()))
    return {key: cookie for key, cookie in extra.items() if (key[0], cookie) not in learned}


def learn_targets(flows: Iterable[Flow]) -> Iterator[tuple[int, int]]:
    """Yield table and cookie of the flows that *flows* make by ``learn``."""
    for flow in flows:
        for action in flow.actions:
            if isinstance(action, Learn):
                yield action.table, action.cookie


def limits_of(flow: Flow) -> Iterator[RateLimit]:
    """Yield the limits of the packets that pass *flow*, or that it sends to the controller."""
    for action in flow.actions:
        if isinstance(action, SendToController | Meter) and action.limit is not None:
            yield action.limit
