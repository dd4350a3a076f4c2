"""Types of segments in a topology: those that netfw knows, and those of installed type drivers.

Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from netfw.errors import nearest
from netfw.model.network import Network
from netfw.model.resource import Ref, Resource
from netfw.model.segment import NetworkType, Segment
from netfw.state.file.diagnostics import Diagnostic
from netfw.state.file.entries import Gathered


def segment_type_errors(
    gathered: Gathered, resources: Mapping[Ref, Resource], known: Collection[str]
) -> Iterator[Diagnostic]:
    """Yield an error for each type that is not among *known*: it may be misspelt."""
    for key, entry in gathered.entries.items():
        for path, type in _types_of(resources.get(key)):
            if type not in known:
                yield entry.diagnostic(path, _unknown(type, known))
    for entry in gathered.hosts.values():
        stated = entry.body.get("tunnel_types")
        for at, word in enumerate(stated if isinstance(stated, list) else ()):
            if isinstance(word, str) and word not in known:
                yield entry.diagnostic(f"tunnel_types[{at}]", _unknown(word, known))


def _types_of(resource: Resource | None) -> Iterator[tuple[str, NetworkType]]:
    match resource:
        case Segment(provider=provider):
            yield "network_type", provider.network_type
        case Network(segments=(provider,)):
            yield "provider:network_type", provider.network_type
        case Network(segments=segments):
            for at, provider in enumerate(segments):
                yield f"segments[{at}].provider:network_type", provider.network_type


def _unknown(type: str, known: Collection[str]) -> str:
    return (
        f"{type!r} is none of {', '.join(known)}{nearest(type, known)}; a type of a vendor is the "
        "name of an installed type driver"
    )
