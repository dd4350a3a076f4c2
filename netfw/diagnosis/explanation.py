"""Explanation of a resource: reasons for its status, and who is waiting for what.  Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from attrs import asdict, frozen

from netfw.diagnosis.agent_health import AgentHealth, AgentState

Body = Mapping[str, Any]
"""A resource as the API shows it."""

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SHORTEST_PREFIX = 4
"""Characters of an id that are worth a search for the rest."""


@frozen
class Reason:
    """A sentence about a resource."""

    text: str
    blocks: bool = False
    """Whether the resource does not work because of it."""


@frozen(kw_only=True)
class LocalEntry:
    """A key in the status file of an agent of this host."""

    agent: str
    key: str
    text: str
    failed: bool
    """Whether it failed and is retried; otherwise it waits."""


@frozen(kw_only=True)
class LocalFacts:
    """Status files of this host."""

    host: str
    agents: tuple[AgentHealth, ...] = ()
    entries: tuple[LocalEntry, ...] = ()


@frozen(kw_only=True)
class ResourceExplanation:
    """A resource, its status, and all reasons."""

    resource: str
    status: str
    """Empty: it is not known here."""
    reasons: tuple[Reason, ...]

    @property
    def is_blocked(self) -> bool:
        """Whether it does not work as it should."""
        return any(reason.blocks for reason in self.reasons)

    def lines(self) -> Iterator[str]:
        """Yield the explanation for people."""
        status = f" is {self.status}." if self.status else ": its status is not known here."
        yield f"{self.resource}{status}"
        for reason in self.reasons:
            yield f"  {'!' if reason.blocks else '-'} {reason.text}"
        if not self.status and not self.is_blocked:
            yield "  Whether it works cannot be said from here."
        elif not self.is_blocked:
            yield "  Nothing that can be seen from here blocks it."

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain data."""
        return {**asdict(self), "blocked": self.is_blocked}


def resource_title(kind: str, body: Body) -> str:
    """Return how sentences name a resource."""
    name = body.get("name") or body.get("floating_ip_address") or ""
    return f"{kind} {body['id']}" + (f" ({name})" if name else "")


def local_entries(statuses: Sequence[Mapping[str, Any]], ids: Sequence[str]) -> list[LocalEntry]:
    """Return the keys of status files that concern one of *ids*.

    An id may be a name, as whole words, or the beginning of a single UUID.
    """
    entries = [
        LocalEntry(agent=str(status.get("binary", "an agent")), key=key, text=text, failed=failed)
        for status in statuses
        for field, failed in (("degraded", True), ("waiting", False))
        for key, text in sorted(_texts(status.get(field)).items())
    ]
    texts = [f"{entry.key}\n{entry.text}" for entry in entries]
    known = {uuid for text in texts for uuid in _UUID.findall(text)}
    wanted = [_mention(id, known) for id in ids if id]
    return [
        entry
        for entry, text in zip(entries, texts, strict=True)
        if any(each.search(text) for each in wanted)
    ]


def _mention(id: str, known: Set[str]) -> re.Pattern[str]:
    """Return what finds the text of an id, of a name, or of the UUID that begins with *id*."""
    begun = [uuid for uuid in known if uuid.startswith(id)]
    if len(begun) == 1 and len(id) >= _SHORTEST_PREFIX:
        return re.compile(begun[0])  # also as a part of the name of a chain or namespace
    return re.compile(rf"(?<![\w-]){re.escape(id)}(?![\w-])")


def _texts(found: object) -> dict[str, str]:
    if not isinstance(found, Mapping):
        return {}
    return {str(key): str(text) for key, text in found.items()}


def local_reasons(facts: LocalFacts, *, serves: bool) -> Iterator[Reason]:
    """Yield what the status files of this host add; *serves*: this host implements the resource."""
    for entry in facts.entries:
        what = "failed, and is retried" if entry.failed else "waits"
        yield Reason(f"On this host, {entry.agent}: {entry.key} {what}: {entry.text}", True)
    for agent in facts.agents if serves else ():
        if agent.state in (AgentState.DEAD, AgentState.STALE, AgentState.FAILING):
            yield Reason(f"On this host, {agent.agent} is {agent.state}: {agent.reasons[0]}", True)
        elif agent.state is AgentState.UNREADABLE:
            yield Reason(f"A status file of this host is not considered: {agent.reasons[0]}")


def agent_reasons(agents: Sequence[Body], what: str) -> Iterator[Reason]:
    """Yield what hinders agents that have to serve *what*."""
    for agent in agents:
        name = f"the {agent.get('agent_type')} of {agent.get('host')}"
        if not agent.get("alive"):
            yield Reason(
                f"It waits for {name}, which is dead: its last heartbeat was "
                f"{agent.get('heartbeat_timestamp')}.  Start it, or see why it does not reach the "
                "server (netfw status on that host).",
                True,
            )
        elif agent.get("resources_synced") is False:
            yield Reason(f"{_capital(name)} has not applied everything yet.")
        if agent.get("admin_state_up") is False:
            yield Reason(f"{_capital(name)} is switched off: it gets no new {what}.")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
