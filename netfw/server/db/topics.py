"""Topics: under which headings the journal notes a change, so that a commit costs the same
however many hosts it concerns.  Pure.

A topic is a node of the graph of :mod:`netfw.messaging.reach`.  A resource that says itself who
needs it (a port: the network's DHCP agents, the members of its groups) is noted under those; one
that others refer to (a network, a group) is noted under itself.  A reader follows the topics that
its roots reach, and not each resource: a group of thousands of members is one topic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final
from uuid import UUID

from netfw.drivers.interest import Interest, Service
from netfw.messaging.reach import (
    DELIVERED,
    Assignment,
    Facet,
    Item,
    Node,
    Root,
    Source,
    edges,
    roots,
)
from netfw.model.resource import Kind, Ref, Resource, ref

OWN: Final[Mapping[Kind, tuple[Facet, ...]]] = MappingProxyType(
    {
        Kind.NETWORK: (Facet.SEEN, Facet.SERVED),
        Kind.PORT: (Facet.SEEN,),
        Kind.ROUTER: (Facet.HOME,),
        Kind.SECURITY_GROUP: (Facet.SEEN,),
        Kind.ADDRESS_GROUP: (Facet.SEEN,),
        Kind.QOS_POLICY: (Facet.SEEN,),
    }
)
"""As what others refer to a resource of that kind, so that it is a topic of its own."""


def topic(source: Source) -> str:
    """The name of *source* in the journal."""
    if isinstance(source, Root):
        return f"{source.service}@{source.host}"
    return f"{source.facet.value}:{source.ref.kind}:{source.ref.id}"


def topics(resource: Resource) -> frozenset[str]:
    """Under which topics a change of *resource* is noted."""
    return frozenset(_topics(resource))


def _topics(resource: Resource) -> Iterator[str]:
    itself = ref(resource)
    for facet in OWN.get(itself.kind, ()):
        yield topic(Node(itself, facet))
    for source, node in edges(resource):
        if node.ref == itself and node.facet in DELIVERED:
            yield topic(source)


def followed(item: Item) -> Iterator[tuple[Source, Node]]:
    """The topics that *item* leads to: whoever follows the first follows the second.

    What is no topic of its own (a bound port, a rule) is left out: its reader is led on directly.
    """
    itself = None if isinstance(item, Assignment) else ref(item)
    found = edges(item)
    for before, node in found:
        if node.ref == itself:
            continue
        if isinstance(before, Node) and before.ref == itself and not _is_topic(before):
            yield from ((earlier, node) for earlier, target in found if target == before)
        else:
            yield before, node


def _is_topic(node: Node) -> bool:
    return node.facet in OWN.get(node.ref.kind, ())


def source(name: str) -> Source:
    """What *name* is the topic of."""
    service, at, host = name.partition("@")
    if at:
        return Root(Service(service), host)
    facet, kind, id = name.split(":")
    return Node(Ref(Kind(kind), UUID(id)), Facet(facet))


def readers(interest: Interest) -> frozenset[str]:
    """The names under which *interest* has topics."""
    return frozenset(map(topic, roots(interest)))
