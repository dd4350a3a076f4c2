"""Reading what a newer release wrote: names that are not known here are left out.

Only names are left out, never values.  A rule whose protocol is not known here must not become a
rule for any protocol, so what has a value that cannot be read is skipped as a whole.
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
from netfw.model.wire.object_codec import Attribute, Inline, ObjectCodec, Tagged

LOG = logging.getLogger(__name__)

REMEMBERED = 10_000
"""So many things are said once; then it begins anew, rather than grow."""


def pruned(codec: object, raw: Any) -> Any:
    """*raw* without what *codec* does not know the name of."""
    match codec:
        case ObjectCodec() if isinstance(raw, Mapping):
            return dict(_known(codec, raw))
        case Nullable() if raw is not None:
            return pruned(codec.codec, raw)
        case Several():
            return pruned(codec.codec, raw)
        case Listed() if isinstance(raw, list):
            return [pruned(codec.codec, each) for each in raw if _is_known(codec.codec, each)]
        case Tagged() if isinstance(raw, Mapping) and _is_known(codec, raw):
            shape = codec.shapes[raw[codec.tag]]
            return {codec.tag: raw[codec.tag], **pruned(shape, raw)}
    return raw


def _known(shape: ObjectCodec[Any], raw: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    derived = {each.name for each in shape.derived}
    for name, value in raw.items():
        if name in derived or (shape.rest is not None and name not in shape.names):
            yield name, value
    for part in shape.parts:
        mine = {name: raw[name] for name in part.names if name in raw}
        if isinstance(part, Inline):
            yield from pruned(part.shape, mine).items()
        elif isinstance(part, Attribute):
            yield from ((name, pruned(part.codec, value)) for name, value in mine.items())
        else:
            yield from mine.items()


def _is_known(codec: object, raw: object) -> bool:
    if not isinstance(codec, Tagged) or not isinstance(raw, Mapping):
        return True
    word = raw.get(codec.tag)
    return isinstance(word, str) and word in codec.shapes


class PeerCompatibility:
    """Reads what a peer sent, and says once what of it this release does not know."""

    def __init__(self, peer: str) -> None:
        self._peer = peer
        self._lock = threading.Lock()
        self._said: set[str] = set()

    def resource(self, kind: object, body: object) -> Resource | None:
        """The resource that *body* says; ``None``: this release cannot know it."""
        try:
            known = Kind(str(kind))
        except ValueError:
            self.say(f"{self._peer} has resources of kind {str(kind)[:64]!r}: they are skipped")
            return None
        try:
            return parse(known, body)
        except InvalidInput as refused:
            try:
                found = parse(known, pruned(CODECS[known], body))
            except InvalidInput as exc:
                id = body.get("id") if isinstance(body, Mapping) else None
                self.say(f"{self._peer} has a {known} {id} that is skipped: {exc}")
                return None
            names = ", ".join(sorted(refused.problems))
            self.say(f"{self._peer} says more of each {known}, which is ignored: {names}")
            return found

    def say(self, what: str) -> None:
        """Warn, unless that was said before."""
        with self._lock:
            if what in self._said:
                return
            if len(self._said) >= REMEMBERED:
                self._said.clear()
            self._said.add(what)
        LOG.warning("%s; it is perhaps of another release", what)
