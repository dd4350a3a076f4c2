"""Topics of the journal, by which a commit costs the same however many hosts it concerns.  Pure.

A topic is a node of the graph of :mod:`netfw.state.dependencies`.  A resource whose attributes name
its readers (a port: the network's DHCP agents, the members of its groups) is recorded under those
topics; a resource that others refer to (a network, a group) is recorded under itself.  A reader
follows the topics that its roots reach instead of each resource: a group of thousands of members is
one topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

from netfw.drivers.values.subscription import Service, Subscription
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
        Kind.FLOATING_IP: (Role.FORWARDING,),
        Kind.SECURITY_GROUP: (Role.SEEN,),
        Kind.ADDRESS_GROUP: (Role.SEEN,),
        Kind.QOS_POLICY: (Role.SEEN,),
    }
)
"""The roles in which a resource of a kind is a topic of its own."""


class TopicEdge(NamedTuple):
    """An edge that *item* contributes: a reader of the first topic also follows the second."""

    item: str
    source: str
    node: str


class TopicLinks(NamedTuple):
    """Topics and edges of a resource or an assignment."""

    topics: frozenset[str]
    """The topics that a change is recorded under."""
    edges: frozenset[TopicEdge]


NOTHING: Final = TopicLinks(frozenset(), frozenset())


def topic(source: Source) -> str:
    """Return the topic of *source*."""
    if isinstance(source, AgentRoot):
        return f"{source.service}@{source.host}"
    return f"{source.role}:{source.ref.kind}:{source.ref.id}"


def is_root(name: str) -> bool:
    """Return whether a topic is that of a service of a host."""
    return "@" in name


def topic_links(item: Item | None) -> TopicLinks:
    """Return topics and edges of *item*; empty for ``None``."""
    if item is None:
        return NOTHING
    found = tuple(each_edge(item))
    if isinstance(item, Assignment):
        return TopicLinks(frozenset(), _edges(str(item), None, found))
    itself = ref(item)
    return TopicLinks(frozenset(_topics(itself, found)), _edges(str(itself), itself, found))


def topics(resource: Resource) -> frozenset[str]:
    """Return the topics that a change of *resource* is recorded under."""
    return frozenset(_topics(ref(resource), each_edge(resource)))


def _topics(itself: Ref, found: Iterable[Edge]) -> Iterator[str]:
    for role in OWN.get(itself.kind, ()):
        if role in DELIVERED:
            yield topic(ResourceRole(itself, role))
    for source, node in found:
        if node.ref == itself and node.role in DELIVERED:
            yield topic(source)


def _edges(name: str, itself: Ref | None, found: Sequence[Edge]) -> frozenset[TopicEdge]:
    return frozenset(
        TopicEdge(name, topic(before), topic(node)) for before, node in _followed(itself, found)
    )


def _followed(itself: Ref | None, found: Sequence[Edge]) -> Iterator[Edge]:
    """Yield the edges between topics.

    A node that is no topic of its own (a bound port, a rule) is bypassed by direct edges.
    """
    own = [node.ref == itself for _, node in found]
    into: dict[ResourceRole, list[Source]] = {}
    for (before, node), is_own in zip(found, own, strict=True):
        if is_own:
            into.setdefault(node, []).append(before)
    for (before, node), is_own in zip(found, own, strict=True):
        if is_own and node.role in DELIVERED:
            continue  # it is recorded under the topic of *before* instead
        if isinstance(before, ResourceRole) and before.ref == itself and not _is_topic(before):
            yield from ((earlier, node) for earlier in into.get(before, ()))
        else:
            yield before, node


def _is_topic(node: ResourceRole) -> bool:
    return node.role in OWN.get(node.ref.kind, ())


def source(name: str) -> Source:
    """Return the node or root of the topic *name*."""
    service, at, host = name.partition("@")
    if at:
        return AgentRoot(Service(service), host)
    role, kind, id = name.split(":")
    return ResourceRole(Ref(Kind(kind), UUID(id)), Role(role))


def readers(subscription: Subscription) -> frozenset[str]:
    """Return the readers of *subscription*: the topics of its roots."""
    return frozenset(map(topic, roots(subscription)))
