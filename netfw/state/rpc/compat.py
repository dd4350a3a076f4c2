"""Compatibility with newer releases: unknown names are left out.

Only names are left out, never values.  A rule with an unknown protocol must not become a rule for
any protocol, so an object with an unreadable value is skipped as a whole.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from netfw.errors import InvalidInput
from netfw.model.resource import Kind, Resource
from netfw.model.wire import CODECS, parse
from netfw.model.wire.codec import Listed, Nullable, Several
from netfw.model.wire.object_codec import Inline, NamedField, ObjectCodec, Tagged

LOG = logging.getLogger(__name__)

MAX_LOGGED = 10_000
"""Size limit of the set of logged warnings; at the limit it is cleared."""


def prune(codec: object, raw: Any) -> Any:
    """Return *raw* without the names that *codec* does not know."""
    match codec:
        case ObjectCodec() if isinstance(raw, Mapping):
            return dict(_known(codec, raw))
        case Nullable() if raw is not None:
            return prune(codec.codec, raw)
        case Several():
            return prune(codec.codec, raw)
        case Listed() if isinstance(raw, list):
            return [prune(codec.codec, each) for each in raw if _is_known(codec.codec, each)]
        case Tagged() if isinstance(raw, Mapping) and _is_known(codec, raw):
            shape = codec.shapes[raw[codec.tag]]
            return {codec.tag: raw[codec.tag], **prune(shape, raw)}
    return raw


def _known(shape: ObjectCodec[Any], raw: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    derived = {attribute.name for attribute in shape.derived}
    for name, value in raw.items():
        if name in derived or (shape.rest is not None and name not in shape.names):
            yield name, value
    for part in shape.parts:
        mine = {name: raw[name] for name in part.names if name in raw}
        if isinstance(part, Inline):
            yield from prune(part.shape, mine).items()
        elif isinstance(part, NamedField):
            yield from ((name, prune(part.codec, value)) for name, value in mine.items())
        else:
            yield from mine.items()


def _is_known(codec: object, raw: object) -> bool:
    if not isinstance(codec, Tagged) or not isinstance(raw, Mapping):
        return True
    word = raw.get(codec.tag)
    return isinstance(word, str) and word in codec.shapes


class PeerCompatibility:
    """Parses resources of a peer, and logs once what this release does not know."""

    def __init__(self, peer: str) -> None:
        self._peer = peer
        self._lock = threading.Lock()
        self._logged: set[str] = set()

    def resource(self, kind: object, body: object) -> Resource | None:
        """Parse a resource; ``None``: this release cannot read it."""
        try:
            known = Kind(str(kind))
        except ValueError:
            self.warn(f"{self._peer} has resources of kind {str(kind)[:64]!r}: they are skipped")
            return None
        try:
            return parse(known, body)
        except InvalidInput as refused:
            try:
                resource = parse(known, prune(CODECS[known], body))
            except InvalidInput as exc:
                id = body.get("id") if isinstance(body, Mapping) else None
                self.warn(f"{self._peer} has a {known} {id} that is skipped: {exc}")
                return None
            names = ", ".join(sorted(refused.problems))
            self.warn(
                f"{self._peer} sends unknown attributes of {known}, which are ignored: {names}"
            )
            return resource

    def warn(self, text: str) -> None:
        """Log a warning, once."""
        with self._lock:
            if text in self._logged:
                return
            if len(self._logged) >= MAX_LOGGED:
                self._logged.clear()
            self._logged.add(text)
        LOG.warning("%s; the peer may run another release", text)
