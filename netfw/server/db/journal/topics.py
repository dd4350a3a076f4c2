"""Topics: under which headings the journal notes a change, so that a commit costs the same
however many hosts it concerns.  Pure.

A topic is a node of the graph of :mod:`netfw.state.dependencies`.  A resource that says itself who
needs it (a port: the network's DHCP agents, the members of its groups) is noted under those; one
that others refer to (a network, a group) is noted under itself.  A reader follows the topics that
its roots reach, and not each resource: a group of thousands of members is one topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

from netfw.drivers.subscription import Service, Subscription
from netfw.model.resource import Kind, Ref, Resource, ref
from netfw.state.dependencies import (
    DELIVERED,
    AgentRoot,
    Assignment,
    Edge,
    Item,
    ResourceRole,
    Role,
    Source,
    each_edge,
    roots,
)

OWN: Final[Mapping[Kind, tuple[Role, ...]]] = MappingProxyType(
    {
        Kind.NETWORK: (Role.SEEN, Role.SERVED),
        Kind.PORT: (Role.SEEN,),
        Kind.ROUTER: (Role.HOME,),
        Kind.SECURITY_GROUP: (Role.SEEN,),
        Kind.ADDRESS_GROUP: (Role.SEEN,),
        Kind.QOS_POLICY: (Role.SEEN,),
    }
)
"""As what others refer to a resource of that kind, so that it is a topic of its own."""


class TopicEdge(NamedTuple):
    """That *item* leads from one topic to another: whoever follows the first follows the second."""

    item: str
    source: str
    node: str


class TopicLinks(NamedTuple):
    """What a resource says, or an assignment."""

    topics: frozenset[str]
    """Under which a change of it is noted."""
    ways: frozenset[TopicEdge]


NOTHING: Final = TopicLinks(frozenset(), frozenset())


def topic(source: Source) -> str:
    """The name of *source* in the journal."""
    if isinstance(source, AgentRoot):
        return f"{source.service}@{source.host}"
    return f"{source.role}:{source.ref.kind}:{source.ref.id}"


def is_root(name: str) -> bool:
    """Whether a topic is that of a service of a host."""
    return "@" in name


def topic_links(item: Item | None) -> TopicLinks:
    """What *item* says; nothing says nothing."""
    if item is None:
        return NOTHING
    found = tuple(each_edge(item))
    if isinstance(item, Assignment):
        return TopicLinks(frozenset(), _ways(str(item), None, found))
    itself = ref(item)
    return TopicLinks(frozenset(_topics(itself, found)), _ways(str(itself), itself, found))


def topics(resource: Resource) -> frozenset[str]:
    """Under which topics a change of *resource* is noted."""
    return frozenset(_topics(ref(resource), each_edge(resource)))


def _topics(itself: Ref, found: Iterable[Edge]) -> Iterator[str]:
    for role in OWN.get(itself.kind, ()):
        yield topic(ResourceRole(itself, role))
    for source, node in found:
        if node.ref == itself and node.role in DELIVERED:
            yield topic(source)


def _ways(name: str, itself: Ref | None, found: Sequence[Edge]) -> frozenset[TopicEdge]:
    return frozenset(
        TopicEdge(name, topic(before), topic(node)) for before, node in _followed(itself, found)
    )


def _followed(itself: Ref | None, found: Sequence[Edge]) -> Iterator[Edge]:
    """The edges between topics.

    What is no topic of its own (a bound port, a rule) is left out: its reader is led on directly.
    """
    for before, node in found:
        if node.ref == itself:
            continue
        if isinstance(before, ResourceRole) and before.ref == itself and not _is_topic(before):
            yield from ((earlier, node) for earlier, target in found if target == before)
        else:
            yield before, node


def _is_topic(node: ResourceRole) -> bool:
    return node.role in OWN.get(node.ref.kind, ())


def source(name: str) -> Source:
    """What *name* is the topic of."""
    service, at, host = name.partition("@")
    if at:
        return AgentRoot(Service(service), host)
    role, kind, id = name.split(":")
    return ResourceRole(Ref(Kind(kind), UUID(id)), Role(role))


def readers(interest: Subscription) -> frozenset[str]:
    """The names under which *interest* has topics."""
    return frozenset(map(topic, roots(interest)))
